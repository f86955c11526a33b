// A block that is written out ends a turn.
#include "owner/events.h"
#include "owner/opens.h"

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
    if (late && is_held) { // behind the one whose last step that write is
        waiting->next = block->waiting->next;
        block->waiting->next = waiting;
    } else if (late) {
        block->waiting = waiting;
    }
    if (late && !opens_wait(late, waiting))
        return false;
    for (size_t at = 0; at < waiting->steps.count; at++) {
        struct open_write *open = opens_of(owners, &waiting->steps.steps[at]);

        if (open && !opens_wait(open, waiting))
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
        return turn->is_read && turns_put(owners, turn);
    turn->touched_ns = block->touched_ns;
    turn->absent_ns = block->absent_ns;
    turn->is_in_folio = block->is_in_folio;
    turn->is_first = !block->out;
    turn->is_reborn = file->is_reborn;
    turn->is_clean = block->is_clean;
    turn->changers = (int32_t)file->changers.count;
    turn->was_ahead = block->is_ahead;
    if (turn->is_read)
        return decide(&owners->judge, &block->steps, false, out, turn) && turns_put(owners, turn);
    block->out = owners->event;
    if (out->tid != NO_INT32)
        block->out_tid = out->tid;
    // A write that was kept over the time in which the block was absent is of a later turn, if it is of any.
    steps = block->is_kept ? &none : &block->steps;
    for (size_t at = 0; at < steps->count; at++) {
        const struct step *step = &steps->steps[at];
        struct open_write *open = opens_of(owners, step);

        if (open && at == steps->count - 1 && step->is_begun && owners->threads[step->thread].tid != out->tid)
            late = open;
        depends |= open && open->is_write && turn->file_block > open->begin / open->size;
    }
    block->is_ahead = times_dirty(owners->threads, steps) + block->is_ahead > 1;
    is_held = block->waiting != NULL;
    if (is_held && !late)
        late = opens_of(owners, steps_last(&block->waiting->steps));
    if ((late || depends) && !block->is_kept)
        return wait(owners, file, block, turn, out, late, is_held);
    is_done = decide(&owners->judge, steps, device_of(owners, file->dev)->flags & TELLS_DIRTY, out, turn) &&
              turns_put(owners, turn);
    if (!block->is_kept) {
        free(block->steps.steps);
        block->steps = (struct steps){0};
    }
    return is_done;
}

bool outs_take(struct owners *owners, const struct outs *outs, size_t row)
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
