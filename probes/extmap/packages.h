/* Which Android package a process belongs to, by its user and its name. */
#ifndef ANDROSTEP_EXTMAP_PACKAGES_H
#define ANDROSTEP_EXTMAP_PACKAGES_H

#include <stddef.h>

#define PACKAGES_LIST "/data/system/packages.list"

struct package {
    char *name;
    unsigned int app; /* the user without the number of the Android user (uid mod 100000) */
};

/* All zero: no packages are known. */
struct packages {
    struct package *list;
    size_t count, room;
};

/* Adds the packages of a packages.list. Returns 0, or -1 with errno set. */
int packages_read(struct packages *packages, const char *path);

/*
 * The package of a process of user `uid` whose command line begins with `process` ("package" or "package:part"); else
 * the only package of that user; NULL if several share it, or none is known.
 */
const char *packages_of(const struct packages *packages, unsigned int uid, const char *process);

void packages_release(struct packages *packages);

#endif
