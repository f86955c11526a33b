#include "procmon/procmon.h"

#include "common/opts.h"

static const char *const group_names[GROUPS] = {
    [GROUP_CPU] = "cpu",
    [GROUP_MEMORY] = "memory",
    [GROUP_DISK] = "disk",
    [GROUP_NET] = "net",
    [GROUP_PRESSURE] = "pressure",
    [GROUP_PROCESS] = "process",
    [GROUP_FREQUENCY] = "frequency",
    [GROUP_THERMAL] = "thermal",
    [GROUP_FILESYSTEM] = "filesystem",
    [GROUP_HEALTH] = "health",
};

struct command {
    struct request request;
    const char *groups;
    bool describe, help;
};

static const char about[] =
    "Samples counters of the kernel at fixed ticks into FILE: of CPUs, memory, disks, network and\n"
    "processes. It samples until COMMAND ends, for a time, or until SIGINT, SIGTERM or SIGHUP.\n"
    "Ticks that cannot be met are omitted and counted. Without root, the I/O of other users' processes\n"
    "is not available, and on Android little else is.";

static const char more[] =
    "Groups, read at each tick unless stated otherwise:\n"
    "  cpu         /proc/stat: time of each CPU by state, context switches, forks\n"
    "  memory      /proc/meminfo and /proc/vmstat\n"
    "  disk        /proc/diskstats: requests, sectors, and the time a disk was busy (io_ticks)\n"
    "  net         /proc/net/dev\n"
    "  pressure    /proc/pressure: time that tasks waited for CPU, I/O and memory\n"
    "  process     /proc/PID/stat and io: busy processes at each tick, idle ones about once a second,\n"
    "              all at the start and at the end\n"
    "  frequency   of each CPU\n"
    "  thermal     temperature of each zone, once a second\n"
    "  filesystem  counters of f2fs and ext4 (garbage collection, segments), once a second\n"
    "  health      wear and write buffers of UFS and eMMC devices, once a minute\n"
    "Files are copied unchanged, and only when they change. FILE is a record stream\n"
    "(probes/FORMAT.md); `androstep ingest` makes table samples of it, also together with a trace.\n"
    "\n"
    "examples:\n"
    "  procmon -o samples.rec --time 60\n"
    "  procmon -o samples.rec --groups cpu,disk --hz 100 -- dd if=/dev/zero of=big bs=1M count=500\n"
    "  adb exec-out su -c 'procmon -o - --time 10' > samples.rec\n"
    "\n"
    "Exit status: 0 when everything was sampled except for the losses FILE counts, else 1.";

static int take_group(struct request *request, const char *word, size_t length)
{
    for (int group = 0; group < GROUPS; group++)
        if (strlen(group_names[group]) == length && !strncmp(group_names[group], word, length)) {
            request->groups[group] = true;
            return 0;
        }
    return print_error("%.*s: unknown group; see --help", (int)length, word);
}

/* Select the groups in the comma-separated list `words`; NULL: all. */
static int take_groups(struct request *request, const char *words)
{
    for (int group = 0; !words && group < GROUPS; group++)
        request->groups[group] = true;
    while (words) {
        size_t length = strcspn(words, ",");
        if (take_group(request, words, length) < 0)
            return -1;
        words = words[length] ? words + length + 1 : NULL;
    }
    return 0;
}

static int run(struct command *command)
{
    struct request *request = &command->request;
    if (!request->output)
        return print_error("name the file to write: -o FILE; see --help");
    if (take_groups(request, command->groups) < 0)
        return -1;
    return procmon_run(request);
}

int main(int argc, char **argv)
{
    struct command command = {.request.hz = 10};
    struct request *request = &command.request;
    const struct opt table[] = {
        {OPT_TEXT, 'o', "record", "FILE", &request->output, 0, 0, "write the records to FILE; -: standard output"},
        {OPT_NUMBER, 0, "hz", "N", &request->hz, 1, 1000, "ticks per second; default: 10"},
        {OPT_TIME, 0, "time", "TIME", &request->time_ns, 1000000, 100 * 86400 * SECOND_NS,
         "end after this: 90, 10m, 2h; a command that still runs is ended"},
        {OPT_TEXT, 0, "groups", "NAMES", &command.groups, 0, 0, "sample only these groups, with commas between them"},
        {OPT_FLAG, 'q', "quiet", NULL, &request->quiet, 0, 0, "no progress on standard error"},
        OPT_DESCRIBE(&command.describe),
        OPT_HELP(&command.help),
    };
    const struct opts opts = {"-o FILE [OPTION...] [-- COMMAND...]", about, more, table,
                              sizeof table / sizeof *table,          NULL};
    int first = opts_parse(&opts, argc, argv), result;
    if (first < 0)
        result = -1;
    else if (command.help)
        result = opts_help(stdout, &opts, "procmon");
    else if (command.describe)
        result = record_describe(stdout, &procmon_probe);
    else {
        request->words = argv + first;
        result = run(&command);
    }
    opts_release(&opts);
    return result < 0 ? 1 : 0;
}
