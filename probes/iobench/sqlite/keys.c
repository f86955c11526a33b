#include "iobench/sqlite/engine.h"

/* New keys in random order, if the job does not determine their number. */
#define BLOCK_KEYS (1 << 16)

static void add_live(struct sqlite_keys *keys, int64_t key)
{
    if (keys->nr_live == keys->capacity) {
        keys->capacity = keys->capacity ? keys->capacity * 2 : 1024;
        keys->live = grow(keys->live, (size_t)keys->capacity, sizeof *keys->live);
    }
    keys->live[keys->nr_live++] = key;
}

static int order_new(struct order *order, const struct bench_worker *worker)
{
    const struct bench_job *job = worker->job;
    int64_t inserted = worker->ops_asked * job->sqlite.rows;
    if (job->sqlite.random_order)
        return order_random(order, inserted > 0 ? (uint64_t)inserted : BLOCK_KEYS, 0, job->seed, RNG_KEYS,
                            (uint32_t)worker->index);
    order_sequential(order, BLOCK_KEYS);
    return 0;
}

int sqlite_keys_open(struct sqlite_keys *keys, const struct bench_worker *worker, int64_t prefilled)
{
    const struct bench_job *job = worker->job;
    *keys = (struct sqlite_keys){.only_inserts = sqlite_only_inserts(job),
                                 .after = prefilled,
                                 .step = job->shared ? worker->run->nr_workers : 1,
                                 .offset = job->shared ? worker->index : 0};
    rng_seed(&keys->rng, job->seed, rng_stream(RNG_CHOICES, (uint32_t)worker->index));
    if (!keys->only_inserts)
        for (int64_t key = 1 + keys->offset; key <= prefilled; key += keys->step)
            add_live(keys, key);
    return sqlite_does(job, SQLITE_OP_INSERT) ? order_new(&keys->order, worker) : 0;
}

int64_t sqlite_keys_any(struct sqlite_keys *keys)
{
    return keys->nr_live ? keys->live[rng_below(&keys->rng, (uint64_t)keys->nr_live)] : 0;
}

int64_t sqlite_keys_take(struct sqlite_keys *keys)
{
    if (!keys->nr_live)
        return 0;
    uint64_t place = rng_below(&keys->rng, (uint64_t)keys->nr_live);
    int64_t key = keys->live[place];
    keys->live[place] = keys->live[--keys->nr_live];
    return key;
}

int64_t sqlite_keys_new(struct sqlite_keys *keys)
{
    uint64_t number = (uint64_t)keys->nr_inserted++, block = number - number % keys->order.nr_records;
    int64_t key = keys->after + keys->step * (int64_t)(block + order_at(&keys->order, number)) + keys->offset + 1;
    if (!keys->only_inserts)
        add_live(keys, key);
    return key;
}

void sqlite_keys_close(struct sqlite_keys *keys)
{
    free(keys->live);
    order_free(&keys->order);
    *keys = (struct sqlite_keys){.live = NULL};
}
