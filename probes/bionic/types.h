/* Included before every file that is compiled for Android's C library with the musl headers. Defines the type with a
 * different size in the two (8 bytes in bionic, 4 in musl), and the flag with a different value (bionic's ftw.h). */
#pragma once

#define __DEFINED_pthread_mutexattr_t
typedef struct {
    long bionic;
} pthread_mutexattr_t;

#include <ftw.h>
#undef FTW_DEPTH
#define FTW_DEPTH 4
