#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/complain.h"
#include "iobench/modes.h"
#include "iobench/options.h"

#define NS_PER_US 1000

/* An option of a job. */
__attribute__((format(printf, 3, 4))) static void give(FILE *out, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(out, "%s=", name);
    vfprintf(out, format, arguments);
    putc('\n', out);
    va_end(arguments);
}

static void give_number(FILE *out, const char *name, int64_t number)
{
    give(out, name, "%" PRId64, number);
}

static bool many_in_one(const struct bench_job *job)
{
    return job->shared && job->threads > 1;
}

static const char *lacks_mode(const struct file_mode *mode)
{
    if (mode->after == AFTER_FBARRIER || mode->after == AFTER_FDATABARRIER)
        return "barriers";
    if (mode->after == AFTER_MSYNC_ASYNC)
        return "msync(MS_ASYNC) after a record";
    return mode->write_flags ? "writes with RWF_DSYNC" : NULL;
}

/* fio has one share for each worker, the same for all. */
static const char *lacks_shares(const struct bench_job *job)
{
    if (job->ops % job->threads)
        return "workers with different numbers of records (make --number_ios a multiple of --numjobs)";
    if (job->rate % job->threads)
        return "workers with different rates (make --rate_iops a multiple of --numjobs)";
    if (!many_in_one(job))
        return NULL;
    if (job->file.random || job->file.access == ACCESS_APPEND)
        return "workers that share one random order, or append to one file";
    return job->file.size / job->file.record % job->threads ? "workers with parts of different sizes" : NULL;
}

/* What fio cannot do of a job; NULL: nothing. */
static const char *lacks(const struct bench_job *job)
{
    const char *path = job->filename ? job->filename : job->directory;

    if (job->workload != BENCH_FILE)
        return bench_test(job);
    if (job->compat_rng)
        return "Mobibench's orders";
    if (job->file.overlap)
        return "records that overlap by per cent";
    if (strpbrk(path, "\n\r"))
        return "paths with a line end";
    return lacks_mode(&job->file.mode) ? lacks_mode(&job->file.mode) : lacks_shares(job);
}

/* With a backslash before what fio takes for the end of a path. */
static void give_path(FILE *out, const char *name, const char *path)
{
    fprintf(out, "%s=", name);
    for (; *path; path++)
        fprintf(out, *path == ':' ? "\\%c" : "%c", *path);
    putc('\n', out);
}

/* The files begin with `name`. */
static void give_where(FILE *out, const struct bench_job *job, const char *name)
{
    if (job->filename) {
        give_path(out, "filename", job->filename);
        give(out, "allow_file_create", "0");
        return;
    }
    give_path(out, "directory", job->directory);
    if (job->shared)
        give(out, "filename", "%s", name);
    else
        give(out, "filename_format", "%s$jobnum", name);
    give_number(out, "unlink", !job->keep);
}

static void give_access(FILE *out, const struct bench_job *job)
{
    static const char *const words[] = {
        [ACCESS_READ] = "read", [ACCESS_WRITE] = "write", [ACCESS_APPEND] = "write", [ACCESS_MIXED] = "rw"};
    const struct file_job *file = &job->file;
    int64_t size = many_in_one(job) ? file->size / job->threads : file->size;

    give(out, "rw", "%s%s", file->random ? "rand" : "", words[file->access]);
    if (file->access == ACCESS_MIXED)
        give_number(out, "rwmixread", file->read_percent);
    /* fio's default generator takes the next record where it draws one that was had: its orders end in sequences. */
    if (file->random)
        give(out, "random_generator", "lfsr");
    give_number(out, "size", size);
    if (many_in_one(job))
        give_number(out, "offset_increment", size);
    give_number(out, "bs", file->record);
}

static void give_layout(FILE *out, const struct bench_job *job)
{
    if (job->filename || job->file.access == ACCESS_READ)
        return;
    give_number(out, "overwrite", job->file.layout == LAYOUT_WRITTEN);
    give(out, "fallocate", job->file.layout == LAYOUT_ALLOCATED ? "native" : "none");
}

static void give_range(FILE *out, const struct file_job *job)
{
    char words[64] = "";

    for (int index = 0; index < MODE_RANGE_FLAGS; index++) {
        const struct mode_range_flag *flag = &mode_range_flags[index];
        size_t length = strlen(words);

        if (job->mode.range_flags & flag->flag)
            snprintf(words + length, sizeof words - length, "%s%s", length ? "," : "", flag->word);
    }
    give(out, "sync_file_range", "%s:%" PRId64, words, job->after_every);
}

static void give_after(FILE *out, const struct file_job *job)
{
    switch (job->mode.after) {
    case AFTER_FSYNC:
        give_number(out, "fsync", job->after_every);
        break;
    case AFTER_FDATASYNC:
        give_number(out, "fdatasync", job->after_every);
        break;
    case AFTER_RANGE:
        give_range(out, job);
        break;
    case AFTER_MSYNC_SYNC:
        /* What fio's mmap makes of it is msync(MS_SYNC) of each record. */
        give(out, "direct", "1");
        break;
    case AFTER_NONE:
    case AFTER_MSYNC_ASYNC:
    case AFTER_FBARRIER:
    case AFTER_FDATABARRIER:
        break;
    }
}

