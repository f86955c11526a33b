#include "extmap/packages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* UserHandle.PER_USER_RANGE of Android. */
#define PER_USER 100000

static int add(struct packages *packages, const char *name, unsigned int uid)
{
    if (packages->count == packages->capacity) {
        size_t capacity = packages->capacity ? packages->capacity * 2 : 256;
        struct package *list = realloc(packages->list, capacity * sizeof *list);

        if (!list)
            return -1;
        packages->list = list;
        packages->capacity = capacity;
    }
    packages->list[packages->count].app = uid % PER_USER;
    packages->list[packages->count].name = strdup(name);
    return packages->list[packages->count].name ? (packages->count++, 0) : -1;
}

/* Parse "name uid …"; ignore other lines. */
static int add_line(struct packages *packages, char *line)
{
    char *rest = NULL, *end = NULL;
    const char *name = strtok_r(line, " \n", &rest), *user = strtok_r(NULL, " \n", &rest);
    unsigned long uid;

    if (!name || !user)
        return 0;
    errno = 0;
    uid = strtoul(user, &end, 10);
    if (*end || errno || uid > 0xFFFFFFFFUL)
        return 0;
    return add(packages, name, (unsigned int)uid);
}

int packages_read(struct packages *packages, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    int failed = 0;

    if (!file)
        return -1;
    while (!failed && getline(&line, &capacity, file) > 0)
        failed = add_line(packages, line);
    free(line);
    fclose(file);
    return failed;
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
