#include "iobench/bench.h"

#include <sys/resource.h>

#define SECTOR_BYTES 512

/* -- threads and processes ---------------------------------------------------------------------------------------- */

static int64_t nanoseconds(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000;
}

void usage_of_thread(struct usage *usage)
{
    struct rusage found;
    getrusage(RUSAGE_THREAD, &found); /* can only fail for invalid arguments */
    *usage = (struct usage){.user_ns = nanoseconds(found.ru_utime),
                            .system_ns = nanoseconds(found.ru_stime),
                            .ctx_voluntary = found.ru_nvcsw,
                            .ctx_involuntary = found.ru_nivcsw,
                            .major_faults = found.ru_majflt,
                            .minor_faults = found.ru_minflt};
}

void usage_add(struct usage *sum, const struct usage *usage, int64_t factor)
{
    for (size_t index = 0; index < USAGE_COUNTERS; index++)
        ((int64_t *)sum)[index] += factor * ((const int64_t *)usage)[index];
}

/* Return the number after `key` in a text of the kernel, or -1 if the key is missing. */
static int64_t number_of(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    return found ? strtoll(found + strlen(key), NULL, 10) : -1;
}

/* Return the difference, or -1 if it is unknown: counters of 32 bits wrap around, and the kernel's idle times are known
 * to decrease. */
static int64_t since(int64_t now, int64_t then)
{
    return then < 0 || now < then ? -1 : now - then;
}

void process_io_read(struct process_io *io)
{
    char text[512];
    *io = (struct process_io){-1, -1};
    if (procfs_read("/proc/self/io", text, sizeof text) < 0)
        return;
    io->read_bytes = number_of(text, "\nread_bytes: ");
    io->write_bytes = number_of(text, "\nwrite_bytes: ");
}

struct process_io process_io_since(const struct process_io *now, const struct process_io *then)
{
    return (struct process_io){since(now->read_bytes, then->read_bytes), since(now->write_bytes, then->write_bytes)};
}

/* -- the system --------------------------------------------------------------------------------------------------- */

/* Columns of the first line of /proc/stat (proc(5)). */
enum { CPU_USER, CPU_NICE, CPU_SYSTEM, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_SOFTIRQ, CPU_STEAL, NR_CPU };

static void read_cpus(struct system_usage *usage)
{
    int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK), times[NR_CPU] = {0};
    char text[256];
    int found;
    if (procfs_read("/proc/stat", text, sizeof text) < 0)
        return;
    found =
        sscanf(text, "cpu %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
               &times[CPU_USER], &times[CPU_NICE], &times[CPU_SYSTEM], &times[CPU_IDLE], &times[CPU_IOWAIT],
               &times[CPU_IRQ], &times[CPU_SOFTIRQ], &times[CPU_STEAL]);
    if (found != NR_CPU)
        return;
    usage->cpu_idle_ns = times[CPU_IDLE] * tick_ns;
    usage->cpu_iowait_ns = times[CPU_IOWAIT] * tick_ns;
    usage->cpu_steal_ns = times[CPU_STEAL] * tick_ns;
    usage->cpu_active_ns = (times[CPU_USER] + times[CPU_NICE] + times[CPU_SYSTEM] + times[CPU_IRQ] +
                            times[CPU_SOFTIRQ] + times[CPU_STEAL]) *
                           tick_ns;
}

/* Fields of /proc/diskstats after the name (Documentation/admin-guide/iostats.rst). */
enum {
    DISK_READS,
    DISK_READ_SECTORS = 2,
    DISK_WRITES = 4,
    DISK_WRITE_SECTORS = 6,
    DISK_BUSY_MS = 9,
    DISK_DISCARD_SECTORS = 13,
    DISK_FLUSHES = 15,
    NR_DISK = 17
};

static int64_t scaled(int64_t number, int64_t unit)
{
    return number < 0 ? -1 : number * unit;
}

static void take_disk(const char *text, struct system_usage *usage)
{
    int64_t fields[NR_DISK];
    char *rest = NULL;
    for (int index = 0; index < NR_DISK; index++, text = rest) {
        fields[index] = strtoll(text, &rest, 10);
        if (rest == text)
            fields[index] = -1;
    }
    usage->device_reads = fields[DISK_READS];
    usage->device_read_bytes = scaled(fields[DISK_READ_SECTORS], SECTOR_BYTES);
    usage->device_writes = fields[DISK_WRITES];
    usage->device_write_bytes = scaled(fields[DISK_WRITE_SECTORS], SECTOR_BYTES);
    usage->device_busy_ns = scaled(fields[DISK_BUSY_MS], 1000000);
    usage->device_discard_bytes = scaled(fields[DISK_DISCARD_SECTORS], SECTOR_BYTES);
    usage->device_flushes = fields[DISK_FLUSHES];
}

static void read_disk(const struct storage *storage, struct system_usage *usage)
{
    struct contents file;
    char *after = NULL;
    if (!storage->device[0] || file_read(AT_FDCWD, "/proc/diskstats", &file) < 0)
        return;
    for (char *line = strtok_r(file.data, "\n", &after); line; line = strtok_r(NULL, "\n", &after)) {
        unsigned int major_number, minor_number;
        int name = 0, end = 0;
        if (sscanf(line, "%u %u %n%*s%n", &major_number, &minor_number, &name, &end) == 2 && end &&
            major_number == major(storage->dev) && minor_number == minor(storage->dev))
            take_disk(line + end, usage);
    }
    free(file.data);
}

static void read_pressure(struct system_usage *usage)
{
    char text[256];
    if (procfs_read("/proc/pressure/io", text, sizeof text) < 0)
        return;
    const char *full = strstr(text, "\nfull");
    usage->pressure_some_ns = scaled(number_of(text, "total="), 1000);
    usage->pressure_full_ns = scaled(full ? number_of(full, "total=") : -1, 1000);
}

static void read_lifetime(const struct storage *storage, struct system_usage *usage)
{
    char path[160], text[32];
    snprintf(path, sizeof path, "/sys/fs/%s/%s/lifetime_write_kbytes", storage->filesystem, storage->device);
    if (storage->device[0] && procfs_line(path, text, sizeof text) > 0)
        usage->filesystem_write_bytes = strtoll(text, NULL, 10) * 1024;
}

void system_usage_read(const struct storage *storage, struct system_usage *usage)
{
    struct process_io io;
    memset(usage, -1, sizeof *usage);
    read_cpus(usage);
    read_disk(storage, usage);
    read_pressure(usage);
    read_lifetime(storage, usage);
    process_io_read(&io);
    usage->process_read_bytes = io.read_bytes;
    usage->process_write_bytes = io.write_bytes;
}

struct system_usage system_usage_since(const struct system_usage *now, const struct system_usage *then)
{
    struct system_usage usage;
    for (size_t index = 0; index < SYSTEM_COUNTERS; index++)
        ((int64_t *)&usage)[index] = since(((const int64_t *)now)[index], ((const int64_t *)then)[index]);
    return usage;
}
