// The events of all files come in order of time and become steps of the blocks that they are about.
//
// A write is open until its thread begins another one: until then the page may become dirty by it, and it may turn out
// that its end went on with another event. What is written out meanwhile waits to be decided.
#include "owner/owners.h"

#include "owner/blocks.h"
#include "owner/decide.h"

static const int64_t LARGEST_FILE = (int64_t)1 << 60, LARGEST_FOLIO = (int64_t)1 << 29, LARGEST_PAGE = 1 << 18;
enum { LARGEST_ORDER = 17 };

// The last write or store of a thread to a file.
struct maker {
    int64_t begin;
    int64_t end;
    uint64_t event; // the last one that certainly changed a block, or 0
};

// A block, by what stays the same.
struct place {
    uint64_t life;
    int64_t file_block;
};

// The last write or store of a thread, and what depends on how it goes on.
struct open_write {
    size_t file; // number
    uint64_t life;
    uint64_t event;
    int64_t begin;
    int64_t end;
    int64_t size; // of a block
    bool is_write;
    struct waiting **waiting;
    size_t nr_waiting;
    size_t waiting_room;
    struct place *kept; // blocks that were absent since
    size_t nr_kept;
    size_t kept_room;
};

struct device {
    int64_t size; // of a block
    uint32_t flags;
};

struct owners {
    int64_t page_bytes;
    uint64_t event; // the number of the last one
    struct blocks blocks;
    struct judge judge;
    struct device *devices;
    size_t nr_devices;
    size_t devices_room;
    struct thread *threads;
    size_t nr_threads;
    size_t threads_room;
    struct maker *makers;
    size_t nr_makers;
    size_t makers_room;
    struct open_write *opens;
    size_t nr_opens;
    size_t opens_room;
    struct turn *turns;
    size_t nr_turns;
    size_t turns_room;
    struct map of_devices; // by device: number, from 1 on, as of all
    struct map of_threads; // by tid and pid, and name
    struct map of_makers;  // by file and tid
    struct map of_opens;   // by tid
};

// An event with what it needs.
struct event {
    int64_t ts_ns;
    size_t file;
    const struct device *device;
    int32_t tid;
    uint32_t thread;
    uint8_t kind;
    uint8_t order;
};

// -- turns ------------------------------------------------------------------------------------------------------------

static bool put_turn(struct owners *owners, const struct turn *turn)
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
    bool is_done = decide(&owners->judge, &waiting->steps, waiting->tells_dirty, &waiting->out, &waiting->turn) &&
                   put_turn(owners, &waiting->turn);

    free(waiting->steps.steps);
    free(waiting);
    return is_done;
}

// The write was on its way when the block was written out: it is of the turn that comes.
static bool move_late(struct block *block)
{
    struct waiting *first = block->waiting;
    struct step late = first->steps.steps[first->steps.count - 1];

    steps_remove(&first->steps, first->steps.count - 1);
    for (struct waiting *waiting = first; waiting; waiting = waiting->next)
        waiting->turn.is_clean = waiting->is_clean_if_late;
    return steps_add(&block->steps, &late);
}

// -- open writes ------------------------------------------------------------------------------------------------------

static struct open_write *open_of(struct owners *owners, int32_t tid)
{
    uint64_t number = tid == NO_INT32 ? 0 : map_value(&owners->of_opens, (uint32_t)tid, 0);

    return number ? &owners->opens[number - 1] : NULL;
}

// The write that the step is of, where it is open.
static struct open_write *open_step(struct owners *owners, const struct step *step)
{
    struct open_write *open;

    if (!touch_makes(step->kind))
        return NULL;
    open = open_of(owners, owners->threads[step->thread].tid);
    return open && open->event == step->event ? open : NULL;
}

static void mark_maybe(struct steps *steps, uint64_t event)
{
    for (struct step *step = steps->steps; step < steps->steps + steps->count; step++)
        if (step->event == event && step->kind == TOUCH_WRITE) {
            step->kind = TOUCH_MAYBE;
            step->is_begun = false;
        }
}

