#include "common/mounts.h"
#include "common/opts.h"
#include "common/page_cache.h"
#include "ioreplay/replay.h"

struct command {
    const char *record, *scale, *target, *allowed;
    int64_t mode;
    bool keep, dry_run, describe, help;
    const char *program, *directory;
    int64_t scale_ppm;
};

static const char about[] =
    "Replays the file operations of a recorded program in DIRECTORY. Each thread does its operations at the\n"
    "recorded times, in an order that allows the recorded results. DIRECTORY is created, or must be empty.\n"
    "Nothing outside of it is touched, whatever PROGRAM contains, and everything created in it is removed\n"
    "at the end. The files that existed at the start of the recording are created first, with contents that\n"
    "do not compress, and are dropped from the page cache before the clock starts.\n"
    "`androstep program` makes PROGRAM from a recording. A program of the requests of a block device is\n"
    "replayed to a --target instead of a directory.";

static const char more[] =
    "An operation with another result than recorded has diverged: this is a result, not an error.\n"
    "An operation that begins after its due time is late; later operations keep their due times and are\n"
    "not omitted. An operation is late because its thread is still in the previous one, because it waits\n"
    "for other threads, or because of the replay itself. Idle threads sleep.\n"
    "\n"
    "examples:\n"
    "  ioreplay --dry-run app.rec                        what it needs\n"
    "  ioreplay -o ext4.rec app.rec /mnt/ext4/replay     at the recorded times and in the recorded order\n"
    "  ioreplay --mode as-fast app.rec /mnt/f2fs/replay  as fast as the order allows\n"
    "  ioreplay --mode scaled --scale 2.5 app.rec /mnt/f2fs/replay\n"
    "  ioreplay --target /mnt/scratch/device device.rec  requests of a device, to a file\n"
    "  ioreplay --target /dev/vdb --allow-device /dev/vdb device.rec   overwrites the device\n"
    "\n"
    "FILE is a record stream (probes/FORMAT.md): tables replay_runs and replay_ops. androstep summary FILE,\n"
    "on a host, prints times, lateness and divergences.\n"
    "Exit status: 0 when all operations were done, else 1. SIGINT, SIGTERM and SIGHUP end it early: the\n"
    "results so far are reported, and the files are removed.";

/* -- progress --------------------------------------------------------------------------------------------------- */

static int shown_percent = -1;

static void show(int64_t done, int64_t all, const char *what)
{
    bool terminal = isatty(STDERR_FILENO);
    int percent = all > 0 ? (int)((double)done * 100 / (double)all) : 100;
    if (!terminal && percent == shown_percent)
        return;
    shown_percent = percent;
    fprintf(stderr, "%sioreplay: %d %% %s%s", terminal ? "\r" : "", percent, what, terminal ? "\033[K" : "\n");
}

static void show_end(void)
{
    if (isatty(STDERR_FILENO) && shown_percent >= 0)
        fputs("\r\033[K", stderr);
    shown_percent = -1;
}

/* Returns whether to continue. */
static bool show_files(int64_t done, int64_t all)
{
    show(done, all, "making files");
    return !replay_stop_requested(0);
}

static void show_operations(int64_t done, int64_t all)
{
    char what[64];
    snprintf(what, sizeof what, "%" PRId64 "/%" PRId64 " operations", done, all);
    show(done, all, what);
}

/* -- replaying ---------------------------------------------------------------------------------------------------- */

static struct replay_run run;
static struct replay_target target = {.file = -1};
static struct sandbox *sandbox; /* NULL: a target instead */

static int enter(const struct command *command)
{
    int failed;
    if (command->target) {
        failed = replay_target_enter(&target, command->target, command->allowed, run.program, show_files);
    } else {
        sandbox = sandbox_enter(command->directory);
        failed = !sandbox || sandbox_populate(sandbox, run.program, show_files);
    }
    show_end();
    if (failed && replay_stop_requested(0))
        print_error("a signal ended it while it created files; nothing was replayed");
    run.place.sandbox = sandbox;
    run.place.target = sandbox ? NULL : &target;
    return failed ? -1 : 0;
}

static int leave(bool keep)
{
    int failed = replay_target_leave(&target, keep);
    replay_mappings_free(run.place.mappings);
    replay_descriptors_free(run.place.descriptors);
    return sandbox && sandbox_leave(sandbox, keep) ? -1 : failed;
}

static int32_t is_cold(void)
{
    struct cache_found cache = {0};
    if (sandbox)
        return sandbox_is_cold(sandbox, run.program);
    if (target.is_device)
        return RECORD_NULL_INT32;
    cache_look(target.file, lseek(target.file, 0, SEEK_END), &cache);
    return cache.resident_bytes < 0 ? RECORD_NULL_INT32 : cache.resident_bytes == 0;
}

static int replay_in(const struct replay_plan *plan, struct record *record)
{
    int file = sandbox ? sandbox->beneath.directory : target.file, failed;
    struct mount mount = {0};
    struct replay_report report = {.run = &run, .cold = is_cold()};
    snprintf(report.run_id, sizeof report.run_id, "%016" PRIx64 "-%x", (uint64_t)clock_now(CLOCK_REALTIME),
             (unsigned)getpid());
    mounts_find(file, mounts_id(file, ""), &mount);
    report.fs_type = target.is_device ? NULL : mount.fs_type;
    report.device = sandbox ? mount.source : target.path;
    report.files = sandbox ? plan->files : !target.is_device;
    report.files_bytes = sandbox ? plan->files_bytes : target.bytes;
    failed = replay_run(&run, show_operations);
    show_end();
    if (replay_print(stdout, &report) || (record && replay_record(record, &report)))
        failed = -1;
    if (!failed && run.interrupted)
        failed = print_error("a signal ended it early: %" PRId64 " of %" PRId64 " operations were done", report.done,
                             report.operations);
    mounts_release(&mount);
    return failed;
}

