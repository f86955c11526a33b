/* Android packages of processes, by user and name. */
#pragma once

#include "common/base.h"

#define PACKAGES_LIST "/data/system/packages.list"

struct package {
    char *name;
    unsigned int app; /* uid mod 100000: the app without the Android user */
};

/* A list of packages; all zero: empty. */
struct packages {
    struct package *list;
    size_t count;
};

/* Append the packages of a packages.list. Returns 0, or -1 with errno set. */
int packages_read(struct packages *packages, const char *path);

/* Return the package of a process of user `uid` with a command line that begins with `process` ("package" or
 * "package:part"). If none has this name, return the only package of that user. Returns NULL if several share the user,
 * or none has it. */
const char *packages_of(const struct packages *packages, unsigned int uid, const char *process);

void packages_release(struct packages *packages);
