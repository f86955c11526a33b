#include <libgen.h>

#include "iobench/bench.h"

#define SECTOR 512

/* Check a named file or device. It belongs to the user: nothing must be written to it by accident. */
static int check_named(const struct bench_job *job)
{
    struct stat stat_of;

    if (!job->filename)
        return job->raw ? print_error("--raw is for a block device: name it with --filename") : 0;
    if (job->workload != BENCH_FILE)
        return print_error("--filename is for the workload file: sqlite and postmark make their own files");
    if (was_given(&job->directory) || job->keep)
        return print_error("--filename %s: leave out --directory and --keep, nothing is made", job->filename);
    if (stat(job->filename, &stat_of))
        return print_error("--filename %s: expected an existing file (%s)", job->filename, strerror(errno));
    if (S_ISBLK(stat_of.st_mode) && !(job->raw && job->overwrite))
        return print_error("--filename %s is a block device: give --raw --i-know to measure it, which destroys the "
                           "data that the job overwrites",
                           job->filename);
    if (!S_ISBLK(stat_of.st_mode) && !S_ISREG(stat_of.st_mode))
        return print_error("--filename %s: expected a regular file or a block device", job->filename);
    if (S_ISREG(stat_of.st_mode) && job->raw)
        return print_error("--raw: %s is no block device", job->filename);
    if (job->file.access != ACCESS_READ && !job->overwrite)
        return print_error("--filename %s: the job would overwrite it; give --i-know to allow this", job->filename);
    if (job->file.access == ACCESS_APPEND || job->file.layout != LAYOUT_WRITTEN)
        return print_error("--filename %s: it has a size already; leave out append, --overwrite and --fallocate",
                           job->filename);
    return 0;
}

static int check_record(const struct file_job *job)
{
    if (job->size < job->record)
        return print_error("--size: %" PRId64 " bytes are smaller than one record of %" PRId64, job->size, job->record);
    if (job->size % job->record)
        return print_error("--size: %" PRId64 " bytes are not a multiple of records of %" PRId64 " bytes", job->size,
                           job->record);
    if ((job->mode.open_flags & O_DIRECT) && job->record % SECTOR)
        return print_error("--bs: direct I/O needs a multiple of %d bytes, not %" PRId64, SECTOR, job->record);
    return 0;
}

static int check_loops(const struct bench_job *job)
{
    int64_t records;

    if (was_given(&job->file.loops) && (job->ops || job->duration_ns))
        return print_error("--loops: it cannot be combined with --number_ios or --runtime");
    if (__builtin_mul_overflow(job->file.size / job->file.record, job->file.loops, &records) ||
        __builtin_mul_overflow(records, job->threads, &records))
        return print_error("--loops %" PRId64 ": too many records; use fewer", job->file.loops);
    return 0;
}

static int check_access(const struct bench_job *job, const struct arguments *arguments)
{
    const struct file_job *file = &job->file;
    bool reads = file->access == ACCESS_READ;

    if (was_given(&file->read_percent) && file->access != ACCESS_MIXED)
        return print_error("--rwmixread is for --rw rw and randrw");
    if (was_given(&file->overlap) && file->overlap && !file->random)
        return print_error("--overlap is for random access: a sequence visits each offset once");
    if (reads && (was_given(&job->compress) || was_given(&job->dedupe)))
        return print_error("--buffer_compress_percentage and --dedupe_percentage are for jobs that write");
    if (reads && arguments->end_fsync == 1)
        return print_error("--end_fsync is for jobs that write");
    if (reads && was_given(&arguments->verify))
        return print_error("--verify is for jobs that write");
    if ((reads || file->access == ACCESS_MIXED) && file->layout != LAYOUT_WRITTEN)
        return print_error(
            "--overwrite 0 and --fallocate are for jobs that only write: reads need a file that is written");
    if (file->access == ACCESS_APPEND && file->layout == LAYOUT_WRITTEN)
        return print_error("--overwrite 1: --rw append starts with an empty file");
    return 0;
}

