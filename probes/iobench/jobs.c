#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/errors.h"
#include "iobench/modes.h"
#include "iobench/options.h"

#define NS_PER_US     1000
#define NS_PER_MS     1000000
#define DEFAULT_BYTES (INT64_C(1) << 20) /* of all files, as in Mobibench */

static int64_t or_else(int64_t number, int64_t otherwise)
{
    return given(number) ? number : otherwise;
}

/* Return the index of `text` in `words`, or -1 after printing an error. */
static int which(const char *option, const char *text, const char *const *words, int count)
{
    char list[128] = "";

    for (int index = 0; index < count; index++) {
        size_t length = strlen(list);

        if (!strcasecmp(words[index], text))
            return index;
        snprintf(list + length, sizeof list - length, "%s%s", index ? ", " : "", words[index]);
    }
    return print_error("--%s %s: expected one of %s", option, text, list);
}

/* Parse `count` numbers separated by `between`, and nothing else. */
static bool numbers(const char *text, char between, int64_t *into, int count)
{
    for (int index = 0; index < count; index++) {
        char *end;

        errno = 0;
        if (!isdigit((unsigned char)*text))
            return false;
        into[index] = strtoll(text, &end, 10);
        if (errno || *end != (index + 1 < count ? between : '\0'))
            return false;
        text = end + 1;
    }
    return true;
}

static int make_access(struct file_job *job, const struct arguments *arguments)
{
    static const char *const words[] = {"write", "randwrite", "read", "randread", "append", "rw", "randrw"};
    static const enum file_access access[] = {ACCESS_WRITE,  ACCESS_WRITE, ACCESS_READ, ACCESS_READ,
                                              ACCESS_APPEND, ACCESS_MIXED, ACCESS_MIXED};
    int index = which("rw", arguments->rw ? arguments->rw : "write", words, 7);

    if (index < 0)
        return -1;
    job->access = access[index];
    job->random = !strncmp(words[index], "rand", 4);
    job->read_percent = or_else(arguments->rwmixread, 50);
    return 0;
}

static int make_range(struct file_job *job, const char *text)
{
    const char *word = text;

    job->mode.range_flags = 0;
    for (;;) {
        size_t length = strcspn(word, ",:"), index = 0;

        while (index < MODE_RANGE_FLAGS && (strlen(mode_range_flags[index].word) != length ||
                                            strncmp(mode_range_flags[index].word, word, length) != 0))
            index++;
        if (index == MODE_RANGE_FLAGS)
            break;
        job->mode.range_flags |= mode_range_flags[index].flag;
        word += length + 1;
        if (word[-1] == ':' && numbers(word, 0, &job->after_every, 1) && job->after_every)
            return 0;
        if (word[-1] != ',')
            break;
    }
    return print_error("--sync_file_range %s: expected words of wait_before, write and wait_after with commas between "
                       "them, then :N",
                       text);
}

/* Set the sync after writes from fio's options; at most one of them may be given. */
static int make_after(struct file_job *job, const struct arguments *arguments)
{
    int64_t fsync = or_else(arguments->fsync, 0), fdatasync = or_else(arguments->fdatasync, 0);

    if ((fsync != 0) + (fdatasync != 0) + (arguments->sync_file_range != NULL) > 1)
        return print_error("--fsync, --fdatasync and --sync_file_range: give one of them");
    if (fsync || fdatasync) {
        job->mode.after = fsync ? AFTER_FSYNC : AFTER_FDATASYNC;
        job->after_every = fsync ? fsync : fdatasync;
    }
    if (!arguments->sync_file_range)
        return 0;
    job->mode.after = AFTER_RANGE;
    return make_range(job, arguments->sync_file_range);
}

static int make_named_mode(struct file_job *job, const struct arguments *arguments)
{
    if (given(arguments->direct) || given(arguments->sync) || given(arguments->fsync) || given(arguments->fdatasync) ||
        arguments->sync_file_range)
        return print_error(
            "--mode %s says it all: leave out --direct, --sync, --fsync, --fdatasync and --sync_file_range",
            arguments->mode);
    if (!mode_by_name(arguments->mode, &job->mode))
        return print_error("--mode %s: expected buffered, osync, odsync, fsync, fdatasync, direct, direct_osync, mmap, "
                           "mmap_async, mmap_sync, sync_file_range, rwf_dsync, fbarrier or fdatabarrier",
                           arguments->mode);
    return 0;
}