// The write went on with another event from there on: that the rest was written to is not certain.
static void cut_open(struct owners *owners, struct open_write *open, int64_t rest)
{
    for (int64_t at = (rest - 1) / open->size + 1; at <= (open->end - 1) / open->size; at++) {
        struct block *block = blocks_find(&owners->blocks, open->life, at);

        if (block)
            mark_maybe(&block->steps, open->event);
    }
    for (size_t nth = 0; nth < open->nr_waiting; nth++)
        if (open->waiting[nth]->turn.file_block > (rest - 1) / open->size)
            mark_maybe(&open->waiting[nth]->steps, open->event);
}

static const struct step *last_step(const struct steps *steps)
{
    return &steps->steps[steps->count - 1];
}

// The thread has come to the end of its write: nothing becomes dirty by it any more.
static bool close_open(struct owners *owners, struct open_write *open)
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

        if (block && block->waiting == waiting && last_step(&waiting->steps)->event == open->event)
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

// The thread begins to write or to store; what it did before is over.
static bool begin_write(struct owners *owners, const struct event *event, int64_t begin, int64_t end)
{
    uint64_t *number = map_add(&owners->of_makers, event->file, (uint32_t)event->tid);
    struct open_write *open;

    if (!number)
        return false;
    if (!*number) {
        if (owners->nr_makers == owners->makers_room) {
            struct maker *grown = array_grow(owners->makers, &owners->makers_room, sizeof(*grown));

            if (!grown) {
                *number = 1;
                return false;
            }
            owners->makers = grown;
        }
        owners->makers[owners->nr_makers] = (struct maker){0};
        *number = ++owners->nr_makers;
    }
    owners->makers[*number - 1].begin = begin;
    owners->makers[*number - 1].end = end;
    if (event->tid == NO_INT32)
        return true;
    open = open_of(owners, event->tid);
    if (!open) {
        if (owners->nr_opens == owners->opens_room) {
            struct open_write *grown = array_grow(owners->opens, &owners->opens_room, sizeof(*grown));

            if (!grown)
                return false;
            owners->opens = grown;
        }
        number = map_add(&owners->of_opens, (uint32_t)event->tid, 0);
        if (!number)
            return false;
        open = &owners->opens[owners->nr_opens];
        *open = (struct open_write){0};
        *number = ++owners->nr_opens;
    } else {
        if (goes_on(open, event, begin, end))
            cut_open(owners, open, begin);
        if (!close_open(owners, open))
            return false;
    }
    open->file = event->file;
    open->life = owners->blocks.files[event->file].life;
    open->event = owners->event;
    open->begin = begin;
    open->end = end;
    open->size = event->device->size;
    open->is_write = event->kind == EVENT_WRITE;
    return true;
}

static bool wait_for(struct open_write *open, struct waiting *waiting)
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

static bool keep(struct open_write *open, uint64_t life, int64_t file_block)
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

// -- steps ------------------------------------------------------------------------------------------------------------

static struct maker *maker_of(struct owners *owners, const struct event *event)
{
    uint64_t number = map_value(&owners->of_makers, event->file, (uint32_t)event->tid);

    return number ? &owners->makers[number - 1] : NULL;
}

// A thread that submits the block behind its write has come to the end of it.
static bool is_writing(const struct maker *maker, const struct block *block, int32_t tid)
{
    return maker && maker->event && !(block->out > maker->event && block->out_tid == tid && tid != NO_INT32);
}

static bool touch(struct owners *owners, const struct event *event, struct maker *maker, int64_t file_block,
                  uint8_t kind)
{
    struct file *file = &owners->blocks.files[event->file];
    struct block *block = blocks_add(&owners->blocks, file, file_block);
    const struct thread *thread = &owners->threads[event->thread];
    struct step step = {.ts_ns = event->ts_ns, .event = owners->event, .thread = event->thread, .kind = kind};
    bool is_dirty = kind == TOUCH_DIRTY, is_same;

    if (!block)
        return false;
    step.is_begun = touch_makes(kind) && !(kind == TOUCH_STORE && event->device->flags & STORES_DIRTY);
    step.is_writing = is_dirty && is_writing(maker, block, event->tid);
    if (touch_makes(kind))
        maker->event = owners->event;
    if (is_dirty && !thread->is_mover && !set_add(&file->changers, thread->process))
        return false;
    if (block->waiting || block->is_kept) {
        const struct step *late = last_step(block->is_kept ? &block->steps : &block->waiting->steps);

        is_same = event->tid != NO_INT32 && owners->threads[late->thread].tid == event->tid;
        if (block->is_kept && !(is_dirty && is_same))
            steps_remove(&block->steps, 0);
        else if (!block->is_kept && is_dirty && is_same && !move_late(block))
            return false;
        block->is_kept = false;
        block->waiting = NULL;
    }
    block->was_clean = block->is_clean;
    block->is_clean = false;
    block->touched_ns = event->ts_ns;
    return steps_add(&block->steps, &step);
}

