#include "iobench/engines/file.h"

/* Records that are verified after a run: of all workers, and of one. */
#define SAMPLES         1024
#define SAMPLES_LEAST   16
#define SAMPLES_MOST    256
#define SAMPLED_AT_MOST (INT64_C(64) << 20)

static int32_t nr_files(const struct bench_job *job)
{
    return file_is_shared(job) ? 1 : (int32_t)job->threads;
}

/* Return the number of records of a worker that are verified. */
static uint64_t nr_samples(const struct bench_job *job)
{
    int64_t number = SAMPLES / job->threads, affordable = SAMPLED_AT_MOST / job->file.record;
    if (job->file.verify_all)
        return file_records(job);
    if (number < SAMPLES_LEAST)
        number = SAMPLES_LEAST;
    if (number > SAMPLES_MOST)
        number = SAMPLES_MOST;
    if (number > affordable)
        number = affordable;
    return number > 0 ? (uint64_t)number : 1;
}

/* Return the size of the state, followed by the sampled hashes of all workers and their slots. */
static size_t state_bytes(const struct bench_job *job)
{
    size_t of_worker = sizeof(struct checker) + nr_samples(job) * sizeof(struct checker_slot);
    return sizeof(struct file_state) + (size_t)job->threads * of_worker;
}

static int check_append(const struct bench_job *job)
{
    if (job->file.layout != LAYOUT_EMPTY)
        return print_error("--rw append starts with an empty file: leave out --fallocate and --overwrite");
    if (job->file.loops > 1)
        return print_error("--loops %" PRId64 ": --rw append fills a file once", job->file.loops);
    if (job->warmup_ns)
        return print_error("--ramp_time: --rw append might fill the file in the warm-up; leave it out");
    if (job->ops > 0 && (uint64_t)job->ops > file_records(job) * (uint64_t)nr_files(job))
        return print_error("--number_ios %" PRId64 ": --rw append has room for %" PRIu64
                           " records; give a larger --size",
                           job->ops, file_records(job) * (uint64_t)nr_files(job));
    return 0;
}

int file_check(const struct bench_job *job)
{
    if (file_is_shared(job) && file_records(job) < (uint64_t)job->threads)
        return print_error("--shared: %" PRIu64 " records are too few for %" PRId64 " workers, each has its own part; "
                           "give a larger --size",
                           file_records(job), job->threads);
    if (file_is_shared(job) && job->file.overlap && job->threads > 1)
        return print_error(
            "--overlap: workers of one file must not write to the same offset; leave out --overlap or --shared");
    return job->file.access == ACCESS_APPEND ? check_append(job) : 0;
}

