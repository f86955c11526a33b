// Who made what a block of a file holds when it is written out, turn by turn: from one writing out to the next.
#include "owner/authors.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "owner/history.h"

// Processes, each once, in order.
struct set {
    int64_t *processes;
    size_t count;
    size_t room;
};

struct authors {
    struct history history;
    struct turns *turns;
    struct map changed_by;  // by life and process: whether it made a page dirty
    struct map tells_dirty; // by device: whether an event of dirtying is left
    int32_t *changers;      // by life
    struct strings *sets;   // the bytes of each set of processes
    struct set made;        // of a turn
    struct set dirtied;
};

// Steps of a turn, or rows of the touches: NULL where there is none.
struct turn {
    const struct step *first;
    const struct step *out; // which ends it
    const struct step *last_write;
    const struct step *first_made;
    const struct step *last_made;
    const struct step *last_dirty;
    const struct step *first_own_dirty; // by a process
    const struct step *last_own_dirty;
    bool has_maybe;
    bool is_cluster;
    bool has_stranger; // a process that made it dirty and is not known to have written
};

static bool set_add(struct set *set, int64_t process)
{
    size_t at = set->count;

    while (at > 0 && set->processes[at - 1] > process)
        at--;
    if (at > 0 && set->processes[at - 1] == process)
        return true;
    if (set->count == set->room) {
        int64_t *grown = array_grow(set->processes, &set->room, sizeof(*grown));

        if (!grown)
            return false;
        set->processes = grown;
    }
    memmove(&set->processes[at + 1], &set->processes[at], (set->count - at) * sizeof(process));
    set->processes[at] = process;
    set->count++;
    return true;
}

static bool set_has(const struct set *set, int64_t process)
{
    for (size_t at = 0; at < set->count; at++)
        if (set->processes[at] == process)
            return true;
    return false;
}

static int64_t process_of(const struct authors *authors, const struct step *step)
{
    return authors->history.touches->process[step->row];
}

static int64_t time_of(const struct authors *authors, const struct step *step)
{
    return step->is_out ? authors->history.outs->ts_ns[step->row] : authors->history.touches->ts_ns[step->row];
}

static uint8_t kind_of(const struct authors *authors, const struct step *step)
{
    return step->is_out ? TOUCH_ABSENT : authors->history.touches->kind[step->row];
}

// Whether the step is a process that made the page dirty.
static bool is_own_dirty(const struct authors *authors, const struct step *step)
{
    return kind_of(authors, step) == TOUCH_DIRTY && !authors->history.touches->is_mover[step->row];
}

// -- what the whole recording tells -----------------------------------------------------------------------------------

static bool count_changers(struct authors *authors, const struct block *block)
{
    const struct step *steps = &authors->history.steps[block->first];

    for (const struct step *step = steps; step < steps + block->steps; step++) {
        uint64_t *told;

        if (step->is_gone || kind_of(authors, step) != TOUCH_DIRTY)
            continue;
        told = map_add(&authors->tells_dirty, authors->history.touches->dev[step->row], 0);
        if (!told)
            return false;
        *told = 1;
        if (!is_own_dirty(authors, step))
            continue;
        told = map_add(&authors->changed_by, block->life, (uint64_t)process_of(authors, step));
        if (!told)
            return false;
        authors->changers[block->life - 1] += !*told;
        *told = 1;
    }
    return true;
}

// -- a turn -----------------------------------------------------------------------------------------------------------

static bool take_step(struct authors *authors, struct turn *turn, const struct step *step)
{
    uint8_t kind = kind_of(authors, step);

    if (step->is_gone || kind == TOUCH_ABSENT)
        return true;
    turn->has_maybe |= kind == TOUCH_MAYBE;
    if (kind == TOUCH_WRITE)
        turn->last_write = step;
    if (touch_makes(kind)) {
        turn->first_made = turn->first_made ? turn->first_made : step;
        turn->last_made = step;
        return set_add(&authors->made, process_of(authors, step));
    }
    if (kind != TOUCH_DIRTY)
        return true;
    turn->last_dirty = step;
    if (!is_own_dirty(authors, step))
        return true;
    turn->first_own_dirty = turn->first_own_dirty ? turn->first_own_dirty : step;
    turn->last_own_dirty = step;
    turn->is_cluster |= step->is_writing;
    return set_add(&authors->dirtied, process_of(authors, step));
}

static const struct step *author_of(const struct turn *turn)
{
    if (turn->last_write)
        return turn->last_write;
    if (turn->last_made)
        return turn->last_made;
    return turn->last_own_dirty ? turn->last_own_dirty : turn->last_dirty;
}

// The page was clean when the first process changed it, because that made it dirty; and nobody else made it dirty, or
// may have written to it.
static bool is_exact(const struct authors *authors, const struct turn *turn)
{
    if (!turn->first_made || !turn->first_own_dirty || turn->has_maybe || turn->first_made > turn->first_own_dirty ||
        process_of(authors, turn->first_made) != process_of(authors, turn->first_own_dirty))
        return false;
    for (size_t at = 0; at < authors->dirtied.count; at++)
        if (!set_has(&authors->made, authors->dirtied.processes[at]))
            return false;
    return true;
}