// What was put into a block that is dropped, or comes into the cache only now, is in nothing that is written out later;
// but for a write that is under way.
static bool drop(struct owners *owners, const struct event *event, int64_t file_block)
{
    struct file *file = &owners->blocks.files[event->file];
    struct block *block = blocks_add(&owners->blocks, file, file_block);
    struct open_write *open = NULL;
    struct steps *steps;

    if (!block)
        return false;
    steps = &block->steps;
    if (steps->count > 0 && last_step(steps)->is_begun)
        open = open_step(owners, last_step(steps));
    if (open && !block->is_kept && !keep(open, file->life, file_block))
        return false;
    if (open && steps->count > 1)
        steps->steps[0] = *last_step(steps);
    steps->count = open ? 1 : 0;
    block->is_kept = open != NULL;
    block->is_clean = block->was_clean = true;
    block->absent_ns = event->ts_ns;
    if (event->kind == EVENT_CACHED)
        block->is_in_folio = event->order > 0 && event->order != NO_CODE;
    return true;
}

// -- events -----------------------------------------------------------------------------------------------------------

static int64_t ceil_div(int64_t bytes, int64_t size)
{
    return (bytes + size - 1) / size;
}

// What is absent is only where all of the block is.
static bool drop_all(struct owners *owners, const struct event *event, int64_t begin, int64_t end)
{
    int64_t size = event->device->size;

    for (int64_t at = ceil_div(begin, size); at < end / size; at++)
        if (!drop(owners, event, at))
            return false;
    return true;
}

static bool touch_blocks(struct owners *owners, const struct event *event, struct maker *maker, int64_t first,
                         int64_t last, uint8_t kind)
{
    for (int64_t at = first; at <= last; at++)
        if (!touch(owners, event, maker, at, kind))
            return false;
    return true;
}

// One event says of a whole folio that it became dirty, by a write or store to a part of it that another tells. What is
// beyond that part may have been touched. Of a folio that no event told the length of, the write tells which page it
// is.
static bool dirty_all(struct owners *owners, const struct event *event, int64_t begin, int64_t end, bool is_sized)
{
    struct maker *maker = maker_of(owners, event);
    int64_t size = event->device->size, first = begin, limit = end, reach = end, low, high;

    if (!is_sized && event->device->flags & HAS_FOLIOS)
        reach = begin + LARGEST_FOLIO;
    if (maker && maker->begin < reach && begin < maker->end) {
        first = begin > maker->begin ? begin : maker->begin;
        limit = reach < maker->end ? reach : maker->end;
    }
    low = first / size;
    high = (limit - 1) / size;
    if (!touch_blocks(owners, event, maker, low, high, TOUCH_DIRTY))
        return false;
    first = first < end ? first : end;
    if (first > begin && !touch_blocks(owners, event, maker, begin / size,
                                       (first - 1) / size < low ? (first - 1) / size : low - 1, TOUCH_MAYBE))
        return false;
    return limit >= end || touch_blocks(owners, event, maker, limit / size > high ? limit / size : high + 1,
                                        (end - 1) / size, TOUCH_MAYBE);
}

static bool fits(int64_t begin, int64_t length)
{
    return begin >= 0 && begin <= LARGEST_FILE && length >= 1 && length <= LARGEST_FOLIO;
}

