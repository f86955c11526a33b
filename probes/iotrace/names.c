#include "iotrace/iotrace.h"

#include <poll.h>
#include <sys/fanotify.h>

/* Flags of fanotify since 5.17, the first version that reports the inodes of created and removed entries. */
#define INIT                                                                                                           \
    (FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_REPORT_DIR_FID | FAN_REPORT_NAME | FAN_REPORT_TARGET_FID |                 \
     FAN_UNLIMITED_QUEUE | FAN_CLOEXEC | FAN_NONBLOCK)
#define EVENTS (FAN_CREATE | FAN_DELETE | FAN_RENAME)

enum { READ_BYTES = 65536, FLUSH_MS = 1000, MS_NS = 1000000 };

enum { CREATED = 1, DELETED = 2, RENAMED = 4, OVERFLOWN = 8 };

struct watch_row {
    int64_t since_ns;
    uint32_t dev;
    struct record_string reason;
};

static const struct record_field watch_fields[] = {
    RECORD_FIELD(watch_row, since_ns, true, "ns", "Start of recording its names; null: never."),
    RECORD_FIELD(watch_row, dev, false, NULL, "Device of the filesystem, major<<20|minor."),
    RECORD_FIELD(watch_row, reason, true, NULL, "Why its names are not recorded."),
};

static const struct record_type watch_type =
    RECORD_TYPE("watch", NULL, "A traced filesystem, and whether its names are recorded.", watch_fields);

struct name_row {
    uint64_t order;
    int64_t empty_ns, read_ns, mono_offset_ns;
    int64_t ino, generation, parent_ino, parent_generation, new_parent_ino, new_parent_generation;
    uint32_t dev, kinds;
    int32_t is_dir, pid;
    struct record_string name, new_name;
};

static const struct record_field name_fields[] = {
    RECORD_FIELD(name_row, order, false, NULL,
                 "Index of the event in its filesystem, from 0: events happened in this order."),
    RECORD_FIELD(name_row, empty_ns, false, "ns", "When the queue was last empty; the event was queued later."),
    RECORD_FIELD(name_row, read_ns, false, "ns", "When it was read; it happened earlier."),
    RECORD_FIELD(name_row, mono_offset_ns, false, "ns", "CLOCK_MONOTONIC minus CLOCK_BOOTTIME at that time."),
    RECORD_FIELD(name_row, ino, true, NULL, "Inode that has or had the name; null: unknown type of file handles."),
    RECORD_FIELD(name_row, generation, true, NULL, "Its generation."),
    RECORD_FIELD(name_row, parent_ino, true, NULL, "Inode of the directory; of a rename the old one."),
    RECORD_FIELD(name_row, parent_generation, true, NULL, "Its generation."),
    RECORD_FIELD(name_row, new_parent_ino, true, NULL, "Of a rename the new directory's inode."),
    RECORD_FIELD(name_row, new_parent_generation, true, NULL, "Its generation."),
    RECORD_FIELD(name_row, dev, false, NULL, "Device of the filesystem, major<<20|minor."),
    RECORD_FIELD(name_row, kinds, false, NULL,
                 "Sum of 1: created (also a hard link), 2: removed, 4: renamed; 8: events were lost here. The kernel "
                 "merges events of one process, so that it may have done this several times in any order."),
    RECORD_FIELD(name_row, is_dir, false, NULL, "1 if the inode is a directory, else 0."),
    RECORD_FIELD(name_row, pid, false, NULL, "Process that did it."),
    RECORD_FIELD(name_row, name, true, NULL, "The name in the directory; of a rename the old one."),
    RECORD_FIELD(name_row, new_name, true, NULL, "Of a rename the new name."),
};

static const struct record_type name_type =
    RECORD_TYPE("name", NULL, "A directory entry that was created, removed or renamed.", name_fields);

