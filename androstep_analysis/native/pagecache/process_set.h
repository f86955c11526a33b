// Sets of processes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Each process once, in ascending order. All zero: empty.
struct process_set {
    int64_t *processes;
    size_t count;
    size_t capacity;
};

// Return false if memory runs out.
bool add_process(struct process_set *set, int64_t process);
bool has_process(const struct process_set *set, int64_t process);
