/* Files of one line per thing in a made /proc: CPUs and disks that come and go, and lines that nobody wrote. */
#define _GNU_SOURCE
#include "procmon/procmon.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/tests/tap.h"

static char root[] = "/tmp/procmon-tables-XXXXXX";

static const bool groups[GROUPS] = {
    [GROUP_CPU] = true, [GROUP_MEMORY] = true, [GROUP_DISK] = true, [GROUP_NET] = true, [GROUP_PRESSURE] = true};

/* Files stay the same files, as those of the kernel do. */
static void make(const char *name, const void *bytes, size_t size)
{
    char *path = format("%s/proc/%s", root, name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (file < 0 || write_all(file, bytes, size) < 0)
        exit(1);
    close(file);
    free(path);
}

static void make_text(const char *name, const char *text)
{
    make(name, text, strlen(text));
}

static void make_directory(const char *name)
{
    char *path = format("%s%s", root, name);

    if (mkdir(path, 0755) < 0)
        exit(1);
    free(path);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static struct output begin(void)
{
    struct output out = {.record = record_open("/dev/null", &procmon_probe)};

    if (!out.record)
        exit(1);
    return out;
}

static bool end(struct tables *tables, struct output *out)
{
    tables_close(tables, out);
    return record_close(out->record) == 0 && !out->failed;
}

static void test_hot_plug(void)
{
    struct output out = begin();
    struct tables *tables;

    make_text("stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nctxt 5\nintr 9 1 2 3\nbtime 77\n");
    make_text("diskstats", "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n");
    tables = tables_open(root, groups);
    tables_read(tables, &out);
    /* Kernels before 4.18 have 11 numbers of a disk; intr only its sum, and not when the machine was started. */
    tap_ok(out.count == 10 + 10 + 2 + 11, "%u counters at first", out.count);
    make_text("stat", "cpu  2 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 8 9 10\nctxt 6\n");
    make_text("diskstats",
              "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n   8      16 sdb 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    tables_read(tables, &out);
    tap_ok(out.count == 33 + 10 + 17, "%u with another CPU and another disk", out.count);
    make_text("stat", "cpu  2 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nctxt 7\n");
    make_text("diskstats", "");
    tables_read(tables, &out);
    tap_ok(out.count == 60, "%u when what was there before is back", out.count);
    tap_ok(end(tables, &out), "all is written");
}

static void test_strange_lines(void)
{
    struct output out = begin();
    struct tables *tables;

    make_text("stat", "cpu\ncpu0 x\ncpu1 99999999999999999999 1\nctxt -\n\n \n");
    make_text("diskstats", "8\n8 0\n8 0 sda\n-1 0 x 1\n5000 0 y 1\n8 1048576 z 1\n");
    make_text("meminfo", "MemTotal:\nDirty: 7 kB\nDirty: 8 kB\nMemFree 5\n:\n");
    make_text("net/dev", "Inter-|   Receive\n face |bytes\n    lo: 1 2\n : 3\n\x1b[31m: 4\n");
    make_text("pressure/io", "some avg10=0.00 total=12\nfull avg10=0.00\nsome\n");
    tables = tables_open(root, groups);
    tables_read(tables, &out);
    /* What is behind the number that is too large; Dirty; bytes and packets of lo, bytes of the two behind it (":" is
     * no name); some. */
    tap_ok(out.count == 1 + 1 + 2 + 1 + 1, "%u counters of strange lines", out.count);
    tap_ok(end(tables, &out), "and all is written");
}

static void test_crowds(void)
{
    struct output out = begin();
    struct contents text;
    struct tables *tables;
    FILE *file = open_memstream(&text.data, &text.size);

    if (!file)
        exit(1);
    for (int number = 0; number < 5000; number++)
        fprintf(file, "veth%d: 1\n", number);
    fclose(file);
    make_text("stat", "");
    make_text("diskstats", "");
    make_text("meminfo", "");
    make_text("pressure/io", "");
    make("net/dev", text.data, text.size);
    free(text.data);
    tables = tables_open(root, groups);
    tables_read(tables, &out);
    tap_ok(out.count == 4096, "%u of 5,000 interfaces", out.count);
    make_text("net/dev", "eth0: 1 2\neth1: 1 2\n");
    tables_read(tables, &out);
    tables_read(tables, &out);
    tap_ok(out.count == 4096 + 4, "%u when those are gone and others are there", out.count);
    tap_ok(end(tables, &out), "and they are written");
}

static void test_anything(void)
{
    static const char *const names[] = {"stat", "diskstats", "meminfo", "net/dev", "pressure/io"};
    static const char letters[] = "cpu0 1:\n\t-x9some total=\xff";
    struct output out = begin();
    struct tables *tables;
    uint32_t seed = 3;

    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        make_text(names[index], "");
    tables = tables_open(root, groups);
    for (int round = 0; round < 200; round++) {
        char bytes[512];

        for (size_t index = 0; index < sizeof bytes; index++) {
            seed = seed * 1664525 + 1013904223;
            bytes[index] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        make(names[round % 5], bytes, (seed >> 8) % sizeof bytes);
        tables_read(tables, &out);
    }
    tap_ok(end(tables, &out), "any bytes");
}

int main(void)
{
    if (!mkdtemp(root))
        return 1;
    make_directory("/proc");
    make_directory("/proc/net");
    make_directory("/proc/pressure");
    test_hot_plug();
    test_strange_lines();
    test_crowds();
    test_anything();
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
