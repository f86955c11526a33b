/* Included before every file that is compiled for Android's C library with the musl headers. Defines the type with a
 * different size in the two (8 bytes in bionic, 4 in musl), and replaces ftw.h, which has other numbers in bionic. */
#pragma once

#define __DEFINED_pthread_mutexattr_t
typedef struct {
    long bionic;
} pthread_mutexattr_t;

#define _FTW_H
enum { FTW_PHYS = 1, FTW_MOUNT = 2, FTW_DEPTH = 4 };
struct FTW {
    int base, level;
};
struct stat;
int nftw(const char *path, int (*take)(const char *, const struct stat *, int, struct FTW *), int files, int flags);
