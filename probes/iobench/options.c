#include "iobench/options.h"

#include <string.h>

#include "common/errors.h"
#include "common/opts.h"

#define MOST_BYTES  ((int64_t)1 << 50)
#define MOST_RECORD ((int64_t)1 << 30)
#define MOST_COUNT  ((int64_t)1 << 40)
#define MOST_NS     (INT64_C(366) * 86400 * 1000000000)

/* Parsed options, with defaults. */
static struct bench_plan plan = {
    .job = {
        .directory = ".",
        .threads = 1,
        .seed = 1,
        .repeats = 1,
        .file = {.read_percent = 50, .record = 4096, .depth = 1, .loops = 1},
        .sqlite =
            {.checkpoint = "auto", .rows = 1, .prefilled = -1, .value = 100, .page = 4096, .tables = 3, .databases = 1},
        .postmark = {.files = 500, .read_block = 512, .write_block = 512, .bias_read = 5, .bias_create = 5}}};
static struct arguments arguments = {.end_fsync = -1,
                                     .overwrite = -1,
                                     .fallocate = -1,
                                     .thread = 1,
                                     .cache = -1,
                                     .transactions = -1,
                                     .interval_ms = 100};

/* The name of a heading is the workload of the following options, EVERY for all workloads, or NO_JOB. */
#define EVERY  "every"
#define NO_JOB "none"