static int make_state(struct bench_run *run)
{
    const struct bench_job *job = run->job;
    struct file_state *state =
        mmap(NULL, state_bytes(job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (state == MAP_FAILED)
        return print_error("no memory for %" PRId64 " workers (%s)", job->threads, strerror(errno));
    run->state = state;
    /* A kept file has the data of an earlier run with this seed: writing the same again would change nothing. */
    state->payload_seed = job->keep ? (uint64_t)clock_now(CLOCK_REALTIME) : job->seed;
    struct checker_slot *slots = (struct checker_slot *)&state->checkers[job->threads];
    for (int64_t worker = 0; worker < job->threads; worker++)
        checker_make(&state->checkers[worker], file_records(job), slots + (uint64_t)worker * nr_samples(job),
                     nr_samples(job));
    if (file_is_shared(job) && ((file_reads(job) && file_order(job, RNG_READS, 0, &state->reads)) ||
                                (file_writes(job) && file_order(job, RNG_WRITES, 0, &state->writes))))
        return print_error("no memory for the order of %" PRIu64 " records", file_records(job));
    return 0;
}

static int path_of(const struct bench_run *run, int32_t worker, char *path, size_t size)
{
    return files_path(run, worker, path, size) ? print_error("%s: the path is too long", run->directory) : 0;
}

/* Open a file of the run for reading. Returns -1 after printing an error. */
static int open_to_look(const struct bench_run *run, int32_t number)
{
    char path[4096];
    if (path_of(run, number, path, sizeof path))
        return -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    return file < 0 ? print_error("%s: cannot be opened (%s)", path, strerror(errno)) : file;
}

static int64_t allocated(const struct bench_run *run, int32_t number)
{
    char path[4096];
    struct stat about;
    return !files_path(run, number, path, sizeof path) && !stat(path, &about) ? (int64_t)about.st_blocks * 512 : 0;
}

static int lay_out(const struct bench_run *run)
{
    int64_t missing = 0;
    char path[4096];
    for (int32_t number = 0; number < nr_files(run->job); number++) {
        int64_t have = allocated(run, number);
        missing += have < run->job->file.size ? run->job->file.size - have : 0;
    }
    if (files_room(run->held, run->directory, missing))
        return -1;
    for (int32_t number = 0; number < nr_files(run->job); number++)
        if (path_of(run, number, path, sizeof path) || files_lay_out(run->job, path, (uint32_t)number))
            return -1;
    return 0;
}

/* Check a file. A named file has its own size and may violate the alignment of direct I/O. Holes are rejected because
 * they are read without the device; devices report no holes. */
static int check_file(const struct bench_run *run, int file)
{
    const struct file_job *job = &run->job->file;
    struct direct_align align = {1, 1};
    off_t end = lseek(file, 0, SEEK_END), hole = file_reads(run->job) ? lseek(file, 0, SEEK_HOLE) : -1;
    if (end < 0 || (job->layout != LAYOUT_EMPTY && end < job->size))
        return print_error("--size %" PRId64 ": the file ends at %" PRId64, job->size, (int64_t)end);
    if (hole >= 0 && hole < job->size)
        return print_error("the file has a hole at %" PRId64 ", and holes are not read from the device; write the file "
                           "completely first",
                           (int64_t)hole);
    if (job->mode.open_flags & O_DIRECT)
        align = direct_align(file);
    if (!align.offset)
        return print_error("this filesystem has no direct I/O for this file: choose another --mode or --directory");
    if (job->record % (int64_t)align.offset)
        return print_error("--bs %" PRId64 ": direct I/O needs a multiple of %zu bytes here", job->record,
                           align.offset);
    return 0;
}

static int bring_cache(struct bench_run *run, int32_t number)
{
    int file = open_to_look(run, number), result;
    if (file < 0)
        return -1;
    result = check_file(run, file);
    off_t end = lseek(file, 0, SEEK_END);
    if (end > run->job->file.size)
        end = run->job->file.size;
    if (!result && run->job->cache == CACHE_COLD && cache_evict(file))
        result = print_error("the file cannot be written to its device (%s)", strerror(errno));
    if (!result && run->job->cache == CACHE_WARM && cache_fill(file, end))
        result = print_error("the file cannot be read into the cache (%s)", strerror(errno));
    if (!result)
        cache_look(file, end, &run->cache);
    close(file);
    return result;
}

int file_load(struct bench_run *run)
{
    if (make_state(run) || (!run->job->filename && lay_out(run)))
        return -1;
    if (run->job->cache == CACHE_COLD)
        cache_drop_all(&run->cache);
    for (int32_t number = 0; number < nr_files(run->job); number++)
        if (bring_cache(run, number))
            return -1;
    cache_conclude(&run->cache);
    return 0;
}

void file_unload(struct bench_run *run)
{
    struct file_state *state = run->state;
    if (!state)
        return;
    order_free(&state->reads);
    order_free(&state->writes);
    munmap(state, state_bytes(run->job));
    run->state = NULL;
}

/* -- after the run ------------------------------------------------------------------------------------------------ */

/* Return the expected length of the file of worker `number`. */
static int64_t expected_end(const struct bench_run *run, int32_t number)
{
    const struct file_state *state = run->state;
    int32_t last = file_is_shared(run->job) ? run->nr_workers - 1 : number;
    int64_t end = 0;
    if (run->job->file.layout != LAYOUT_EMPTY)
        return run->job->file.size;
    for (int32_t worker = number; worker <= last; worker++)
        if (state->checkers[worker].end > end)
            end = state->checkers[worker].end;
    return end;
}

static int verify_size(struct bench_run *run, int32_t number)
{
    int64_t expected = expected_end(run, number), end;
    int file = open_to_look(run, number);
    if (file < 0)
        return -1;
    end = lseek(file, 0, SEEK_END);
    close(file);
    if (end != expected && !(run->job->filename && end > expected))
        bench_invalidate(run, "file %" PRId32 " has %" PRId64 " bytes instead of %" PRId64, number, end, expected);
    return 0;
}

static int verify_worker(struct bench_run *run, int32_t worker)
{
    const struct file_state *state = run->state;
    int file = open_to_look(run, worker), result;
    uint64_t wrong;
    if (file < 0)
        return -1;
    result = checker_verify(&state->checkers[worker], file, (size_t)run->job->file.record, &wrong);
    if (result)
        print_error("the data of worker %" PRId32 " cannot be read for verification (%s)", worker, strerror(errno));
    else if (wrong != UINT64_MAX)
        bench_invalidate(run,
                         "the record at %" PRIu64 " of the file of worker %" PRId32
                         " does not have the data that it wrote last",
                         wrong * (uint64_t)run->job->file.record, worker);
    close(file);
    return result;
}

/* A cold cache is warm for records read a second time. Only direct I/O reads from the device each time. */
static void verify_cold(struct bench_run *run)
{
    const struct file_state *state = run->state;
    if (!state->read_again || run->cache.state != CACHE_COLD || (run->job->file.mode.open_flags & O_DIRECT))
        return;
    run->cache.state = CACHE_UNKNOWN;
    if (run->job->cache == CACHE_COLD)
        bench_invalidate(
            run, "records were read more than once, and from the page cache after the first time; give a larger "
                 "--size, a shorter time, --direct 1 or --cache any");
}

/* Return the bytes that this program read from the device of the files. The process counter includes pages of its own
 * code, and the device counter other files; the smaller one is the better bound. */
static int64_t came_from_device(const struct system_usage *usage)
{
    bool by_device = usage->device_read_bytes >= 0 && usage->device_read_bytes < usage->process_read_bytes;
    return by_device ? usage->device_read_bytes : usage->process_read_bytes;
}

/* Reject a warm run that read from the device: pages were dropped, or reads bypassed the page cache. */
static void verify_warm(struct bench_run *run)
{
    int64_t came = came_from_device(&run->system);
    if (run->job->cache != CACHE_WARM || run->job->file.access != ACCESS_READ || came <= 0)
        return;
    run->cache.state = CACHE_UNKNOWN;
    bench_invalidate(run, "the page cache was warm, but %" PRId64 " bytes were read from the device; see --cache",
                     came);
}

int file_verify(struct bench_run *run)
{
    int result = 0;
    verify_cold(run);
    verify_warm(run);
    if (!file_writes(run->job))
        return 0;
    for (int32_t number = 0; !result && !run->invalid[0] && number < nr_files(run->job); number++)
        result = verify_size(run, number);
    for (int32_t worker = 0; !result && !run->invalid[0] && worker < run->nr_workers; worker++)
        result = verify_worker(run, worker);
    return result;
}
