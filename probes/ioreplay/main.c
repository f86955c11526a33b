#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/errors.h"
#include "common/mounts.h"
#include "common/opts.h"
#include "common/page_cache.h"
#include "ioreplay/calls.h"
#include "ioreplay/plan.h"
#include "ioreplay/results.h"
#include "ioreplay/run.h"
#include "ioreplay/stop.h"

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

static void show_operations(uint64_t done, uint64_t all)
{
    char what[64];

    snprintf(what, sizeof what, "%" PRIu64 "/%" PRIu64 " operations", done, all);
    show((int64_t)done, (int64_t)all, what);
}

/* -- sandbox or target ------------------------------------------------------------------------------------------- */

/* Destination of a replay: one of the two. */
struct stage {
    struct sandbox *sandbox;
    struct replay_target target;
};

static int enter(struct stage *stage, const struct command *command, const struct replay_program *program)
{
    int failed;

    if (command->target) {
        failed = replay_target_enter(&stage->target, command->target, command->allowed, program, show_files);
    } else {
        stage->sandbox = sandbox_enter(command->directory);
        failed = !stage->sandbox || sandbox_populate(stage->sandbox, program, show_files);
    }
    show_end();
    if (failed && replay_stop_requested(0))
        print_error("a signal ended it while it created files; nothing was replayed");
    return failed ? -1 : 0;
}

static int leave(struct stage *stage, bool keep)
{
    int failed = replay_target_leave(&stage->target, keep);

    if (stage->sandbox && sandbox_leave(stage->sandbox, keep))
        failed = -1;
    return failed;
}

static int32_t cold_of(const struct stage *stage, const struct replay_program *program)
{
    struct cache_found cache = {0};

    if (stage->sandbox)
        return sandbox_is_cold(stage->sandbox, program);
    if (stage->target.is_device)
        return RECORD_NULL_INT32;
    cache_look(stage->target.file, lseek(stage->target.file, 0, SEEK_END), &cache);
    return cache.resident_bytes < 0 ? RECORD_NULL_INT32 : cache.resident_bytes == 0;
}

static void describe_place(struct replay_report *report, const struct stage *stage, const struct replay_plan *plan,
                           const struct mount *mount)
{
    report->fs_type = stage->target.is_device ? NULL : mount->fs_type;
    report->device = stage->sandbox ? mount->source : stage->target.path;
    report->files = stage->sandbox ? plan->files : !stage->target.is_device;
    report->files_bytes = stage->sandbox ? plan->files_bytes : stage->target.bytes;
}

/* -- replaying ---------------------------------------------------------------------------------------------------- */

static int report_results(struct replay_report *report, struct record *record)
{
    int failed = 0;

    replay_tally_make(&report->tally, report->run);
    if (record && replay_record(record, report))
        failed = -1;
    if (replay_print(stdout, report))
        failed = -1;
    return failed;
}

static int replay_in(const struct stage *stage, const struct command *command, const struct replay_program *program,
                     const struct replay_plan *plan, struct record *record)
{
    struct replay_run run = {
        .program = program, .mode = (enum replay_mode)command->mode, .scale_ppm = command->scale_ppm};
    struct replay_place place = {.sandbox = stage->sandbox, .target = stage->sandbox ? NULL : &stage->target};
    struct replay_report report = {.run = &run};
    int file = stage->sandbox ? sandbox_directory(stage->sandbox) : stage->target.file;
    struct mount mount = {0};
    int failed = replay_place_open(&place, program);

    if (failed)
        return failed;
    mounts_find(file, mounts_id(file, ""), &mount);
    snprintf(report.run_id, sizeof report.run_id, "%016" PRIx64 "-%x", (uint64_t)clock_now(CLOCK_REALTIME),
             (unsigned)getpid());
    describe_place(&report, stage, plan, &mount);
    report.cold = cold_of(stage, program);
    failed = replay_run(&run, &place, show_operations);
    show_end();
    replay_place_close(&place);
    if (run.outcomes && run.done && report_results(&report, record))
        failed = -1;
    if (!failed && run.interrupted)
        failed = print_error("a signal ended it early: %" PRId64 " of %" PRId64 " operations were done",
                             report.tally.done, report.tally.operations);
    replay_run_free(&run);
    mounts_release(&mount);
    return failed;
}

static int replay_on_stage(const struct command *command, const struct replay_program *program,
                           const struct replay_plan *plan, struct record *record)
{
    struct stage stage = {.target.file = -1};
    int failed = enter(&stage, command, program);

    if (!failed)
        failed = replay_in(&stage, command, program, plan, record);
    if (leave(&stage, command->keep))
        failed = -1;
    return failed;
}

/* The results file is created before the directory is entered: the directory must be empty. */
static int replay(const struct command *command, const struct replay_program *program, const struct replay_plan *plan)
{
    struct record *record = NULL;
    int failed;

    replay_stop_prepare();
    if (command->record) {
        record = record_open(command->record, &replay_probe);
        if (!record)
            return -1;
    }
    failed = replay_on_stage(command, program, plan, record);
    if (record && record_close(record))
        failed = -1;
    return failed;
}

/* -- the command line --------------------------------------------------------------------------------------------- */

/* Parse a decimal number in millionths. */
static int take_scale(struct command *command)
{
    char *end = NULL;
    double scale;

    if (!command->scale && command->mode == REPLAY_SCALED)
        return print_error("--mode scaled needs --scale X: how many times as fast as recorded");
    if (!command->scale)
        return 0;
    if (command->mode != REPLAY_SCALED)
        return print_error("--scale needs --mode scaled");
    scale = strtod(command->scale, &end);
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
    return replay(command, program, &plan);
}

static int load_and_act(struct command *command, char **operands)
{
    struct replay_program program;
    int failed;

    if (take_operands(command, operands) || replay_load(command->program, &program))
        return -1;
    failed = act(command, &program);
    replay_unload(&program);
    return failed;
}

int main(int argc, char **argv)
{
    struct command command = {0};
    const struct opt table[] = {
        {'o', "record", "FILE", "write the results of all operations to FILE", OPT_TEXT, &command.record, 0, 0},
        {'m', "mode", "as-recorded|as-fast|scaled",
         "when operations begin: at the recorded times (the default); as soon\n"
         "as the thread's previous operation and the dependencies on other\n"
         "threads have ended; or at the recorded times divided by --scale",
         OPT_CHOICE, &command.mode, 0, 0},
        {0, "scale", "X", "the divisor, from 0.001 to 1000000: 2.5 is faster, 0.5 slower", OPT_TEXT, &command.scale, 0,
         0},
        {'k', "keep", NULL, "keep the files at the end", OPT_FLAG, &command.keep, 0, 0},
        {'n', "dry-run", NULL, "check PROGRAM and print its requirements; touch nothing", OPT_FLAG, &command.dry_run, 0,
         0},
        {0, "target", "PATH", "file to create and remove at the end, or block device", OPT_TEXT, &command.target, 0, 0},
        {0, "allow-device", "PATH", "the block device again, whose contents will be lost", OPT_TEXT, &command.allowed,
         0, 0},
        {0, "describe", NULL, "print the record types as JSON and do nothing else", OPT_FLAG, &command.describe, 0, 0},
        {'h', "help", NULL, "print this text and do nothing else", OPT_FLAG, &command.help, 0, 0},
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