// The bytes of a file that an event of pages is about; false where it does not tell.
static bool span_of_pages(const struct owners *owners, const struct page_events *events, size_t row, uint8_t order,
                          int64_t *begin, int64_t *length)
{
    int64_t page = events->page[row], size = owners->page_bytes;

    if (!size || page == NO_INT64 || page > LARGEST_FILE / LARGEST_PAGE || page < 0)
        return false;
    *begin = page * size;
    *length = order == NO_CODE ? size : size << order;
    if (events->kind[row] != EVENT_CUT)
        return true;
    if (events->offset_bytes[row] == NO_INT64 || events->nr_bytes[row] == NO_INT64)
        return false;
    if (events->offset_bytes[row] < 0 || events->offset_bytes[row] > LARGEST_FILE)
        return false;
    *begin += events->offset_bytes[row];
    *length = events->nr_bytes[row];
    return true;
}

static bool take_cached(struct owners *owners, const struct event *event, int64_t begin, bool is_told)
{
    struct block *block;

    if (!is_told)
        return true;
    block = blocks_add(&owners->blocks, &owners->blocks.files[event->file], begin / event->device->size);
    if (!block)
        return false;
    block->order = event->order;
    return true;
}

static bool take_pages(struct owners *owners, const struct event *event, const struct page_events *events, size_t row)
{
    const struct block *block;
    int32_t order = events->page_order[row];
    int64_t begin, length;

    if (!span_of_pages(owners, events, row, event->order, &begin, &length))
        return true;
    if (event->kind == EVENT_CACHED &&
        !take_cached(owners, event, begin, order != NO_INT32 && order >= 0 && order <= LARGEST_ORDER))
        return false;
    if (event->kind == EVENT_DIRTY) {
        block = blocks_find(&owners->blocks, owners->blocks.files[event->file].life, begin / event->device->size);
        length = owners->page_bytes << (block && block->order != NO_CODE ? block->order : 0);
        return !fits(begin, length) ||
               dirty_all(owners, event, begin, begin + length, block && block->order != NO_CODE);
    }
    if (!fits(begin, length))
        return true;
    if (event->kind == EVENT_STORE) {
        // Which of a page's blocks a store is to is not told.
        uint8_t kind = event->device->size < owners->page_bytes ? TOUCH_MAYBE : TOUCH_STORE;

        return begin_write(owners, event, begin, begin + length) &&
               touch_blocks(owners, event, maker_of(owners, event), begin / event->device->size,
                            (begin + length - 1) / event->device->size, kind);
    }
    return drop_all(owners, event, begin, begin + length);
}

static bool take_write(struct owners *owners, const struct event *event, int64_t begin, int64_t length)
{
    int64_t size = event->device->size;

    if (begin == NO_INT64 || length == NO_INT64 || !fits(begin, length))
        return true;
    return begin_write(owners, event, begin, begin + length) &&
           touch_blocks(owners, event, maker_of(owners, event), begin / size, (begin + length - 1) / size, TOUCH_WRITE);
}

static const struct device *device_of(const struct owners *owners, uint32_t dev)
{
    static const struct device others = {.size = 512};
    uint64_t number = map_value(&owners->of_devices, dev, 0);

    return number ? &owners->devices[number - 1] : &others;
}

static uint64_t *thread_of(struct owners *owners, const struct page_events *events, size_t row)
{
    uint64_t ids = (uint64_t)(uint32_t)events->tid[row] << 32 | (uint32_t)events->pid[row];

    return map_add(&owners->of_threads, ids, events->comm[row]);
}

static bool take_event(struct owners *owners, const struct page_events *events, size_t row)
{
    int32_t order = events->page_order[row];
    struct file *file;
    struct event event = {
        .ts_ns = events->ts_ns[row],
        .device = device_of(owners, events->dev[row]),
        .tid = events->tid[row],
        .thread = (uint32_t)(*thread_of(owners, events, row) - 1),
        .kind = events->kind[row],
    };

    owners->event++;
    if (events->dev[row] == NO_UINT32 || events->ino[row] == NO_INT64)
        return true;
    file = blocks_file(&owners->blocks, events->dev[row], events->ino[row]);
    if (!file)
        return false;
    event.file = (size_t)(file - owners->blocks.files);
    event.order = order == NO_INT32 ? NO_CODE : order < 0 ? 0 : order > LARGEST_ORDER ? LARGEST_ORDER : (uint8_t)order;
    if (event.kind == EVENT_BEGINS)
        blocks_forget(&owners->blocks, file);
    else if (event.kind == EVENT_WRITE)
        return take_write(owners, &event, events->offset_bytes[row], events->nr_bytes[row]);
    else
        return take_pages(owners, &event, events, row);
    return true;
}

