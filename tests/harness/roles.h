// The processes of the workload: each is a program of its own with its own name.
#ifndef ROLES_H
#define ROLES_H

#include <stdint.h>

struct role {
    const char *comm; // at most 15 bytes
    void (*run)(struct role *role, int rounds);
    const char *argument;
    uint64_t random; // state; the seed of the run and the role make it
};

// A number from 0 to below - 1.
uint32_t role_random(struct role *role, uint32_t below);

// Waits until role_lazy has written that many files.
void role_wait_ready(uint32_t files);

// Files that exist before the run.
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

// Three processes, one after the other: the first writes a file, the second drops what it wrote and writes itself, the
// third syncs it.
void role_first(struct role *role, int rounds);
void role_second(struct role *role, int rounds);
void role_third(struct role *role, int rounds);

// Many short processes, one after the other, that all have the same id, and files that have few inode numbers.
void role_churn(struct role *role, int rounds);

// Databases; the argument is the journal mode.
void sqlite_prepare(const char *mode);
void role_sqlite(struct role *role, int rounds);

#endif
