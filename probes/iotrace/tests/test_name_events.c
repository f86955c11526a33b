/* Parsing of simulated fanotify events: file handles of all filesystems, arbitrary names, invalid bytes, and an
 * overflow of the queue, which is counted in the file. */
#include "iotrace/iotrace.h"

#include <sys/fanotify.h>

#include "common/tests/tap.h"

#define HOSTILE "a\n\x1b[2J\xff name"

struct bytes {
    char data[4096];
    size_t size;
};

static void put(struct bytes *bytes, const void *data, size_t size)
{
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

/* Append an information record of an event: fsid, file handle, optional name, padded to a multiple of four. */
static void put_info(struct bytes *bytes, uint8_t type, uint32_t ino, uint32_t generation, const char *name)
{
    const size_t length = name ? strlen(name) + 1 : 0, padding = (4 - length % 4) % 4;
    const uint16_t size = (uint16_t)(4 + 8 + 8 + 8 + length + padding);
    const uint32_t handle[] = {8, 1, ino, generation};
    const char head[] = {(char)type, 0};
    put(bytes, head, sizeof head);
    put(bytes, &size, sizeof size);
    put(bytes, "fsid fsi", 8);
    put(bytes, handle, sizeof handle);
    if (name)
        put(bytes, name, length);
    put(bytes, "\0\0\0", padding);
}

static void put_event(struct bytes *bytes, uint64_t mask, const struct bytes *infos)
{
    const struct fanotify_event_metadata metadata = {
        .event_len = (uint32_t)(sizeof metadata + infos->size),
        .vers = FANOTIFY_METADATA_VERSION,
        .metadata_len = sizeof metadata,
        .mask = mask,
        .fd = FAN_NOFD,
        .pid = 42,
    };
    put(bytes, &metadata, sizeof metadata);
    put(bytes, infos->data, infos->size);
}

static bool is_inode(struct inode_id inode, int64_t ino, int64_t generation)
{
    return inode.ino == ino && inode.generation == generation;
}

static bool is_text(struct record_text text, const char *expected)
{
    return text.bytes && text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

static void put_create(struct bytes *bytes)
{
    struct bytes infos = {.size = 0};
    put_info(&infos, 2, 2, 0, HOSTILE);
    put_info(&infos, 1, 1611, 3622790293U, NULL);
    put_event(bytes, FAN_CREATE, &infos);
}

static void put_rename(struct bytes *bytes)
{
    struct bytes infos = {.size = 0};
    put_info(&infos, 10, 2, 0, "old");
    put_info(&infos, 12, 77, 5, "new");
    put_info(&infos, 1, 1611, 7, NULL);
    put_event(bytes, FAN_RENAME | FAN_ONDIR, &infos);
}

static void put_overflow(struct bytes *bytes)
{
    const struct bytes infos = {.size = 0};
    put_event(bytes, FAN_Q_OVERFLOW, &infos);
}

static void test_events(void)
{
    struct bytes bytes = {.size = 0};
    struct name_event event;
    put_create(&bytes);
    put_rename(&bytes);
    put_overflow(&bytes);
    struct name_events events = {bytes.data, bytes.size};
    tap_ok(name_events_next(&events, &event) && event.mask == FAN_CREATE && event.pid == 42, "a name is made");
    tap_ok(is_inode(event.child, 1611, 3622790293U) && is_inode(event.parent, 2, 0), "its inode and its directory's");
    tap_ok(is_text(event.name, HOSTILE) && !event.new_name.bytes && !event.is_unknown, "the name as it is");
    tap_ok(name_events_next(&events, &event) && event.mask == (FAN_RENAME | FAN_ONDIR), "a directory is renamed");
    tap_ok(is_text(event.name, "old") && is_text(event.new_name, "new"), "both names");
    tap_ok(is_inode(event.parent, 2, 0) && is_inode(event.new_parent, 77, 5), "both directories");
    tap_ok(name_events_next(&events, &event) && event.mask == FAN_Q_OVERFLOW && !event.name.bytes, "an overflow");
    tap_ok(!name_events_next(&events, &event) && events.size == 0, "no more");
}

/* Take all events in a copy of these bytes, in which byte `changed` is another. Returns the length of their names. */
static size_t taken(const char *data, size_t size, size_t changed)
{
    char *copy = zeroed(size + 1, 1), *bytes = copy + 1; /* ends where the memory ends */
    memcpy(bytes, data, size);
    if (changed < size)
        bytes[changed] = (char)~bytes[changed];
    struct name_events events = {bytes, size};
    struct name_event event;
    size_t length = 0;
    while (name_events_next(&events, &event))
        length += event.name.length + event.new_name.length;
    free(copy);
    return length;
}

/* Every truncation and every changed byte must be handled; the sanitizers detect invalid accesses. */
static void test_damage(void)
{
    struct bytes whole = {.size = 0};
    size_t length = 0;
    put_create(&whole);
    put_rename(&whole);
    for (size_t at = 0; at <= whole.size; at++)
        length += taken(whole.data, at, at) + taken(whole.data, whole.size, at);
    tap_ok(length > 0, "damage is survived");
}

static void test_handles(void)
{
    const uint32_t words[] = {11, 12, 13, 14, 15, 16};
    tap_ok(is_inode(handle_inode(1, words, 8), 11, 12), "ext4 and F2FS: 32 bits");
    tap_ok(is_inode(handle_inode(2, words, 16), 11, 12), "with the parent");
    tap_ok(is_inode(handle_inode(0x81, words, 12), 11 + (12LL << 32), 13), "XFS: 64 bits");
    tap_ok(is_inode(handle_inode(0x4d, words, 20), 11 + (12LL << 32), 15), "btrfs");
    tap_ok(is_inode(handle_inode(0x71, words, 24), RECORD_NULL_INT64, RECORD_NULL_INT64), "FAT without inodes");
    tap_ok(is_inode(handle_inode(1, words, 4), RECORD_NULL_INT64, RECORD_NULL_INT64), "too short");
    tap_ok(is_inode(handle_inode(0xff, words, 0), RECORD_NULL_INT64, RECORD_NULL_INT64), "none");
}

static bool holds(const char *path, const char *text)
{
    static char data[1 << 20];
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, data, sizeof data);
    close(fd);
    return size > 0 && memmem(data, (size_t)size, text, strlen(text)) != NULL;
}

static void test_losses(void)
{
    char path[] = "/tmp/test_name_events.XXXXXX";
    struct bytes bytes = {.size = 0}, infos = {.size = 0};
    struct names_place place = {7 << 20, 0, 1000};
    const uint32_t unknown = 0x71;
    close(mkstemp(path));
    put_info(&infos, 2, 2, 0, "x");
    memcpy(infos.data + 4 + 8 + 4, &unknown, sizeof unknown);
    put_create(&bytes);
    put_overflow(&bytes);
    put_event(&bytes, FAN_CREATE, &infos);
    put(&bytes, "rest", 4);
    struct record *out = record_open(path, &names_probe);
    tap_ok(out && names_take(out, &place, (struct name_events){bytes.data, bytes.size}, 2000) == 0, "events are taken");
    tap_ok(place.order == 3, "each has its place");
    tap_ok(out && record_close(out) == 0, "the file is whole");
    tap_ok(holds(path, "\"kind\": \"names_overflow\",\n\"count\": 1,"), "the overflow is counted");
    tap_ok(holds(path, "\"kind\": \"unknown_handle\",\n\"count\": 1,"), "so is a handle that is not known");
    tap_ok(holds(path, "\"kind\": \"unknown_event\",\n\"count\": 4,"), "and what is no event");
    tap_ok(holds(path, HOSTILE), "names are written as they are");
    unlink(path);
}

int main(void)
{
    test_events();
    test_damage();
    test_handles();
    test_losses();
    return tap_done();
}