static const struct record_type *const types[] = {&watch_type, &name_type};
const struct record_probe names_probe = {"iotrace", types, sizeof types / sizeof *types};

static uint32_t kinds_of(uint64_t mask)
{
    return (mask & FAN_CREATE ? CREATED : 0U) | (mask & FAN_DELETE ? DELETED : 0U) |
           (mask & FAN_RENAME ? RENAMED : 0U) | (mask & FAN_Q_OVERFLOW ? OVERFLOWN : 0U);
}

int names_take(struct record *out, struct names_place *place, struct name_events events, int64_t read_ns)
{
    struct name_event event;
    int64_t offset_ns = clock_offset(CLOCK_MONOTONIC);
    while (name_events_next(&events, &event)) {
        const struct name_row row = {
            .order = place->order++,
            .empty_ns = place->empty_ns,
            .read_ns = read_ns,
            .mono_offset_ns = offset_ns,
            .ino = event.child.ino,
            .generation = event.child.generation,
            .parent_ino = event.parent.ino,
            .parent_generation = event.parent.generation,
            .new_parent_ino = event.new_parent.ino,
            .new_parent_generation = event.new_parent.generation,
            .dev = place->dev,
            .kinds = kinds_of(event.mask),
            .is_dir = event.mask & FAN_ONDIR ? 1 : 0,
            .pid = event.pid,
        };
        const struct record_text texts[] = {event.name, event.new_name};
        if (event.mask & FAN_Q_OVERFLOW)
            record_lose(out, "names_overflow",
                        "overflows of the kernel's queue of names, or remounts; an unknown number is lost", 1);
        else if (event.is_unknown)
            record_lose(out, "unknown_handle", "names of inodes with an unknown type of file handle", 1);
        if (record_add(out, &name_type, &row, texts) < 0)
            return -1;
    }
    if (events.size)
        record_lose(out, "unknown_event", "invalid bytes from fanotify", events.size);
    return 0;
}

/* A watched filesystem. It has its own fanotify group, so that its device is known independent of the events. */
struct watched {
    int group;
    struct names_place place;
};

struct watches {
    struct watched *list;
    size_t nr;
    bool has_warned, quiet;
};

/* Open the directory that the filesystem is mounted on, unless its path leads elsewhere now. */
static int open_mount(const struct mounted *mount)
{
    struct stat status;
    int fd = open(mount->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && KERNEL_DEV(major(status.st_dev), minor(status.st_dev)) == mount->dev)
        return fd;
    if (fd >= 0) {
        close(fd);
        errno = ENOENT;
    }
    return -1;
}

