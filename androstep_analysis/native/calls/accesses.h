// Users of resources, as far as later users may have to wait for them.
#pragma once

#include "core/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Accesses of one kind do not wait for each other, except exclusive ones: they wait for all accesses, and all accesses
// wait for them.
enum access { ACCESS_SHARED, ACCESS_CHANGE, ACCESS_EXCLUSIVE, NR_ACCESSES };

#define NO_OPERATION (-1)

// Begin, end and thread of each operation. An operation ends before the next one of its thread begins.
struct course {
    const int64_t *begin_ns;
    const int64_t *end_ns;
    const uint32_t *thread;
};

enum resource_order {
    BY_TIME,         // operations that overlap in time are not ordered
    BY_NUMBER,       // operations are ordered by number, whatever their times
    BY_TIME_REPORTED // by time; the users are ordered by number among each other (see accesses_see)
};

struct resource {
    int64_t exclusive;           // the last exclusive operation that has ended
    uint32_t users[NR_ACCESSES]; // index of the first plus one; 0: none
    uint8_t order;
};

// The last finished operation of a thread on a resource.
struct user {
    int64_t operation;
    uint32_t next; // index of the next user of the resource plus one; 0: none
};

// An access by a running operation.
struct pending {
    int64_t end_ns;
    int64_t operation;
    uint32_t resource;
    uint8_t access;
};

struct accesses {
    struct course course;
    struct map resource_ids; // of resources plus one, by kind and key
    struct map user_ids;     // of users plus one, by resource and access, and by thread
    struct resource *resources;
    struct user *users;
    struct pending *pending; // heap; the first entry ends first
    size_t nr_resources, resources_capacity;
    size_t nr_users, users_capacity;
    size_t nr_pending, pending_capacity;
    uint32_t free; // index of the first unused user plus one
};

void accesses_free(struct accesses *accesses);

// Begins an operation and finishes those that ended before. Operations must begin in order. Returns false without
// memory.
bool accesses_begin(struct accesses *accesses, int64_t operation);

// Returns the index plus one of the resource of that kind and key; 0 without memory.
uint32_t accesses_resource(struct accesses *accesses, uint64_t kind, uint64_t key, enum resource_order order);

// As accesses_resource, but returns 0 if no operation used the resource so far.
uint32_t accesses_known_resource(const struct accesses *accesses, uint64_t kind, uint64_t key);

// Returns the last finished exclusive operation on the resource; NO_OPERATION if `resource` is 0.
int64_t accesses_exclusive(const struct accesses *accesses, uint32_t resource);

// Visits an operation of another thread that the current one must wait for. Returning false ends the visit.
typedef bool (*access_visitor)(void *context, int64_t operation);

// Visits the last operation of each thread that `operation` must wait for because of this access. Operations that ended
// before `exclusive` began are skipped and removed: `operation` waits for `exclusive`, which waited for them. If the
// users of the resource are ordered among each other, all operations before the last exclusive one are skipped too.
bool accesses_see(struct accesses *accesses, uint32_t resource, enum access access, int64_t operation,
                  int64_t exclusive, access_visitor visitor, void *context);

// Records the access of an operation; false without memory.
bool accesses_note(struct accesses *accesses, uint32_t resource, enum access access, int64_t operation);

// Records that the operation follows all users of the resource so far, and that all later users follow it, whether it
// has ended or not; false without memory.
bool accesses_gather(struct accesses *accesses, uint32_t resource, int64_t operation);
