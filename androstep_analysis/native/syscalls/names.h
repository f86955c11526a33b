// Names of system calls with the roles of their arguments, and names of errors.
#pragma once

#include "core/text.h"

struct call_names;

struct call_names *call_names_new(void);

// Return the index of the call, or -1 if its arguments have no roles.
int call_names_find(const struct call_names *names, struct text name);

// Return a letter for each argument of the call: f descriptor, n the same or none (mmap), g second descriptor, P pair
// of created descriptors, p path, q second path, F flags, r request, m mode, o offset, O second offset, b bytes, a
// address, s result of stat, v buffers of readv, M those of sendmsg with passed descriptors, h struct of openat2, x
// third argument of fcntl, C all arguments of clone.
const char *call_roles(const struct call_names *names, int number);

// Return the errno of a name such as ENOENT; 0 if there is none.
int errno_find(const struct call_names *names, struct text name);

// Return the name of an errno; empty if it has none.
struct text errno_name(int number);
