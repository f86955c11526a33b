// Arrays, maps and strings that grow. Without memory, the functions do not return but jump to `exhausted`.
#pragma once

#include "core/map.h"
#include "core/table.h"

#include <setjmp.h>

enum { NO_INDEX = -1 }; // null

struct storage {
    jmp_buf exhausted; // target of longjmp without memory
};

// Appends a zeroed object to an array.
void *storage_push(struct storage *storage, void **objects, size_t *count, size_t *capacity, size_t size);

// Appends an object to array `name` of a struct with a `storage`.
#define PUSH(table, name)                                                                                              \
    storage_push((table)->storage, (void **)&(table)->name, &(table)->nr_##name, &(table)->name##_capacity,            \
                 sizeof(*(table)->name))

void *storage_allocate(struct storage *storage, size_t size);
uint64_t *storage_slot(struct storage *storage, struct map *map, uint64_t space, uint64_t key); // as map_add
uint32_t storage_string(struct storage *storage, struct strings *strings, const uint8_t *text, size_t length);
_Noreturn void storage_exhausted(struct storage *storage);
