#include "extmap/extmap.h"

/* UserHandle.PER_USER_RANGE of Android. */
#define PER_USER 100000

static void add(struct packages *packages, const char *name, unsigned int uid)
{
    packages->list = grow(packages->list, packages->count + 1, sizeof *packages->list);
    packages->list[packages->count++] = (struct package){format("%s", name), uid % PER_USER};
}

/* Parse "name uid …"; ignore other lines. */
static void add_line(struct packages *packages, char *line)
{
    char *rest = NULL, *end = NULL;
    const char *name = strtok_r(line, " \n", &rest), *user = strtok_r(NULL, " \n", &rest);
    if (!name || !user)
        return;
    errno = 0;
    unsigned long uid = strtoul(user, &end, 10);
    if (!*end && !errno && uid <= 0xFFFFFFFFUL)
        add(packages, name, (unsigned int)uid);
}

int packages_read(struct packages *packages, const char *path)
{
    struct contents file;
    if (file_read(AT_FDCWD, path, &file) < 0)
        return -1;
    for (char *rest, *line = strtok_r(file.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        add_line(packages, line);
    free(file.data);
    return 0;
}

const char *packages_of(const struct packages *packages, unsigned int uid, const char *process)
{
    size_t length = process ? strcspn(process, ": ") : 0;
    const char *only = NULL;
    size_t sharing = 0;
    for (size_t index = 0; index < packages->count; index++) {
        const struct package *package = &packages->list[index];
        if (package->app != uid % PER_USER)
            continue;
        if (process && strlen(package->name) == length && !strncmp(package->name, process, length))
            return package->name;
        only = package->name;
        sharing++;
    }
    return sharing == 1 ? only : NULL;
}

void packages_release(struct packages *packages)
{
    while (packages->count)
        free(packages->list[--packages->count].name);
    free(packages->list);
    *packages = (struct packages){0};
}