static const struct opt table[] = {
    {0, EVERY, NULL, "where", OPT_HEADING, NULL, 0, 0},
    {'p', "directory", "DIR", "create the files in a new directory in DIR; default: here", OPT_TEXT,
     &plan.job.directory, 0, 0},
    {0, "filename", "PATH", "instead, measure this existing file or device", OPT_TEXT, &plan.job.filename, 0, 0},
    {0, "raw", NULL, "PATH is a block device; needs --i-know", OPT_FLAG, &plan.job.raw, 0, 0},
    {0, "i-know", NULL, "allow the data in PATH to be overwritten", OPT_FLAG, &plan.job.overwrite, 0, 0},
    {0, "keep", NULL, "leave the files in DIR/iobench-kept, and reuse those of an earlier run of\niobench file",
     OPT_FLAG, &plan.job.keep, 0, 0},

    {0, EVERY, NULL, "workers and time", OPT_HEADING, NULL, 0, 0},
    {'t', "numjobs", "N", "workers; default: 1", OPT_NUMBER, &plan.job.threads, 1, BENCH_WORKERS},
    {0, "thread", "0|1", "workers are threads (1, the default) or processes (0)", OPT_NUMBER, &arguments.thread, 0, 1},
    {0, "shared", NULL, "all workers use one file or database; default: each its own", OPT_FLAG, &plan.job.shared, 0,
     0},
    {0, "runtime", "S", "measure for S seconds (300ms, 2m), over and over", OPT_TIME, &plan.job.duration_ns, 1,
     MOST_NS},
    {0, "ramp_time", "S", "before that, S seconds that are not measured", OPT_TIME, &plan.job.warmup_ns, 0, MOST_NS},
    {0, "rate_iops", "N",
     "N operations per second of all workers together (fio: of each), each due\nat a fixed time, whether or not the "
     "ones "
     "before are done; latency counts from then",
     OPT_NUMBER, &plan.job.rate, 1, 1000000000},
    {0, "thinktime", "US", "pause of microseconds after each operation, which no latency or rate includes", OPT_NUMBER,
     &arguments.thinktime_us, 0, 3600000000},
    {0, "end_fsync", "0|1",
     "sync everything at the end, within the measured time (sqlite: the last\ncheckpoint of the WAL); default: 1, for "
     "postmark 0 (fio: 0)",
     OPT_NUMBER, &arguments.end_fsync, 0, 1},
    {0, "randseed", "N", "seed of orders and data; default: 1", OPT_NUMBER, &plan.job.seed, 0, INT64_MAX},
    {0, "compat-rng", NULL, "random orders of Mobibench 1.0.9, record by record", OPT_FLAG, &plan.job.compat_rng, 0, 0},
    {0, "cache", "cold|warm|any",
     "bring the page cache into this state and verify it (cold: no record may be\nread twice, unless "
     "--direct 1); any: leave it and report its state;\ndefault: cold, for postmark any",
     OPT_CHOICE, &arguments.cache, 0, 0},

    {0, "file", NULL, "iobench file", OPT_HEADING, NULL, 0, 0},
    {'a', "rw", "WORD", "write (the default), randwrite, read, randread, append; rw, randrw: reads and\nwrites",
     OPT_TEXT, &arguments.rw, 0, 0},
    {0, "rwmixread", "PCT", "percent of reads in rw and randrw; default: 50", OPT_NUMBER, &plan.job.file.read_percent,
     0, 100},
    {0, "size", "SIZE", "bytes of each file (4k, 1m, 2g); default: 1 MiB for all together", OPT_SIZE,
     &plan.job.file.size, 1, MOST_BYTES},
    {0, "bs", "SIZE", "bytes of one record; default: 4k", OPT_SIZE, &plan.job.file.record, 1, MOST_RECORD},
    {'y', "mode", "WORD",
     "how writes are made durable: buffered (the default), osync, fsync, direct,\ndirect_osync, mmap, mmap_async, "
     "mmap_sync, fdatasync, fbarrier, fdatabarrier,\nodsync, sync_file_range, rwf_dsync; or a combination of the "
     "following",
     OPT_TEXT, &arguments.mode, 0, 0},
    {0, "ioengine", "NAME", "one of the engines below; default: psync", OPT_TEXT, &arguments.ioengine, 0, 0},
    {0, "direct", "0|1", "O_DIRECT", OPT_NUMBER, &arguments.direct, 0, 1},
    {0, "sync", "none|sync|dsync", "O_SYNC, O_DSYNC", OPT_CHOICE, &arguments.sync, 0, 0},
    {0, "fsync", "N", "fsync after every N writes; 0: none", OPT_NUMBER, &arguments.fsync, 0, MOST_COUNT},
    {0, "fdatasync", "N", "fdatasync after every N writes; 0: none", OPT_NUMBER, &arguments.fdatasync, 0, MOST_COUNT},
    {0, "sync_file_range", "FLAGS:N", "after every N writes, with FLAGS of wait_before,write,wait_after", OPT_TEXT,
     &arguments.sync_file_range, 0, 0},
    {0, "iodepth", "N", "requests in flight of each worker; more than 1 needs io_uring", OPT_NUMBER,
     &plan.job.file.depth, 1, 4096},
    {0, "overwrite", "0|1", "writes go over blocks written before (1, the default), or extend the file (0)", OPT_NUMBER,
     &arguments.overwrite, 0, 1},
    {0, "fallocate", "none|native", "native: writes go to blocks that are allocated and not yet written", OPT_CHOICE,
     &arguments.fallocate, 0, 0},
    {'v', "overlap", "PCT", "percent of random records that repeat the offset of another; default: 0", OPT_NUMBER,
     &plan.job.file.overlap, 0, 99},
    {0, "verify", "sample|all",
     "after the run, verify a sample of the records, or all, against the data\nwritten last; default: sample",
     OPT_CHOICE, &arguments.verify, 0, 0},
    {0, "loops", "N", "passes over the file; default: 1", OPT_NUMBER, &plan.job.file.loops, 1, MOST_COUNT},
    {0, "number_ios", "N", "end after N records of all workers together (fio: of each)", OPT_NUMBER, &plan.job.ops, 1,
     MOST_COUNT},
    {0, "buffer_compress_percentage", "PCT", "compressible percentage of the data; default: 0", OPT_NUMBER,
     &plan.job.compress, 0, 100},
    {0, "dedupe_percentage", "PCT", "percentage of records that repeat an earlier one; default: 0", OPT_NUMBER,
     &plan.job.dedupe, 0, 100},

    {0, "sqlite or postmark", NULL, "iobench sqlite and iobench postmark", OPT_HEADING, NULL, 0, 0},
    {'n', "transactions", "N", "of all workers together; default: 10 for sqlite, 500 for postmark", OPT_NUMBER,
     &arguments.transactions, 1, MOST_COUNT},

    {0, "sqlite", NULL, "iobench sqlite", OPT_HEADING, NULL, 0, 0},
    {'d', "sqlite-op", "WORD", "insert (the default), update, delete, select, mixed", OPT_TEXT, &arguments.sqlite_op, 0,
     0},
    {'j', "journal-mode", "WORD", "DELETE, TRUNCATE (the default), PERSIST, WAL, MEMORY, OFF", OPT_TEXT,
     &arguments.journal_mode, 0, 0},
    {'s', "synchronous", "WORD", "OFF, NORMAL, FULL (the default), EXTRA", OPT_TEXT, &arguments.synchronous, 0, 0},
    {'T', "tables", "N", "tables of each database; default: 3", OPT_NUMBER, &plan.job.sqlite.tables, 1, 1000},
    {'D', "databases", "N", "databases of each worker, all but one attached; default: 1", OPT_NUMBER,
     &plan.job.sqlite.databases, 1, 126},
    {0, "rows", "N", "rows of each table that one transaction touches; default: 1", OPT_NUMBER, &plan.job.sqlite.rows,
     1, 1000000},
    {0, "value-size", "SIZE", "bytes of a row's value; default: 100", OPT_SIZE, &plan.job.sqlite.value, 1, 1000000000},
    {0, "prefilled", "N", "rows of each table before the measurement; default: as many as needed", OPT_NUMBER,
     &plan.job.sqlite.prefilled, 0, MOST_COUNT},
    {0, "page-size", "SIZE", "bytes of a page; default: 4k", OPT_SIZE, &plan.job.sqlite.page, 512, 65536},
    {0, "random-order", NULL, "insert keys in random order", OPT_FLAG, &plan.job.sqlite.random_order, 0, 0},
    {0, "checkpoint", "auto|none|N", "of the WAL: SQLite's way, never, or after every N transactions", OPT_TEXT,
     &plan.job.sqlite.checkpoint, 0, 0},
    {0, "mix", "I:U:D:S", "weights of insert, update, delete and select in mixed; default: 1:1:1:1", OPT_TEXT,
     &arguments.mix, 0, 0},
    {0, "sqlite-library", "PATH", "use this libsqlite3.so instead of the one built in", OPT_TEXT,
     &plan.job.sqlite.library, 0, 0},

    {0, "postmark", NULL, "iobench postmark (defaults are PostMark's)", OPT_HEADING, NULL, 0, 0},
    {0, "files", "N", "files at the start; default: 500", OPT_NUMBER, &plan.job.postmark.files, 1, 1000000000},
    {0, "file-size", "LOW:HIGH", "bytes of a file; default: 500:10000", OPT_TEXT, &arguments.file_size, 0, 0},
    {0, "read-block", "SIZE", "bytes of one read; default: 512", OPT_SIZE, &plan.job.postmark.read_block, 1,
     MOST_RECORD},
    {0, "write-block", "SIZE", "bytes of one write; default: 512", OPT_SIZE, &plan.job.postmark.write_block, 1,
     MOST_RECORD},
    {0, "bias-read", "N", "of ten, N read and the rest append; -1: neither; default: 5", OPT_NUMBER,
     &plan.job.postmark.bias_read, -1, 10},
    {0, "bias-create", "N", "of ten, N create and the rest delete; -1: neither; default: 5", OPT_NUMBER,
     &plan.job.postmark.bias_create, -1, 10},
    {0, "subdirectories", "N", "spread the files over N directories; default: 0, none", OPT_NUMBER,
     &plan.job.postmark.subdirectories, 0, 1000000},
    {0, "unbuffered", NULL, "read(2) and write(2) instead of stdio", OPT_FLAG, &arguments.unbuffered, 0, 0},

    {0, NO_JOB, NULL, "statistics", OPT_HEADING, NULL, 0, 0},
    {0, "repeats", "N", "repeat each measurement; default: 1", OPT_NUMBER, &plan.job.repeats, 1, 1000000},
    {0, "interval", "MS", "windows of the time series; default: 100", OPT_NUMBER, &arguments.interval_ms, 1, 3600000},
    {0, "log-ops", NULL, "keep the latency of each single operation, for --record", OPT_FLAG, &plan.job.log_ops, 0, 0},

    {0, "point", "N", "number of this configuration in the records; default: 0", OPT_NUMBER, &plan.point, 0, 1000000},

    {0, NO_JOB, NULL, "output", OPT_HEADING, NULL, 0, 0},
    {'o', "record", "FILE", "write all results to FILE (probes/FORMAT.md)", OPT_TEXT, &plan.record, 0, 0},
    {'q', "quiet", NULL, "no progress on standard error", OPT_FLAG, &plan.quiet, 0, 0},
    {0, "dry-run", NULL, "check the options, write them to --record, and do nothing else", OPT_FLAG, &plan.dry_run, 0,
     0},
    {0, "describe", NULL, "print the record types as JSON and do nothing else", OPT_FLAG, &plan.describe, 0, 0},
    {0, "version", NULL, "print the version and do nothing else", OPT_FLAG, &plan.version, 0, 0},
    {'h', "help", NULL, "print this text and do nothing else", OPT_FLAG, &plan.help, 0, 0},
};

