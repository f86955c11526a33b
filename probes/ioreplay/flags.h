/* Conversion of flags in a replay program (asm-generic values) to those of this machine. */
#pragma once

#include <stdint.h>

/* Convert O_ flags. Bits without a meaning for files, and those that affect only the descriptor's process (O_CLOEXEC,
 * O_NONBLOCK, O_NOCTTY, FASYNC), are dropped; O_LARGEFILE is always set.
 *
 * Of all values in a program only these differ between the architectures of the probes: arm and aarch64 have their own
 * O_DIRECT, O_DIRECTORY, O_NOFOLLOW and O_LARGEFILE (arch/arm/include/uapi/asm/fcntl.h). */
int replay_open_flags(int64_t generic);

/* Convert MAP_ flags of a file mapping, without those that choose its address. MAP_LOCKED becomes MAP_POPULATE: the
 * file is read in the same way, but a program cannot lock the machine's memory. */
int replay_map_flags(int64_t generic);
