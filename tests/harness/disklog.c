// A disk with a log: one file on a FUSE mount. All writes and discards go to an image, and to a log in the format of
// the kernel's dm-log-writes. QEMU's blklogwrites writes the same format.
//
//    disklog IMAGE LOG MOUNTPOINT
//
// Serves MOUNTPOINT/disk until it is unmounted. A loop device with direct I/O over it makes it a disk.
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR_BYTES  512u
#define WRITE_BYTES   (1u << 20)
#define REQUEST_BYTES (WRITE_BYTES + (1u << 16))
#define LOG_MAGIC     0x6a736677736872u
#define LOG_VERSION   1u
#define LOG_DISCARD   4u
#define ROOT_NODE     1u
#define DISK_NODE     2u
#define DISK_NAME     "disk"

struct log_super {
    uint64_t magic;
    uint64_t version;
    uint64_t nr_entries;
    uint32_t sector_bytes;
    unsigned char rest[SECTOR_BYTES - 28];
};

struct log_entry {
    uint64_t sector;
    uint64_t nr_sectors;
    uint64_t flags;
    uint64_t data_bytes; // of a mark; 0 for writes
    unsigned char rest[SECTOR_BYTES - 32];
};

static int image_fd, fuse_fd;
static FILE *log_file;
static uint64_t nr_entries;

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "disklog: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void log_head(void)
{
    struct log_super super = {
        .magic = LOG_MAGIC, .version = LOG_VERSION, .nr_entries = nr_entries, .sector_bytes = SECTOR_BYTES};
    must(fseek(log_file, 0, SEEK_SET) == 0 && fwrite(&super, sizeof(super), 1, log_file) == 1, "log");
}

static void log_request(uint64_t offset, uint64_t length, uint64_t flags, const void *data)
{
    struct log_entry entry = {.sector = offset / SECTOR_BYTES, .nr_sectors = length / SECTOR_BYTES, .flags = flags};
    must(offset % SECTOR_BYTES == 0 && length % SECTOR_BYTES == 0, "a request of whole sectors");
    must(fwrite(&entry, sizeof(entry), 1, log_file) == 1, "log");
    must(data == NULL || fwrite(data, length, 1, log_file) == 1, "log");
    nr_entries++;
}

static void reply(uint64_t unique, int error, const void *data, size_t length)
{
    struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + length), .error = error, .unique = unique};
    struct iovec parts[2] = {{&header, sizeof(header)}, {(void *)data, length}};
    // ENOENT: the request was interrupted and no caller waits for the result.
    must(writev(fuse_fd, parts, length ? 2 : 1) > 0 || errno == ENOENT, "answer to the kernel");
}

static struct fuse_attr attributes(uint64_t node)
{
    struct fuse_attr attr = {.ino = node, .mode = S_IFDIR | 0755, .nlink = 2, .blksize = 4096};
    if (node == DISK_NODE) {
        struct stat status;
        must(fstat(image_fd, &status) == 0, "fstat of the image");
        attr.mode = S_IFREG | 0600;
        attr.nlink = 1;
        attr.size = (uint64_t)status.st_size;
    }
    return attr;
}

static void serve_init(uint64_t unique, const struct fuse_init_in *in)
{
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = in->max_readahead,
        .flags = FUSE_BIG_WRITES | FUSE_MAX_PAGES,
        .max_pages = WRITE_BYTES / 4096,
        .max_write = WRITE_BYTES,
        .max_background = 64,
        .congestion_threshold = 48,
    };
    reply(unique, 0, &out, sizeof(out));
}

static void serve_lookup(uint64_t unique, const char *name)
{
    if (strcmp(name, DISK_NAME) != 0) {
        reply(unique, -ENOENT, NULL, 0);
        return;
    }
    struct fuse_entry_out out = {.nodeid = DISK_NODE, .entry_valid = 3600, .attr_valid = 3600};
    out.attr = attributes(DISK_NODE);
    reply(unique, 0, &out, sizeof(out));
}

static void serve_getattr(uint64_t unique, uint64_t node)
{
    struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes(node)};
    reply(unique, 0, &out, sizeof(out));
}

static void serve_open(uint64_t unique)
{
    struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};
    reply(unique, 0, &out, sizeof(out));
}

static void serve_read(uint64_t unique, const struct fuse_read_in *in)
{
    static unsigned char data[WRITE_BYTES];
    uint32_t length = in->size < WRITE_BYTES ? in->size : WRITE_BYTES;
    ssize_t got = pread(image_fd, data, length, (off_t)in->offset);
    reply(unique, got < 0 ? -errno : 0, data, got < 0 ? 0 : (size_t)got);
}

static void serve_write(uint64_t unique, const struct fuse_write_in *in)
{
    const void *data = in + 1;
    log_request(in->offset, in->size, 0, data);
    ssize_t put = pwrite(image_fd, data, in->size, (off_t)in->offset);
    struct fuse_write_out out = {.size = put < 0 ? 0 : (uint32_t)put};
    reply(unique, put < 0 ? -errno : 0, &out, put < 0 ? 0 : sizeof(out));
}

static void serve_fallocate(uint64_t unique, const struct fuse_fallocate_in *in)
{
    log_request(in->offset, in->length, LOG_DISCARD, NULL);
    int rc = fallocate(image_fd, (int)in->mode, (off_t)in->offset, (off_t)in->length);
    reply(unique, rc ? -errno : 0, NULL, 0);
}

static void serve(const struct fuse_in_header *in)
{
    const void *body = in + 1;
    switch (in->opcode) {
    case FUSE_INIT:
        serve_init(in->unique, body);
        break;
    case FUSE_LOOKUP:
        serve_lookup(in->unique, body);
        break;
    case FUSE_GETATTR:
    case FUSE_SETATTR:
        serve_getattr(in->unique, in->nodeid);
        break;
    case FUSE_OPEN:
        serve_open(in->unique);
        break;
    case FUSE_READ:
        serve_read(in->unique, body);
        break;
    case FUSE_WRITE:
        serve_write(in->unique, body);
        break;
    case FUSE_FALLOCATE:
        serve_fallocate(in->unique, body);
        break;
    case FUSE_FSYNC:
    case FUSE_FLUSH:
    case FUSE_RELEASE:
        reply(in->unique, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        reply(in->unique, -ENOSYS, NULL, 0);
    }
}

static void serve_all(void)
{
    static _Alignas(8) unsigned char request[REQUEST_BYTES];
    for (;;) {
        ssize_t got = read(fuse_fd, request, sizeof(request));
        if (got < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
            continue;
        if (got < 0 && errno == ENODEV)
            return;
        must(got >= (ssize_t)sizeof(struct fuse_in_header), "request of the kernel");
        serve((const struct fuse_in_header *)request);
    }
}

static void mount_on(const char *directory)
{
    char options[128];
    fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    must(fuse_fd >= 0, "/dev/fuse");
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,max_read=%u", fuse_fd, WRITE_BYTES);
    must(mount("disklog", directory, "fuse.disklog", MS_NOSUID | MS_NODEV, options) == 0, directory);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: disklog IMAGE LOG MOUNTPOINT\n");
        return 2;
    }
    image_fd = open(argv[1], O_RDWR | O_CLOEXEC);
    must(image_fd >= 0, argv[1]);
    log_file = fopen(argv[2], "we");
    must(log_file != NULL, argv[2]);
    log_head();
    mount_on(argv[3]);
    serve_all();
    log_head();
    int rc = fclose(log_file);
    must(rc == 0, argv[2]);
    return 0;
}
