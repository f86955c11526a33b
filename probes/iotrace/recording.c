#include "iotrace/iotrace.h"

#include <sys/utsname.h>

#include "common/swaps.h"

/* The kernel's clocks at one moment. */
struct clock_reading {
    int64_t boot_ns, mono_ns, realtime_ns;
};

static struct clock_reading clock_reading(void)
{
    int64_t boot = clock_now(CLOCK_BOOTTIME);
    return (struct clock_reading){boot, boot + clock_offset(CLOCK_MONOTONIC), boot + clock_offset(CLOCK_REALTIME)};
}

static void clock_json(struct json *json, const char *key, const struct clock_reading *reading)
{
    json_open(json, key, '{');
    json_integer(json, "boot_ns", reading->boot_ns);
    json_integer(json, "mono_ns", reading->mono_ns);
    json_integer(json, "realtime_ns", reading->realtime_ns);
    json_close(json, '}');
}

static const struct mounted *first_traced(const struct topology *topology)
{
    for (size_t i = 0; i < topology->nr_mounts; i++)
        if (topology_traces(topology, topology->mounts[i].dev))
            return &topology->mounts[i];
    return NULL;
}

static char *joined(char *const *words)
{
    char *all = NULL;
    for (; *words; words++) {
        char *longer = format("%s%s%s", all ? all : "", all ? " " : "", *words);
        free(all);
        all = longer;
    }
    return all;
}

/* Write the facts, named as in table captures; those of Android are null elsewhere. */
static void facts_json(struct json *json, const struct recording *recording)
{
    struct utsname name;
    uname(&name);
    const struct mounted *mount = first_traced(recording->topology);
    char *model = mount ? topology_model(recording->topology, mount->dev) : NULL;
    char *workload = joined(recording->command);
    bool known = strcmp(recording->trace_clock, "mono") == 0 || strcmp(recording->trace_clock, "boot") == 0;
    json_open(json, "facts", '{');
    android_facts(json, name.nodename);
    json_string(json, "kernel", name.release);
    json_integer(json, "page_bytes", sysconf(_SC_PAGESIZE));
    json_string(json, "storage_model", model);
    json_string(json, "fs_type", mount ? mount->fs_type : NULL);
    json_string(json, "clock", known ? recording->trace_clock : "unknown");
    json_string(json, "workload", workload);
    json_bool(json, "rooted", geteuid() == 0);
    json_close(json, '}');
    free(model);
    free(workload);
}

static void clocks_json(struct json *json, const char *trace_clock)
{
    struct clock_reading now = clock_reading();
    bool boot = strcmp(trace_clock, "boot") == 0;
    json_maybe(json, "realtime_offset_ns", now.realtime_ns - (boot ? now.boot_ns : now.mono_ns),
               boot || strcmp(trace_clock, "mono") == 0);
    clock_json(json, "clock_at_start", &now);
}

static void strings_json(struct json *json, const char *key, const char *const *strings, size_t nr)
{
    json_open(json, key, '[');
    for (size_t i = 0; i < nr; i++)
        json_string(json, NULL, strings[i]);
    json_close(json, ']');
}

static void events_json(struct json *json, const struct selection *selection)
{
    json_open(json, "events", '[');
    for (size_t i = 0; i < selection->nr_events; i++) {
        char *name = format("%s/%s", selection->events[i].system, selection->events[i].name);
        json_open(json, NULL, '{');
        json_string(json, "event", name);
        json_string(json, "filter", selection->events[i].filter);
        json_close(json, '}');
        free(name);
    }
    json_close(json, ']');
    strings_json(json, "absent", (const char *const *)selection->absent, selection->nr_absent);
}

