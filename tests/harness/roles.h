// The processes of the workload. Each has its own program and name.
#ifndef ROLES_H
#define ROLES_H

#include <stdint.h>

struct role {
    const char *comm; // at most 15 bytes
    void (*run)(struct role *role, int rounds);
    const char *argument;
    uint64_t random; // state; seeded by the seed of the run and the role
};

// Returns a number from 0 to below - 1.
uint32_t role_random(struct role *role, uint32_t below);

// Waits until role_lazy has written this many files.
void role_wait_ready(uint32_t files);

// Creates the files that exist before the run.
void roles_prepare(struct role *role, int rounds);

void role_short(struct role *role, int rounds);
void role_append(struct role *role, int rounds);
void role_overwrite(struct role *role, int rounds);
void role_mapped(struct role *role, int rounds);
void role_direct(struct role *role, int rounds);
void role_resize(struct role *role, int rounds);
void role_names(struct role *role, int rounds);
void role_lazy(struct role *role, int rounds);
void role_peer(struct role *role, int rounds);
void role_both(struct role *role, int rounds);
void role_reader(struct role *role, int rounds);

// Three processes that use a file one after the other: the first writes it, the second drops that and writes again, the
// third syncs it.
void role_first(struct role *role, int rounds);
void role_second(struct role *role, int rounds);
void role_third(struct role *role, int rounds);

// Runs many short processes with the same id, one after the other, on files that reuse few inode numbers.
void role_churn(struct role *role, int rounds);

// The functions on databases take the journal mode.
void sqlite_prepare(const char *mode);
void role_sqlite(struct role *role, int rounds);

#endif