/* Choose the engine; this also determines whether the mode uses a mapping. */
static int make_engine(struct bench_job *job, const struct arguments *arguments)
{
    struct file_mode *mode = &job->file.mode;
    const char *name = !arguments->ioengine && mode->mapped ? "mmap" : arguments->ioengine;
    char names[BENCH_NAMES];

    job->engine = bench_engine_find(job->workload, name);
    if (!job->engine) {
        bench_engine_names(job->workload, names);
        return print_error("--ioengine %s: expected one of %s", name, names);
    }
    if (arguments->mode && mode->mapped != job->engine->maps)
        return print_error("--mode %s and --ioengine contradict each other", arguments->mode);
    mode->mapped = job->engine->maps;
    return 0;
}

static int make_mode(struct file_job *job, const struct arguments *arguments)
{
    static const int sync_flags[] = {0, O_SYNC, O_DSYNC};

    job->after_every = 1;
    if (arguments->mode)
        return make_named_mode(job, arguments);
    job->mode.open_flags = sync_flags[or_else(arguments->sync, 0)] | (or_else(arguments->direct, 0) ? O_DIRECT : 0);
    return make_after(job, arguments);
}

static void make_layout(struct file_job *job, const struct arguments *arguments)
{
    bool allocate = or_else(arguments->fallocate, 0) == 1;

    if (job->access == ACCESS_APPEND || given(arguments->fallocate) || given(arguments->overwrite))
        job->layout = allocate ? LAYOUT_ALLOCATED : LAYOUT_EMPTY;
    if (or_else(arguments->overwrite, 0))
        job->layout = LAYOUT_WRITTEN;
}

/* Return the size of a named file or device. */
static int64_t named_bytes(const char *path)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* O_NONBLOCK: it may be a pipe without a writer */
    int64_t bytes = file < 0 ? -1 : lseek(file, 0, SEEK_END);

    if (bytes < 0)
        print_error("--filename %s: cannot be read (%s)", path, strerror(errno));
    if (file >= 0)
        close(file);
    return bytes;
}

static int make_size(struct bench_job *job, const struct arguments *arguments)
{
    int64_t files = job->shared ? 1 : job->threads;

    job->file.record = or_else(arguments->bs, 4096);
    if (given(arguments->size))
        job->file.size = arguments->size;
    else if (job->filename)
        job->file.size = named_bytes(job->filename);
    else if (DEFAULT_BYTES % (files * job->file.record) == 0)
        job->file.size = DEFAULT_BYTES / files;
    else
        return print_error("--size: 1 MiB for all files together (the default) cannot be %" PRId64 " file%s of whole "
                           "records of %" PRId64 " bytes; give the --size of each file",
                           files, files > 1 ? "s" : "", job->file.record);
    return job->file.size < 0 ? -1 : 0;
}

static int make_file(struct bench_job *job, const struct arguments *arguments)
{
    if (make_access(&job->file, arguments) || make_mode(&job->file, arguments))
        return -1;
    make_layout(&job->file, arguments);
    job->file.depth = or_else(arguments->iodepth, 1);
    job->file.overlap = or_else(arguments->overlap, 0);
    job->file.loops = or_else(arguments->loops, 1);
    job->file.verify_all = or_else(arguments->verify, 0) == 1;
    job->compress = or_else(arguments->compress, 0);
    job->dedupe = or_else(arguments->dedupe, 0);
    job->ops = or_else(arguments->number_ios, 0);
    job->final_sync = job->file.access != ACCESS_READ && or_else(arguments->end_fsync, 1);
    return make_size(job, arguments);
}

static int make_checkpoint(struct sqlite_job *job, const char *text)
{
    int64_t every;

    job->checkpoint = text ? text : "auto";
    if (!strcmp(job->checkpoint, "auto") || !strcmp(job->checkpoint, "none") ||
        (numbers(job->checkpoint, 0, &every, 1) && every > 0))
        return 0;
    return print_error("--checkpoint %s: expected auto, none, or after how many transactions", text);
}

