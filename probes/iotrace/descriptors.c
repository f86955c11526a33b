#include "iotrace/iotrace.h"

#include <ctype.h>

struct descriptor_row {
    int64_t listed_ns, position, ino;
    uint32_t dev;
    int32_t pid, fd, flags, mode;
    struct record_string path;
};

static const struct record_field descriptor_fields[] = {
    RECORD_FIELD(descriptor_row, listed_ns, false, "ns", "When this was read."),
    RECORD_FIELD(descriptor_row, position, true, "B", "Offset of the next read or write."),
    RECORD_FIELD(descriptor_row, ino, false, NULL, "Inode of the open file."),
    RECORD_FIELD(descriptor_row, dev, false, NULL, "Its device, major<<20|minor."),
    RECORD_FIELD(descriptor_row, pid, false, NULL, "Process that has it."),
    RECORD_FIELD(descriptor_row, fd, false, NULL, "Its number; -100 is the working directory."),
    RECORD_FIELD(descriptor_row, flags, true, NULL, "O_... with the values of this machine's kernel, with O_CLOEXEC."),
    RECORD_FIELD(descriptor_row, mode, false, NULL, "Type and permissions of the inode."),
    RECORD_FIELD(descriptor_row, path, true, NULL,
                 "Path as in /proc/PID/fd: \" (deleted)\" is appended to a deleted path; objects other than files are "
                 "named like pipe:[1234]."),
};

const struct record_type descriptor_type =
    RECORD_TYPE("descriptor", NULL, "A descriptor that was open in a process.", descriptor_fields);

/* Read `pos` and `flags` of /proc/PID/fdinfo/FD (Documentation/filesystems/proc.rst). */
static void read_information(const char *path, struct descriptor_row *row)
{
    char text[1024];
    const char *flags;
    if (procfs_read(path, text, sizeof text) <= 0 || strncmp(text, "pos:", 4) != 0 ||
        !(flags = strstr(text, "\nflags:")))
        return;
    row->position = strtoll(text + strlen("pos:"), NULL, 10);
    row->flags = (int32_t)strtol(flags + strlen("\nflags:"), NULL, 8);
}

/* Record one descriptor. `link` is its link in /proc, `information` its file in fdinfo or NULL. A descriptor that has
 * been closed is omitted. */
static int record_one(struct record *out, struct descriptor_row row, const char *link, const char *information)
{
    char target[RECORD_TEXT_BYTES];
    struct stat status;
    ssize_t length = readlink(link, target, sizeof target);
    if (length < 0 || stat(link, &status) < 0)
        return 0;
    row.listed_ns = clock_now(CLOCK_RECORD);
    row.ino = (int64_t)status.st_ino;
    row.dev = KERNEL_DEV(major(status.st_dev), minor(status.st_dev));
    row.mode = (int32_t)status.st_mode;
    row.position = RECORD_NULL_INT64;
    row.flags = RECORD_NULL_INT32;
    if (information)
        read_information(information, &row);
    const struct record_text path = {target, (size_t)length};
    return record_add(out, &descriptor_type, &row, &path);
}

static int record_process(struct record *out, const char *pid)
{
    const int32_t number = (int32_t)strtol(pid, NULL, 10);
    char *directory = format("/proc/%s/cwd", pid), *fds = format("/proc/%s/fd", pid);
    int failed = record_one(out, (struct descriptor_row){.pid = number, .fd = AT_FDCWD}, directory, NULL);
    DIR *open = opendir(fds);
    for (struct dirent *entry; open && !failed && (entry = readdir(open));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        char *link = format("%s/%s", fds, entry->d_name), *information = format("%sinfo/%s", fds, entry->d_name);
        const struct descriptor_row row = {.pid = number, .fd = (int32_t)strtol(entry->d_name, NULL, 10)};
        failed = record_one(out, row, link, information);
        free(link);
        free(information);
    }
    if (open)
        closedir(open);
    free(directory);
    free(fds);
    return failed;
}

int descriptors_record(struct record *out)
{
    DIR *processes = opendir("/proc");
    int failed = 0;
    for (struct dirent *entry; processes && !failed && (entry = readdir(processes));)
        if (isdigit((unsigned char)entry->d_name[0]) && strtol(entry->d_name, NULL, 10) != (long)getpid())
            failed = record_process(out, entry->d_name);
    if (processes)
        closedir(processes);
    return failed ? -1 : record_flush(out);
}
