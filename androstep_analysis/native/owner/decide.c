// Who made what a block of a file holds when it is written out.
#include "owner/decide.h"

static const int64_t STRANGERS = -((int64_t)1 << 40);

// Some of the steps of a turn: NULL where there is none.
struct found {
    const struct step *last_write;
    const struct step *first_made;
    const struct step *last_made;
    const struct step *last_dirty;
    const struct step *first_own_dirty; // by a process
    const struct step *last_own_dirty;
    bool has_maybe;
    bool has_stranger; // among those that wrote
    bool is_cluster;
};

static bool is_unknown(const struct judge *judge, const struct step *step)
{
    return judge->threads[step->thread].process == NO_INT64;
}

// Of threads that nobody knows each event is taken for one of another process.
static int64_t process_of(const struct judge *judge, const struct step *step)
{
    return is_unknown(judge, step) ? STRANGERS - (int64_t)step->event : judge->threads[step->thread].process;
}

// Whether the step is a process that made the page dirty.
static bool is_own_dirty(const struct judge *judge, const struct step *step)
{
    return step->kind == TOUCH_DIRTY && !judge->threads[step->thread].is_mover;
}

static bool look_at(struct judge *judge, struct found *found, const struct step *step)
{
    found->has_maybe |= step->kind == TOUCH_MAYBE;
    if (step->kind == TOUCH_WRITE)
        found->last_write = step;
    if (touch_makes(step->kind)) {
        found->first_made = found->first_made ? found->first_made : step;
        found->last_made = step;
        found->has_stranger |= is_unknown(judge, step);
        return set_add(&judge->made, process_of(judge, step));
    }
    if (step->kind != TOUCH_DIRTY)
        return true;
    found->last_dirty = step;
    if (!is_own_dirty(judge, step))
        return true;
    found->first_own_dirty = found->first_own_dirty ? found->first_own_dirty : step;
    found->last_own_dirty = step;
    found->is_cluster |= step->is_writing;
    return set_add(&judge->dirtied, process_of(judge, step));
}

static const struct step *author_of(const struct found *found)
{
    if (found->last_write)
        return found->last_write;
    if (found->last_made)
        return found->last_made;
    return found->last_own_dirty ? found->last_own_dirty : found->last_dirty;
}

// The page was clean when the first process changed it, because that made it dirty; and nobody else made it dirty, or
// may have written to it.
static bool is_exact(const struct judge *judge, const struct found *found)
{
    if (!found->first_made || !found->first_own_dirty || found->has_maybe || found->has_stranger ||
        found->first_made > found->first_own_dirty ||
        process_of(judge, found->first_made) != process_of(judge, found->first_own_dirty))
        return false;
    for (size_t at = 0; at < judge->dirtied.count; at++)
        if (!set_has(&judge->made, judge->dirtied.processes[at]))
            return false;
    return true;
}

// When a clean page becomes dirty, all that was written to it before has been written out or is on its way. Who dirtied
// a page before a thread of the kernel did is held to the same. Where nothing tells of dirtying, that may have happened
// at any time until the page is written out.
static void put_doubt(const struct judge *judge, const struct found *found, const struct steps *steps, bool tells_dirty,
                      const struct out *out, struct turn *turn)
{
    const struct step *edge = tells_dirty ? found->last_dirty : steps->steps + steps->count, *before;
    bool is_left = found->last_dirty && judge->threads[found->last_dirty->thread].is_mover && found->last_own_dirty &&
                   !found->last_made;
    size_t others = judge->made.count, most = tells_dirty ? 0 : 1;
    int64_t edge_process = out->tid == NO_INT32 ? NO_INT64 : -(int64_t)out->tid;

    if (found->last_dirty)
        others -= set_has(&judge->made, process_of(judge, found->last_dirty));
    if ((others <= most && !is_left) || !edge)
        return;
    if (tells_dirty)
        edge_process = process_of(judge, edge);
    before = edge;
    for (const struct step *step = steps->steps; step < edge; step++)
        if (touch_makes(step->kind) && edge_process != NO_INT64 && process_of(judge, step) == edge_process)
            before = step;
    for (const struct step *step = steps->steps; step < before; step++)
        if ((touch_makes(step->kind) || (is_left && is_own_dirty(judge, step))) &&
            (turn->wrote_ns == NO_INT64 || step->ts_ns < turn->wrote_ns))
            turn->wrote_ns = step->ts_ns;
    if (turn->wrote_ns != NO_INT64)
        turn->edge_ns = tells_dirty ? edge->ts_ns : out->ts_ns;
}

// Whether a process changed something in an earlier step, as far as that is told.
static bool has_touched(const struct thread *threads, const struct steps *steps, size_t at)
{
    int64_t process = threads[steps->steps[at].thread].process;

    if (process == NO_INT64)
        return true;
    for (size_t before = 0; before < at; before++)
        if (steps->steps[before].kind != TOUCH_DIRTY && threads[steps->steps[before].thread].process == process)
            return true;
    return false;
}

size_t times_dirty(const struct thread *threads, const struct steps *steps)
{
    size_t count = 0;

    for (size_t at = 0; at < steps->count; at++) {
        const struct step *step = &steps->steps[at];

        if (step->kind == TOUCH_DIRTY && !threads[step->thread].is_mover)
            count += !count || has_touched(threads, steps, at);
    }
    return count;
}

// A page that becomes dirty again is on its way out, if it was not dropped: its bio may carry what was in it before, as
// where it is encrypted into another page. That matters where not all of it is of one process.
static bool is_ahead(const struct judge *judge, const struct steps *steps, const struct turn *turn)
{
    size_t processes = judge->made.count, times = times_dirty(judge->threads, steps);

    if (!times || times + turn->was_ahead < 2)
        return false;
    for (size_t at = 0; at < judge->dirtied.count; at++)
        processes += !set_has(&judge->made, judge->dirtied.processes[at]);
    return processes > 1 || (turn->was_ahead && turn->changers > 1);
}

bool decide(struct judge *judge, const struct steps *steps, bool tells_dirty, const struct out *out, struct turn *turn)
{
    struct found found = {0};
    const struct set *made = &judge->made;
    const struct step *author;

    judge->made.count = judge->dirtied.count = 0;
    for (size_t at = 0; at < steps->count; at++)
        if (!look_at(judge, &found, &steps->steps[at]))
            return false;
    author = author_of(&found);
    turn->author = author ? author->thread : NO_UINT32;
    turn->author_ns = author ? author->ts_ns : NO_INT64;
    turn->via = found.last_write ? VIA_WRITE : author ? VIA_DIRTY : VIA_NOTHING;
    turn->count = (int32_t)made->count;
    turn->who = strings_add(judge->sets, (const uint8_t *)made->processes, made->count * sizeof(*made->processes));
    turn->by_maker = found.last_made != NULL;
    turn->is_exact = is_exact(judge, &found);
    turn->is_others = judge->dirtied.count > 1 && !found.last_made;
    turn->is_cluster = found.is_cluster;
    turn->is_torn = found.last_made && found.last_own_dirty && found.last_own_dirty > found.last_made &&
                    process_of(judge, found.last_dirty) != process_of(judge, author);
    turn->is_ahead = is_ahead(judge, steps, turn);
    turn->seen_clean_ns = turn->wrote_ns = turn->edge_ns = NO_INT64;
    if (found.last_write && judge->dirtied.count == 1 && set_has(made, process_of(judge, found.first_own_dirty)))
        turn->seen_clean_ns = found.first_own_dirty->ts_ns;
    put_doubt(judge, &found, steps, tells_dirty, out, turn);
    return turn->who != NO_STRING;
}
