/* Cost of a measurement: CPU time, context switches and traffic at the block layer. */
#pragma once

#include <stdint.h>

#include "iobench/storage.h"

/* Usage of one thread (getrusage(RUSAGE_THREAD)) or of a process. */
struct usage {
    int64_t user_ns, system_ns, ctx_voluntary, ctx_involuntary, major_faults, minor_faults;
};

void usage_of_thread(struct usage *usage);
struct usage usage_since(const struct usage *now, const struct usage *then);

/* Traffic of this process at the block layer (/proc/self/io); -1: not reported by the kernel. */
struct process_io {
    int64_t read_bytes, write_bytes;
};

void process_io_read(struct process_io *io);
struct process_io process_io_since(const struct process_io *now, const struct process_io *then);

/* Counters of the whole system and of one device, or their differences; -1: not reported by the kernel. */
struct system_usage {
    /* /proc/stat, all CPUs: active is user, nice, system, irq, softirq and steal; guest time is part of user. */
    int64_t cpu_active_ns, cpu_idle_ns, cpu_iowait_ns;
    int64_t cpu_steal_ns; /* part of active */
    /* /proc/diskstats of the device of the files; discards since Linux 4.18, flushes since 5.5. */
    int64_t device_reads, device_read_bytes, device_writes, device_write_bytes, device_discard_bytes, device_flushes;
    int64_t device_busy_ns;
    int64_t process_read_bytes, process_write_bytes; /* struct process_io, of all worker processes */
    int64_t pressure_some_ns, pressure_full_ns;      /* /proc/pressure/io */
    int64_t filesystem_write_bytes;                  /* lifetime_write_kbytes of ext4 and F2FS in /sys/fs */
};

/* Number of counters: all members are int64_t. */
#define SYSTEM_COUNTERS (sizeof(struct system_usage) / sizeof(int64_t))

void system_usage_read(const struct storage *storage, struct system_usage *usage);
struct system_usage system_usage_since(const struct system_usage *now, const struct system_usage *then);