/* Let the group report names of the filesystem. Returns -1 with errno set if that is impossible. */
static int mark(int group, const struct mounted *mount)
{
    int fd = open_mount(mount);
    if (fd < 0)
        return -1;
    int result = fanotify_mark(group, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, EVENTS | FAN_ONDIR, fd, NULL);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

/* Return a group that reports names of the filesystem, or -1 with errno set and the failed step in `why`. */
static int watch(const struct mounted *mount, const char **why)
{
    *why = "it needs Linux 5.17 with CONFIG_FANOTIFY";
    int group = fanotify_init(INIT, O_RDONLY);
    if (group < 0)
        return -1;
    *why = "its mount cannot be reached, or its files have no handles";
    int result = mark(group, mount), error = errno;
    if (result < 0)
        close(group);
    errno = error;
    return result < 0 ? -1 : group;
}

static bool is_watched(const struct watches *watches, kernel_dev dev)
{
    for (size_t i = 0; i < watches->nr; i++)
        if (watches->list[i].place.dev == dev)
            return true;
    return false;
}

static bool has_later_mount(const struct topology *topology, size_t mount)
{
    for (size_t i = mount + 1; i < topology->nr_mounts; i++)
        if (topology->mounts[i].dev == topology->mounts[mount].dev)
            return true;
    return false;
}

static void add_watch(struct watches *watches, int group, kernel_dev dev, int64_t since_ns)
{
    watches->list = grow(watches->list, watches->nr + 1, sizeof *watches->list);
    watches->list[watches->nr++] = (struct watched){group, {dev, 0, since_ns}};
}

static void watch_all(struct watches *watches, const struct topology *topology, struct record *out)
{
    for (size_t i = 0; i < topology->nr_mounts; i++) {
        const struct mounted *mount = &topology->mounts[i];
        if (!topology_traces(topology, mount->dev) || is_watched(watches, mount->dev))
            continue;
        const char *why;
        struct watch_row row = {.since_ns = clock_now(CLOCK_RECORD), .dev = mount->dev};
        int group = watch(mount, &why);
        if (group >= 0) {
            add_watch(watches, group, mount->dev, row.since_ns);
            record_add(out, &watch_type, &row, &(struct record_text){0});
            continue;
        }
        if (has_later_mount(topology, i))
            continue;
        char *reason = format("%s (%s)", why, strerror(errno));
        row.since_ns = RECORD_NULL_INT64;
        record_add(out, &watch_type, &row, &(struct record_text){reason, strlen(reason)});
        if (!watches->has_warned && !watches->quiet)
            print_note("%s: cannot resolve names of files deleted during the trace: fanotify is unavailable: %s",
                       mount->path, reason);
        watches->has_warned = true;
        free(reason);
    }
}

/* Read pending events. Returns -1 if `out` cannot be written. */
static int read_waiting(struct watched *watched, struct record *out)
{
    static char bytes[READ_BYTES];
    for (;;) {
        int64_t before_ns = clock_now(CLOCK_RECORD);
        ssize_t size = read(watched->group, bytes, sizeof bytes);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0) {
            watched->place.empty_ns = before_ns;
            return 0;
        }
        const struct name_events events = {bytes, (size_t)size};
        if (names_take(out, &watched->place, events, clock_now(CLOCK_RECORD)) < 0)
            return -1;
    }
}

/* Return whether the group still watches its filesystem. The mark of a filesystem goes when it is unmounted. */
static bool has_mark(int group)
{
    char path[64];
    struct contents marks;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", group);
    if (file_read(AT_FDCWD, path, &marks) < 0)
        return true;
    bool has = strstr(marks.data, "fanotify sdev:") != NULL;
    free(marks.data);
    return has;
}

/* Watch the filesystem again if it was mounted again. Records that events before may be missing. */
static int watch_again(struct watched *watched, struct record *out)
{
    struct topology now = {0};
    bool is_watched = false;
    if (topology_read(&now) < 0)
        return 0;
    for (size_t i = 0; i < now.nr_mounts && !is_watched; i++)
        is_watched = now.mounts[i].dev == watched->place.dev && mark(watched->group, &now.mounts[i]) == 0;
    topology_free(&now);
    if (!is_watched)
        return 0;
    const struct fanotify_event_metadata lost = {.event_len = sizeof lost,
                                                 .vers = FANOTIFY_METADATA_VERSION,
                                                 .metadata_len = sizeof lost,
                                                 .mask = FAN_Q_OVERFLOW};
    const struct name_events gap = {(const char *)&lost, sizeof lost};
    return names_take(out, &watched->place, gap, clock_now(CLOCK_RECORD));
}

/* Read events until the other end of `end` is closed, and then the pending ones. Flushes every second, which bounds
 * what a kill loses. */
