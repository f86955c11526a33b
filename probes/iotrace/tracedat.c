#include "iotrace/iotrace.h"

static const char magic[] = "\x17\x08\x44tracing6"; /* including its NUL */

enum { OPTION_DONE = 0, OPTION_CPUSTAT = 2, OPTION_TRACECLOCK = 4, OPTION_UNAME = 5 };

/* Offset of the page size in `head`: after magic, byte order and size of a long. */
enum { PAGE_SIZE_OFFSET = sizeof magic + 2 };

/* Write an integer of these bytes, little-endian. */
static void put(FILE *out, uint64_t value, size_t bytes)
{
    fwrite(&value, bytes, 1, out);
}

static void put_sized(FILE *out, const struct contents *text)
{
    put(out, text->size, 8);
    fwrite(text->data, 1, text->size, out);
}

static int put_file(FILE *out, int dir, const char *path)
{
    struct contents file;
    if (file_read(dir, path, &file) < 0)
        return print_error("tracefs/%s: %s", path, strerror(errno));
    put_sized(out, &file);
    free(file.data);
    return 0;
}

static int put_format(FILE *out, int tracefs, const char *system, const char *name)
{
    char *path = format("events/%s/%s/format", system, name);
    int result = put_file(out, tracefs, path);
    free(path);
    return result;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* List the names of the events in system ftrace, sorted. Returns their number, or -1 with errno set. */
static int ftrace_events(int tracefs, char ***names)
{
    int fd = openat(tracefs, "events/ftrace", O_RDONLY | O_DIRECTORY | O_CLOEXEC), nr = 0;
    DIR *events = fd < 0 ? NULL : fdopendir(fd);
    *names = NULL;
    if (!events)
        return -1;
    for (struct dirent *entry; (entry = readdir(events));) {
        char *path = format("%s/format", entry->d_name);
        if (entry->d_name[0] != '.' && faccessat(fd, path, R_OK, 0) == 0) {
            *names = grow(*names, (size_t)nr + 1, sizeof **names);
            (*names)[nr++] = format("%s", entry->d_name);
        }
        free(path);
    }
    closedir(events);
    if (nr)
        qsort(*names, (size_t)nr, sizeof **names, by_text);
    return nr;
}

/* Write the formats of the kernel's own records, which every trace.dat contains. */
static int put_ftrace_formats(FILE *out, int tracefs)
{
    char **names;
    int nr = ftrace_events(tracefs, &names), result = 0;
    if (nr < 0)
        return print_error("tracefs/events/ftrace: %s", strerror(errno));
    put(out, nr, 4);
    for (int i = 0; i < nr; i++) {
        if (result == 0)
            result = put_format(out, tracefs, "ftrace", names[i]);
        free(names[i]);
    }
    free(names);
    return result;
}

static size_t same_system(const struct event *events, size_t nr_events)
{
    size_t nr = 1;
    while (nr < nr_events && strcmp(events[nr].system, events[0].system) == 0)
        nr++;
    return nr;
}

static int put_systems(FILE *out, int tracefs, const struct event *events, size_t nr_events)
{
    uint32_t systems = 0;
    for (size_t i = 0; i < nr_events; i += same_system(events + i, nr_events - i))
        systems++;
    put(out, systems, 4);
    for (size_t first = 0; first < nr_events;) {
        size_t nr = same_system(events + first, nr_events - first);
        fwrite(events[first].system, 1, strlen(events[first].system) + 1, out);
        put(out, nr, 4);
        for (size_t end = first + nr; first < end; first++)
            if (put_format(out, tracefs, events[first].system, events[first].name) < 0)
                return -1;
    }
    return 0;
}

static void put_printk_formats(FILE *out, int tracefs)
{
    struct contents file = {NULL, 0};
    if (file_read(tracefs, "printk_formats", &file) < 0 || file.size > UINT32_MAX)
        file.size = 0;
    put(out, file.size, 4);
    fwrite(file.data ? file.data : "", 1, file.size, out);
    free(file.data);
}

static int put_headers(FILE *out, int tracefs)
{
    struct page_layout layout;
    if (page_layout_read(tracefs, &layout) < 0)
        return -1;
    fwrite(magic, 1, sizeof magic, out);
    putc(0, out); /* little endian, as ringbuffer.c requires */
    putc((int)layout.commit_size, out);
    put(out, layout.bytes, 4);
    fwrite("header_page", 1, sizeof "header_page", out);
    if (put_file(out, tracefs, "events/header_page") < 0)
        return -1;
    fwrite("header_event", 1, sizeof "header_event", out);
    return put_file(out, tracefs, "events/header_event");
}

static int put_head(FILE *out, int tracefs, const struct event *events, size_t nr_events,
                    const struct contents *cmdlines)
{
    if (put_headers(out, tracefs) < 0 || put_ftrace_formats(out, tracefs) < 0 ||
        put_systems(out, tracefs, events, nr_events) < 0)
        return -1;
    put(out, 0, 4); /* no kallsyms: none of these events prints an address */
    put_printk_formats(out, tracefs);
    put_sized(out, cmdlines);
    return 0;
}

int tracedat_head(int dir, int tracefs, const struct event *events, size_t nr_events, const struct contents *cmdlines)
{
    struct contents head;
    FILE *out = memory_open(&head);
    int result = put_head(out, tracefs, events, nr_events, cmdlines);
    memory_close(out);
    if (result == 0)
        result = file_replace(dir, "head", head.data, head.size);
    free(head.data);
    return result;
}

unsigned tracedat_cpus(int dir)
{
    return files_numbered(dir, "cpu");
}

static int open_cpu(int dir, unsigned cpu, size_t page_bytes, uint64_t *size)
{
    char name[16];
    struct stat status;
    snprintf(name, sizeof name, "cpu%u", cpu);
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0 || page_bytes == 0) {
        close_file(fd);
        return print_error("%s: %s", name, strerror(errno));
    }
    /* A killed recorder may leave a partial page. */
    *size = (uint64_t)status.st_size / page_bytes * page_bytes;
    if (*size != (uint64_t)status.st_size && ftruncate(fd, (off_t)*size) < 0)
        *size = 0;
    return fd;
}

