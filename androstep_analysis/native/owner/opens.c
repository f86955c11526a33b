// Open writes, and the turns that wait for them.
#include "owner/opens.h"

bool turns_put(struct owners *owners, const struct turn *turn)
{
    if (owners->nr_turns == owners->turns_room) {
        struct turn *grown = array_grow(owners->turns, &owners->turns_room, sizeof(*grown));

        if (!grown)
            return false;
        owners->turns = grown;
    }
    owners->turns[owners->nr_turns++] = *turn;
    return true;
}

static bool decide_waiting(struct owners *owners, struct waiting *waiting)
{
    if (waiting->is_late)
        waiting->turn.is_clean = waiting->is_clean_if_late;
    bool is_done = decide(&owners->judge, &waiting->steps, waiting->tells_dirty, &waiting->out, &waiting->turn) &&
                   turns_put(owners, &waiting->turn);

    free(waiting->steps.steps);
    free(waiting);
    return is_done;
}

bool opens_move_late(struct block *block)
{
    struct waiting *first = block->waiting;

    first->moved = *steps_last(&first->steps);
    first->moved.is_late = true;
    steps_remove(&first->steps, first->steps.count - 1);
    for (struct waiting *waiting = first; waiting; waiting = waiting->next)
        waiting->is_late = true;
    return steps_add(&block->steps, &first->moved);
}

static struct open_write *open_by(struct owners *owners, int32_t tid)
{
    uint64_t number = tid == NO_INT32 ? 0 : map_value(&owners->of_opens, (uint32_t)tid, 0);

    return number ? &owners->opens[number - 1] : NULL;
}

struct open_write *opens_of(struct owners *owners, const struct step *step)
{
    struct open_write *open;

    if (!touch_makes(step->kind))
        return NULL;
    open = open_by(owners, owners->threads[step->thread].tid);
    return open && open->event == step->event ? open : NULL;
}

// That the write changed the block is not certain any more, nor that it was under way.
static void mark_maybe(struct steps *steps, uint64_t event)
{
    for (size_t at = steps->count; at-- > 0;) {
        struct step *step = &steps->steps[at];

        if (step->event != event || step->kind != TOUCH_WRITE)
            continue;
        step->kind = TOUCH_MAYBE;
        step->is_begun = false;
        if (step->is_late)
            steps_remove(steps, at);
    }
}

static bool mark_waiting(struct waiting *waiting, uint64_t event)
{
    struct step step = waiting->moved;

    mark_maybe(&waiting->steps, event);
    if (step.event == event) {
        step.kind = TOUCH_MAYBE;
        step.is_begun = step.is_late = false;
        if (!steps_add(&waiting->steps, &step))
            return false;
    }
    waiting->is_late = false;
    return true;
}

// The write went on with another event from there on: that the rest was written to is not certain.
static bool cut_open(struct owners *owners, struct open_write *open, int64_t rest)
{
    int64_t last = (rest - 1) / open->size;

    for (int64_t at = last + 1; at <= (open->end - 1) / open->size; at++) {
        struct block *block = blocks_find(&owners->blocks, open->life, at);

        if (block)
            mark_maybe(&block->steps, open->event);
    }
    for (size_t nth = 0; nth < open->nr_waiting; nth++)
        if (open->waiting[nth]->turn.file_block > last && !mark_waiting(open->waiting[nth], open->event))
            return false;
    return true;
}

bool opens_close(struct owners *owners, struct open_write *open)
{
    bool is_done = true;

    for (size_t nth = 0; nth < open->nr_kept; nth++) {
        struct block *block = blocks_find(&owners->blocks, open->kept[nth].life, open->kept[nth].file_block);

        if (block && block->is_kept && block->steps.steps[0].event == open->event) {
            block->is_kept = false;
            steps_remove(&block->steps, 0);
        }
    }
    for (size_t nth = 0; nth < open->nr_waiting; nth++) {
        struct waiting *waiting = open->waiting[nth];
        struct block *block = blocks_find(&owners->blocks, waiting->life, waiting->turn.file_block);

        if (block && block->waiting == waiting && steps_last(&waiting->steps)->event == open->event)
            block->waiting = NULL;
        if (--waiting->opens == 0)
            is_done &= decide_waiting(owners, waiting);
    }
    open->nr_kept = open->nr_waiting = 0;
    return is_done;
}

static bool goes_on(const struct open_write *open, const struct event *event, int64_t begin, int64_t end)
{
    return open->is_write && open->file == event->file && begin > open->begin && begin < open->end && end == open->end;
}

static struct maker *maker_of_new(struct owners *owners, const struct event *event)
{
    uint64_t *number = map_add(&owners->of_makers, event->file, (uint32_t)event->tid);

    if (!number)
        return NULL;
    if (!*number) {
        if (owners->nr_makers == owners->makers_room) {
            struct maker *grown = array_grow(owners->makers, &owners->makers_room, sizeof(*grown));

            if (!grown) {
                *number = 1; // never used: the caller gives up
                return NULL;
            }
            owners->makers = grown;
        }
        owners->makers[owners->nr_makers] = (struct maker){0};
        *number = ++owners->nr_makers;
    }
    return &owners->makers[*number - 1];
}

static struct open_write *first_open(struct owners *owners, int32_t tid)
{
    uint64_t *number;

    if (owners->nr_opens == owners->opens_room) {
        struct open_write *grown = array_grow(owners->opens, &owners->opens_room, sizeof(*grown));

        if (!grown)
            return NULL;
        owners->opens = grown;
    }
    number = map_add(&owners->of_opens, (uint32_t)tid, 0);
    if (!number)
        return NULL;
    owners->opens[owners->nr_opens] = (struct open_write){0};
    *number = ++owners->nr_opens;
    return &owners->opens[*number - 1];
}

bool opens_begin(struct owners *owners, const struct event *event, int64_t begin, int64_t end)
{
    struct maker *maker = maker_of_new(owners, event);
    struct open_write *open;

    if (!maker)
        return false;
    maker->begin = begin;
    maker->end = end;
    if (event->tid == NO_INT32)
        return true;
    open = open_by(owners, event->tid);
    if (open && goes_on(open, event, begin, end) && !cut_open(owners, open, begin))
        return false;
    if (open && !opens_close(owners, open))
        return false;
    open = open ? open : first_open(owners, event->tid);
    if (!open)
        return false;
    open->file = event->file;
    open->life = owners->blocks.files[event->file].life;
    open->event = owners->event;
    open->begin = begin;
    open->end = end;
    open->size = event->device->size;
    open->is_write = event->kind == EVENT_WRITE;
    return true;
}

bool opens_wait(struct open_write *open, struct waiting *waiting)
{
    if (open->nr_waiting > 0 && open->waiting[open->nr_waiting - 1] == waiting)
        return true;
    if (open->nr_waiting == open->waiting_room) {
        struct waiting **grown = array_grow(open->waiting, &open->waiting_room, sizeof(struct waiting *));

        if (!grown)
            return false;
        open->waiting = grown;
    }
    open->waiting[open->nr_waiting++] = waiting;
    waiting->opens++;
    return true;
}

bool opens_keep(struct open_write *open, uint64_t life, int64_t file_block)
{
    if (open->nr_kept == open->kept_room) {
        struct place *grown = array_grow(open->kept, &open->kept_room, sizeof(*grown));

        if (!grown)
            return false;
        open->kept = grown;
    }
    open->kept[open->nr_kept++] = (struct place){life, file_block};
    return true;
}
