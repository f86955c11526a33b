#include "iotrace/iotrace.h"

struct command {
    struct asked asked;
    const char *finish;
    bool cleanup, describe, help;
};

static int cleanup(void)
{
    int tracefs = tracefs_open();
    if (tracefs < 0)
        return -1;
    int left = salvage_instances(tracefs);
    close(tracefs);
    return left == 0 ? 0 : -1;
}

static int describe(void)
{
    fputs("{\"before.rec and after.rec\": ", stdout);
    record_describe(stdout, &listing_probe);
    fputs(",\n\"names.rec\": ", stdout);
    record_describe(stdout, &names_probe);
    puts("}");
    return fflush(stdout) == 0 ? 0 : print_error("standard output: %s", strerror(errno));
}

static const char about[] =
    "Records tracepoints of block devices and of the filesystems on them into DIR: trace.dat (for\n"
    "trace-cmd report and KernelShark), recording.json (devices, mounts, clocks, losses), before.rec\n"
    "and after.rec (extents of files and all threads, at the start and at the end), names.rec (names\n"
    "created, removed and renamed during the recording). It records until COMMAND ends, a limit is\n"
    "reached, or on SIGINT, SIGTERM or SIGHUP. It uses its own trace instance and does not affect other\n"
    "tracing. Needs root.";

static const char more[] =
    "Presets: block: requests and bios; block+fs: also the mapping from blocks to files and the writers\n"
    "of dirty pages, for the filesystems mounted on the devices; block+fs+syscalls: also system calls of\n"
    "all processes on files, descriptors, mappings and processes (for a replay), between the listings at\n"
    "the start and at the end, and the descriptors open at the start.\n"
    "A device is traced with the devices below it (whole disk, dm slaves) and above it. Filesystems are\n"
    "synced before their files are listed. DIR needs space for twice the trace.\n"
    "\n"
    "Killed with SIGKILL, iotrace leaves a trace instance, and DIR/unfinished. Its next start, --cleanup\n"
    "or --finish saves the contents of the instance in DIR and removes it; --finish DIR writes\n"
    "trace.dat.\n"
    "\n"
    "examples:\n"
    "  iotrace -o /dev/shm/run --device /data -- am start -W com.example/.Main\n"
    "  iotrace -o /dev/shm/run --device 8:0 --time 60\n"
    "  trace-cmd report /dev/shm/run/trace.dat\n"
    "\n"
    "Exit status: 0 when everything was recorded and packed, with losses counted; else 1.";

int main(int argc, char **argv)
{
    struct command command = {.asked = {.preset = PRESET_FS, .buffer_kb = 16384}};
    const struct opt table[] = {
        {OPT_TEXT, 'o', "output", "DIR", &command.asked.output, 0, 0,
         "record into DIR, which is created; not on a traced device"},
        {OPT_CHOICE, 0, "preset", "block|block+fs|block+fs+syscalls", &command.asked.preset, 0, 0, "default: block+fs"},
        {OPT_FLAG, 0, "readahead", NULL, &command.asked.readahead, 0, 0,
         "also record pages that are requested or leave the cache (Linux 6.12, or kprobes)"},
        {OPT_LIST, 0, "device", "PATH", &command.asked.devices, 0, 0,
         "trace this device (path or MAJ:MIN) or that of a file; default: all mounted"},
        {OPT_LIST, 0, "list", "DIR", &command.asked.lists, 0, 0,
         "list the files of this mount point; none: no files; default: all that are traced"},
        {OPT_NUMBER, 0, "time", "S", &command.asked.seconds, 1, 100000000, "end S seconds after the first listing"},
        {OPT_NUMBER, 0, "size", "MB", &command.asked.megabytes, 1, 100000000, "end after MB megabytes of trace"},
        {OPT_NUMBER, 0, "segment", "S", &command.asked.segment_seconds, 1, 3600,
         "every S seconds, write the events since the last one to DIR/segment-TIME.dat"},
        {OPT_NUMBER, 0, "buffer", "KB", &command.asked.buffer_kb, 8, 4194304,
         "ring buffer of each CPU; default: 16384"},
        {OPT_TEXT, 0, "clock", "NAME", &command.asked.clock, 0, 0,
         "mono (the default), or boot, which continues during suspend"},
        {OPT_FLAG, 0, "allow-same-device", NULL, &command.asked.same_device, 0, 0,
         "allow DIR to lie on a traced device"},
        {OPT_TEXT, 0, "finish", "DIR", &command.finish, 0, 0,
         "pack the recording of a killed iotrace in DIR, and do nothing else"},
        {OPT_FLAG, 0, "cleanup", NULL, &command.cleanup, 0, 0,
         "remove trace instances of dead iotrace processes, and do nothing else"},
        {OPT_FLAG, 0, "describe", NULL, &command.describe, 0, 0, "print the record types as JSON and do nothing else"},
        OPT_HELP(&command.help),
    };
    const struct opts opts = {"-o DIR [OPTION...] [-- COMMAND...]", about, more, table,
                              sizeof table / sizeof *table,         NULL};
    int first = opts_parse(&opts, argc, argv), result;
    if (first < 0)
        result = -1;
    else if (command.help)
        result = opts_help(stdout, &opts, "iotrace");
    else if (command.describe)
        result = describe();
    else if (command.cleanup)
        result = cleanup();
    else if (command.finish)
        result = salvage_finish(command.finish);
    else if (!command.asked.output)
        result = print_error("name the directory to record into: -o DIR; see --help");
    else if (command.asked.readahead && command.asked.preset == PRESET_BLOCK)
        result = print_error("--readahead: preset block has no events of files; give block+fs");
    else if (command.asked.clock && strcmp(command.asked.clock, "mono") != 0 &&
             strcmp(command.asked.clock, "boot") != 0)
        result = print_error("%s: unknown clock; give mono or boot", command.asked.clock);
    else {
        command.asked.words = argv + first;
        result = session_record(&command.asked);
    }
    opts_release(&opts);
    return result < 0 ? 1 : 0;
}
