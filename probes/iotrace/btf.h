/* Type information of the kernel (BTF, Documentation/bpf/btf.rst): offsets of the members of its structs. */
#pragma once

#include <stdbool.h>

struct btf;

/* Read `path`, normally /sys/kernel/btf/vmlinux. Returns NULL if it is missing or invalid. */
struct btf *btf_open(const char *path);
void btf_close(struct btf *btf);

/* Return the offset in bytes of a member of a struct, or -1 if there is none. A path such as "bi_iter.bi_sector" names
 * a member of an embedded struct. Members of unnamed structs and unions belong to the outer struct. */
long btf_offset(struct btf *btf, const char *structure, const char *path);

/* Return whether argument `position` (from 0) of function `name` is a pointer to this struct. */
bool btf_argument_is(const struct btf *btf, const char *name, unsigned position, const char *structure);
