#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/files.h"
#include "common/topology.h"
#include "procmon/procmon.h"

/* Lines of a file that are followed: a machine may come to have any number of network interfaces. */
#define LINES_MOST 4096

struct column {
    const char *name; /* NULL: not sampled */
    const char *unit;
    int64_t factor;
};

/* A line of a file, known by its first words, and the counters in it. */
struct line {
    char *key;
    size_t key_length;
    struct about about; /* but for `field` where there are columns */
    const struct column *columns;
    size_t nr_columns; /* 0: not sampled */
    struct series *series;
    uint64_t pass; /* the last that had it */
};

/* Whether and as what a line is sampled. `key` outlives the line. */
typedef void describe_line(struct line *line, struct span key);

struct table_file {
    enum group group;
    const char *path, *name;
    int key_words;
    describe_line *describe;
};

struct table {
    const struct table_file *of;
    int file;
    struct line *lines;
    size_t nr_lines, next;
    bool crowded; /* in this pass */
};

struct tables {
    struct table *list;
    size_t count;
    uint64_t pass;
    struct buffer buffer;
    uint64_t unreadable, crowded;
};

/* -- what the lines of each file are ------------------------------------------------------------------------------- */

#define TICKS(name) {name, "ns", 0}

/* The kernel counts in hundredths of a second (USER_HZ), which sysconf tells. */
static const struct column cpu_columns[] = {
    TICKS("user"), TICKS("nice"),    TICKS("system"), TICKS("idle"),  TICKS("iowait"),
    TICKS("irq"),  TICKS("softirq"), TICKS("steal"),  TICKS("guest"), TICKS("guest_nice"),
};

/* Documentation/block/stat.rst */
static const struct column disk_columns[] = {
    {"read_ios", "I/Os", 1},
    {"read_merges", "I/Os", 1},
    {"read_sectors", "512 B sectors", 1},
    {"read_ticks", "ms", 1},
    {"write_ios", "I/Os", 1},
    {"write_merges", "I/Os", 1},
    {"write_sectors", "512 B sectors", 1},
    {"write_ticks", "ms", 1},
    {"in_flight", "I/Os", 1},
    {"io_ticks", "ms", 1},
    {"time_in_queue", "ms", 1},
    {"discard_ios", "I/Os", 1},
    {"discard_merges", "I/Os", 1},
    {"discard_sectors", "512 B sectors", 1},
    {"discard_ticks", "ms", 1},
    {"flush_ios", "I/Os", 1},
    {"flush_ticks", "ms", 1},
};

static const struct column net_columns[] = {
    {"rx_bytes", "B", 1},
    {"rx_packets", "packets", 1},
    {"rx_errors", "packets", 1},
    {"rx_dropped", "packets", 1},
    {NULL, NULL, 0},
    {NULL, NULL, 0},
    {NULL, NULL, 0},
    {NULL, NULL, 0},
    {"tx_bytes", "B", 1},
    {"tx_packets", "packets", 1},
    {"tx_errors", "packets", 1},
    {"tx_dropped", "packets", 1},
};

static const struct column count_column[] = {{"", "count", 1}};
static const struct column kilobyte_column[] = {{"", "kB", 1}};
static const struct column pressure_column[] = {{"", "ns", 1000}};

static void sample(struct line *line, const struct column *columns, size_t nr_columns)
{
    line->columns = columns;
    line->nr_columns = nr_columns;
}

#define SAMPLE(line, columns) sample(line, columns, sizeof(columns) / sizeof *(columns))

static bool is_in(struct span word, const char *const *words)
{
    while (*words && !span_is(word, *words))
        words++;
    return *words;
}

static void describe_stat(struct line *line, struct span key)
{
    static const char *const counts[] = {"intr", "ctxt", "processes", "procs_running", "procs_blocked", NULL};

    line->about.field = key;
    if (is_in(key, counts))
        SAMPLE(line, count_column);
    if (span_length(key) < 3 || memcmp(key.at, "cpu", 3) != 0)
        return;
    SAMPLE(line, cpu_columns);
    if (span_length(key) == 3)
        return;
    line->about.scope = "cpu";
    line->about.instance = (struct span){key.at + 3, key.end};
}

static void describe_meminfo(struct line *line, struct span key)
{
    static const char *const chosen[] = {
        "MemTotal:",     "MemFree:",        "MemAvailable:", "Buffers:",
        "Cached:",       "SwapCached:",     "Active(file):", "Inactive(file):",
        "Active(anon):", "Inactive(anon):", "Mlocked:",      "SwapTotal:",
        "SwapFree:",     "Dirty:",          "Writeback:",    "AnonPages:",
        "Mapped:",       "Shmem:",          "KReclaimable:", "Slab:",
        "SReclaimable:", "WritebackTmp:",   "ION_heap:",     "KernelStack:",
        "PageTables:",   "Zswap:",          "Zswapped:",     NULL,
    };

    line->about.field = (struct span){key.at, key.end - 1};
    if (is_in(key, chosen))
        SAMPLE(line, kilobyte_column);
}