static size_t page_bytes_of(const struct contents *head)
{
    uint32_t bytes = 0;
    if (head->size > PAGE_SIZE_OFFSET + sizeof bytes && memcmp(head->data, magic, sizeof magic) == 0)
        memcpy(&bytes, head->data + PAGE_SIZE_OFFSET, sizeof bytes);
    return bytes;
}

static int read_layout(int dir, struct page_layout *layout)
{
    struct contents head;
    if (file_read(dir, "head", &head) < 0)
        return -1;
    /* The header_page text follows the page size, its own name and its length. */
    size_t text = PAGE_SIZE_OFFSET + 4 + sizeof "header_page" + 8;
    int result = page_bytes_of(&head) && head.size > text ? page_layout_parse(head.data + text, layout) : -1;
    free(head.data);
    return result;
}

uint64_t tracedat_events(int dir, unsigned cpu)
{
    struct page_layout layout;
    uint64_t size, events = 0;
    if (read_layout(dir, &layout) < 0)
        return 0;
    int fd = open_cpu(dir, cpu, layout.bytes, &size);
    void *pages =
        fd < 0 || size == 0 || size > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    close_file(fd);
    if (pages == MAP_FAILED)
        return 0;
    for (size_t at = 0; at < size; at += layout.bytes)
        events += page_events((unsigned char *)pages + at, &layout);
    munmap(pages, (size_t)size);
    return events;
}

static void put_option(FILE *out, uint16_t option, const char *prefix, const struct contents *text)
{
    put(out, option, 2);
    put(out, (strlen(prefix) + text->size + 1), 4);
    fwrite(prefix, 1, strlen(prefix), out);
    fwrite(text->data, 1, text->size + 1, out);
}

