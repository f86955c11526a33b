// Tracks the users of resources. A resource has a list of users for each kind of access, with one entry for each
// thread: its last finished operation. Running operations wait in a heap until they end, so that no query visits them
// earlier. An operation that passes an entry either depends on it or removes it. The run time is thus proportional to
// the number of dependencies found.
#include "calls/accesses.h"

#include "core/array.h"

void accesses_free(struct accesses *accesses)
{
    map_free(&accesses->resource_ids);
    map_free(&accesses->user_ids);
    free(accesses->resources);
    free(accesses->users);
    free(accesses->pending);
}

uint32_t accesses_resource(struct accesses *accesses, uint64_t kind, uint64_t key, enum resource_order order)
{
    uint64_t *slot = map_add(&accesses->resource_ids, kind, key);

    if (!slot)
        return 0;
    if (!*slot) {
        if (accesses->nr_resources == UINT32_MAX)
            return 0;
        if (!array_reserve(&accesses->resources, accesses->nr_resources, &accesses->resources_capacity,
                           sizeof(*accesses->resources)))
            return 0;
        accesses->resources[accesses->nr_resources++] =
            (struct resource){.exclusive = NO_OPERATION, .order = (uint8_t)order};
        *slot = accesses->nr_resources;
    }
    return (uint32_t)*slot;
}

uint32_t accesses_known_resource(const struct accesses *accesses, uint64_t kind, uint64_t key)
{
    return (uint32_t)map_value(&accesses->resource_ids, kind, key);
}

int64_t accesses_exclusive(const struct accesses *accesses, uint32_t resource)
{
    return resource ? accesses->resources[resource - 1].exclusive : NO_OPERATION;
}

// --- users -----------------------------------------------------------------------------------------------------------

static uint64_t list_of(uint32_t resource, enum access access)
{
    return (uint64_t)resource * NR_ACCESSES + access;
}

// Returns the index of a new user plus one; 0 without memory.
static uint32_t new_user(struct accesses *accesses)
{
    uint32_t id = accesses->free;

    if (id) {
        accesses->free = accesses->users[id - 1].next;
        return id;
    }
    if (!array_reserve(&accesses->users, accesses->nr_users, &accesses->users_capacity, sizeof(*accesses->users)))
        return 0;
    return accesses->nr_users < UINT32_MAX ? (uint32_t)++accesses->nr_users : 0;
}

// Makes the operation the last one of its thread on the resource; false without memory.
static bool settle(struct accesses *accesses, uint32_t resource, enum access access, int64_t operation)
{
    struct resource *used = &accesses->resources[resource - 1];
    uint32_t thread = accesses->course.thread[operation], id;
    uint64_t *slot = map_add(&accesses->user_ids, list_of(resource, access), thread);

    if (!slot)
        return false;
    if (!*slot) {
        id = new_user(accesses);
        *slot = id;
        if (!id)
            return false;
        accesses->users[id - 1].next = used->users[access];
        used->users[access] = id;
    }
    accesses->users[*slot - 1].operation = operation;
    if (access == ACCESS_EXCLUSIVE && operation > used->exclusive)
        used->exclusive = operation;
    return true;
}

// Removes the user that `link` refers to from its list.
static void forget(struct accesses *accesses, uint64_t list, uint32_t *link)
{
    uint32_t id = *link;
    struct user *user = accesses->users + id - 1;

    map_remove(&accesses->user_ids, list, accesses->course.thread[user->operation]);
    *link = user->next;
    user->next = accesses->free;
    accesses->free = id;
}

// --- what runs -------------------------------------------------------------------------------------------------------

static bool ends_before(const struct pending *one, const struct pending *other)
{
    return one->end_ns < other->end_ns;
}

static bool push(struct accesses *accesses, struct pending added)
{
    size_t at = accesses->nr_pending;

    if (!array_reserve(&accesses->pending, at, &accesses->pending_capacity, sizeof(*accesses->pending)))
        return false;
    accesses->nr_pending++;
    for (; at && ends_before(&added, &accesses->pending[(at - 1) / 2]); at = (at - 1) / 2)
        accesses->pending[at] = accesses->pending[(at - 1) / 2];
    accesses->pending[at] = added;
    return true;
}

static struct pending pop(struct accesses *accesses)
{
    struct pending *heap = accesses->pending, first = heap[0], last = heap[--accesses->nr_pending];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < accesses->nr_pending) {
        if (child + 1 < accesses->nr_pending && ends_before(&heap[child + 1], &heap[child]))
            child++;
        if (!ends_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

bool accesses_begin(struct accesses *accesses, int64_t operation)
{
    while (accesses->nr_pending && accesses->pending[0].end_ns <= accesses->course.begin_ns[operation]) {
        struct pending ended = pop(accesses);

        if (!settle(accesses, ended.resource, (enum access)ended.access, ended.operation))
            return false;
    }
    return true;
}

bool accesses_note(struct accesses *accesses, uint32_t resource, enum access access, int64_t operation)
{
    const struct course *course = &accesses->course;
    int64_t end_ns = course->end_ns[operation];

    if (accesses->resources[resource - 1].order == BY_NUMBER || end_ns <= course->begin_ns[operation])
        return settle(accesses, resource, access, operation);
    return push(accesses, (struct pending){end_ns, operation, resource, (uint8_t)access});
}

bool accesses_gather(struct accesses *accesses, uint32_t resource, int64_t operation)
{
    return settle(accesses, resource, ACCESS_EXCLUSIVE, operation);
}

// --- what an operation waits for -------------------------------------------------------------------------------------

// Checks whether waiting for `exclusive`, or for the last exclusive operation on the resource, implies waiting for the
// operation.
static bool is_implied(const struct course *course, const struct resource *resource, int64_t operation,
                       int64_t exclusive)
{
    if (resource->order != BY_TIME && operation < resource->exclusive)
        return true;
    return operation < exclusive && course->end_ns[operation] <= course->begin_ns[exclusive];
}

bool accesses_see(struct accesses *accesses, uint32_t id, enum access access, int64_t operation, int64_t exclusive,
                  access_visitor visitor, void *context)
{
    const struct course *course = &accesses->course;
    struct resource *resource = &accesses->resources[id - 1];

    for (size_t other = 0; other < NR_ACCESSES; other++) {
        uint32_t *link = &resource->users[other];

        if (other == access && access != ACCESS_EXCLUSIVE)
            continue;
        while (*link) {
            const struct user *user = accesses->users + *link - 1;

            if (is_implied(course, resource, user->operation, exclusive)) {
                forget(accesses, list_of(id, (enum access)other), link);
                continue;
            }
            if (course->thread[user->operation] != course->thread[operation] && !visitor(context, user->operation))
                return false;
            link = &accesses->users[*link - 1].next;
        }
    }
    return true;
}
