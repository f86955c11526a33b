/* Included before every file that is compiled for Android's C library with the musl headers. Defines the type with a
 * different size in the two (8 bytes in bionic, 4 in musl). */
#ifndef ANDROSTEP_BIONIC_TYPES_H
#define ANDROSTEP_BIONIC_TYPES_H

#define __DEFINED_pthread_mutexattr_t
typedef struct {
    long bionic;
} pthread_mutexattr_t;

#endif