static const char about[] =
    "Measures storage: files (the default), SQLite, or many small files as in PostMark. It first lays\n"
    "out the data and brings the page cache into a known state, which is verified. Only completed\n"
    "operations are counted. All created files are removed at the end. Options have the names of fio\n"
    "if it has them; the letters and their numbers in parentheses are those of Mobibench.";

static const char more[] =
    "examples:\n"
    "  iobench -p /data/local/tmp --rw randwrite --size 64m --mode fsync --repeats 5\n"
    "  iobench -p /mnt --rw randread --size 1g --direct 1 --runtime 10\n"
    "  iobench sqlite -p /mnt -n 1000 -j WAL -s NORMAL\n"
    "  iobench postmark -p /mnt --files 1000 -n 10000 -o results.rec\n"
    "\n"
    "Exit status: 0 when every repetition is valid; else 1, and the results so far are printed and\n"
    "marked as invalid.";

static bool given[sizeof table / sizeof *table];
static const struct opts options = {"[file|sqlite|postmark] [OPTION...]", about, more, table,
                                    sizeof table / sizeof *table,         given};

bool was_given(const void *into)
{
    size_t index = 0;

    while (table[index].into != into)
        index++;
    return given[index];
}

/* Reject options of another workload: those after a heading that does not name this workload. */
static int check_workload(void)
{
    const char *whose = EVERY;
    char called[64];

    for (size_t index = 0; index < options.count; index++) {
        if (table[index].kind == OPT_HEADING)
            whose = table[index].name;
        if (!given[index] || !strcmp(whose, EVERY) || !strcmp(whose, NO_JOB) ||
            strstr(whose, bench_workloads[plan.job.workload]))
            continue;
        return print_error("%s is an option of iobench %s, and this is iobench %s", opts_call(&table[index], called),
                           whose, bench_workloads[plan.job.workload]);
    }
    return 0;
}

