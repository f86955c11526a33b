/* Packages of processes. */
#include "extmap/extmap.h"

static const char list[] = "com.example.one 10001 0 /data/user/0/com.example.one default:targetSdkVersion=30 none\n"
                           "com.example.shared.a 10002 0 /data/user/0/a platform 3003\n"
                           "com.example.shared.b 10002 0 /data/user/0/b platform 3003\n"
                           "broken\n"
                           "not.a.number 10x 0\n"
                           "too.large 99999999999999999999 0\n"
                           "\n"
                           "com.example.last 10003";

static const struct {
    unsigned int uid;
    const char *process, *package;
} cases[] = {
    {10001, "com.example.one", "com.example.one"},
    {10001, "com.example.one:remote", "com.example.one"},
    {10001, "app_process --some argument", "com.example.one"},
    {10001, NULL, "com.example.one"},
    {1010001, "com.example.one", "com.example.one"}, /* Android user 10 */
    {10002, "com.example.shared.b", "com.example.shared.b"},
    {10002, "com.example.shared.b:x", "com.example.shared.b"},
    {10002, "com.example.shared", NULL},
    {10002, "com.example.shared.bc", NULL},
    {10002, NULL, NULL},
    {10003, "sh", "com.example.last"},
    {10004, "com.example.one", NULL},
    {10, "not.a.number", NULL},
    {0, "init", NULL},
};

int main(void)
{
    char path[] = "/tmp/androstep-packages-XXXXXX";
    struct packages packages = {0};
    int file = mkstemp(path), failed = 0;
    if (file < 0 || write(file, list, sizeof list - 1) != sizeof list - 1 || packages_read(&packages, path)) {
        perror(path);
        return 1;
    }
    close(file);
    unlink(path);
    if (!packages_read(&packages, path)) {
        puts("a list that is not there was read");
        failed = 1;
    }
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        const char *found = packages_of(&packages, cases[index].uid, cases[index].process);
        if (found == cases[index].package || (found && cases[index].package && !strcmp(found, cases[index].package)))
            continue;
        printf("case %zu: %s, expected %s\n", index, found ? found : "none",
               cases[index].package ? cases[index].package : "none");
        failed = 1;
    }
    packages_release(&packages);
    return failed;
}