void recording_begin(FILE *out, const struct recording *recording)
{
    struct json json = {out, false};
    size_t words = 0;
    while (recording->command[words])
        words++;
    json_open(&json, NULL, '{');
    json_integer(&json, "androstep_recording", 1);
    json_open(&json, "probe", '{');
    json_string(&json, "name", "iotrace");
    json_string(&json, "version", PROBE_VERSION);
    json_close(&json, '}');
    facts_json(&json, recording);
    clocks_json(&json, recording->trace_clock);
    json_string(&json, "preset", recording->preset);
    json_integer(&json, "buffer_kb", recording->buffer_kb);
    json_string(&json, "instance", recording->instance);
    strings_json(&json, "command", (const char *const *)recording->command, words);
    char *directory = getcwd(NULL, 0);
    json_string(&json, "directory", directory);
    free(directory);
    topology_json(recording->topology, &json);
    strings_json(&json, "listed", recording->listed, recording->nr_listed);
    events_json(&json, recording->selection);
    calls_json(&json, recording->selection);
}

static uint64_t lost_on(const struct cpu_result *cpu)
{
    /* Pages that a killed recorder had read from the kernel but not written. */
    uint64_t taken = cpu->stats.read_events > cpu->events ? cpu->stats.read_events - cpu->events : 0;
    /* The rest of the buffer could not be written. */
    return cpu->stats.overrun + cpu->stats.commit_overrun + cpu->stats.dropped + cpu->stats.entries + taken;
}

int64_t lost_events(const struct cpu_result *cpus, unsigned nr_cpus)
{
    int64_t lost = 0;
    for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
        if (!cpus[cpu].known)
            return -1;
        lost += (int64_t)lost_on(&cpus[cpu]);
    }
    return lost;
}

static void cpus_json(struct json *json, const struct outcome *outcome)
{
    json_open(json, "cpus", '[');
    for (unsigned nr = 0; outcome && nr < outcome->nr_cpus; nr++) {
        const struct cpu_result *cpu = &outcome->cpus[nr];
        json_open(json, NULL, '{');
        json_integer(json, "cpu", nr);
        json_integer(json, "events", (int64_t)cpu->events);
        json_maybe(json, "overrun", (int64_t)cpu->stats.overrun, cpu->known);
        json_maybe(json, "commit_overrun", (int64_t)cpu->stats.commit_overrun, cpu->known);
        json_maybe(json, "dropped", (int64_t)cpu->stats.dropped, cpu->known);
        json_maybe(json, "read_events", (int64_t)cpu->stats.read_events, cpu->known);
        json_maybe(json, "unread", (int64_t)cpu->stats.entries, cpu->known);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void window_json(struct json *json, const struct window *window)
{
    if (!window->start_ns) {
        json_null(json, "window");
        return;
    }
    json_open(json, "window", '{');
    json_integer(json, "start_ns", window->start_ns);
    json_maybe(json, "end_ns", window->end_ns, window->end_ns != 0);
    json_close(json, '}');
}

void recording_outcome(FILE *out, const struct window *window, const struct outcome *outcome)
{
    struct json json = {out, true};
    int64_t lost = outcome ? lost_events(outcome->cpus, outcome->nr_cpus) : -1;
    bool killed = !outcome || strcmp(outcome->stopped_by, "killed") == 0;
    json_bool(&json, "complete", !killed);
    json_string(&json, "stopped_by", outcome ? outcome->stopped_by : NULL);
    json_maybe(&json, "command_status", outcome && outcome->command_status ? *outcome->command_status : 0,
               outcome && outcome->command_status);
    json_maybe(&json, "command_pid", outcome ? outcome->command_pid : 0, outcome && outcome->command_pid);
    window_json(&json, window);
    json_maybe(&json, "lost_events", lost, lost >= 0);
    cpus_json(&json, outcome);
    if (killed) {
        json_null(&json, "clock_at_end");
        json_null(&json, "swaps_at_end");
    } else {
        struct clock_reading now = clock_reading();
        struct topology at_end = {0};
        clock_json(&json, "clock_at_end", &now);
        swaps_read(&at_end);
        swaps_json(&at_end, "swaps_at_end", &json);
        swaps_free(&at_end);
    }
    json_close(&json, '}');
    putc('\n', out);
}