static void describe_vmstat(struct line *line, struct span key)
{
    static const char *const chosen[] = {
        "nr_free_pages",
        "nr_dirty",
        "nr_writeback",
        "nr_dirtied",
        "nr_written",
        "nr_vmscan_write",
        "nr_throttled_written",
        "nr_file_pages",
        "nr_anon_pages",
        "pgpgin",
        "pgpgout",
        "pswpin",
        "pswpout",
        "pgfault",
        "pgmajfault",
        "pgfree",
        "pgsteal_kswapd",
        "pgsteal_direct",
        "pgscan_kswapd",
        "pgscan_direct",
        "allocstall_normal",
        "allocstall_movable",
        "workingset_refault_file",
        "workingset_refault_anon",
        "workingset_activate_file",
        "oom_kill",
        "kswapd_low_wmark_hit_quickly",
        "pageoutrun",
        "compact_stall",
        "drop_pagecache",
        "drop_slab",
        NULL,
    };

    line->about.field = key;
    if (is_in(key, chosen))
        SAMPLE(line, count_column);
}

static void describe_disk(struct line *line, struct span key)
{
    struct span rest = key;
    int64_t major, minor;

    line->about.scope = "device";
    if (!text_number(&rest, &major) || !text_number(&rest, &minor) || !text_word(&rest, &line->about.instance))
        return;
    if (major < 0 || major >= 1 << 12 || minor < 0 || minor >= 1 << 20)
        return;
    line->about.dev = KERNEL_DEV((uint32_t)major, (uint32_t)minor);
    SAMPLE(line, disk_columns);
}

static void describe_interface(struct line *line, struct span key)
{
    line->about.scope = "interface";
    line->about.instance = (struct span){key.at, key.end - 1};
    if (span_length(key) > 1 && key.end[-1] == ':')
        SAMPLE(line, net_columns);
}

static void describe_pressure(struct line *line, struct span key)
{
    line->about.field = key;
    if (span_is(key, "some") || span_is(key, "full"))
        SAMPLE(line, pressure_column);
}

static const struct table_file files[] = {
    {GROUP_CPU, "/proc/stat", "stat", 1, describe_stat},
    {GROUP_MEMORY, "/proc/meminfo", "meminfo", 1, describe_meminfo},
    {GROUP_MEMORY, "/proc/vmstat", "vmstat", 1, describe_vmstat},
    {GROUP_DISK, "/proc/diskstats", "diskstats", 3, describe_disk},
    {GROUP_NET, "/proc/net/dev", "net", 1, describe_interface},
    {GROUP_PRESSURE, "/proc/pressure/cpu", "pressure.cpu", 1, describe_pressure},
    {GROUP_PRESSURE, "/proc/pressure/io", "pressure.io", 1, describe_pressure},
    {GROUP_PRESSURE, "/proc/pressure/memory", "pressure.memory", 1, describe_pressure},
};

/* -- reading them -------------------------------------------------------------------------------------------------- */

bool buffer_read(struct buffer *buffer, int file, struct span *text)
{
    size_t length = 0;
    ssize_t got = 1;

    while (got) {
        if (buffer->room - length < 4096) {
            buffer->room = buffer->room ? 2 * buffer->room : 16384;
            buffer->bytes = grow(buffer->bytes, buffer->room, 1);
        }
        got = pread(file, buffer->bytes + length, buffer->room - length, (off_t)length);
        if (got < 0 && errno != EINTR)
            return false;
        length += got > 0 ? (size_t)got : 0;
    }
    *text = (struct span){buffer->bytes, buffer->bytes + length};
    return true;
}

struct tables *tables_open(const char *root, const bool groups[GROUPS])
{
    struct tables *tables = zeroed(1, sizeof *tables);

    for (size_t index = 0; index < sizeof files / sizeof *files; index++) {
        char *path = format("%s%s", root, files[index].path);
        int file = groups[files[index].group] ? open(path, O_RDONLY | O_CLOEXEC) : -1;

        if (file >= 0) {
            tables->list = grow(tables->list, tables->count + 1, sizeof *tables->list);
            tables->list[tables->count++] = (struct table){&files[index], file, NULL, 0, 0, false};
        } else if (groups[files[index].group] && errno != ENOENT) {
            complain("%s: %s; it is not sampled", path, strerror(errno));
            tables->unreadable++;
        }
        free(path);
    }
    return tables;
}

static struct line *add_line(struct table *table, struct span key)
{
    struct line line = {.key_length = span_length(key)};
    struct span kept;

    line.key = zeroed(line.key_length + 1, 1);
    memcpy(line.key, key.at, line.key_length);
    kept = (struct span){line.key, line.key + line.key_length};
    line.about = (struct about){.scope = "system", .file = table->of->name, .pid = RECORD_NULL_INT32};
    table->of->describe(&line, kept);
    line.series = zeroed(line.nr_columns, sizeof *line.series);
    table->lines = grow(table->lines, table->nr_lines + 1, sizeof *table->lines);
    table->lines[table->nr_lines] = line;
    return &table->lines[table->nr_lines++];
}

