#include "iotrace/iotrace.h"

/* Save the remaining data of a dead recorder's instance, followed by the kernel's counters. */
static int save_rest(const struct output *output, const struct instance *instance)
{
    struct drain drain;
    file_command(instance->dir, "tracing_on", "0", 0);
    if (drain_open(&drain, instance, output->parts) < 0)
        return -1;
    int result = drain_rest(&drain);
    drain_close(&drain);
    return output_save_stats(output, instance) < 0 ? -1 : result;
}

static uint64_t unread_events(const struct instance *instance)
{
    uint64_t events = 0;
    for (unsigned cpu = 0; cpu < instance->nr_cpus; cpu++) {
        char *text = instance_stats(instance, cpu);
        events += text ? cpu_stats(text).entries : 0;
        free(text);
    }
    return events;
}

enum rescue { SAVED, NOWHERE, IN_USE };

/* Save the rest of an instance if its output directory exists and still has its recording. */
static enum rescue rescue(const struct instance *instance, const char *path)
{
    struct output output;
    if (!path || output_reopen(&output, path) < 0)
        return path && errno == EWOULDBLOCK ? IN_USE : NOWHERE;
    enum rescue result = output_is_of(&output, instance->name) && save_rest(&output, instance) == 0 ? SAVED : NOWHERE;
    output_close(&output);
    return result;
}

/* Remove an instance. rmdir refuses an instance with open buffers. Nothing in use is lost even if its owner looks dead
 * from this PID namespace. Returns whether the instance is gone. */
static bool clean_one(int tracefs, const char *name)
{
    struct instance instance;
    if (instance_adopt(&instance, tracefs, name) < 0)
        return errno == ENOENT;
    char *path = instance_output(name);
    enum rescue rescued = rescue(&instance, path);
    uint64_t unread = unread_events(&instance);
    bool gone = rescued != IN_USE && instance_remove(&instance) == 0;
    if (gone && rescued == SAVED)
        print_note("removed trace instance %s that a dead iotrace left; iotrace --finish %s makes its trace.dat", name,
                   path);
    else if (gone)
        print_note("removed trace instance %s that a dead iotrace left, with %" PRIu64 " unread events", name, unread);
    else if (rescued != IN_USE && errno != EBUSY && errno != ENOENT)
        print_error("trace instance %s of a dead iotrace: %s", name, strerror(errno));
    instance_close(&instance);
    free(path);
    return gone;
}

int salvage_instances(int tracefs)
{
    char **names;
    int left = 0;
    size_t nr = instances_dead(tracefs, &names);
    for (size_t i = 0; i < nr; i++) {
        left += !clean_one(tracefs, names[i]);
        free(names[i]);
    }
    free(names);
    if (left == 0 && !instances_live(tracefs))
        dynprobes_remove(tracefs);
    return left;
}

/* The instance may be gone if the iotrace that removed it has saved its contents. */
static int save_instance(const struct output *output, const char *name)
{
    struct instance instance;
    int tracefs = tracefs_open(), result = 0;
    if (tracefs < 0)
        return -1;
    if (instance_adopt(&instance, tracefs, name) == 0) {
        result = save_rest(output, &instance);
        instance_remove(&instance);
    }
    salvage_instances(tracefs);
    close(tracefs);
    return result;
}

int salvage_finish(const char *path)
{
    struct output output;
    if (output_reopen(&output, path) < 0)
        return errno == EWOULDBLOCK ? print_error("%s: is being recorded; end that iotrace first", path)
                                    : print_error("%s: contains no unfinished recording", path);
    char *name = file_line(output.parts, "instance");
    int result = name ? save_instance(&output, name) : print_error("%s: contains no unfinished recording", path);
    if (name && output_pack(&output, "killed", NULL, 0) < 0)
        result = -1;
    free(name);
    output_close(&output);
    return result;
}