/* Parse the workload unless the first word is an option. Returns the number of words used, or -1 after printing an
 * error. */
static int take_workload(char **argv)
{
    if (argv[1][0] == '-')
        return 0;
    for (int index = 0; index < 3; index++)
        if (!strcmp(argv[1], bench_workloads[index])) {
            plan.job.workload = (enum bench_workload)index;
            return 1;
        }
    return print_error("%s: expected file, sqlite, postmark or an option; see --help", argv[1]);
}

static int take_words(int argc, char **argv)
{
    int first, skipped = take_workload(argv);

    if (skipped < 0)
        return -1;
    first = opts_parse(&options, argc - skipped, argv + skipped);
    if (first < 0)
        return -1;
    if (first < argc - skipped)
        return print_error("%s: expected an option; the workload comes first", argv[skipped + first]);
    if (!skipped && arguments.sqlite_op)
        plan.job.workload = BENCH_SQLITE; /* the option implies it */
    return check_workload();
}

int plan_parse(struct bench_plan *parsed, int argc, char **argv)
{
    if (argc < 2)
        return print_error("name a workload: `iobench file` measures files with the defaults; see --help");
    if (take_words(argc, argv))
        return -1;
    if (!(plan.help || plan.describe || plan.version) &&
        (job_make(&plan.job, &arguments) || job_check(&plan.job, &arguments, plan.record)))
        return -1;
    *parsed = plan;
    return 0;
}

int plan_help(FILE *out)
{
    char names[BENCH_NAMES];

    bench_engine_names(BENCH_FILE, names);
    return opts_help(out, &options, "iobench") || fprintf(out, "\nEngines: %s.\n", names) < 0 ? -1 : 0;
}
