/* Numbers of a replay program, which are asm-generic's, on this machine. */
#ifndef ANDROSTEP_IOREPLAY_FLAGS_H
#define ANDROSTEP_IOREPLAY_FLAGS_H

#include <stdint.h>

/*
 * O_ flags. Bits without a meaning for files, or that only the descriptor's own process would notice (O_CLOEXEC,
 * O_NONBLOCK, O_NOCTTY, FASYNC), are left out; O_LARGEFILE is always there.
 *
 * Of all numbers in a program only these differ between the machines that probes are built for: arm and aarch64 have
 * O_DIRECT, O_DIRECTORY, O_NOFOLLOW and O_LARGEFILE of their own (arch/arm/include/uapi/asm/fcntl.h).
 */
int replay_open_flags(int64_t generic);

/* MAP_ flags of a file's mapping: without those that choose its address. MAP_LOCKED becomes MAP_POPULATE: the file is
 * read as then, but a program cannot take the machine's memory away. */
int replay_map_flags(int64_t generic);

#endif
