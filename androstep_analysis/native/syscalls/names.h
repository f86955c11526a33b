// Names of calls, with what each of their arguments is, and of errors.
#pragma once

#include "core/text.h"

struct call_names;

struct call_names *call_names_new(void);

// Number of the call, or -1 for one that has no roles for its arguments.
int call_names_find(const struct call_names *names, struct text name);

// A letter for each argument of the call of that number: f descriptor, n the same or none (mmap), g second descriptor,
// P two of them that the call made, p path, q second path, F flags, r request, m mode, o offset, O second offset, b
// bytes, a address, s what stat found, v buffers of readv, M those of sendmsg and the descriptors it passes, h
// openat2's struct, x fcntl's third argument, C all of clone's.
const char *call_roles(int number);

// errno of a name such as ENOENT; 0 for none.
int errno_find(const struct call_names *names, struct text name);

// Name of an errno; empty where it has none.
struct text errno_name(int number);
