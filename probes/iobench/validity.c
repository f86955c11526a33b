#include <stdarg.h>

#include "iobench/bench.h"

int bench_invalidate(struct bench_run *run, const char *format, ...)
{
    va_list arguments;
    if (run->invalid[0])
        return -1;
    va_start(arguments, format);
    vsnprintf(run->invalid, sizeof run->invalid, format, arguments);
    va_end(arguments);
    return print_error("%s", run->invalid);
}

/* Empty files are both cold and warm. */
int workers_check_cache(struct bench_run *run)
{
    const struct cache_found *found = &run->cache;
    enum cache_state requested = run->job->cache;
    if (requested == CACHE_UNKNOWN || requested == found->state || (found->state == CACHE_COLD && !found->bytes))
        return 0;
    if (found->resident_bytes < 0)
        return bench_invalidate(run,
                                "the page cache should be %s, but the kernel does not report its contents; see --cache",
                                cache_states[requested]);
    return bench_invalidate(run,
                            "the page cache should be %s, but holds %" PRId64 " of %" PRId64
                            " bytes by %s; see --cache, or take a filesystem on a device",
                            cache_states[requested], found->resident_bytes, found->bytes, found->by);
}

static int check_failures(struct bench_run *run)
{
    int32_t first = -1, failed = 0;
    for (int32_t index = run->nr_workers; index-- > 0;) {
        if (run->workers[index].message[0]) {
            first = index;
            failed++;
        }
    }
    if (first < 0)
        return 0;
    if (failed > 1)
        return bench_invalidate(run, "worker %d, and %d more: %s", first, failed - 1, run->workers[first].message);
    return bench_invalidate(run, "worker %d: %s", first, run->workers[first].message);
}

/* Lost operations would be a bug of an engine; the counters are checked nevertheless. */
static int check_worker(struct bench_run *run, const struct bench_worker *worker)
{
    int64_t done = worker->parts[PART_OP].ops;
    if (!run->job->warmup_ns && done != worker->begun)
        return bench_invalidate(run, "worker %d began %" PRId64 " operations, but finished %" PRId64, worker->index,
                                worker->begun, done);
    if (!run->job->duration_ns && worker->ops_asked && done < worker->ops_asked)
        return bench_invalidate(run, "worker %d did %" PRId64 " of %" PRId64 " operations", worker->index, done,
                                worker->ops_asked);
    if (worker->room_windows && worker->nr_windows == worker->room_windows && worker->ended_ns > worker->window_end_ns)
        return bench_invalidate(run, "the time series has more than %" PRId64 " windows; ask for a longer --interval",
                                worker->room_windows);
    return 0;
}

int workers_check_work(struct bench_run *run)
{
    int64_t ops = 0;
    if (check_failures(run) < 0)
        return -1;
    if (run->interrupted)
        return 0;
    for (int32_t index = 0; index < run->nr_workers; index++) {
        if (check_worker(run, &run->workers[index]) < 0)
            return -1;
        ops += run->workers[index].parts[PART_OP].ops;
    }
    if (!ops)
        return bench_invalidate(run, "not one operation was done; let it run for longer");
    return 0;
}