static void follow(struct watches *watches, int end, struct record *out)
{
    const size_t nr_polled = watches->nr + 2, mounts = watches->nr + 1;
    struct pollfd *polled = zeroed(nr_polled, sizeof *polled);
    int64_t flushed_ns = clock_now(CLOCK_RECORD);
    int result = 0;
    polled[watches->nr] = (struct pollfd){.fd = end};
    polled[mounts] = (struct pollfd){.fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC), .events = POLLPRI};
    for (size_t i = 0; i < watches->nr; i++)
        polled[i] = (struct pollfd){.fd = watches->list[i].group, .events = POLLIN};
    while (result == 0 && !polled[watches->nr].revents) {
        poll(polled, nr_polled, FLUSH_MS);
        for (size_t i = 0; i < watches->nr && result == 0; i++) {
            if (polled[i].revents)
                result = read_waiting(&watches->list[i], out);
            if (result == 0 && polled[mounts].revents && !has_mark(polled[i].fd))
                result = watch_again(&watches->list[i], out);
        }
        if (result == 0 && clock_now(CLOCK_RECORD) - flushed_ns >= (int64_t)FLUSH_MS * MS_NS) {
            result = record_flush(out);
            flushed_ns = clock_now(CLOCK_RECORD);
        }
    }
    for (size_t i = 0; i < watches->nr && result == 0; i++) {
        /* Stop new events, so that reading the pending ones ends. */
        fanotify_mark(watches->list[i].group, FAN_MARK_FLUSH | FAN_MARK_FILESYSTEM, 0, AT_FDCWD, NULL);
        result = read_waiting(&watches->list[i], out);
    }
    close_file(polled[mounts].fd);
    free(polled);
}

/* Run the reader process. It writes its PID to `status` once no event is missed any more, and again when everything is
 * written. */
static int read_names(const struct topology *topology, int dir, bool are_probed, int end, int status)
{
    const pid_t self = getpid();
    struct watches watches = {.quiet = are_probed};
    char *path = path_in(dir, "names.rec");
    struct record *out = record_open(path, &names_probe);
    free(path);
    if (!out)
        return -1;
    watch_all(&watches, topology, out);
    int result = record_flush(out);
    write_all(status, &self, sizeof self);
    if (result == 0 && watches.nr)
        follow(&watches, end, out);
    free(watches.list);
    if (record_close(out) < 0)
        return -1;
    return write_all(status, &self, sizeof self);
}

/* Return the PID that the reader reports; 0: it has ended. */
static pid_t hear(int status)
{
    pid_t reader = 0;
    ssize_t size;
    while ((size = read(status, &reader, sizeof reader)) < 0 && errno == EINTR)
        ;
    return size == sizeof reader ? reader : 0;
}

/* Start the reader by a double fork, so that it is not a child of this process. */
static int start_reader(const struct topology *topology, int dir, bool are_probed, const int pipes[4],
                        const int *unneeded, size_t nr_unneeded)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        pid_t reader = fork();
        if (reader != 0)
            _exit(reader < 0);
        close(pipes[1]);
        close(pipes[2]);
        for (size_t i = 0; i < nr_unneeded; i++)
            close_file(unneeded[i]);
        _exit(read_names(topology, dir, are_probed, pipes[0], pipes[3]) < 0);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child < 0 || status ? -1 : 0;
}

void names_begin(struct names *names, const struct topology *topology, int dir, bool are_probed, const int *unneeded,
                 size_t nr_unneeded)
{
    int pipes[4] = {-1, -1, -1, -1};
    if (pipe2(pipes, O_CLOEXEC) < 0 || pipe2(pipes + 2, O_CLOEXEC) < 0 ||
        start_reader(topology, dir, are_probed, pipes, unneeded, nr_unneeded) < 0)
        print_error("names.rec: no process can be started to read names; those of files deleted during the trace will "
                    "not be resolved");
    for (int i = 0; i < 4; i += 3)
        close_file(pipes[i]);
    *names = (struct names){pipes[2] < 0 ? 0 : hear(pipes[2]), pipes[1], pipes[2]};
}

void names_end(struct names *names)
{
    close_file(names->end);
    if (names->reader && !hear(names->status))
        print_error("names.rec: the file is incomplete; later names are not recorded");
    close_file(names->status);
    *names = (struct names){0, -1, -1};
}
