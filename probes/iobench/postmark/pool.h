/* PostMark's files: names, expected sizes and directories. */
#pragma once

#include "common/rng.h"

#define POOL_PATH 4200

struct pool_file {
    uint64_t number; /* its name */
    uint32_t subdirectory;
    int64_t size;
};

struct pool {
    char directory[4096];
    uint32_t subdirectories; /* 0: all files are in the directory itself */
    struct pool_file *files;
    size_t count, capacity;
    uint64_t named; /* files created so far: a name is never reused */
};

/* Create the directories. Returns 0, or -1 with errno set. */
int pool_open(struct pool *pool, const char *directory, uint32_t subdirectories);

/* Append a file of size 0 in a random subdirectory. Pointers to other files become invalid. */
struct pool_file *pool_add(struct pool *pool, struct rng *rng);
void pool_remove(struct pool *pool, struct pool_file *file);

/* Return a uniformly random file, or NULL if there is none. */
struct pool_file *pool_pick(const struct pool *pool, struct rng *rng);

void pool_path(const struct pool *pool, const struct pool_file *file, char path[POOL_PATH]);

/* Remove the empty directories. Returns 0, or -1 with errno set. */
int pool_remove_directories(const struct pool *pool);
void pool_close(struct pool *pool);
