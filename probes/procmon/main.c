#define _GNU_SOURCE
#include "procmon/procmon.h"

#include <stdlib.h>
#include <string.h>

#include "common/complain.h"

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
    struct asked asked;
    const char *groups;
    bool describe, help;
};

static const char about[] =
    "Samples counters of the kernel at fixed ticks into FILE: what CPUs, memory, disks, network and\n"
    "processes did. It samples until COMMAND ends, for a time, or until SIGINT, SIGTERM or SIGHUP comes.\n"
    "Ticks that cannot be kept are left out and counted. Without root, the I/O of other users' processes\n"
    "is not known, and on Android not much else.";

static const char more[] =
    "Groups, and what of them is read at each tick unless said:\n"
    "  cpu         /proc/stat: time of each CPU by state, context switches, forks\n"
    "  memory      /proc/meminfo and /proc/vmstat, in part\n"
    "  disk        /proc/diskstats: requests, sectors, and the time a disk was busy (io_ticks)\n"
    "  net         /proc/net/dev\n"
    "  pressure    /proc/pressure: time that tasks waited for CPU, I/O and memory\n"
    "  process     /proc/PID/stat and io: those that work at each tick, others about once a second,\n"
    "              all at the start and at the end\n"
    "  frequency   of each CPU\n"
    "  thermal     temperature of each zone, once a second\n"
    "  filesystem  what f2fs and ext4 count (garbage collection, segments), once a second\n"
    "  health      wear and write buffers that UFS and eMMC devices tell, once a minute\n"
    "A reading that is equal to the one before and the one after is not written. FILE is a record stream\n"
    "(probes/FORMAT.md), which `androstep ingest` makes table samples of, also beside a trace.\n"
    "\n"
    "examples:\n"
    "  procmon -o samples.rec --time 60\n"
    "  procmon -o samples.rec --groups cpu,disk --hz 100 -- dd if=/dev/zero of=big bs=1M count=500\n"
    "  procmon -o samples.rec --process com.example --time 10m\n"
    "  adb exec-out su -c 'procmon -o - --time 10' > samples.rec\n"
    "\n"
    "Exit status: 0 when everything was sampled but for what FILE counts as lost, else 1.";

static int take_group(struct asked *asked, const char *word, size_t length)
{
    for (int group = 0; group < GROUPS; group++)
        if (strlen(group_names[group]) == length && !strncmp(group_names[group], word, length)) {
            asked->groups[group] = true;
            return 0;
        }
    return complain("%.*s: no group; --help lists them", (int)length, word);
}

/* Takes the groups that `words` names with commas between them; NULL: all. */
static int take_groups(struct asked *asked, const char *words)
{
    for (int group = 0; !words && group < GROUPS; group++)
        asked->groups[group] = true;
    while (words) {
        size_t length = strcspn(words, ",");

        if (take_group(asked, words, length) < 0)
            return -1;
        words = words[length] ? words + length + 1 : NULL;
    }
    return 0;
}

static int check_users(const struct asked *asked)
{
    for (size_t index = 0; index < asked->users.count; index++) {
        const char *word = asked->users.items[index];

        if (!*word || strspn(word, "0123456789") != strlen(word) || strlen(word) > 10)
            return complain("--user %s: expected a user's number", word);
    }
    return 0;
}

static int run(struct command *command)
{
    struct asked *asked = &command->asked;

    if (!asked->output)
        return complain("name the file to write: -o FILE; --help tells more");
    if (asked->hz && asked->interval_ns)
        return complain("--hz and --interval say the same; give one of them");
    if (!asked->interval_ns)
        asked->interval_ns = SECOND_NS / (asked->hz ? asked->hz : 10);
    if (take_groups(asked, command->groups) < 0 || check_users(asked) < 0)
        return -1;
    return procmon_run(asked);
}

int main(int argc, char **argv)
{
    struct command command = {.asked.most = 64};
    struct asked *asked = &command.asked;
    const struct opt table[] = {
        {'o', "record", "FILE", "write the records to FILE; -: standard output", OPT_TEXT, &asked->output, 0, 0},
        {0, "hz", "N", "ticks per second; default: 10", OPT_NUMBER, &asked->hz, 1, 1000},
        {0, "interval", "TIME", "time between ticks, instead of --hz: 500ms, 2s", OPT_TIME, &asked->interval_ns,
         1000000, 86400 * SECOND_NS},
        {0, "time", "TIME", "end after this: 90, 10m, 2h; a command that still runs is ended", OPT_TIME,
         &asked->time_ns, 1000000, 100 * 86400 * SECOND_NS},
        {0, "groups", "NAMES", "sample only these groups, with commas between them", OPT_TEXT, &command.groups, 0, 0},
        {0, "process", "NAME", "only processes of this name, program, package or number, at every tick", OPT_LIST,
         &asked->processes, 0, 0},
        {0, "user", "UID", "only processes of the user of this number", OPT_LIST, &asked->users, 0, 0},
        {0, "most", "N", "read at most N processes at a tick; default: 64", OPT_NUMBER, &asked->most, 1, 1000000},
        {'q', "quiet", NULL, "no progress on standard error", OPT_FLAG, &asked->quiet, 0, 0},
        {0, "describe", NULL, "print the record types as JSON and do nothing else", OPT_FLAG, &command.describe, 0, 0},
        {'h', "help", NULL, "print this text and do nothing else", OPT_FLAG, &command.help, 0, 0},
    };
    const struct opts opts = {"-o FILE [OPTION...] [-- COMMAND...]", about, more, table, sizeof table / sizeof *table};
    int first = opts_parse(&opts, argc, argv), result;

    if (first < 0)
        result = -1;
    else if (command.help)
        result = opts_help(stdout, &opts, "procmon");
    else if (command.describe)
        result = record_describe(stdout, &procmon_probe);
    else {
        asked->words = argv + first;
        result = run(&command);
    }
    opts_release(&opts);
    return result < 0 ? 1 : 0;
}
