// The events of all blocks come in order of time; each finds its block, and then the steps of a block lie together.
#include "owner/history.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"

// A row of the touches or the outs, which file it is of, and its number in order of time.
struct event {
    struct step step;
    size_t number;
    uint64_t file;
    uint64_t block;
};

// The number of the key, from 1 on in order of arrival; 0 where memory is short.
static uint64_t number_of(struct map *map, uint64_t space, uint64_t key)
{
    uint64_t *value = map_add(map, space, key);

    if (value && !*value)
        *value = map->count;
    return value ? *value : 0;
}

static bool place(struct history *history, struct event *event, uint32_t dev, int64_t ino, int64_t life,
                  int64_t file_block)
{
    uint64_t of_life;

    event->file = number_of(&history->files, dev, (uint64_t)ino);
    of_life = event->file ? number_of(&history->lives, event->file, (uint64_t)life) : 0;
    event->block = of_life ? number_of(&history->numbers, of_life, (uint64_t)file_block) : 0;
    if (!event->block)
        return false;
    if (event->block > history->nr_blocks) {
        if (history->nr_blocks == history->room) {
            struct block *grown = array_grow(history->blocks, &history->room, sizeof(*grown));

            if (!grown)
                return false;
            history->blocks = grown;
        }
        history->blocks[history->nr_blocks++] =
            (struct block){.out_tid = NO_INT32, .life = (uint32_t)of_life, .is_reborn = life > 0};
    }
    history->blocks[event->block - 1].steps++;
    return true;
}

// A thread that submits the block behind its write has come to the end of it.
static bool is_writing(const struct history *history, const struct event *event, int32_t tid)
{
    const struct block *block = &history->blocks[event->block - 1];
    uint64_t made = map_value(&history->makers, event->file, (uint32_t)tid);

    return made && !(block->out > made && block->out_tid == tid && tid != NO_INT32);
}

static bool take_touch(struct history *history, struct event *event)
{
    const struct touches *touches = history->touches;
    size_t row = event->step.row;
    int32_t tid = touches->tid[row];

    if (!place(history, event, touches->dev[row], touches->ino[row], touches->life[row], touches->file_block[row]))
        return false;
    if (touch_makes(touches->kind[row])) {
        uint64_t *made = map_add(&history->makers, event->file, (uint32_t)tid);

        if (!made)
            return false;
        *made = event->number + 1;
    }
    event->step.is_writing = touches->kind[row] == TOUCH_DIRTY && is_writing(history, event, tid);
    return true;
}

static bool take_out(struct history *history, struct event *event)
{
    const struct outs *outs = history->outs;
    size_t row = event->step.row;
    struct block *block;

    if (!place(history, event, outs->dev[row], outs->ino[row], outs->life[row], outs->file_block[row]))
        return false;
    block = &history->blocks[event->block - 1];
    block->out = event->number + 1;
    if (outs->tid[row] != NO_INT32)
        block->out_tid = outs->tid[row];
    return true;
}

// What touched a block in the very instant in which it is written out counts as having done so before.
static bool take_all(struct history *history, struct event *events)
{
    size_t touched = 0, out = 0;

    for (size_t number = 0; number < history->touches->rows + history->outs->rows; number++) {
        bool is_out = touched == history->touches->rows ||
                      (out < history->outs->rows && history->outs->ts_ns[out] < history->touches->ts_ns[touched]);
        struct event *event = &events[number];

        *event = (struct event){.step = {.row = is_out ? out++ : touched++, .is_out = is_out}, .number = number};
        if (!(is_out ? take_out(history, event) : take_touch(history, event)))
            return false;
    }
    return true;
}

static void lay_together(struct history *history, const struct event *events)
{
    size_t first = 0;

    for (size_t number = 0; number < history->nr_blocks; number++) {
        struct block *block = &history->blocks[number];

        block->first = first;
        first += block->steps;
        block->steps = 0;
    }
    for (size_t number = 0; number < history->touches->rows + history->outs->rows; number++) {
        struct block *block = &history->blocks[events[number].block - 1];

        history->steps[block->first + block->steps++] = events[number].step;
    }
}

// Whether the page becomes dirty only by the touch behind it, so that what was written out in between does not hold it.
static bool is_under_way(const struct history *history, const struct step *step, const struct step *next)
{
    const struct touches *touches = history->touches;
    int32_t tid = touches->tid[step->row];
    bool is_submitter = step[1].is_out && tid != NO_INT32 && history->outs->tid[step[1].row] == tid;

    return touches->is_begun[step->row] && !is_submitter && touches->kind[next->row] == TOUCH_DIRTY &&
           touches->tid[next->row] == tid && tid != NO_INT32;
}

static void move_late(const struct history *history, const struct block *block)
{
    struct step *steps = &history->steps[block->first], *last = NULL;

    for (struct step *step = steps; step < steps + block->steps; step++) {
        if (step->is_out || history->touches->kind[step->row] == TOUCH_ABSENT)
            continue;
        if (last && is_under_way(history, last, step)) {
            struct step late = *last;

            memmove(last, last + 1, (size_t)(step - last - 1) * sizeof(*step));
            step[-1] = late;
        }
        last = step;
    }
}

// What is dropped before it is written out is in nothing that is written out later.
static void mark_gone(const struct history *history, const struct block *block)
{
    bool is_gone = false;

    for (size_t at = block->steps; at-- > 0;) {
        struct step *step = &history->steps[block->first + at];

        if (step->is_out)
            is_gone = false;
        else if (history->touches->kind[step->row] == TOUCH_ABSENT)
            is_gone = true;
        step->is_gone = is_gone;
    }
}

bool history_make(struct history *history, const struct touches *touches, const struct outs *outs)
{
    size_t rows = touches->rows + outs->rows;
    struct event *events = calloc(rows + 1, sizeof(*events));

    *history = (struct history){.touches = touches, .outs = outs, .steps = calloc(rows + 1, sizeof(struct step))};
    if (!events || !history->steps || !take_all(history, events)) {
        free(events);
        return false;
    }
    lay_together(history, events);
    free(events);
    for (size_t number = 0; number < history->nr_blocks; number++) {
        move_late(history, &history->blocks[number]);
        mark_gone(history, &history->blocks[number]);
    }
    return true;
}

void history_free(struct history *history)
{
    free(history->blocks);
    free(history->steps);
    map_free(&history->files);
    map_free(&history->lives);
    map_free(&history->numbers);
    map_free(&history->makers);
}
