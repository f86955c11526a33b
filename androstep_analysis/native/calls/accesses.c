// A thing has a list of users for each kind of access, one entry a thread. What ended before an exclusive operation
// began is forgotten as soon as that has ended itself: whoever comes then waits for it, and so for what came before.
#include "calls/accesses.h"

#include "core/array.h"

void accesses_free(struct accesses *accesses)
{
    map_free(&accesses->numbers);
    map_free(&accesses->threads);
    free(accesses->things);
    free(accesses->users);
}

struct thing *accesses_thing(struct accesses *accesses, uint64_t kind, uint64_t key)
{
    uint64_t *number = map_add(&accesses->numbers, kind, key);

    if (!number)
        return NULL;
    if (!*number) {
        if (accesses->nr_things == accesses->room_of_things) {
            struct thing *things = array_grow(accesses->things, &accesses->room_of_things, sizeof(*things));

            if (!things)
                return NULL;
            accesses->things = things;
        }
        accesses->things[accesses->nr_things++] = (struct thing){.settled = NO_OPERATION};
        *number = accesses->nr_things;
    }
    return accesses->things + *number - 1;
}

// As everybody knows who comes from now on.
static bool is_over(const struct course *course, const struct thing *thing, int64_t operation, int64_t now)
{
    return thing->is_ordered || course->end_ns[operation] <= course->begin_ns[now];
}

// As the two know of each other, by time or by what they returned.
static bool has_ended(const struct course *course, const struct thing *thing, int64_t operation, int64_t now)
{
    bool tell = course->does[operation] & course->does[now] & course->tells;

    return (thing->is_told && tell) || is_over(course, thing, operation, now);
}

static int64_t last_exclusive(const struct accesses *accesses, const struct thing *thing, int64_t now)
{
    const struct course *course = &accesses->course;
    int64_t last = NO_OPERATION;

    for (uint32_t number = thing->users[ACCESS_EXCLUSIVE]; number; number = accesses->users[number - 1].next) {
        const struct user *user = accesses->users + number - 1;
        int64_t operation = is_over(course, thing, user->last, now) ? user->last : user->before;

        if (operation > last)
            last = operation;
    }
    return last;
}

// Whether the result of the operation shows in which order it came to the thing.
static bool tells(const struct course *course, const struct thing *thing, int64_t operation)
{
    return thing->is_told && course->does[operation] & course->tells;
}

// The last exclusive operation on the thing whose result shows the order.
static int64_t last_told(const struct accesses *accesses, const struct thing *thing)
{
    int64_t last = NO_OPERATION;

    for (uint32_t number = thing->users[ACCESS_EXCLUSIVE]; number; number = accesses->users[number - 1].next) {
        int64_t operation = accesses->users[number - 1].last;

        if (operation > last && tells(&accesses->course, thing, operation))
            last = operation;
    }
    return last;
}

static uint64_t list_of(const struct accesses *accesses, const struct thing *thing, enum access access)
{
    return (uint64_t)(thing - accesses->things) * NR_ACCESSES + access;
}

// Takes the user out of the list at that place.
static void forget(struct accesses *accesses, uint64_t list, uint32_t *place)
{
    uint32_t number = *place;
    struct user *user = accesses->users + number - 1;

    map_remove(&accesses->threads, list, accesses->course.thread[user->last]);
    *place = user->next;
    user->next = accesses->free;
    accesses->free = number;
}

// Forgets who ended before the exclusive operation began.
static void settle(struct accesses *accesses, struct thing *thing, int64_t exclusive)
{
    for (size_t access = 0; access < NR_ACCESSES; access++) {
        uint32_t *place = thing->users + access;

        while (*place) {
            struct user *user = accesses->users + *place - 1;

            if (user->last < exclusive && has_ended(&accesses->course, thing, user->last, exclusive)) {
                forget(accesses, list_of(accesses, thing, (enum access)access), place);
                continue;
            }
            if (user->before != NO_OPERATION && user->before < exclusive &&
                has_ended(&accesses->course, thing, user->before, exclusive))
                user->before = NO_OPERATION;
            place = &user->next;
        }
    }
    thing->settled = exclusive;
}

bool accesses_see(struct accesses *accesses, struct thing *thing, enum access access, int64_t operation,
                  access_visitor visitor, void *context)
{
    const struct course *course = &accesses->course;
    int64_t exclusive = last_exclusive(accesses, thing, operation);
    int64_t told = tells(course, thing, operation) ? last_told(accesses, thing) : NO_OPERATION;

    if (exclusive > thing->settled)
        settle(accesses, thing, exclusive);
    for (size_t other = 0; other < NR_ACCESSES; other++) {
        if (other == access && access != ACCESS_EXCLUSIVE)
            continue;
        for (uint32_t number = thing->users[other]; number; number = accesses->users[number - 1].next) {
            const struct user *user = accesses->users + number - 1;
            int64_t earlier = has_ended(course, thing, user->last, operation) ? user->last : user->before;

            // That one has waited for earlier operations whose results show the order.
            if (earlier < told && earlier != NO_OPERATION && tells(course, thing, earlier))
                continue;
            if (earlier != NO_OPERATION && course->thread[earlier] != course->thread[operation] &&
                !visitor(context, earlier))
                return false;
        }
    }
    return true;
}

// The number of a new user; 0 where memory is short.
static uint32_t new_user(struct accesses *accesses)
{
    uint32_t number = accesses->free;

    if (number) {
        accesses->free = accesses->users[number - 1].next;
        return number;
    }
    if (accesses->nr_users == accesses->room_of_users) {
        struct user *users = array_grow(accesses->users, &accesses->room_of_users, sizeof(*users));

        if (!users)
            return 0;
        accesses->users = users;
    }
    return accesses->nr_users < UINT32_MAX ? (uint32_t)++accesses->nr_users : 0;
}

bool accesses_note(struct accesses *accesses, struct thing *thing, enum access access, int64_t operation)
{
    uint64_t list = list_of(accesses, thing, access);
    uint32_t thread = accesses->course.thread[operation];
    const uint64_t *slot = map_find(&accesses->threads, list, thread);
    uint32_t number = slot ? (uint32_t)*slot : new_user(accesses);
    struct user *user;

    if (!number)
        return false;
    user = accesses->users + number - 1;
    if (!slot) {
        uint64_t *place = map_add(&accesses->threads, list, thread);

        if (!place)
            return false;
        *place = number;
        *user = (struct user){operation, NO_OPERATION, thing->users[access]};
        thing->users[access] = number;
    } else if (user->last != operation) {
        user->before = user->last;
        user->last = operation;
    }
    return true;
}