static void put_options(FILE *out, const struct contents *clock, const struct contents *uname,
                        const struct contents *stats, unsigned nr_cpus)
{
    fwrite("options  ", 1, sizeof "options  ", out);
    put_option(out, OPTION_TRACECLOCK, "", clock);
    put_option(out, OPTION_UNAME, "", uname);
    for (unsigned cpu = 0; stats && cpu < nr_cpus; cpu++) {
        char prefix[24];
        snprintf(prefix, sizeof prefix, "CPU: %u\n", cpu);
        if (stats[cpu].data)
            put_option(out, OPTION_CPUSTAT, prefix, &stats[cpu]);
    }
    put(out, OPTION_DONE, 2);
}

static uint64_t to_page(uint64_t offset, uint64_t page)
{
    return (offset + page - 1) / page * page;
}

struct part {
    int fd;
    uint64_t size;
};

/* Build the part between the head and the pages; `head_bytes` is its offset in the file. */
static struct contents tail_of_head(const struct contents *clock, const struct contents *uname,
                                    const struct contents *stats, const struct part *parts, unsigned nr_cpus,
                                    uint64_t head_bytes, uint64_t page)
{
    struct contents tail;
    FILE *out = memory_open(&tail);
    put(out, nr_cpus, 4);
    put_options(out, clock, uname, stats, nr_cpus);
    fwrite("flyrecord", 1, sizeof "flyrecord", out);
    uint64_t offset = head_bytes + (uint64_t)ftell(out) + (uint64_t)nr_cpus * 16 + 8 + clock->size;
    offset = to_page(offset, page);
    for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
        put(out, offset, 8);
        put(out, parts[cpu].size, 8);
        offset += parts[cpu].size;
    }
    put_sized(out, clock);
    uint64_t end = head_bytes + (uint64_t)ftell(out);
    for (uint64_t fill = to_page(end, page) - end; fill > 0; fill--)
        putc(0, out);
    memory_close(out);
    return tail;
}

static int copy_parts(int out, const struct part *parts, unsigned nr_cpus)
{
    for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
        int64_t copied = copy_rest(parts[cpu].fd, out);
        if (copied < 0 || (uint64_t)copied != parts[cpu].size)
            return -1;
    }
    return 0;
}

int tracedat_pack(int dir, int out, const struct contents *stats)
{
    struct contents head = {NULL, 0}, clock = {NULL, 0}, uname = {NULL, 0};
    unsigned nr_cpus = tracedat_cpus(dir), opened = 0;
    struct part *parts = grow(NULL, nr_cpus, sizeof *parts);
    size_t page = 0;
    int result = -1;
    if (file_read(dir, "head", &head) < 0 || file_read(dir, "clock", &clock) < 0 ||
        file_read(dir, "uname", &uname) < 0 || (page = page_bytes_of(&head)) == 0)
        print_error("the parts of the recording are too incomplete for a trace.dat");
    else
        for (result = 0; opened < nr_cpus && result == 0; opened++)
            if ((parts[opened].fd = open_cpu(dir, opened, page, &parts[opened].size)) < 0)
                result = -1;
    if (result == 0) {
        struct contents tail = tail_of_head(&clock, &uname, stats, parts, nr_cpus, head.size, page);
        result = write_all(out, head.data, head.size);
        if (result == 0)
            result = write_all(out, tail.data, tail.size);
        if (result == 0)
            result = copy_parts(out, parts, nr_cpus);
        if (result < 0)
            print_error("trace.dat: %s; make room, then run iotrace --finish", strerror(errno));
        free(tail.data);
    }
    while (opened > 0)
        close_file(parts[--opened].fd);
    free(parts);
    free(head.data);
    free(clock.data);
    free(uname.data);
    return result;
}
