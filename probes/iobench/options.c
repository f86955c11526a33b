#include "iobench/bench.h"

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
#define EVERY                "every"
#define NO_JOB               "none"
#define HEADING(whose, help) {OPT_HEADING, 0, whose, NULL, NULL, 0, 0, help}

static const struct opt table[] = {
    HEADING(EVERY, "where"),
    {OPT_TEXT, 'p', "directory", "DIR", &plan.job.directory, 0, 0,
     "create the files in a new directory in DIR; default: here"},
    {OPT_TEXT, 0, "filename", "PATH", &plan.job.filename, 0, 0, "instead, measure this existing file or device"},
    {OPT_FLAG, 0, "raw", NULL, &plan.job.raw, 0, 0, "PATH is a block device; needs --i-know"},
    {OPT_FLAG, 0, "i-know", NULL, &plan.job.overwrite, 0, 0, "allow the data in PATH to be overwritten"},
    {OPT_FLAG, 0, "keep", NULL, &plan.job.keep, 0, 0,
     "leave the files in DIR/iobench-kept, and reuse those of an earlier run of\niobench file"},
    HEADING(EVERY, "workers and time"),
    {OPT_NUMBER, 't', "numjobs", "N", &plan.job.threads, 1, BENCH_WORKERS, "workers; default: 1"},
    {OPT_NUMBER, 0, "thread", "0|1", &arguments.thread, 0, 1, "workers are threads (1, the default) or processes (0)"},
    {OPT_FLAG, 0, "shared", NULL, &plan.job.shared, 0, 0,
     "all workers use one file or database; default: each its own"},
    {OPT_TIME, 0, "runtime", "S", &plan.job.duration_ns, 1, MOST_NS,
     "measure for S seconds (300ms, 2m), over and over"},
    {OPT_TIME, 0, "ramp_time", "S", &plan.job.warmup_ns, 0, MOST_NS, "before that, S seconds that are not measured"},
    {OPT_NUMBER, 0, "rate_iops", "N", &plan.job.rate, 1, 1000000000,
     "N operations per second of all workers together (fio: of each), each due\n"
     "at a fixed time, whether or not the ones before are done; latency counts from then"},
    {OPT_NUMBER, 0, "thinktime", "US", &arguments.thinktime_us, 0, 3600000000,
     "pause of microseconds after each operation, which no latency or rate includes"},
    {OPT_NUMBER, 0, "end_fsync", "0|1", &arguments.end_fsync, 0, 1,
     "sync everything at the end, within the measured time (sqlite: the last\ncheckpoint of the WAL); default: 1, for "
     "postmark 0 (fio: 0)"},
    {OPT_NUMBER, 0, "randseed", "N", &plan.job.seed, 0, INT64_MAX, "seed of orders and data; default: 1"},
    {OPT_FLAG, 0, "compat-rng", NULL, &plan.job.compat_rng, 0, 0, "random orders of Mobibench 1.0.9, record by record"},
    {OPT_CHOICE, 0, "cache", "cold|warm|any", &arguments.cache, 0, 0,
     "bring the page cache into this state and verify it (cold: no record may be\nread twice, unless "
     "--direct 1); any: leave it and report its state;\ndefault: cold, for postmark any"},
    HEADING("file", "iobench file"),
    {OPT_TEXT, 'a', "rw", "WORD", &arguments.rw, 0, 0,
     "write (the default), randwrite, read, randread, append; rw, randrw: reads and\nwrites"},
    {OPT_NUMBER, 0, "rwmixread", "PCT", &plan.job.file.read_percent, 0, 100,
     "percent of reads in rw and randrw; default: 50"},
    {OPT_SIZE, 0, "size", "SIZE", &plan.job.file.size, 1, MOST_BYTES,
     "bytes of each file (4k, 1m, 2g); default: 1 MiB for all together"},
    {OPT_SIZE, 0, "bs", "SIZE", &plan.job.file.record, 1, MOST_RECORD, "bytes of one record; default: 4k"},
    {OPT_TEXT, 'y', "mode", "WORD", &arguments.mode, 0, 0,
     "how writes are made durable: buffered (the default), osync, fsync, direct,\ndirect_osync, mmap, mmap_async, "
     "mmap_sync, fdatasync, fbarrier, fdatabarrier,\nodsync, sync_file_range, rwf_dsync; or a combination of the "
     "following"},
    {OPT_TEXT, 0, "ioengine", "NAME", &arguments.ioengine, 0, 0, "one of the engines below; default: psync"},
    {OPT_NUMBER, 0, "direct", "0|1", &arguments.direct, 0, 1, "O_DIRECT"},
    {OPT_CHOICE, 0, "sync", "none|sync|dsync", &arguments.sync, 0, 0, "O_SYNC, O_DSYNC"},
    {OPT_NUMBER, 0, "fsync", "N", &arguments.fsync, 0, MOST_COUNT, "fsync after every N writes; 0: none"},
    {OPT_NUMBER, 0, "fdatasync", "N", &arguments.fdatasync, 0, MOST_COUNT, "fdatasync after every N writes; 0: none"},
    {OPT_TEXT, 0, "sync_file_range", "FLAGS:N", &arguments.sync_file_range, 0, 0,
     "after every N writes, with FLAGS of wait_before,write,wait_after"},
    {OPT_NUMBER, 0, "iodepth", "N", &plan.job.file.depth, 1, 4096,
     "requests in flight of each worker; more than 1 needs io_uring"},
    {OPT_NUMBER, 0, "overwrite", "0|1", &arguments.overwrite, 0, 1,
     "writes go over blocks written before (1, the default), or extend the file (0)"},
    {OPT_CHOICE, 0, "fallocate", "none|native", &arguments.fallocate, 0, 0,
     "native: writes go to blocks that are allocated and not yet written"},
    {OPT_NUMBER, 'v', "overlap", "PCT", &plan.job.file.overlap, 0, 99,
     "percent of random records that repeat the offset of another; default: 0"},
    {OPT_CHOICE, 0, "verify", "sample|all", &arguments.verify, 0, 0,
     "after the run, verify a sample of the records, or all, against the data\nwritten last; default: sample"},
    {OPT_NUMBER, 0, "loops", "N", &plan.job.file.loops, 1, MOST_COUNT, "passes over the file; default: 1"},
    {OPT_NUMBER, 0, "number_ios", "N", &plan.job.ops, 1, MOST_COUNT,
     "end after N records of all workers together (fio: of each)"},
    {OPT_NUMBER, 0, "buffer_compress_percentage", "PCT", &plan.job.compress, 0, 100,
     "compressible percentage of the data; default: 0"},
    {OPT_NUMBER, 0, "dedupe_percentage", "PCT", &plan.job.dedupe, 0, 100,
     "percentage of records that repeat an earlier one; default: 0"},
    HEADING("sqlite or postmark", "iobench sqlite and iobench postmark"),
    {OPT_NUMBER, 'n', "transactions", "N", &arguments.transactions, 1, MOST_COUNT,
     "of all workers together; default: 10 for sqlite, 500 for postmark"},
    HEADING("sqlite", "iobench sqlite"),
    {OPT_TEXT, 'd', "sqlite-op", "WORD", &arguments.sqlite_op, 0, 0,
     "insert (the default), update, delete, select, mixed"},
    {OPT_TEXT, 'j', "journal-mode", "WORD", &arguments.journal_mode, 0, 0,
     "DELETE, TRUNCATE (the default), PERSIST, WAL, MEMORY, OFF"},
    {OPT_TEXT, 's', "synchronous", "WORD", &arguments.synchronous, 0, 0, "OFF, NORMAL, FULL (the default), EXTRA"},
    {OPT_NUMBER, 'T', "tables", "N", &plan.job.sqlite.tables, 1, 1000, "tables of each database; default: 3"},
    {OPT_NUMBER, 'D', "databases", "N", &plan.job.sqlite.databases, 1, 126,
     "databases of each worker, all but one attached; default: 1"},
    {OPT_NUMBER, 0, "rows", "N", &plan.job.sqlite.rows, 1, 1000000,
     "rows of each table that one transaction touches; default: 1"},
    {OPT_SIZE, 0, "value-size", "SIZE", &plan.job.sqlite.value, 1, 1000000000, "bytes of a row's value; default: 100"},
    {OPT_NUMBER, 0, "prefilled", "N", &plan.job.sqlite.prefilled, 0, MOST_COUNT,
     "rows of each table before the measurement; default: as many as needed"},
    {OPT_SIZE, 0, "page-size", "SIZE", &plan.job.sqlite.page, 512, 65536, "bytes of a page; default: 4k"},
    {OPT_FLAG, 0, "random-order", NULL, &plan.job.sqlite.random_order, 0, 0, "insert keys in random order"},
    {OPT_TEXT, 0, "checkpoint", "auto|none|N", &plan.job.sqlite.checkpoint, 0, 0,
     "of the WAL: SQLite's way, never, or after every N transactions"},
    {OPT_TEXT, 0, "mix", "I:U:D:S", &arguments.mix, 0, 0,
     "weights of insert, update, delete and select in mixed; default: 1:1:1:1"},
    {OPT_TEXT, 0, "sqlite-library", "PATH", &plan.job.sqlite.library, 0, 0,
     "use this libsqlite3.so instead of the one built in"},
    HEADING("postmark", "iobench postmark (defaults are PostMark's)"),
    {OPT_NUMBER, 0, "files", "N", &plan.job.postmark.files, 1, 1000000000, "files at the start; default: 500"},
    {OPT_TEXT, 0, "file-size", "LOW:HIGH", &arguments.file_size, 0, 0, "bytes of a file; default: 500:10000"},
    {OPT_SIZE, 0, "read-block", "SIZE", &plan.job.postmark.read_block, 1, MOST_RECORD,
     "bytes of one read; default: 512"},
    {OPT_SIZE, 0, "write-block", "SIZE", &plan.job.postmark.write_block, 1, MOST_RECORD,
     "bytes of one write; default: 512"},
    {OPT_NUMBER, 0, "bias-read", "N", &plan.job.postmark.bias_read, -1, 10,
     "of ten, N read and the rest append; -1: neither; default: 5"},
    {OPT_NUMBER, 0, "bias-create", "N", &plan.job.postmark.bias_create, -1, 10,
     "of ten, N create and the rest delete; -1: neither; default: 5"},
    {OPT_NUMBER, 0, "subdirectories", "N", &plan.job.postmark.subdirectories, 0, 1000000,
     "spread the files over N directories; default: 0, none"},
    {OPT_FLAG, 0, "unbuffered", NULL, &arguments.unbuffered, 0, 0, "read(2) and write(2) instead of stdio"},
    HEADING(NO_JOB, "statistics"),
    {OPT_NUMBER, 0, "repeats", "N", &plan.job.repeats, 1, 1000000, "repeat each measurement; default: 1"},
    {OPT_NUMBER, 0, "interval", "MS", &arguments.interval_ms, 1, 3600000, "windows of the time series; default: 100"},
    {OPT_FLAG, 0, "log-ops", NULL, &plan.job.log_ops, 0, 0, "keep the latency of each single operation, for --record"},
    {OPT_NUMBER, 0, "point", "N", &plan.point, 0, 1000000, "number of this configuration in the records; default: 0"},
    HEADING(NO_JOB, "output"),
    {OPT_TEXT, 'o', "record", "FILE", &plan.record, 0, 0, "write all results to FILE (probes/FORMAT.md)"},
    {OPT_FLAG, 'q', "quiet", NULL, &plan.quiet, 0, 0, "no progress on standard error"},
    {OPT_FLAG, 0, "dry-run", NULL, &plan.dry_run, 0, 0,
     "check the options, write them to --record, and do nothing else"},
    OPT_DESCRIBE(&plan.describe),
    {OPT_FLAG, 0, "version", NULL, &plan.version, 0, 0, "print the version and do nothing else"},
    OPT_HELP(&plan.help),
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
    for (size_t index = 0; index < options.count; index++) {
        if (table[index].kind == OPT_HEADING)
            whose = table[index].name;
        if (!given[index] || !strcmp(whose, EVERY) || !strcmp(whose, NO_JOB) ||
            strstr(whose, bench_workloads[plan.job.workload]))
            continue;
        return print_error("--%s is an option of iobench %s, and this is iobench %s", table[index].name, whose,
                           bench_workloads[plan.job.workload]);
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
