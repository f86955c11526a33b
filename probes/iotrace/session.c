#include "iotrace/iotrace.h"

#include <sys/utsname.h>

#include "common/command.h"

static const char *const end_names[] = {NULL, "command", "time", "size", "signal", "error"};

static int trace_argument(struct topology *topology, const char *argument)
{
    kernel_dev dev;
    if (topology_resolve(argument, &dev) < 0)
        return -1;
    if (topology_trace(topology, dev) < 0)
        return print_error("%s: no block device %u:%u in /sys/dev/block; give a device or a path on one", argument,
                           DEV_MAJOR(dev), DEV_MINOR(dev));
    return 0;
}

/* Return whether the device is zram, whose I/O does not reach storage. */
static bool is_memory(const struct topology *topology, kernel_dev dev)
{
    for (size_t i = 0; i < topology->nr_devices; i++)
        if (topology->devices[i].dev == dev)
            return strncmp(topology->devices[i].name, "zram", 4) == 0;
    return false;
}

static int choose_devices(struct session *session)
{
    const struct opt_list *devices = &session->asked->devices;
    struct topology *topology = &session->topology;
    if (topology_read(topology) < 0)
        return -1;
    for (size_t i = 0; i < devices->count; i++)
        if (trace_argument(topology, devices->items[i]) < 0)
            return -1;
    for (size_t i = 0; !devices->count && i < topology->nr_mounts; i++)
        topology_trace(topology, topology->mounts[i].dev);
    for (size_t i = 0; !devices->count && i < topology->nr_swaps; i++)
        if (!is_memory(topology, topology->swaps[i].dev))
            topology_trace(topology, topology->swaps[i].dev);
    for (size_t i = 0; i < topology->nr_devices; i++)
        if (topology->devices[i].traced)
            return 0;
    return print_error("no filesystem of a block device is mounted; name the devices to trace with --device");
}

static int open_output(struct session *session)
{
    kernel_dev dev;
    const char *path = session->asked->output;
    if (output_open(&session->output, path) < 0 || topology_resolve(path, &dev) < 0)
        return -1;
    if (!session->asked->same_device && topology_traces(&session->topology, dev))
        return print_error(
            "%s lies on a traced device, so that its own writes would be traced; record elsewhere (tmpfs), name "
            "other devices with --device, or give --allow-same-device",
            path);
    return output_begin(&session->output);
}

