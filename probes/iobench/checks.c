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

static int check_file(const struct bench_job *job, const struct arguments *arguments)
{
    const struct file_job *file = &job->file;
    bool reads = file->access == ACCESS_READ, mixes = file->access == ACCESS_MIXED;
    bool appends = file->access == ACCESS_APPEND, direct = file->mode.open_flags & O_DIRECT;
    int64_t records;
    bool many = __builtin_mul_overflow(file->size / file->record, file->loops, &records) ||
                __builtin_mul_overflow(records, job->threads, &records);
    return REFUSE({job->compat_rng && (!file->random || mixes),
                   "--compat-rng: Mobibench has an order for --rw randread and randwrite only"},
                  {file->size < file->record, "--size: smaller than one record (--bs)"},
                  {file->size % file->record, "--size: expected a multiple of the bytes of a record (--bs)"},
                  {direct && file->record % SECTOR, "--bs: direct I/O needs a multiple of 512 bytes"},
                  {was_given(&file->read_percent) && !mixes, "--rwmixread is for --rw rw and randrw"},
                  {was_given(&file->overlap) && file->overlap && !file->random,
                   "--overlap is for random access: a sequence visits each offset once"},
                  {reads && (was_given(&job->compress) || was_given(&job->dedupe)),
                   "--buffer_compress_percentage and --dedupe_percentage are for jobs that write"},
                  {reads && arguments->end_fsync == 1, "--end_fsync is for jobs that write"},
                  {reads && was_given(&arguments->verify), "--verify is for jobs that write"},
                  {(reads || mixes) && file->layout != LAYOUT_WRITTEN,
                   "--overwrite 0 and --fallocate are for jobs that only write: reads need a file that is written"},
                  {appends && file->layout == LAYOUT_WRITTEN, "--overwrite 1: --rw append starts with an empty file"},
                  {was_given(&file->loops) && (job->ops || job->duration_ns),
                   "--loops: it cannot be combined with --number_ios or --runtime"},
                  {many, "--loops: too many records; use fewer"});
}

static int check_sqlite(const struct bench_job *job, const struct arguments *arguments)
{
    const struct sqlite_job *sqlite = &job->sqlite;
    bool inserts = sqlite->op == SQLITE_OP_INSERT || sqlite->op == SQLITE_OP_MIXED;
    return REFUSE({sqlite->page & (sqlite->page - 1), "--page-size: expected a power of two"},
                  {arguments->mix && sqlite->op != SQLITE_OP_MIXED, "--mix is for --sqlite-op mixed"},
                  {!(sqlite->mix[0] || sqlite->mix[1] || sqlite->mix[2] || sqlite->mix[3]),
                   "--mix: at least one weight must be more than 0"},
                  {was_given(&sqlite->checkpoint) && strcmp(sqlite->journal_mode, "WAL") != 0,
                   "--checkpoint is for --journal-mode WAL"},
                  {sqlite->random_order && !inserts,
                   "--random-order is for inserts: other operations always have a random order"},
                  {job->compat_rng, "--compat-rng is for file: Mobibench's keys come from the C library's rand()"});
}

static int check_postmark(const struct bench_job *job)
{
    const struct postmark_job *postmark = &job->postmark;
    return REFUSE({postmark->least < 1 || postmark->least > postmark->most, "--file-size: expected LOW from 1 to HIGH"},
                  {postmark->files < job->threads, "--files: fewer than the workers (--numjobs)"},
                  {job->shared, "--shared is for file and sqlite: postmark's workers have directories of their own"},
                  {job->compat_rng, "--compat-rng is for file: Mobibench has no PostMark"});
}

static int check_ends(const struct bench_job *job)
{
    bool few = job->ops && job->ops < job->threads;
    return REFUSE(
        {few && job->workload == BENCH_FILE, "--number_ios: fewer than the workers (--numjobs)"},
        {few, "--transactions: fewer than the workers (--numjobs)"},
        {job->warmup_ns && !job->duration_ns,
         "--ramp_time needs --runtime, or the work may be done before the warm-up is over"},
        {job->rate && job->think_ns, "--rate_iops says when operations are due: leave out --thinktime"},
        {job->compat_rng && was_given(&job->seed), "--compat-rng: Mobibench's seed is fixed; leave out --randseed"});
}

int bench_refuse(const struct refusal *refusals, size_t count)
{
    for (size_t index = 0; index < count; index++)
        if (refusals[index].applies)
            return print_error("%s", refusals[index].sentence);
    return 0;
}

/* Check that the output can be written now, not after hours of measuring. */
static int check_output(const char *path)
{
    char above[4096];
    if (!path)
        return 0;
    if (!strcmp(path, "-"))
        return print_error("--record -: standard output has the results; name a file");
    int file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
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