// -- what is written out ----------------------------------------------------------------------------------------------

// Has the turn wait for all writes that it depends on. False where memory is short.
static bool wait(struct owners *owners, const struct file *file, struct block *block, const struct turn *turn,
                 const struct out *out, struct open_write *late, bool is_held)
{
    struct waiting *waiting = malloc(sizeof(*waiting));

    if (!waiting)
        return false;
    *waiting = (struct waiting){
        .turn = *turn,
        .out = *out,
        .steps = block->steps,
        .life = file->life,
        .tells_dirty = device_of(owners, file->dev)->flags & TELLS_DIRTY,
        .is_clean_if_late = block->was_clean,
    };
    block->steps = (struct steps){0};
    if (late && is_held) { // behind one that waits for the same write
        struct waiting *last = block->waiting;

        while (last->next)
            last = last->next;
        last->next = waiting;
    } else if (late) {
        block->waiting = waiting;
    }
    if (late && !wait_for(late, waiting))
        return false;
    for (size_t at = 0; at < waiting->steps.count; at++) {
        struct open_write *open = open_step(owners, &waiting->steps.steps[at]);

        if (open && !wait_for(open, waiting))
            return false;
    }
    return true;
}

static bool take_block(struct owners *owners, struct file *file, const struct out *out, struct turn *turn)
{
    static const struct steps none = {0};
    struct block *block = turn->is_read ? blocks_find(&owners->blocks, file->life, turn->file_block)
                                        : blocks_add(&owners->blocks, file, turn->file_block);
    struct open_write *late = NULL;
    bool depends = false, is_held, is_done;
    const struct steps *steps;

    if (!block)
        return turn->is_read && put_turn(owners, turn);
    turn->touched_ns = block->touched_ns;
    turn->absent_ns = block->absent_ns;
    turn->is_in_folio = block->is_in_folio;
    turn->is_first = !block->out;
    turn->is_reborn = file->is_reborn;
    turn->is_clean = block->is_clean;
    turn->changers = (int32_t)file->changers.count;
    if (turn->is_read)
        return put_turn(owners, turn);
    block->out = owners->event;
    if (out->tid != NO_INT32)
        block->out_tid = out->tid;
    // A write that was kept over the time in which the block was absent is of a later turn, if it is of any.
    steps = block->is_kept ? &none : &block->steps;
    for (size_t at = 0; at < steps->count; at++) {
        const struct step *step = &steps->steps[at];
        struct open_write *open = open_step(owners, step);

        if (open && at == steps->count - 1 && step->is_begun && owners->threads[step->thread].tid != out->tid)
            late = open;
        depends |= open && open->is_write && turn->file_block > open->begin / open->size;
    }
    is_held = block->waiting != NULL;
    if (is_held && !late)
        late = open_step(owners, last_step(&block->waiting->steps));
    if ((late || depends) && !block->is_kept)
        return wait(owners, file, block, turn, out, late, is_held);
    is_done = decide(&owners->judge, steps, device_of(owners, file->dev)->flags & TELLS_DIRTY, out, turn) &&
              put_turn(owners, turn);
    if (!block->is_kept) {
        free(block->steps.steps);
        block->steps = (struct steps){0};
    }
    return is_done;
}

static bool take_out(struct owners *owners, const struct outs *outs, size_t row)
{
    struct file *file = blocks_file(&owners->blocks, outs->dev[row], outs->ino[row]);
    const struct out out = {.ts_ns = outs->ts_ns[row], .tid = outs->tid[row]};
    int64_t size = device_of(owners, outs->dev[row])->size;

    owners->event++;
    if (!file)
        return false;
    for (int64_t at = outs->begin[row] / size; at <= (outs->end[row] - 1) / size; at++) {
        struct turn turn = {.piece = outs->piece[row], .file_block = at, .is_read = outs->is_read[row]};

        turn.author = NO_UINT32;
        turn.author_ns = turn.seen_clean_ns = turn.wrote_ns = turn.edge_ns = NO_INT64;
        turn.touched_ns = turn.absent_ns = NO_INT64;
        if (!take_block(owners, file, &out, &turn))
            return false;
    }
    return true;
}