/* The results file is created before the directory is entered: the directory must be empty. */
static int replay(const struct command *command, const struct replay_plan *plan)
{
    struct record *record = NULL;
    replay_stop_prepare();
    run.mode = (enum replay_mode)command->mode;
    run.scale_ppm = command->scale_ppm;
    replay_run_make(&run);
    if (command->record && !(record = record_open(command->record, &replay_probe)))
        return -1;
    int failed = enter(command) || replay_in(plan, record) ? -1 : 0;
    if (leave(command->keep))
        failed = -1;
    return record && record_close(record) ? -1 : failed;
}

/* -- the command line --------------------------------------------------------------------------------------------- */

/* Parse a decimal number in millionths. */
static int take_scale(struct command *command)
{
    char *end = NULL;
    if (!command->scale && command->mode == REPLAY_SCALED)
        return print_error("--mode scaled needs --scale X: how many times as fast as recorded");
    if (!command->scale)
        return 0;
    if (command->mode != REPLAY_SCALED)
        return print_error("--scale needs --mode scaled");
    double scale = strtod(command->scale, &end);
    if (end == command->scale || *end || !(scale >= 0.001 && scale <= 1e6))
        return print_error("--scale %s: expected a number from 0.001 to 1000000", command->scale);
    command->scale_ppm = (int64_t)(scale * 1e6 + 0.5);
    return 0;
}

static int take_operands(struct command *command, char **operands)
{
    command->program = operands[0];
    if (!command->program)
        return print_error("name the program to replay; see --help");
    command->directory = operands[1];
    if (command->directory && operands[2])
        return print_error("%s: more than one directory; options come before the program", operands[2]);
    if (command->target && command->directory)
        return print_error("%s: --target replaces the directory; leave out one of them", command->directory);
    if (command->allowed && !command->target)
        return print_error("--allow-device needs --target");
    return take_scale(command);
}

static int check_place(const struct command *command, const struct replay_program *program)
{
    if (program->is_device && !command->target)
        return print_error("%s has requests of a block device: give --target FILE, or a device", command->program);
    if (!program->is_device && command->target)
        return print_error("%s has operations on files: name a directory instead of --target", command->program);
    if (!command->target && !command->directory)
        return print_error("name a directory to replay in, either empty or new");
    return 0;
}

static int act(const struct command *command, const struct replay_program *program)
{
    struct replay_plan plan;
    replay_plan_make(&plan, program);
    if (command->dry_run)
        return replay_plan_print(stdout, &plan, program, command->program);
    if (check_place(command, program) || replay_plan_allow_descriptors(&plan, program->nr_threads))
        return -1;
    run.program = program;
    return replay(command, &plan);
}

static int load_and_act(struct command *command, char **operands)
{
    static struct replay_program program;
    return take_operands(command, operands) || replay_load(command->program, &program) ? -1 : act(command, &program);
}

int main(int argc, char **argv)
{
    struct command command = {0};
    const struct opt table[] = {
        {OPT_TEXT, 'o', "record", "FILE", &command.record, 0, 0, "write the results of all operations to FILE"},
        {OPT_CHOICE, 'm', "mode", "as-recorded|as-fast|scaled", &command.mode, 0, 0,
         "when operations begin: at the recorded times (the default); as soon\n"
         "as the thread's previous operation and the dependencies on other\n"
         "threads have ended; or at the recorded times divided by --scale"},
        {OPT_TEXT, 0, "scale", "X", &command.scale, 0, 0,
         "the divisor, from 0.001 to 1000000: 2.5 is faster, 0.5 slower"},
        {OPT_FLAG, 'k', "keep", NULL, &command.keep, 0, 0, "keep the files at the end"},
        {OPT_FLAG, 'n', "dry-run", NULL, &command.dry_run, 0, 0,
         "check PROGRAM and print its requirements; touch nothing"},
        {OPT_TEXT, 0, "target", "PATH", &command.target, 0, 0, "file to create and remove at the end, or block device"},
        {OPT_TEXT, 0, "allow-device", "PATH", &command.allowed, 0, 0,
         "the block device again, whose contents will be lost"},
        OPT_DESCRIBE(&command.describe),
        OPT_HELP(&command.help),
    };
    const struct opts opts = {"[OPTION...] PROGRAM DIRECTORY", about, more, table, sizeof table / sizeof *table, NULL};
    int first = opts_parse(&opts, argc, argv), failed;
    if (first < 0)
        return 1;
    if (command.help)
        failed = opts_help(stdout, &opts, "ioreplay");
    else if (command.describe)
        failed = record_describe(stdout, &replay_probe);
    else
        failed = load_and_act(&command, argv + first);
    if (fflush(stdout) || ferror(stdout))
        failed = print_error("standard output: %s", strerror(errno));
    return failed ? 1 : 0;
}
