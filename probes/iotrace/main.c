#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/json.h"
#include "iotrace/listing.h"
#include "iotrace/names.h"
#include "iotrace/recording.h"
#include "iotrace/salvage.h"
#include "iotrace/session.h"

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
    struct json json = {stdout, false};
    json_open(&json, NULL, '{');
    json_string(&json, "probe", "iotrace");
    json_string(&json, "version", PROBE_VERSION);
    json_string(&json, "trace.dat", "trace-cmd.dat version 6");
    recording_describe(&json);
    fputs(",\n\"before.rec and after.rec\": ", stdout);
    if (record_describe(stdout, &listing_probe) < 0)
        return -1;
    fputs(",\n\"names.rec\": ", stdout);
    if (record_describe(stdout, &names_probe) < 0)
        return -1;
    json_close(&json, '}');
    putchar('\n');
    return fflush(stdout) == 0 ? 0 : complain("standard output: %s", strerror(errno));
}

static const char about[] =
    "Records what the kernel's tracepoints say of block devices and of the filesystems on them into\n"
    "DIR: trace.dat (trace-cmd report and KernelShark open it), recording.json (devices, mounts,\n"
    "clocks, losses), before.rec and after.rec (which file has which blocks, and all threads, at the\n"
    "start and at the end), names.rec (which names were made, removed and renamed meanwhile). It\n"
    "records until COMMAND ends, a limit is reached, or SIGINT, SIGTERM or SIGHUP comes. It uses a\n"
    "trace instance of its own and leaves all other tracing alone. Needs root.";

static const char more[] =
    "Presets: block: requests and bios; block+fs: also what maps blocks to files and who dirtied\n"
    "pages, for the filesystems that are mounted on the devices; block+fs+syscalls: also what all\n"
    "processes call that concerns files, descriptors, mappings and processes (what a replay needs), from\n"
    "the listing at the start to that at the end, and what each had open before.\n"
    "A device is traced with those it lies on (whole disk, dm slaves) and those that lie on it.\n"
    "Where files are listed, their filesystems are synced before each listing. DIR needs room for the\n"
    "trace twice.\n"
    "\n"
    "Killed with SIGKILL, iotrace leaves a trace instance, and DIR/unfinished. Its next start, --cleanup\n"
    "or --finish saves in DIR what the instance still holds and removes it; --finish DIR writes\n"
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
    struct command command = {.asked = {.preset = "block+fs", .buffer_kb = 16384}};
    const struct opt table[] = {
        {'o', "output", "DIR", "record into DIR, which is made; not on a traced device", OPT_TEXT,
         &command.asked.output, 0, 0},
        {0, "preset", "NAME", "block, block+fs (the default) or block+fs+syscalls", OPT_TEXT, &command.asked.preset, 0,
         0},
        {0, "readahead", NULL,
         "also record which pages are asked for and which leave the cache (Linux 6.12, or kprobes)", OPT_FLAG,
         &command.asked.readahead, 0, 0},
        {0, "device", "PATH", "trace this device (path or MAJ:MIN) or that of a file; default: all mounted", OPT_LIST,
         &command.asked.devices, 0, 0},
        {0, "list", "DIR", "list the files of this mount point; none: no files; default: all that are traced", OPT_LIST,
         &command.asked.lists, 0, 0},
        {0, "time", "S", "end after S seconds", OPT_NUMBER, &command.asked.seconds, 1, 100000000},
        {0, "size", "MB", "end after MB megabytes of trace", OPT_NUMBER, &command.asked.megabytes, 1, 100000000},
        {0, "segment", "S", "every S seconds, put what was recorded since into DIR/segment-TIME.dat", OPT_NUMBER,
         &command.asked.segment_seconds, 1, 3600},
        {0, "buffer", "KB", "ring buffer of each CPU; default: 16384", OPT_NUMBER, &command.asked.buffer_kb, 8,
         4194304},
        {0, "clock", "NAME", "mono (the default), or boot, which goes on in suspend", OPT_TEXT, &command.asked.clock, 0,
         0},
        {0, "allow-same-device", NULL, "allow DIR to lie on a traced device", OPT_FLAG, &command.asked.same_device, 0,
         0},
        {0, "finish", "DIR", "pack what a killed iotrace left in DIR, and do nothing else", OPT_TEXT, &command.finish,
         0, 0},
        {0, "cleanup", NULL, "remove what dead iotraces left in tracefs, and do nothing else", OPT_FLAG,
         &command.cleanup, 0, 0},
        {0, "describe", NULL, "print what is in the files as JSON and do nothing else", OPT_FLAG, &command.describe, 0,
         0},
        {'h', "help", NULL, "print this text and do nothing else", OPT_FLAG, &command.help, 0, 0},
    };
    const struct opts opts = {"-o DIR [OPTION...] [-- COMMAND...]", about, more, table, sizeof table / sizeof *table};
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
        result = complain("name the directory to record into: -o DIR; --help tells more");
    else if (preset_parse(command.asked.preset) < 0)
        result = complain("%s: no preset; give block, block+fs or block+fs+syscalls", command.asked.preset);
    else if (command.asked.readahead && preset_parse(command.asked.preset) == PRESET_BLOCK)
        result = complain("--readahead: preset block has no events of files; give block+fs");
    else if (command.asked.clock && strcmp(command.asked.clock, "mono") != 0 &&
             strcmp(command.asked.clock, "boot") != 0)
        result = complain("%s: no clock; give mono or boot", command.asked.clock);
    else {
        command.asked.words = argv + first;
        result = session_record(&command.asked);
    }
    opts_release(&opts);
    return result < 0 ? 1 : 0;
}
