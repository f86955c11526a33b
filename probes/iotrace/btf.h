/* The kernel's own type information (BTF, Documentation/bpf/btf.rst): where members of its structs are. */
#ifndef ANDROSTEP_IOTRACE_BTF_H
#define ANDROSTEP_IOTRACE_BTF_H

#include <stdbool.h>

struct btf;

/* Reads `path`, normally /sys/kernel/btf/vmlinux; NULL where there is none or it is not understood. */
struct btf *btf_open(const char *path);
void btf_close(struct btf *btf);

/* Offset in bytes of a member of a struct, below embedded structs by a path such as "bi_iter.bi_sector"; members of
 * unnamed structs and unions count as the outer's. -1 where there is none. */
long btf_offset(const struct btf *btf, const char *structure, const char *path);

/* Whether argument `position` (from 0) of function `name` is a pointer to this struct. */
bool btf_argument_is(const struct btf *btf, const char *name, unsigned position, const char *structure);

#endif