static int make_sqlite(struct bench_job *job, const struct arguments *arguments)
{
    static const char *const ops[] = {"insert", "update", "delete", "select", "mixed"};
    static const char *const journals[] = {"DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"};
    struct sqlite_job *sqlite = &job->sqlite;
    int op = which("sqlite-op", arguments->sqlite_op ? arguments->sqlite_op : "insert", ops, 5);
    int journal = which("journal-mode", arguments->journal_mode ? arguments->journal_mode : "TRUNCATE", journals, 6);
    int sync = which("synchronous", arguments->synchronous ? arguments->synchronous : "FULL", sqlite_synchronous, 4);

    if (op < 0 || journal < 0 || sync < 0 || make_checkpoint(sqlite, arguments->checkpoint))
        return -1;
    if (!numbers(arguments->mix ? arguments->mix : "1:1:1:1", ':', sqlite->mix, 4))
        return print_error("--mix %s: expected four weights, of insert:update:delete:select", arguments->mix);
    sqlite->op = (enum sqlite_op)op;
    sqlite->journal_mode = journals[journal];
    sqlite->synchronous = sqlite_synchronous[sync];
    sqlite->rows = or_else(arguments->rows, 1);
    sqlite->prefilled = or_else(arguments->prefilled, -1);
    sqlite->value = or_else(arguments->value_size, 100);
    sqlite->page = or_else(arguments->page_size, 4096);
    sqlite->tables = or_else(arguments->tables, 3);
    sqlite->databases = or_else(arguments->databases, 1);
    sqlite->random_order = arguments->random_order;
    sqlite->library = arguments->library;
    job->ops = or_else(arguments->transactions, given(arguments->runtime) ? 0 : 10);
    job->final_sync = or_else(arguments->end_fsync, 1);
    return 0;
}

static int make_postmark(struct bench_job *job, const struct arguments *arguments)
{
    struct postmark_job *postmark = &job->postmark;
    int64_t sizes[2];

    if (!numbers(arguments->file_size ? arguments->file_size : "500:10000", ':', sizes, 2))
        return print_error("--file-size %s: expected LOW:HIGH in bytes", arguments->file_size);
    postmark->least = sizes[0];
    postmark->most = sizes[1];
    postmark->files = or_else(arguments->files, 500);
    postmark->transactions = or_else(arguments->transactions, given(arguments->runtime) ? 0 : 500);
    postmark->read_block = or_else(arguments->read_block, 512);
    postmark->write_block = or_else(arguments->write_block, 512);
    postmark->bias_read = or_else(arguments->bias_read, 5);
    postmark->bias_create = or_else(arguments->bias_create, 5);
    postmark->subdirectories = or_else(arguments->subdirectories, 0);
    postmark->buffered = !arguments->unbuffered;
    job->ops = postmark->transactions;
    job->final_sync = or_else(arguments->end_fsync, 0);
    return 0;
}

static void make_workers(struct bench_job *job, const struct arguments *arguments)
{
    static const enum cache_state caches[] = {CACHE_COLD, CACHE_WARM, CACHE_UNKNOWN};

    job->threads = or_else(arguments->numjobs, 1);
    job->processes = !or_else(arguments->thread, 1);
    job->shared = arguments->shared || (arguments->filename && job->threads > 1);
    job->duration_ns = or_else(arguments->runtime, 0);
    job->warmup_ns = or_else(arguments->ramp_time, 0);
    job->rate = or_else(arguments->rate_iops, 0);
    job->think_ns = or_else(arguments->thinktime_us, 0) * NS_PER_US;
    job->seed = (uint64_t)or_else(arguments->randseed, 1);
    job->compat_rng = arguments->compat_rng;
    job->cache = caches[or_else(arguments->cache, job->workload == BENCH_POSTMARK ? 2 : 0)];
}

static int make_workload(struct bench_job *job, const struct arguments *arguments)
{
    switch (job->workload) {
    case BENCH_FILE:
        return make_file(job, arguments);
    case BENCH_SQLITE:
        return make_sqlite(job, arguments);
    case BENCH_POSTMARK:
        break;
    }
    return make_postmark(job, arguments);
}

int job_make(struct bench_job *job, const struct arguments *arguments)
{
    *job = (struct bench_job){.workload = arguments->workload,
                              .directory = arguments->directory ? arguments->directory : ".",
                              .filename = arguments->filename,
                              .raw = arguments->raw,
                              .overwrite = arguments->i_know,
                              .keep = arguments->keep,
                              .repeats = or_else(arguments->repeats, 1),
                              .interval_ns = or_else(arguments->interval_ms, 100) * NS_PER_MS,
                              .log_ops = arguments->log_ops};
    make_workers(job, arguments);
    return make_workload(job, arguments) || make_engine(job, arguments) ? -1 : 0;
}
