#include <ctype.h>
#include <strings.h>

#include "iobench/bench.h"

#define NS_PER_US     1000
#define NS_PER_MS     1000000
#define DEFAULT_BYTES (INT64_C(1) << 20) /* of all files, as in Mobibench */

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
    int64_t fsync = arguments->fsync, fdatasync = arguments->fdatasync;
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
    if (was_given(&arguments->direct) || was_given(&arguments->sync) || was_given(&arguments->fsync) ||
        was_given(&arguments->fdatasync) || arguments->sync_file_range)
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
    job->mode.open_flags = sync_flags[arguments->sync] | (arguments->direct ? O_DIRECT : 0);
    return make_after(job, arguments);
}

static void make_layout(struct file_job *job, const struct arguments *arguments)
{
    if (job->access == ACCESS_APPEND || arguments->fallocate >= 0 || arguments->overwrite >= 0)
        job->layout = arguments->fallocate == 1 ? LAYOUT_ALLOCATED : LAYOUT_EMPTY;
    if (arguments->overwrite == 1)
        job->layout = LAYOUT_WRITTEN;
}

/* Return the size of a named file or device. */
static int64_t named_bytes(const char *path)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* O_NONBLOCK: it may be a pipe without a writer */
    int64_t bytes = file < 0 ? -1 : lseek(file, 0, SEEK_END);
    if (bytes < 0)
        print_error("--filename %s: cannot be read (%s)", path, strerror(errno));
    close_file(file);
    return bytes;
}

static int make_size(struct bench_job *job)
{
    int64_t files = job->shared ? 1 : job->threads;
    if (was_given(&job->file.size))
        return 0;
    if (job->filename)
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
    job->file.verify_all = arguments->verify == 1;
    job->final_sync = job->file.access != ACCESS_READ && arguments->end_fsync != 0;
    return make_size(job);
}

static int check_checkpoint(const char *text)
{
    int64_t every;
    if (!strcmp(text, "auto") || !strcmp(text, "none") || (numbers(text, 0, &every, 1) && every > 0))
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
    if (op < 0 || journal < 0 || sync < 0 || check_checkpoint(sqlite->checkpoint))
        return -1;
    if (!numbers(arguments->mix ? arguments->mix : "1:1:1:1", ':', sqlite->mix, 4))
        return print_error("--mix %s: expected four weights, of insert:update:delete:select", arguments->mix);
    sqlite->op = (enum sqlite_op)op;
    sqlite->journal_mode = journals[journal];
    sqlite->synchronous = sqlite_synchronous[sync];
    job->ops = arguments->transactions >= 0 ? arguments->transactions : job->duration_ns ? 0 : 10;
    job->final_sync = arguments->end_fsync != 0;
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
    postmark->transactions = arguments->transactions >= 0 ? arguments->transactions : job->duration_ns ? 0 : 500;
    postmark->buffered = !arguments->unbuffered;
    job->ops = postmark->transactions;
    job->final_sync = arguments->end_fsync == 1;
    return 0;
}

static void make_workers(struct bench_job *job, const struct arguments *arguments)
{
    static const enum cache_state caches[] = {CACHE_COLD, CACHE_WARM, CACHE_UNKNOWN};
    job->processes = !arguments->thread;
    job->shared |= job->filename && job->threads > 1;
    job->think_ns = arguments->thinktime_us * NS_PER_US;
    job->interval_ns = arguments->interval_ms * NS_PER_MS;
    job->cache = caches[arguments->cache >= 0 ? arguments->cache : job->workload == BENCH_POSTMARK ? 2 : 0];
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
    make_workers(job, arguments);
    return make_workload(job, arguments) || make_engine(job, arguments) ? -1 : 0;
}
