#include "iobench/postmark/pool.h"

static void subdirectory_path(const struct pool *pool, uint32_t subdirectory, char path[POOL_PATH])
{
    snprintf(path, POOL_PATH, "%s/s%" PRIu32, pool->directory, subdirectory);
}

int pool_open(struct pool *pool, const char *directory, uint32_t subdirectories)
{
    char path[POOL_PATH];
    *pool = (struct pool){.subdirectories = subdirectories};
    snprintf(pool->directory, sizeof pool->directory, "%s", directory);
    if (mkdir(directory, 0777))
        return -1;
    for (uint32_t subdirectory = 0; subdirectory < subdirectories; subdirectory++) {
        subdirectory_path(pool, subdirectory, path);
        if (mkdir(path, 0777))
            return -1;
    }
    return 0;
}

struct pool_file *pool_add(struct pool *pool, struct rng *rng)
{
    if (pool->count == pool->capacity) {
        pool->capacity = pool->capacity ? 2 * pool->capacity : 1024;
        pool->files = grow(pool->files, pool->capacity, sizeof *pool->files);
    }
    struct pool_file *file = &pool->files[pool->count++];
    file->number = ++pool->named;
    file->subdirectory = pool->subdirectories ? (uint32_t)rng_below(rng, pool->subdirectories) : 0;
    file->size = 0;
    return file;
}

void pool_remove(struct pool *pool, struct pool_file *file)
{
    *file = pool->files[--pool->count];
}

struct pool_file *pool_pick(const struct pool *pool, struct rng *rng)
{
    return pool->count ? &pool->files[rng_below(rng, pool->count)] : NULL;
}

void pool_path(const struct pool *pool, const struct pool_file *file, char path[POOL_PATH])
{
    if (pool->subdirectories)
        subdirectory_path(pool, file->subdirectory, path);
    else
        snprintf(path, POOL_PATH, "%s", pool->directory);
    size_t used = strlen(path);
    snprintf(path + used, POOL_PATH - used, "/%" PRIu64, file->number);
}

int pool_remove_directories(const struct pool *pool)
{
    char path[POOL_PATH];
    for (uint32_t subdirectory = 0; subdirectory < pool->subdirectories; subdirectory++) {
        subdirectory_path(pool, subdirectory, path);
        if (rmdir(path))
            return -1;
    }
    return rmdir(pool->directory);
}

void pool_close(struct pool *pool)
{
    free(pool->files);
    pool->files = NULL;
    pool->count = pool->capacity = 0;
}