// When a clean page becomes dirty, all that was written to it before has been written out or is on its way. Who dirtied
// a page before a thread of the kernel did is held to the same. Where nothing tells of dirtying, that may have happened
// at any time.
static void put_doubt(struct authors *authors, const struct turn *turn)
{
    const struct history *history = &authors->history;
    const struct step *edge = turn->out, *before;
    size_t row = turn->out->row;
    bool tells = map_value(&authors->tells_dirty, history->outs->dev[row], 0);
    bool is_left = turn->last_dirty && history->touches->is_mover[turn->last_dirty->row] && turn->last_own_dirty &&
                   !turn->last_made;
    int64_t edge_process = history->outs->tid[row] == NO_INT32 ? NO_INT64 : -(int64_t)history->outs->tid[row];
    size_t others = authors->made.count, most = tells ? 0 : 1;
    int64_t wrote_ns = NO_INT64;

    if (turn->last_dirty)
        others -= set_has(&authors->made, process_of(authors, turn->last_dirty));
    if ((others <= most && !is_left) || (tells && !turn->last_dirty))
        return;
    if (tells) {
        edge = turn->last_dirty;
        edge_process = process_of(authors, edge);
    }
    before = edge;
    for (const struct step *step = turn->first; step < edge; step++)
        if (!step->is_gone && touch_makes(kind_of(authors, step)) && edge_process != NO_INT64 &&
            process_of(authors, step) == edge_process)
            before = step;
    for (const struct step *step = turn->first; step < before; step++) {
        int64_t ts_ns = time_of(authors, step);

        if (!step->is_gone && (touch_makes(kind_of(authors, step)) || (is_left && is_own_dirty(authors, step))) &&
            (wrote_ns == NO_INT64 || ts_ns < wrote_ns))
            wrote_ns = ts_ns;
    }
    authors->turns->wrote_ns[row] = wrote_ns;
    if (wrote_ns != NO_INT64)
        authors->turns->edge_ns[row] = time_of(authors, edge);
}

static bool put_turn(struct authors *authors, const struct block *block, const struct turn *turn)
{
    const struct step *author = author_of(turn);
    struct turns *turns = authors->turns;
    size_t row = turn->out->row;
    const struct set *made = &authors->made;
    bool is_alone = authors->dirtied.count == 1 && set_has(made, process_of(authors, turn->first_own_dirty));

    turns->author[row] = author ? (int64_t)author->row : NO_INT64;
    turns->via[row] = turn->last_write ? VIA_WRITE : author ? VIA_DIRTY : VIA_NOTHING;
    turns->count[row] = (int32_t)made->count;
    turns->who[row] =
        strings_add(authors->sets, (const uint8_t *)made->processes, made->count * sizeof(*made->processes));
    turns->changers[row] = authors->changers[block->life - 1];
    turns->by_maker[row] = turn->last_made != NULL;
    turns->is_exact[row] = is_exact(authors, turn);
    turns->is_others[row] = authors->dirtied.count > 1 && !turn->last_made;
    turns->is_cluster[row] = turn->is_cluster;
    turns->is_torn[row] = turn->last_made && turn->last_own_dirty && turn->last_own_dirty > turn->last_made &&
                          process_of(authors, turn->last_dirty) != process_of(authors, author);
    turns->seen_clean_ns[row] = turn->last_write && is_alone ? time_of(authors, turn->first_own_dirty) : NO_INT64;
    turns->wrote_ns[row] = turns->edge_ns[row] = NO_INT64;
    put_doubt(authors, turn);
    return turns->who[row] != NO_STRING;
}

static bool decide_block(struct authors *authors, const struct block *block)
{
    const struct touches *touches = authors->history.touches;
    const struct step *steps = &authors->history.steps[block->first], *end = steps + block->steps;
    bool is_clean = block->is_reborn, is_first = true;
    uint8_t is_in_folio = NO_CODE;
    struct turn turn = {.first = steps};

    authors->made.count = authors->dirtied.count = 0;
    for (const struct step *step = steps; step < end; step++) {
        if (!step->is_out) {
            bool is_absent = touches->kind[step->row] == TOUCH_ABSENT;

            is_clean = is_absent;
            if (touches->is_in_folio[step->row] != NO_CODE)
                is_in_folio = touches->is_in_folio[step->row];
            if (!take_step(authors, &turn, step))
                return false;
            continue;
        }
        turn.out = step;
        authors->turns->is_clean[step->row] = is_clean;
        authors->turns->is_in_folio[step->row] = is_in_folio;
        authors->turns->is_first[step->row] = is_first;
        if (!put_turn(authors, block, &turn))
            return false;
        turn = (struct turn){.first = step + 1};
        authors->made.count = authors->dirtied.count = 0;
        is_first = false;
    }
    return true;
}

static bool decide(struct authors *authors)
{
    const struct history *history = &authors->history;

    authors->changers = calloc(history->lives.count + 1, sizeof(*authors->changers));
    authors->sets = strings_new();
    if (!authors->changers || !authors->sets)
        return false;
    for (size_t number = 0; number < history->nr_blocks; number++)
        if (!count_changers(authors, &history->blocks[number]))
            return false;
    for (size_t number = 0; number < history->nr_blocks; number++)
        if (!decide_block(authors, &history->blocks[number]))
            return false;
    return true;
}

bool authors_decide(const struct touches *touches, const struct outs *outs, struct turns *turns)
{
    struct authors authors = {.turns = turns};
    bool is_done = history_make(&authors.history, touches, outs) && decide(&authors);

    history_free(&authors.history);
    map_free(&authors.changed_by);
    map_free(&authors.tells_dirty);
    free(authors.changers);
    if (authors.sets)
        strings_free(authors.sets);
    free(authors.made.processes);
    free(authors.dirtied.processes);
    return is_done;
}