static void give_engine(FILE *out, const struct file_job *job)
{
    static const char *const engines[] = {
        [ENGINE_PSYNC] = "psync", [ENGINE_MMAP] = "mmap", [ENGINE_URING] = "io_uring"};

    give(out, "ioengine", "%s", engines[job->mode.engine]);
    give_number(out, "iodepth", job->depth);
    if (job->mode.engine != ENGINE_URING)
        return;
    give(out, "registerfiles", "1");
    give(out, "fixedbufs", "1");
    give_number(out, "iodepth_batch_submit", job->depth);
    give(out, "iodepth_batch_complete_min", "1");
    give_number(out, "iodepth_batch_complete_max", job->depth);
}

static void give_mode(FILE *out, const struct bench_job *job)
{
    int flags = job->file.mode.open_flags;

    give_engine(out, &job->file);
    if (flags & O_DIRECT)
        give(out, "direct", "1");
    if ((flags & O_SYNC) == O_SYNC)
        give(out, "sync", "sync");
    else if (flags & O_DSYNC)
        give(out, "sync", "dsync");
    if (job->file.access == ACCESS_READ)
        return;
    give_after(out, &job->file);
    give_number(out, "end_fsync", job->final_sync);
}

static void give_end(FILE *out, const struct bench_job *job)
{
    if (job->duration_ns) {
        give(out, "time_based", "1");
        give(out, "runtime", "%" PRId64 "us", job->duration_ns / NS_PER_US);
    }
    if (job->warmup_ns)
        give(out, "ramp_time", "%" PRId64 "us", job->warmup_ns / NS_PER_US);
    if (job->ops && job->duration_ns)
        give_number(out, "number_ios", job->ops / job->threads);
    else if (job->ops)
        give_number(out, "io_size", job->ops / job->threads * job->file.record);
    else if (job->file.loops > 1)
        give_number(out, "loops", job->file.loops);
    if (job->rate)
        give_number(out, "rate_iops", job->rate / job->threads);
    if (job->think_ns)
        give_number(out, "thinktime", job->think_ns / NS_PER_US);
}

static void give_cache(FILE *out, const struct bench_job *job)
{
    /* fio drops what it laid out in any case, and with `invalidate` again after each pass over the file. */
    bool drops = job->filename || (!job->duration_ns && job->file.loops <= 1);

    give_number(out, "invalidate", job->cache == CACHE_COLD && drops);
    if (job->cache == CACHE_WARM)
        give(out, "pre_read", "1");
    /* iobench leaves read-ahead to the kernel, as applications do. */
    give(out, "fadvise_hint", "0");
}

static void give_data(FILE *out, const struct bench_job *job)
{
    if (job->compress)
        give_number(out, "buffer_compress_percentage", job->compress);
    if (job->dedupe)
        give_number(out, "dedupe_percentage", job->dedupe);
    give(out, "randseed", "%" PRIu64, job->seed);
}

static void give_job(FILE *out, const struct bench_job *job, const char *name)
{
    give(out, "group_reporting", "1");
    give_number(out, "numjobs", job->threads);
    give_number(out, "thread", !job->processes);
    give_where(out, job, name);
    give_access(out, job);
    give_layout(out, job);
    give_mode(out, job);
    give_end(out, job);
    give_cache(out, job);
    give_data(out, job);
}

/* What means the same and yet does not measure the same. */
static void print_differences(FILE *out, const struct bench_plan *plan)
{
    bool rate = false, think = false;

    for (int point = 0; point < plan->nr_jobs; point++) {
        rate = rate || plan->jobs[point].rate;
        think = think || plan->jobs[point].think_ns;
    }
    fputs("; made by iobench --to-fio\n", out);
    if (rate)
        fputs("; fio's latencies count from the submission, not from when an operation was due\n", out);
    if (think)
        fputs("; fio's rates include the pauses\n", out);
}

/* fio would lay out the files of all sections before the first, which removes its own: each has others, and one
 * without workers that could lay out theirs at once does so only when it begins. */
static void print_one_of_several(FILE *out, const struct bench_job *job, int point, int64_t repeat)
{
    char name[64];

    snprintf(name, sizeof name, "test.dat.%d.%" PRId64 ".", point, repeat);
    give_job(out, job, name);
    if (!job->filename && job->threads == 1)
        give(out, "create_serialize", "0");
}

static void print_section(FILE *out, const struct bench_plan *plan, int point, int64_t repeat)
{
    const struct bench_job *job = &plan->jobs[point];

    fprintf(out, "\n[point%d-repeat%" PRId64 "]\ndescription=%s\nstonewall=1\n", point + 1, repeat + 1, job->name);
    if (plan->nr_jobs > 1 || job->repeats > 1)
        print_one_of_several(out, job, point + 1, repeat + 1);
    else
        give_job(out, job, "test.dat");
}

int plan_to_fio(FILE *out, const struct bench_plan *plan)
{
    for (int point = 0; point < plan->nr_jobs; point++)
        if (lacks(&plan->jobs[point]))
            return complain("--to-fio: fio has no %s", lacks(&plan->jobs[point]));
    print_differences(out, plan);
    for (int point = 0; point < plan->nr_jobs; point++)
        for (int64_t repeat = 0; repeat < plan->jobs[point].repeats; repeat++)
            print_section(out, plan, point, repeat);
    return fflush(out) || ferror(out) ? -1 : 0;
}