static int check_file(const struct bench_job *job, const struct arguments *arguments)
{
    if (job->compat_rng && (!job->file.random || job->file.access == ACCESS_MIXED))
        return print_error("--compat-rng: Mobibench has an order for --rw randread and randwrite only");
    return check_record(&job->file) || check_access(job, arguments) || check_loops(job) ? -1 : 0;
}

static int check_sqlite(const struct bench_job *job, const struct arguments *arguments)
{
    const struct sqlite_job *sqlite = &job->sqlite;

    if (sqlite->page & (sqlite->page - 1))
        return print_error("--page-size %" PRId64 ": expected a power of two", sqlite->page);
    if (arguments->mix && sqlite->op != SQLITE_OP_MIXED)
        return print_error("--mix is for --sqlite-op mixed");
    if (!(sqlite->mix[0] || sqlite->mix[1] || sqlite->mix[2] || sqlite->mix[3]))
        return print_error("--mix %s: at least one weight must be more than 0", arguments->mix);
    if (was_given(&sqlite->checkpoint) && strcmp(sqlite->journal_mode, "WAL") != 0)
        return print_error("--checkpoint is for --journal-mode WAL");
    if (sqlite->random_order && sqlite->op != SQLITE_OP_INSERT && sqlite->op != SQLITE_OP_MIXED)
        return print_error("--random-order is for inserts: other operations always have a random order");
    if (job->compat_rng)
        return print_error("--compat-rng is for file: Mobibench's keys come from the C library's rand()");
    return 0;
}

static int check_postmark(const struct bench_job *job)
{
    if (job->postmark.least < 1 || job->postmark.least > job->postmark.most)
        return print_error("--file-size %" PRId64 ":%" PRId64 ": expected LOW from 1 to HIGH", job->postmark.least,
                           job->postmark.most);
    if (job->postmark.files < job->threads)
        return print_error("--files %" PRId64 ": fewer than the %" PRId64 " workers", job->postmark.files,
                           job->threads);
    if (job->shared)
        return print_error("--shared is for file and sqlite: postmark's workers have directories of their own");
    if (job->compat_rng)
        return print_error("--compat-rng is for file: Mobibench has no PostMark");
    return 0;
}

static int check_ends(const struct bench_job *job)
{
    if (job->ops && job->ops < job->threads)
        return print_error("%s %" PRId64 ": fewer than the %" PRId64 " workers (--numjobs)",
                           job->workload == BENCH_FILE ? "--number_ios" : "--transactions", job->ops, job->threads);
    if (job->warmup_ns && !job->duration_ns)
        return print_error("--ramp_time needs --runtime, or the work may be done before the warm-up is over");
    if (job->rate && job->think_ns)
        return print_error("--rate_iops says when operations are due: leave out --thinktime");
    if (job->compat_rng && was_given(&job->seed))
        return print_error("--compat-rng: Mobibench's seed is fixed; leave out --randseed");
    return 0;
}

/* Check that the output can be written now, not after hours of measuring. */
static int check_output(const char *path)
{
    char above[4096];
    int file;

    if (!path)
        return 0;
    if (!strcmp(path, "-"))
        return print_error("--record -: standard output has the results; name a file");
    file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0) {
        close(file);
        return 0;
    }
    snprintf(above, sizeof above, "%s", path);
    if (errno == ENOENT && !access(dirname(above), W_OK | X_OK))
        return 0;
    return print_error("--record %s: cannot be written (%s)", path, strerror(errno));
}

int job_check(const struct bench_job *job, const struct arguments *arguments, const char *record)
{
    if (check_output(record) || check_ends(job) || check_named(job))
        return -1;
    switch (job->workload) {
    case BENCH_FILE:
        return check_file(job, arguments);
    case BENCH_SQLITE:
        return check_sqlite(job, arguments);
    case BENCH_POSTMARK:
        break;
    }
    return check_postmark(job);
}