// -- all of it --------------------------------------------------------------------------------------------------------

struct owners *owners_new(int64_t page_bytes)
{
    struct owners *owners = calloc(1, sizeof(*owners));

    if (!owners)
        return NULL;
    owners->page_bytes = page_bytes;
    owners->judge.sets = strings_new();
    if (owners->judge.sets)
        return owners;
    free(owners);
    return NULL;
}

void owners_free(struct owners *owners)
{
    for (size_t nth = 0; nth < owners->nr_opens; nth++) {
        close_open(owners, &owners->opens[nth]);
        free(owners->opens[nth].waiting);
        free(owners->opens[nth].kept);
    }
    blocks_free(&owners->blocks);
    strings_free(owners->judge.sets);
    free(owners->judge.made.processes);
    free(owners->judge.dirtied.processes);
    free(owners->devices);
    free(owners->threads);
    free(owners->makers);
    free(owners->opens);
    free(owners->turns);
    map_free(&owners->of_devices);
    map_free(&owners->of_threads);
    map_free(&owners->of_makers);
    map_free(&owners->of_opens);
    free(owners);
}

bool owners_device(struct owners *owners, uint32_t dev, int64_t block_bytes, uint32_t flags)
{
    uint64_t *number;

    if (owners->nr_devices == owners->devices_room) {
        struct device *grown = array_grow(owners->devices, &owners->devices_room, sizeof(*grown));

        if (!grown)
            return false;
        owners->devices = grown;
    }
    number = map_add(&owners->of_devices, dev, 0);
    if (!number)
        return false;
    owners->devices[owners->nr_devices++] = (struct device){.size = block_bytes, .flags = flags};
    *number = owners->nr_devices;
    return true;
}

static bool meet(struct owners *owners, const struct page_events *events, size_t row)
{
    uint64_t *number = thread_of(owners, events, row);

    if (!number)
        return false;
    if (*number)
        return true;
    if (owners->nr_threads == owners->threads_room) {
        struct thread *grown = array_grow(owners->threads, &owners->threads_room, sizeof(*grown));

        if (!grown) {
            *number = 1;
            return false;
        }
        owners->threads = grown;
    }
    owners->threads[owners->nr_threads] = (struct thread){
        .ts_ns = events->ts_ns[row],
        .process = events->pid[row] == NO_INT32 ? -(int64_t)events->tid[row] : events->pid[row],
        .tid = events->tid[row],
        .pid = events->pid[row],
        .comm = events->comm[row],
    };
    *number = ++owners->nr_threads;
    return true;
}

size_t owners_meet(struct owners *owners, const struct page_events *events)
{
    for (size_t row = 0; row < events->rows; row++)
        if (!meet(owners, events, row))
            return SIZE_MAX;
    owners->judge.threads = owners->threads;
    return owners->nr_threads;
}

struct thread *owners_threads(struct owners *owners)
{
    return owners->threads;
}

bool owners_follow(struct owners *owners, const struct page_events *events, const struct outs *outs)
{
    size_t seen = 0, out = 0;

    owners->judge.threads = owners->threads;
    while (seen < events->rows || out < outs->rows) {
        bool is_out = seen == events->rows || (out < outs->rows && outs->ts_ns[out] < events->ts_ns[seen]);

        if (!(is_out ? take_out(owners, outs, out++) : take_event(owners, events, seen++)))
            return false;
    }
    return true;
}

bool owners_finish(struct owners *owners)
{
    for (size_t nth = 0; nth < owners->nr_opens; nth++)
        if (!close_open(owners, &owners->opens[nth]))
            return false;
    return true;
}

const struct turn *owners_turns(struct owners *owners, size_t *rows)
{
    *rows = owners->nr_turns;
    owners->nr_turns = 0;
    return owners->turns;
}
