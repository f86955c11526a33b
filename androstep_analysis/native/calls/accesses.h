// Who used a thing, as far as a later user may have to wait for it.
#pragma once

#include "core/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Users of the same kind are free among each other, but for exclusive ones, who wait for everybody and all for them.
enum access { ACCESS_SHARED, ACCESS_CHANGE, ACCESS_EXCLUSIVE, NR_ACCESSES };

#define NO_OPERATION (-1)

// When operations began and ended, the thread of each, and what it does. An operation ends before the next of its
// thread begins.
struct course {
    const int64_t *begin_ns;
    const int64_t *end_ns;
    const uint32_t *thread;
    const uint32_t *does;
    uint32_t tells; // bit of `does`: what its result tells of things that are told
};

// A thread that used a thing: its last operation on it, and the one before, in case that the last has not ended yet.
struct user {
    int64_t last;
    int64_t before;
    uint32_t next; // number of the thing's next user; 0: there is none
};

struct thing {
    int64_t settled; // the last exclusive operation of which all know who come from now on
    uint32_t users[NR_ACCESSES];
    bool is_ordered; // whatever the times say
    bool is_told;    // likewise, but only among operations that tell
};

struct accesses {
    struct course course;
    struct map numbers; // of things, by kind and key
    struct map threads; // numbers of users, by thing and access, and by thread
    struct thing *things;
    struct user *users;
    size_t nr_things, room_of_things;
    size_t nr_users, room_of_users;
    uint32_t free; // number of the first user that is none any more
};

void accesses_free(struct accesses *accesses);

// The thing of that kind and key; NULL where memory is short. It stands until the next call.
struct thing *accesses_thing(struct accesses *accesses, uint64_t kind, uint64_t key);

// An operation of another thread that the visitor's operation has to wait for; false ends the visit.
typedef bool (*access_visitor)(void *context, int64_t operation);

// Shows for each thread the last operation that `operation`, which uses the thing so, has to come after.
bool accesses_see(struct accesses *accesses, struct thing *thing, enum access access, int64_t operation,
                  access_visitor visitor, void *context);

// Notes that the operation uses the thing so; false where memory is short.
bool accesses_note(struct accesses *accesses, struct thing *thing, enum access access, int64_t operation);
