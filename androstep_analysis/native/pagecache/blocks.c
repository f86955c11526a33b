#include "pagecache/blocks.h"

#include "core/array.h"

struct file *add_file(struct blocks *blocks, uint32_t dev, int64_t ino)
{
    uint64_t *index = map_add(&blocks->file_index, dev, (uint64_t)ino);

    if (!index)
        return NULL;
    if (!*index) {
        *index = blocks->nr_files + 1;
        if (!array_reserve(&blocks->files, blocks->nr_files, &blocks->files_capacity, sizeof(*blocks->files)))
            return NULL;
        blocks->files[blocks->nr_files++] =
            (struct file){.lifetime = ++blocks->nr_lifetimes, .dev = dev, .first = NO_BLOCK};
    }
    return &blocks->files[*index - 1];
}

struct block *find_block(const struct blocks *blocks, uint64_t lifetime, int64_t file_block)
{
    uint64_t index = map_value(&blocks->block_index, lifetime, (uint64_t)file_block);

    return index ? &blocks->blocks[index - 1] : NULL;
}

static struct block *allocate_block(struct blocks *blocks)
{
    if (blocks->free) {
        struct block *block = &blocks->blocks[blocks->free - 1];

        blocks->free = block->next;
        return block;
    }
    if (!array_reserve(&blocks->blocks, blocks->nr_blocks, &blocks->blocks_capacity, sizeof(*blocks->blocks)))
        return NULL;
    return &blocks->blocks[blocks->nr_blocks++];
}

struct block *add_block(struct blocks *blocks, struct file *file, int64_t file_block)
{
    struct block *block = find_block(blocks, file->lifetime, file_block);
    uint64_t *index;

    if (block)
        return block;
    block = allocate_block(blocks);
    if (!block)
        return NULL;
    *block = (struct block){
        .file_block = file_block,
        .touched_ns = NO_INT64,
        .absent_ns = NO_INT64,
        .writeback_tid = NO_INT32,
        .next = file->first,
        .is_in_folio = NO_CODE,
        .order = NO_CODE,
        .is_clean = file->is_new_inode,
    };
    index = map_add(&blocks->block_index, file->lifetime, (uint64_t)file_block);
    if (!index)
        return NULL;
    file->first = (uint32_t)(block - blocks->blocks);
    *index = file->first + 1u;
    return block;
}

void end_lifetime(struct blocks *blocks, struct file *file)
{
    while (file->first != NO_BLOCK) {
        uint32_t at = file->first;
        struct block *block = &blocks->blocks[at];

        map_remove(&blocks->block_index, file->lifetime, (uint64_t)block->file_block);
        free(block->touches.touches);
        file->first = block->next;
        *block = (struct block){.next = blocks->free};
        blocks->free = at + 1;
    }
    file->lifetime = ++blocks->nr_lifetimes;
    file->dirtiers.count = 0;
    file->is_new_inode = true;
}

void free_blocks(struct blocks *blocks)
{
    for (size_t at = 0; at < blocks->nr_blocks; at++)
        free(blocks->blocks[at].touches.touches);
    for (size_t at = 0; at < blocks->nr_files; at++)
        free(blocks->files[at].dirtiers.processes);
    free(blocks->blocks);
    free(blocks->files);
    map_free(&blocks->file_index);
    map_free(&blocks->block_index);
}