static int set_clock(struct session *session)
{
    const char *wanted[] = {session->asked->clock ? session->asked->clock : "mono", "mono", "boot", "global"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (file_command(session->instance.dir, "trace_clock", wanted[i], 0) == 0)
            break;
    struct contents clock;
    if (file_read(session->instance.dir, "trace_clock", &clock) < 0)
        return print_error("tracefs: trace_clock: %s", strerror(errno));
    trace_clock_name(clock.data, session->trace_clock, sizeof session->trace_clock);
    int result = file_save(session->output.parts, "clock", clock.data, clock.size);
    free(clock.data);
    if (session->asked->clock && strcmp(session->asked->clock, session->trace_clock) != 0)
        print_note("this kernel has no trace clock %s; %s is used", session->asked->clock, session->trace_clock);
    return result;
}

static int set_buffer(struct session *session)
{
    char *size = format("%" PRId64, session->asked->buffer_kb);
    int result = file_command(session->instance.dir, "buffer_size_kb", size, 0);
    if (result < 0)
        print_error("tracefs: %s KiB of buffer for each of %u CPUs: %s; give less with --buffer", size,
                    session->instance.nr_cpus, strerror(errno));
    free(size);
    /* Only in this mode does the kernel record in the pages how many events it has overwritten. */
    if (result == 0 && file_command(session->instance.dir, "trace_options", "overwrite", 0) < 0)
        result = print_error("tracefs: option overwrite: %s", strerror(errno));
    return result;
}

static int save_system(struct session *session)
{
    struct utsname name;
    uname(&name);
    char *text = format("%s %s %s %s", name.sysname, name.nodename, name.release, name.machine);
    int result = file_save(session->output.parts, "uname", text, strlen(text));
    free(text);
    return result < 0
               ? -1
               : file_save(session->output.parts, "instance", session->instance.name, strlen(session->instance.name));
}

static int save_head(struct session *session)
{
    struct contents text = comms_text(&session->comms);
    int result = tracedat_head(session->output.parts, session->instance.tracefs, session->selection.events,
                               session->selection.nr_events, &text);
    free(text.data);
    return result;
}

static int save_begin(struct session *session)
{
    struct contents begin;
    struct recording recording = {
        .topology = &session->topology,
        .selection = &session->selection,
        .preset = preset_names[session->asked->preset],
        .trace_clock = session->trace_clock,
        .instance = session->instance.name,
        .buffer_kb = session->asked->buffer_kb,
        .command = session->asked->words,
        .listed = session->listing.paths,
        .nr_listed = session->listing.nr,
    };
    FILE *out = memory_open(&begin);
    recording_begin(out, &recording);
    memory_close(out);
    int result = output_save_begin(&session->output, &begin);
    free(begin.data);
    return result;
}

static void set_filters(struct session *session)
{
    for (size_t i = 0; i < session->selection.nr_events; i++)
        instance_filter(&session->instance, &session->selection.events[i]);
}

static int switch_events(const struct session *session, enum call_part part, bool on)
{
    const struct selection *selection = &session->selection;
    for (size_t i = 0; i < selection->nr_events; i++)
        if (event_call_part(&selection->events[i]) == part &&
            instance_enable(&session->instance, &selection->events[i], on) < 0)
            return print_error("tracefs: event %s/%s: %s", selection->events[i].system, selection->events[i].name,
                               strerror(errno));
    return 0;
}

/* The other events of a call are enabled before and disabled after its first one, so that every call recorded from its
 * beginning is complete. */
int session_begin_calls(const struct session *session)
{
    return switch_events(session, CALL_GOES_ON, true) < 0 ? -1 : switch_events(session, CALL_BEGINS, true);
}

int session_end_calls(const struct session *session)
{
    return switch_events(session, CALL_BEGINS, false) < 0 ? -1 : switch_events(session, CALL_GOES_ON, false);
}

static void select_events(struct session *session)
{
    const struct needs needs = {&session->topology, session->listing.nr > 0, session->asked->same_device,
                                session->asked->readahead};
    int tracefs = session->instance.tracefs, preset = (int)session->asked->preset;
    struct selection *selection = &session->selection;
    selection_make(selection, tracefs, preset, &needs);
    if (preset >= PRESET_FS)
        dynprobes_define(tracefs, &needs, selection);
    if (preset >= PRESET_SYSCALLS) {
        calls_select(selection, tracefs);
        if (!dynprobes_define_calls(tracefs, selection))
            print_note("this kernel has no probes for paths of system calls; run the command under strace for them: "
                       "strace -f -yy -o LOG COMMAND");
    }
    selection_sort(selection);
}

static int prepare(struct session *session)
{
    select_events(session);
    if (set_clock(session) < 0 || set_buffer(session) < 0 || save_system(session) < 0 ||
        output_reserve_stats(&session->output, session->instance.nr_cpus) < 0)
        return -1;
    comms_add_running(&session->comms);
    set_filters(session);
    if (switch_events(session, NO_CALL, true) < 0 || save_head(session) < 0 || save_begin(session) < 0)
        return -1;
    return drain_open(&session->drain, &session->instance, session->output.parts);
}

static void remove_instance(struct session *session)
{
    drain_close(&session->drain);
    if (instance_remove(&session->instance) < 0)
        print_error("trace instance %s: %s; run iotrace --cleanup", session->instance.name, strerror(errno));
}

static int begin(struct session *session, int tracefs)
{
    const struct asked *asked = session->asked;
    if (asked->words[0] && !command_is_runnable(asked->words[0]))
        return print_error("%s: no such program; the command cannot be run", asked->words[0]);
    if (choose_devices(session) < 0)
        return -1;
    if (asked->preset != PRESET_BLOCK || asked->lists.count)
        listing_choose(&session->listing, &asked->lists, &session->topology);
    session->listing.descriptors = asked->preset >= PRESET_SYSCALLS;
    if (open_output(session) < 0)
        return -1;
    if (instance_create(&session->instance, tracefs, asked->output) < 0) {
        output_discard(&session->output);
        return -1;
    }
    if (prepare(session) == 0)
        return 0;
    remove_instance(session);
    output_discard(&session->output);
    unlinkat(session->output.dir, "recording.json", 0);
    return -1;
}

int64_t session_trace_ns(const struct session *session)
{
    return clock_now(strcmp(session->trace_clock, "boot") == 0 ? CLOCK_BOOTTIME : CLOCK_MONOTONIC);
}

int session_end_segment(struct session *session, int64_t end_ns)
{
    output_save_stats(&session->output, &session->instance);
    if (listing_write_tasks(session->output.dir) < 0 || output_pack_segment(&session->output, end_ns) < 0)
        return -1;
    return drain_restart(&session->drain);
}

/* Stop tracing and drain the buffers. The instance is removed even after errors. The marker shows that the trace
 * extends beyond the listing even if the devices were idle: a file in the listing then existed before the end. */
static int stop(struct session *session, enum end end)
{
    file_command(session->instance.dir, "trace_marker", "iotrace: end", 0);
    file_command(session->instance.dir, "tracing_on", "0", 0);
    names_end(&session->names);
    int result = end == END_ERROR || drain_rest(&session->drain) < 0 ? -1 : 0;
    output_save_stats(&session->output, &session->instance);
    comms_add_running(&session->comms);
    comms_add_saved(&session->comms, session->instance.tracefs);
    save_head(session);
    remove_instance(session);
    session_end_command(session);
    int status = WIFSIGNALED(session->status) ? -WTERMSIG(session->status) : WEXITSTATUS(session->status);
    const int *known = session->ran ? &status : NULL;
    return output_pack(&session->output, end_names[end], known, session->command_pid) < 0 ? -1 : result;
}

static void block_signals(struct session *session)
{
    command_end_signals(&session->signals);
    sigaddset(&session->signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &session->signals, &session->before);
    signal(SIGPIPE, SIG_IGN);
}

static void release(struct session *session)
{
    topology_free(&session->topology);
    selection_free(&session->selection);
    listing_free(&session->listing);
    comms_free(&session->comms);
    output_close(&session->output);
}

int session_record(const struct asked *asked)
{
    struct session session = {
        .asked = asked, .output = {.dir = -1, .parts = -1}, .drain.pipe = {-1, -1}, .names = {0, -1, -1}};
    int tracefs = tracefs_open(), result = -1;
    if (tracefs < 0)
        return -1;
    block_signals(&session);
    salvage_instances(tracefs);
    if (begin(&session, tracefs) == 0)
        result = stop(&session, session_run(&session));
    release(&session);
    salvage_instances(tracefs);
    close(tracefs);
    return result;
}
