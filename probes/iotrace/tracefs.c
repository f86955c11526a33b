#include "iotrace/iotrace.h"

#include <ctype.h>
#include <sys/mount.h>

#define NAME_PREFIX "androstep."

enum { MAX_ENCODED = 200 }; /* of the 255 bytes of a file name */

static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

static int open_dir(int dir, const char *path)
{
    return openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_tracefs(int dir)
{
    return dir >= 0 && faccessat(dir, "trace_clock", F_OK, 0) == 0;
}

static int open_mounted(void)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int dir = open_dir(AT_FDCWD, places[i]);
        if (is_tracefs(dir))
            return dir;
        close_file(dir);
    }
    return -1;
}

/* Mount, open and detach at once, which leaves the open directory usable. */
static int mount_briefly(const char *type, const char *place, const char *below)
{
    if (mount("nodev", place, type, MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return -1;
    char *path = format("%s/%s", place, below);
    int dir = open_dir(AT_FDCWD, path);
    free(path);
    umount2(place, MNT_DETACH);
    return dir;
}

int tracefs_open(void)
{
    int dir = open_mounted();
    if (dir < 0)
        dir = mount_briefly("tracefs", "/sys/kernel/tracing", ".");
    if (dir < 0)
        dir = mount_briefly("debugfs", "/sys/kernel/debug", "tracing");
    int readable = is_tracefs(dir) ? open_dir(dir, ".") : -1;
    close_file(dir);
    if (readable >= 0 && faccessat(readable, "instances", W_OK, 0) == 0)
        return readable;
    close_file(readable);
    if (geteuid() != 0)
        return print_error("tracing needs root; run iotrace as root (on Android: su, or adb root)");
    return print_error(
        "no tracefs with instances at %s or %s and none can be mounted; this needs a kernel from 3.10 on "
        "with CONFIG_TRACING",
        places[0], places[1]);
}

/* Return the clock tick since boot when a process started: field 22 of its stat file, or 0 if there is no such process.
 * The name in parentheses, field 2, may contain anything. */
static uint64_t process_start(long pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (procfs_read(path, text, sizeof text) < 0)
        return 0;
    const char *next = strrchr(text, ')');
    for (int field = 2; next && field < 22; field++)
        next = strchr(next + 1, ' ');
    return next ? strtoull(next, NULL, 10) : 0;
}

/* Encode `path` as a file name; "" if the name of the instance would be too long. */
static char *encoded(const char *path)
{
    char *text = grow(NULL, strlen(path) * 3 + 1, 1), *to = text;
    for (; *path; path++)
        to += isalnum((unsigned char)*path) ? sprintf(to, "%c", *path) : sprintf(to, "%%%02X", (unsigned char)*path);
    *to = '\0';
    if (to - text > MAX_ENCODED)
        *text = '\0';
    return text;
}

char *instance_output(const char *name)
{
    int begin = -1;
    if (sscanf(name, NAME_PREFIX "%*d.%*u.%n", &begin) < 0 || begin < 0 || name[begin] == '\0')
        return NULL;
    char *path = format("%s", name + begin), *to = path;
    for (const char *from = path; *from; to++) {
        unsigned byte;
        if (sscanf(from, "%%%2X", &byte) == 1) {
            *to = (char)byte;
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
    return path;
}

static bool instance_is_live(const char *name)
{
    long pid;
    uint64_t start;
    if (sscanf(name, NAME_PREFIX "%ld.%" SCNu64, &pid, &start) != 2)
        return false;
    return process_start(pid) == start;
}

int instance_adopt(struct instance *instance, int tracefs, const char *name)
{
    *instance = (struct instance){.tracefs = tracefs, .dir = -1, .held = -1};
    snprintf(instance->name, sizeof instance->name, "%s", name);
    char *path = format("instances/%s", name);
    instance->dir = open_dir(tracefs, path);
    free(path);
    if (instance->dir < 0)
        return -1;
    instance->nr_cpus = files_numbered(instance->dir, "per_cpu/cpu");
    return 0;
}

int instance_create(struct instance *instance, int tracefs, const char *output)
{
    char *whole = realpath(output, NULL), *place = encoded(whole ? whole : "");
    char *name = format(NAME_PREFIX "%ld.%" PRIu64 ".%s", (long)getpid(), process_start(getpid()), place);
    char *path = format("instances/%s", name);
    int result = mkdirat(tracefs, path, 0700);
    if (result < 0)
        print_error("tracefs/%s: %s; no trace instance can be made", path, strerror(errno));
    else if ((result = instance_adopt(instance, tracefs, name)) < 0)
        print_error("tracefs/%s: %s", path, strerror(errno));
    else {
        instance->held = openat(instance->dir, "tracing_on", O_RDONLY | O_CLOEXEC);
        file_command(instance->dir, "tracing_on", "0", 0);
    }
    free(path);
    free(name);
    free(place);
    free(whole);
    return result;
}

void instance_close(struct instance *instance)
{
    close_file(instance->held);
    close_file(instance->dir);
    instance->held = instance->dir = -1;
}

int instance_remove(struct instance *instance)
{
    char *path = format("instances/%s", instance->name);
    instance_close(instance);
    int result = unlinkat(instance->tracefs, path, AT_REMOVEDIR), error = errno;
    free(path);
    errno = error;
    return result;
}

static DIR *open_instances(int tracefs)
{
    int fd = open_dir(tracefs, "instances");
    DIR *instances = fd < 0 ? NULL : fdopendir(fd);
    if (!instances)
        print_error("tracefs/instances: %s", strerror(errno));
    return instances;
}

/* Return the name of the next instance of iotrace; NULL at the end. */
static const char *next_instance(DIR *instances)
{
    struct dirent *entry;
    while ((entry = readdir(instances)))
        if (strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0)
            return entry->d_name;
    return NULL;
}

size_t instances_dead(int tracefs, char ***names)
{
    size_t nr = 0;
    DIR *instances = open_instances(tracefs);
    *names = NULL;
    for (const char *name; instances && (name = next_instance(instances));) {
        if (instance_is_live(name))
            continue;
        *names = grow(*names, nr + 1, sizeof **names);
        (*names)[nr++] = format("%s", name);
    }
    if (instances)
        closedir(instances);
    return nr;
}

bool instances_live(int tracefs)
{
    bool live = false;
    DIR *instances = open_instances(tracefs);
    if (!instances)
        return true;
    for (const char *name; (name = next_instance(instances));)
        live |= instance_is_live(name);
    closedir(instances);
    return live;
}

bool tracefs_has_event(int tracefs, const char *system, const char *name)
{
    char *path = format("events/%s/%s/format", system, name);
    bool has = faccessat(tracefs, path, R_OK, 0) == 0;
    free(path);
    return has;
}

/* Write `text` to a file of an event. Returns -1 with errno set. */
static int event_command(const struct instance *instance, const struct event *event, const char *file, const char *text)
{
    char *path = format("events/%s/%s/%s", event->system, event->name, file);
    int result = file_command(instance->dir, path, text, 0), error = errno;
    free(path);
    errno = error;
    return result;
}

void instance_filter(const struct instance *instance, struct event *event)
{
    if (!event->filter || event_command(instance, event, "filter", event->filter) == 0)
        return;
    print_note("%s/%s: the kernel refuses the filter %s; recorded without it", event->system, event->name,
               event->filter);
    free(event->filter);
    event->filter = NULL;
}

int instance_enable(const struct instance *instance, const struct event *event, bool enable)
{
    return event_command(instance, event, "enable", enable ? "1" : "0");
}

void instance_leave_out(const struct instance *instance, const struct event *event, int tid)
{
    const char *filter = event->filter ? event->filter : "0";
    char *narrowed = event->filter ? format("(%s) && common_pid != %d", filter, tid) : format("common_pid != %d", tid);
    event_command(instance, event, "filter", tid ? narrowed : filter);
    free(narrowed);
}

static uint64_t labelled(const char *text, const char *label)
{
    const char *line = strstr(text, label);
    if (line && (line == text || line[-1] == '\n'))
        return strtoull(line + strlen(label), NULL, 10);
    line = line ? strstr(line + 1, label) : NULL;
    return line && line[-1] == '\n' ? strtoull(line + strlen(label), NULL, 10) : 0;
}

char *instance_stats(const struct instance *instance, unsigned cpu)
{
    struct contents file;
    char path[40];
    snprintf(path, sizeof path, "per_cpu/cpu%u/stats", cpu);
    return file_read(instance->dir, path, &file) < 0 ? NULL : file.data;
}

struct cpu_stats cpu_stats(const char *text)
{
    return (struct cpu_stats){
        .entries = labelled(text, "entries: "),
        .overrun = labelled(text, "overrun: "),
        .commit_overrun = labelled(text, "commit overrun: "),
        .dropped = labelled(text, "dropped events: "),
        .read_events = labelled(text, "read events: "),
    };
}

void trace_clock_name(const char *text, char *name, size_t size)
{
    const char *begin = strchr(text, '['), *end = begin ? strchr(begin, ']') : NULL;
    int length = end ? (int)(end - begin - 1) : 0;
    snprintf(name, size, "%.*s", length, end ? begin + 1 : "");
}