static bool is_of(const struct line *line, struct span key)
{
    return line->key_length == span_length(key) && !memcmp(line->key, key.at, line->key_length);
}

static void free_line(struct line *line)
{
    free(line->key);
    free(line->series);
}

/* Makes room where there are too many lines: those go that were not there in the last pass, and are not yet in this. */
static void drop_gone(struct table *table, uint64_t pass)
{
    size_t kept = 0;

    for (size_t index = 0; index < table->nr_lines; index++)
        if (table->lines[index].pass + 1 < pass)
            free_line(&table->lines[index]);
        else
            table->lines[kept++] = table->lines[index];
    table->nr_lines = kept;
}

/* The line of this key, mostly the one behind the last that was asked for; NULL: there are too many. Behind the first
 * of those only lines in the usual order are found: to look everywhere for each would take too long. */
static struct line *find_line(struct table *table, struct span key, uint64_t pass)
{
    for (size_t step = 0; step < (table->crowded ? 1 : table->nr_lines); step++) {
        size_t index = (table->next + step) % table->nr_lines;

        if (is_of(&table->lines[index], key)) {
            table->next = index + 1;
            return &table->lines[index];
        }
    }
    if (table->nr_lines >= LINES_MOST && !table->crowded)
        drop_gone(table, pass);
    table->crowded = table->nr_lines >= LINES_MOST;
    return table->crowded ? NULL : add_line(table, key);
}

static bool take_key(struct span *rest, int words, struct span *key)
{
    struct span word;

    if (!text_word(rest, key))
        return false;
    while (--words) {
        if (!text_word(rest, &word))
            return false;
        key->end = word.end;
    }
    return true;
}

/* The name and unit of one of a line's counters. */
static struct about about_column(const struct line *line, size_t index)
{
    struct about about = line->about;
    const char *name = line->columns[index].name;

    if (*name)
        about.field = (struct span){name, name + strlen(name)};
    about.unit = line->columns[index].unit;
    return about;
}

static int64_t factor_of(const struct column *column)
{
    return column->factor ? column->factor : SECOND_NS / sysconf(_SC_CLK_TCK);
}

static void read_columns(struct line *line, struct span rest, int64_t ts_ns, struct output *out)
{
    struct span word;
    int64_t value;

    if (line->columns == pressure_column) {
        const char *total = memmem(rest.at, span_length(rest), "total=", 6);

        rest.at = total ? total + 6 : rest.end;
    }
    for (size_t index = 0; index < line->nr_columns && text_word(&rest, &word); index++) {
        const struct column *column = &line->columns[index];

        /* A number beyond the signed ones is left out, not what is behind it. */
        if (column->name && text_number(&word, &value) && !__builtin_mul_overflow(value, factor_of(column), &value)) {
            struct about about = about_column(line, index);

            series_read(out, &line->series[index], &about, ts_ns, value);
        }
    }
}

static void end_line(struct line *line, struct output *out)
{
    for (size_t index = 0; index < line->nr_columns; index++)
        if (line->columns[index].name) {
            struct about about = about_column(line, index);

            series_end(out, &line->series[index], &about);
        }
}

static void read_table(struct tables *tables, struct table *table, struct output *out)
{
    struct span text, text_of_line, key;
    int64_t ts_ns = clock_now(CLOCK_RECORD);

    if (!buffer_read(&tables->buffer, table->file, &text)) {
        tables->unreadable++;
        return;
    }
    table->next = 0;
    table->crowded = false;
    while (text_line(&text, &text_of_line)) {
        struct line *line =
            take_key(&text_of_line, table->of->key_words, &key) ? find_line(table, key, tables->pass) : NULL;

        if (!line) {
            tables->crowded += table->crowded;
            continue;
        }
        line->pass = tables->pass;
        read_columns(line, text_of_line, ts_ns, out);
    }
    /* A CPU, disk or interface that is not there any more. */
    for (size_t index = 0; index < table->nr_lines; index++)
        if (table->lines[index].pass + 1 == tables->pass)
            end_line(&table->lines[index], out);
}

void tables_read(struct tables *tables, struct output *out)
{
    tables->pass++;
    for (size_t index = 0; index < tables->count; index++)
        read_table(tables, &tables->list[index], out);
}

static void close_table(struct table *table, struct output *out)
{
    for (size_t index = 0; index < table->nr_lines; index++) {
        end_line(&table->lines[index], out);
        free_line(&table->lines[index]);
    }
    free(table->lines);
    close(table->file);
}

void tables_close(struct tables *tables, struct output *out)
{
    for (size_t index = 0; index < tables->count; index++)
        close_table(&tables->list[index], out);
    if (tables->unreadable)
        record_lose(out->record, "unreadable", "files of /proc could not be read", tables->unreadable);
    if (tables->crowded)
        record_lose(out->record, "crowded", "lines of /proc beyond 4,096 of a file were not sampled", tables->crowded);
    free(tables->buffer.bytes);
    free(tables->list);
    free(tables);
}
