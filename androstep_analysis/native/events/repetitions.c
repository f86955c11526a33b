#include "events/repetitions.h"

#include <stdlib.h>

#include "core/map.h"

// The rows so far that others may repeat, by their key: a hash table of row + 1, at most half full.
struct originals {
    uint32_t *slots;
    size_t mask;
};

struct search {
    const struct repeating_events *events;
    struct originals originals;
    uint32_t *epoch;         // of each row: how many other events of its file came before
    struct map epochs;       // by device and inode: the number of such events + 1
    struct map latest_opens; // by thread: the open that no other event of the thread follows yet, as row + 1
    uint8_t *is_kept;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static bool is_large(const struct repeating_events *events, size_t row)
{
    return events->page_order[row] > 0;
}

// Return whether a handle has changed blocks: 0 or 1, or 2 if that is unknown.
static unsigned int is_change(const struct repeating_events *events, size_t row)
{
    return events->nr_blocks[row] == NO_INT64 ? 2 : events->nr_blocks[row] > 0;
}

static uint64_t mapping_hash(const struct repeating_events *events, size_t row)
{
    uint64_t hash = mix(events->states_block[row], (uint64_t)events->file_block[row]);

    return mix(mix(hash, (uint64_t)events->block[row]), (uint64_t)events->nr_blocks[row]);
}

static uint64_t row_hash(const struct search *search, size_t row)
{
    const struct repeating_events *events = search->events;
    uint64_t hash = mix(events->kind[row], (uint64_t)(uint32_t)events->tid[row] << 32 | events->dev[row]);

    switch (events->kind[row]) {
    case EVENT_PAGE:
        return mix(mix(hash, (uint64_t)events->ino[row]), (uint64_t)search->epoch[row] << 8 | events->event[row]);
    case EVENT_LOOKUP:
        hash = mix(mix(hash, (uint64_t)events->ino[row]), search->epoch[row]);
        return events->states_block[row] ? mix(hash, mapping_hash(events, row)) : hash;
    case EVENT_HANDLE:
        return mix(hash, (uint64_t)events->transaction[row]);
    default:
        return mix(hash, events->name[row]);
    }
}

static bool is_same_mapping(const struct repeating_events *events, size_t one, size_t other)
{
    if (events->states_block[one] != events->states_block[other])
        return false;
    return !events->states_block[one] ||
           (events->file_block[one] == events->file_block[other] && events->block[one] == events->block[other] &&
            events->nr_blocks[one] == events->nr_blocks[other] && events->status[one] == events->status[other]);
}

static bool is_repetition(const struct search *search, size_t one, size_t other)
{
    const struct repeating_events *events = search->events;
    bool is_same_file = events->ino[one] == events->ino[other] && search->epoch[one] == search->epoch[other];

    if (events->kind[one] != events->kind[other] || events->dev[one] != events->dev[other] ||
        events->tid[one] != events->tid[other])
        return false;
    switch (events->kind[one]) {
    case EVENT_PAGE:
        return is_same_file && events->event[one] == events->event[other] && events->pid[one] == events->pid[other] &&
               is_large(events, one) == is_large(events, other);
    case EVENT_LOOKUP:
        return is_same_file && is_same_mapping(events, one, other);
    case EVENT_HANDLE:
        return events->transaction[one] == events->transaction[other] && events->pid[one] == events->pid[other] &&
               events->comm[one] == events->comm[other] && is_change(events, one) == is_change(events, other);
    default:
        return events->name[one] == events->name[other] && events->pid[one] == events->pid[other];
    }
}

// Return the slot of the row that this one repeats, or the free slot for it.
static uint32_t *original_of(const struct search *search, size_t row)
{
    const struct originals *originals = &search->originals;
    size_t at = (size_t)row_hash(search, row) & originals->mask;

    while (originals->slots[at] && !is_repetition(search, originals->slots[at] - 1, row))
        at = (at + 1) & originals->mask;
    return &originals->slots[at];
}

static bool count_epoch(struct search *search, size_t row)
{
    const struct repeating_events *events = search->events;
    uint64_t *count = map_add(&search->epochs, events->dev[row], (uint64_t)events->ino[row]);

    if (!count)
        return false;
    *count += (*count == 0) + (events->kind[row] != EVENT_PAGE && events->kind[row] != EVENT_LOOKUP);
    search->epoch[row] = (uint32_t)*count;
    return true;
}

// Keep an open that is followed by another event than one with a path, or by none: it may show a name.
static bool see_event_of_thread(struct search *search, size_t row)
{
    const struct repeating_events *events = search->events;
    uint64_t thread = (uint32_t)events->tid[row];
    uint64_t *open = map_find(&search->latest_opens, thread, 0);
    bool has_path = events->kind[row] == EVENT_PATH || events->kind[row] == EVENT_OPEN;

    if (open) {
        search->is_kept[*open - 1] |= !has_path;
        map_remove(&search->latest_opens, thread, 0);
    }
    if (events->kind[row] != EVENT_OPEN)
        return true;
    open = map_add(&search->latest_opens, thread, 0);
    if (open)
        *open = row + 1;
    return open != NULL;
}

// Keep the first of equal events, of handles the last.
static void see_event(struct search *search, size_t row)
{
    uint8_t kind = search->events->kind[row];
    uint32_t *original;

    if (kind == EVENT_OTHER || kind == EVENT_PATH) {
        search->is_kept[row] = 1;
        return;
    }
    original = original_of(search, row);
    search->is_kept[row] = kind == EVENT_HANDLE || !*original;
    if (kind == EVENT_HANDLE && *original)
        search->is_kept[*original - 1] = 0;
    if (kind == EVENT_HANDLE || !*original)
        *original = (uint32_t)row + 1;
}

static bool search_rows(struct search *search)
{
    for (size_t row = 0; row < search->events->rows; row++) {
        if (!count_epoch(search, row))
            return false;
        see_event(search, row);
        if (!see_event_of_thread(search, row))
            return false;
    }
    for (size_t at = 0; at < search->latest_opens.room; at++)
        if (search->latest_opens.slots[at].value)
            search->is_kept[search->latest_opens.slots[at].value - 1] = 1;
    return true;
}

bool repetitions_find(const struct repeating_events *events, uint8_t *is_kept)
{
    struct search search = {.events = events, .is_kept = is_kept};
    size_t slots = 64;
    bool is_done;

    while (slots < 2 * events->rows)
        slots *= 2;
    search.originals = (struct originals){calloc(slots, sizeof(uint32_t)), slots - 1};
    search.epoch = calloc(events->rows + 1, sizeof(*search.epoch));
    is_done = search.originals.slots && search.epoch && search_rows(&search);
    free(search.originals.slots);
    free(search.epoch);
    map_free(&search.epochs);
    map_free(&search.latest_opens);
    return is_done;
}
