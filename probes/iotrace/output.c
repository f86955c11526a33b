#include "iotrace/iotrace.h"

#include <sys/file.h>

#define UNFINISHED "unfinished"
#define SEGMENTED  "segmented"
#define WINDOW     "window"

enum { STATS_BYTES = 512 }; /* reserved in `stats` for each CPU; unused bytes are NUL */

/* The kernel's counters of each CPU, and the texts they were parsed from. */
struct results {
    struct cpu_result *cpus;
    struct contents *texts;
    unsigned nr_cpus;
};

int output_open(struct output *output, const char *path)
{
    *output = (struct output){path, -1, -1};
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return print_error("%s: %s; the directory to record into cannot be made", path, strerror(errno));
    output->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return output->dir < 0 ? print_error("%s: %s", path, strerror(errno)) : 0;
}

static int open_parts(struct output *output)
{
    output->parts = openat(output->dir, UNFINISHED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (output->parts < 0)
        return -1;
    /* On a filesystem without locks, the names of instances usually detect a running recorder. */
    return flock(output->parts, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK ? -1 : 0;
}

int output_begin(struct output *output)
{
    if (faccessat(output->dir, "trace.dat", F_OK, 0) == 0)
        return print_error("%s: contains a recording already; give a new directory", output->path);
    if (mkdirat(output->dir, UNFINISHED, 0777) < 0)
        return errno == EEXIST ? print_error("%s: contains an unfinished recording; pack it with iotrace --finish, or "
                                             "give a new directory",
                                             output->path)
                               : print_error("%s/" UNFINISHED ": %s", output->path, strerror(errno));
    return open_parts(output) < 0 ? print_error("%s/" UNFINISHED ": %s", output->path, strerror(errno)) : 0;
}

int output_reopen(struct output *output, const char *path)
{
    *output = (struct output){path, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1};
    if (output->dir >= 0 && open_parts(output) == 0)
        return 0;
    int error = errno;
    output_close(output);
    errno = error;
    return -1;
}

void output_close(struct output *output)
{
    close_file(output->parts);
    close_file(output->dir);
    output->dir = output->parts = -1;
}

bool output_is_of(const struct output *output, const char *instance)
{
    char *name = file_line(output->parts, "instance");
    bool same = name && strcmp(name, instance) == 0;
    free(name);
    return same;
}

static struct window read_window(int parts)
{
    struct window window = {0, 0};
    char *line = file_line(parts, WINDOW);
    if (!line || sscanf(line, "%" SCNd64 " %" SCNd64, &window.start_ns, &window.end_ns) != 2)
        window = (struct window){0, 0};
    free(line);
    return window;
}

static int save_recording(const struct output *output, const struct contents *begin, const struct outcome *outcome)
{
    struct contents text;
    struct window window = read_window(output->parts);
    FILE *out = memory_open(&text);
    fwrite(begin->data, 1, begin->size, out);
    recording_outcome(out, &window, outcome);
    memory_close(out);
    int result = file_replace(output->dir, "recording.json", text.data, text.size);
    free(text.data);
    return result;
}

int output_save_begin(const struct output *output, const struct contents *begin)
{
    return file_save(output->parts, "recording", begin->data, begin->size) < 0 ? -1
                                                                               : save_recording(output, begin, NULL);
}

int output_save_window(const struct output *output, const struct window *window)
{
    struct contents begin;
    char *text = format("%" PRId64 " %" PRId64 "\n", window->start_ns, window->end_ns);
    int result = file_save(output->parts, WINDOW, text, strlen(text));
    free(text);
    if (result < 0)
        return -1;
    if (file_read(output->parts, "recording", &begin) < 0)
        return print_error("%s/" UNFINISHED "/recording: %s", output->path, strerror(errno));
    result = save_recording(output, &begin, NULL);
    free(begin.data);
    return result;
}

int output_reserve_stats(const struct output *output, unsigned nr_cpus)
{
    char *zeros = zeroed(nr_cpus, STATS_BYTES);
    int result = file_save(output->parts, "stats", zeros, (size_t)nr_cpus * STATS_BYTES);
    free(zeros);
    return result;
}

int output_save_stats(const struct output *output, const struct instance *instance)
{
    int fd = openat(output->parts, "stats", O_WRONLY | O_CLOEXEC), result = fd < 0 ? -1 : 0;
    for (unsigned cpu = 0; result == 0 && cpu < instance->nr_cpus; cpu++) {
        char slot[STATS_BYTES] = "";
        char *text = instance_stats(instance, cpu);
        snprintf(slot, sizeof slot, "%s", text ? text : "");
        free(text);
        result = write_all(fd, slot, sizeof slot);
    }
    if (result < 0)
        print_error("%s/" UNFINISHED "/stats: %s; the number of lost events will be unknown", output->path,
                    strerror(errno));
    close_file(fd);
    return result;
}

/* Return the number of events of each CPU in earlier segments (freed by the caller). */
static uint64_t *segmented_events(int parts, unsigned nr_cpus)
{
    uint64_t *events = zeroed(nr_cpus, sizeof *events);
    struct contents file;
    if (file_read(parts, SEGMENTED, &file) < 0)
        return events;
    if (file.size == nr_cpus * sizeof *events)
        memcpy(events, file.data, file.size);
    free(file.data);
    return events;
}

static int save_segmented(int parts, const struct results *results)
{
    uint64_t *events = zeroed(results->nr_cpus, sizeof *events);
    for (unsigned cpu = 0; cpu < results->nr_cpus; cpu++)
        events[cpu] = results->cpus[cpu].events;
    int result = file_save(parts, SEGMENTED, (char *)events, results->nr_cpus * sizeof *events);
    free(events);
    return result;
}

static struct results read_results(int parts)
{
    struct contents file = {NULL, 0};
    unsigned nr_cpus = tracedat_cpus(parts);
    struct results results = {grow(NULL, nr_cpus, sizeof *results.cpus), grow(NULL, nr_cpus, sizeof *results.texts),
                              nr_cpus};
    if (file_read(parts, "stats", &file) < 0)
        file = (struct contents){NULL, 0};
    uint64_t *earlier = segmented_events(parts, nr_cpus);
    for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
        const char *text = file.data + (size_t)cpu * STATS_BYTES;
        bool known = file.size >= (cpu + (size_t)1) * STATS_BYTES && *text != '\0';
        results.cpus[cpu] = (struct cpu_result){.known = known, .events = earlier[cpu] + tracedat_events(parts, cpu)};
        results.texts[cpu] = (struct contents){NULL, 0};
        if (known) {
            results.cpus[cpu].stats = cpu_stats(text);
            results.texts[cpu].data = format("%.*s", STATS_BYTES, text);
            results.texts[cpu].size = strlen(results.texts[cpu].data);
        }
    }
    free(earlier);
    free(file.data);
    return results;
}

static void free_results(struct results *results)
{
    for (unsigned cpu = 0; cpu < results->nr_cpus; cpu++)
        free(results->texts[cpu].data);
    free(results->texts);
    free(results->cpus);
}

void output_discard(const struct output *output)
{
    static const char *const names[] = {"head",  "clock",   "uname", "instance", "recording",
                                        "stats", SEGMENTED, WINDOW,  "trace.dat"};
    for (unsigned cpu = tracedat_cpus(output->parts); cpu-- > 0;) {
        char name[16];
        snprintf(name, sizeof name, "cpu%u", cpu);
        unlinkat(output->parts, name, 0);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(output->parts, names[i], 0);
    unlinkat(output->dir, UNFINISHED, AT_REMOVEDIR);
}

static int pack_trace(int dir, int parts, const struct results *results, const char *name)
{
    int fd = openat(parts, "trace.dat", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return print_error("trace.dat: %s; it cannot be written", strerror(errno));
    int result = tracedat_pack(parts, fd, results->texts);
    close(fd);
    if (result == 0 && renameat(parts, "trace.dat", dir, name) < 0)
        result = print_error("%s: %s", name, strerror(errno));
    if (result < 0)
        unlinkat(parts, "trace.dat", 0);
    return result;
}

int output_pack_segment(const struct output *output, int64_t end_ns)
{
    char name[40];
    snprintf(name, sizeof name, "segment-%020" PRId64 ".dat", end_ns);
    struct results results = read_results(output->parts);
    int result = pack_trace(output->dir, output->parts, &results, name);
    if (result == 0)
        result = save_segmented(output->parts, &results);
    free_results(&results);
    return result;
}

static void summarize(const char *path, const struct outcome *outcome)
{
    uint64_t events = 0;
    int64_t lost = lost_events(outcome->cpus, outcome->nr_cpus);
    for (unsigned cpu = 0; cpu < outcome->nr_cpus; cpu++)
        events += outcome->cpus[cpu].events;
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    char failure[48] = "";
    int status = outcome->command_status && strcmp(outcome->stopped_by, "command") == 0 ? *outcome->command_status : 0;
    if (status)
        snprintf(failure, sizeof failure, status > 0 ? ", which failed with status %d" : ", which signal %d ended",
                 abs(status));
    if (lost < 0)
        print_note("%" PRIu64 " events in %s/trace.dat, an unknown number lost; ended by: %s%s", events, path,
                   outcome->stopped_by, failure);
    else
        print_note("%" PRIu64 " events in %s/trace.dat, %" PRId64 " lost; ended by: %s%s", events, path, lost,
                   outcome->stopped_by, failure);
}

int output_pack(const struct output *output, const char *stopped_by, const int *command_status, pid_t command_pid)
{
    struct contents begin;
    if (file_read(output->parts, "recording", &begin) < 0)
        return print_error("%s/" UNFINISHED "/recording: %s", output->path, strerror(errno));
    struct results results = read_results(output->parts);
    const struct outcome outcome = {stopped_by, command_status, command_pid, results.cpus, results.nr_cpus};
    int result = pack_trace(output->dir, output->parts, &results, "trace.dat");
    if (result == 0)
        result = save_recording(output, &begin, &outcome);
    if (result == 0) {
        output_discard(output);
        summarize(output->path, &outcome);
    }
    free_results(&results);
    free(begin.data);
    return result;
}
