// Who used a thing, as far as a later user may have to wait for it.
#pragma once

#include "core/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Users of the same kind are free among each other, but for exclusive ones, who wait for everybody and all for them.
enum access { ACCESS_SHARED, ACCESS_CHANGE, ACCESS_EXCLUSIVE, NR_ACCESSES };

#define NO_OPERATION (-1)

// When operations began and ended, and the thread of each. An operation ends before the next of its thread begins.
struct course {
    const int64_t *begin_ns;
    const int64_t *end_ns;
    const uint32_t *thread;
};

enum thing_order {
    BY_TIME,         // what overlapped in time is free
    BY_NUMBER,       // each operation comes after those before it, whatever the times say
    BY_TIME_REPORTED // by time for others; among each other the users are in order by number (see accesses_see)
};

struct thing {
    int64_t exclusive;           // the newest exclusive operation that is over
    uint32_t users[NR_ACCESSES]; // number of the first; 0: there is none
    uint8_t order;
};

// The last operation of a thread on a thing, of those that are over.
struct user {
    int64_t operation;
    uint32_t next; // number of the thing's next user; 0: there is none
};

// A use by an operation that has not ended.
struct pending {
    int64_t end_ns;
    int64_t operation;
    uint32_t thing;
    uint8_t access;
};

struct accesses {
    struct course course;
    struct map numbers; // of things, by kind and key
    struct map threads; // numbers of users, by thing and access, and by thread
    struct thing *things;
    struct user *users;
    struct pending *pending; // a heap: the first ends first
    size_t nr_things, room_of_things;
    size_t nr_users, room_of_users;
    size_t nr_pending, room_of_pending;
    uint32_t free; // number of the first user that is none any more
};

void accesses_free(struct accesses *accesses);

// The operation begins, and what ended until then is over. Operations begin in order. False where memory is short.
bool accesses_begin(struct accesses *accesses, int64_t operation);

// The number of the thing of that kind and key; 0 where memory is short.
uint32_t accesses_thing(struct accesses *accesses, uint64_t kind, uint64_t key, enum thing_order order);

// As accesses_thing, but 0 also where nobody used it.
uint32_t accesses_known_thing(const struct accesses *accesses, uint64_t kind, uint64_t key);

// The newest exclusive operation on the thing (0: on none) that is over.
int64_t accesses_exclusive(const struct accesses *accesses, uint32_t thing);

// An operation of another thread that the visitor's operation has to wait for; false ends the visit.
typedef bool (*access_visitor)(void *context, int64_t operation);

// Shows for each thread the last operation that `operation`, which uses the thing so, has to come after. What ended
// before `exclusive` began is left out, and forgotten: `operation` waits for `exclusive`, which waited for that. So is
// what came before the last exclusive operation where users of the thing are in order among each other.
bool accesses_see(struct accesses *accesses, uint32_t thing, enum access access, int64_t operation, int64_t exclusive,
                  access_visitor visitor, void *context);

// Notes that the operation uses the thing so; false where memory is short.
bool accesses_note(struct accesses *accesses, uint32_t thing, enum access access, int64_t operation);

// Notes that the operation came after all users of the thing so far, and that all from now on come after it, whether it
// has ended or not; false where memory is short.
bool accesses_gather(struct accesses *accesses, uint32_t thing, int64_t operation);
