#include "ioreplay/replay.h"

#include <stdatomic.h>

#include "ioreplay/program.h"

#define BEING_OPENED (-1)

struct descriptor {
    atomic_int users;   /* 0: not open; else one while it is open, and one for each running call */
    atomic_bool closed; /* a thread has closed it */
    int file;
};

struct replay_descriptors {
    uint32_t count;
    struct descriptor items[];
};

struct replay_descriptors *replay_descriptors_make(uint32_t count)
{
    struct replay_descriptors *made = zeroed(1, sizeof *made + (size_t)count * sizeof *made->items);
    made->count = count;
    return made;
}

void replay_descriptors_free(struct replay_descriptors *descriptors)
{
    for (uint32_t number = 0; number < descriptors->count; number++)
        if (atomic_load(&descriptors->items[number].users))
            close(descriptors->items[number].file);
    free(descriptors);
}

int replay_descriptors_open(struct replay_descriptors *descriptors, int32_t number, int file)
{
    struct descriptor *item = number < 0 ? NULL : &descriptors->items[number];
    int unused = 0;
    if (!item || !atomic_compare_exchange_strong(&item->users, &unused, BEING_OPENED)) {
        close(file);
        return item ? -EBUSY : 0;
    }
    item->file = file;
    atomic_store(&item->closed, false);
    atomic_store(&item->users, 1);
    return 0;
}

/* Drop a use; the last one closes the file. The file is read first, because the slot may be reused afterwards. */
static int leave(struct descriptor *item)
{
    int file = item->file;
    if (atomic_fetch_sub(&item->users, 1) != 1)
        return 0;
    return close(file) ? -errno : 0;
}

/* Return the file, unless it is closed and only still in use. */
static int join(struct descriptor *item)
{
    if (!atomic_load(&item->closed))
        return item->file;
    leave(item);
    return -EBADF;
}

int replay_descriptors_use(struct replay_descriptors *descriptors, int32_t number)
{
    struct descriptor *item = number < 0 ? NULL : &descriptors->items[number];
    int users = item ? atomic_load(&item->users) : 0;
    while (users > 0)
        if (atomic_compare_exchange_weak(&item->users, &users, users + 1))
            return join(item);
    return -EBADF;
}

void replay_descriptors_unuse(struct replay_descriptors *descriptors, int32_t number)
{
    leave(&descriptors->items[number]);
}

int replay_descriptors_close(struct replay_descriptors *descriptors, int32_t number)
{
    int closed, file = replay_descriptors_use(descriptors, number);
    if (file < 0)
        return file;
    struct descriptor *item = &descriptors->items[number];
    bool first = !atomic_exchange(&item->closed, true);
    if (first)
        leave(item);
    closed = leave(item);
    return first ? closed : -EBADF;
}
