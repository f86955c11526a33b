// Arrays, tables and strings that grow. Where memory is short, no function here returns.
#pragma once

#include "core/map.h"
#include "core/table.h"

#include <setjmp.h>

enum { NO_INDEX = -1 }; // the index of no object

struct storage {
    jmp_buf exhausted; // where to go on when memory is short
};

// Adds an object, all zeros, to an array.
void *storage_push(struct storage *storage, void **objects, size_t *count, size_t *room, size_t size);

// Adds an object to the array of that name in a struct that has a `storage`.
#define PUSH(table, name)                                                                                              \
    storage_push((table)->storage, (void **)&(table)->name, &(table)->nr_##name, &(table)->room_##name,                \
                 sizeof(*(table)->name))

void *storage_allocate(struct storage *storage, size_t size);
uint64_t *storage_slot(struct storage *storage, struct map *map, uint64_t space, uint64_t key); // as map_add
uint32_t storage_string(struct storage *storage, struct strings *strings, const uint8_t *text, size_t length);
_Noreturn void storage_exhausted(struct storage *storage);
