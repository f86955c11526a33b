// Files, their lives and their blocks. A life ends where an inode's pages are dropped; its blocks are used again then.
#include "owner/blocks.h"

#include <string.h>

struct file *blocks_file(struct blocks *blocks, uint32_t dev, int64_t ino)
{
    uint64_t *number = map_add(&blocks->of_files, dev, (uint64_t)ino);

    if (!number)
        return NULL;
    if (!*number) {
        if (blocks->nr_files == blocks->files_room) {
            struct file *grown = array_grow(blocks->files, &blocks->files_room, sizeof(*grown));

            if (!grown) {
                *number = 1; // never used: the caller gives up
                return NULL;
            }
            blocks->files = grown;
        }
        blocks->files[blocks->nr_files] = (struct file){.life = ++blocks->lives, .dev = dev, .first = NO_BLOCK};
        *number = ++blocks->nr_files;
    }
    return &blocks->files[*number - 1];
}

struct block *blocks_find(const struct blocks *blocks, uint64_t life, int64_t file_block)
{
    uint64_t number = map_value(&blocks->of_lives, life, (uint64_t)file_block);

    return number ? &blocks->blocks[number - 1] : NULL;
}

// A block that is not used: one that was, or another.
static struct block *unused(struct blocks *blocks)
{
    if (blocks->free) {
        struct block *block = &blocks->blocks[blocks->free - 1];

        blocks->free = block->next;
        return block;
    }
    if (blocks->nr_blocks == blocks->blocks_room) {
        struct block *grown = array_grow(blocks->blocks, &blocks->blocks_room, sizeof(*grown));

        if (!grown)
            return NULL;
        blocks->blocks = grown;
    }
    return &blocks->blocks[blocks->nr_blocks++];
}

struct block *blocks_add(struct blocks *blocks, struct file *file, int64_t file_block)
{
    struct block *block = blocks_find(blocks, file->life, file_block);
    uint64_t *number;

    if (block)
        return block;
    block = unused(blocks);
    if (!block)
        return NULL;
    *block = (struct block){
        .file_block = file_block,
        .touched_ns = NO_INT64,
        .absent_ns = NO_INT64,
        .out_tid = NO_INT32,
        .next = file->first,
        .is_in_folio = NO_CODE,
        .order = NO_CODE,
        .is_clean = file->is_reborn,
    };
    number = map_add(&blocks->of_lives, file->life, (uint64_t)file_block);
    if (!number)
        return NULL;
    file->first = (uint32_t)(block - blocks->blocks);
    *number = file->first + 1u;
    return block;
}

void blocks_forget(struct blocks *blocks, struct file *file)
{
    while (file->first != NO_BLOCK) {
        uint32_t number = file->first;
        struct block *block = &blocks->blocks[number];

        map_remove(&blocks->of_lives, file->life, (uint64_t)block->file_block);
        free(block->steps.steps);
        file->first = block->next;
        *block = (struct block){.next = blocks->free};
        blocks->free = number + 1;
    }
    file->life = ++blocks->lives;
    file->changers.count = 0;
    file->is_reborn = true;
}

void blocks_free(struct blocks *blocks)
{
    for (size_t number = 0; number < blocks->nr_blocks; number++)
        free(blocks->blocks[number].steps.steps);
    for (size_t number = 0; number < blocks->nr_files; number++)
        free(blocks->files[number].changers.processes);
    free(blocks->blocks);
    free(blocks->files);
    map_free(&blocks->of_files);
    map_free(&blocks->of_lives);
}

bool set_add(struct set *set, int64_t process)
{
    size_t at = set->count;

    while (at > 0 && set->processes[at - 1] > process)
        at--;
    if (at > 0 && set->processes[at - 1] == process)
        return true;
    if (set->count == set->room) { // of most there are one or two
        size_t room = set->room ? 2 * set->room : 2;
        int64_t *grown = realloc(set->processes, room * sizeof(*grown));

        if (!grown)
            return false;
        set->processes = grown;
        set->room = room;
    }
    memmove(&set->processes[at + 1], &set->processes[at], (set->count - at) * sizeof(process));
    set->processes[at] = process;
    set->count++;
    return true;
}

bool set_has(const struct set *set, int64_t process)
{
    for (size_t at = 0; at < set->count; at++)
        if (set->processes[at] == process)
            return true;
    return false;
}

enum { ALIKE = 3 };

// Of steps in a row that are alike three tell all: when the first came, and which is the last; or the one before,
// should the last turn out to be none.
static bool is_repeated(const struct steps *steps, const struct step *step)
{
    if (steps->count < ALIKE)
        return false;
    for (const struct step *before = steps->steps + steps->count - ALIKE; before < steps->steps + steps->count;
         before++)
        if (before->thread != step->thread || before->kind != step->kind || before->is_begun != step->is_begun ||
            before->is_writing != step->is_writing)
            return false;
    return true;
}

bool steps_add(struct steps *steps, const struct step *step)
{
    if (is_repeated(steps, step)) {
        steps->steps[steps->count - 2] = steps->steps[steps->count - 1];
        steps->steps[steps->count - 1] = *step;
        return true;
    }
    if (steps->count == steps->room) {
        uint32_t room = steps->room ? 2 * steps->room : 2;
        struct step *grown = realloc(steps->steps, room * sizeof(*grown));

        if (!grown)
            return false;
        steps->steps = grown;
        steps->room = room;
    }
    steps->steps[steps->count++] = *step;
    return true;
}

void steps_remove(struct steps *steps, size_t at)
{
    steps->count--;
    memmove(&steps->steps[at], &steps->steps[at + 1], (steps->count - at) * sizeof(*steps->steps));
}
