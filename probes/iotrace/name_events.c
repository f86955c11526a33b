#include "iotrace/iotrace.h"

#include <sys/fanotify.h>

/* From linux/fanotify.h, which some C libraries do not allow together with their own header. */
enum { INFO_FID = 1, INFO_DFID_NAME = 2, INFO_DFID = 3, INFO_OLD_DFID_NAME = 10, INFO_NEW_DFID_NAME = 12 };

/* From linux/exportfs.h. The types with 0x80 are also those of XFS with 64-bit inodes, with the same layout. */
enum {
    INO32_GEN = 0x01,
    INO32_GEN_PARENT = 0x02,
    BTRFS = 0x4d,
    BTRFS_PARENT = 0x4e,
    BTRFS_PARENT_ROOT = 0x4f,
    INO64_GEN = 0x81,
    INO64_GEN_PARENT = 0x82,
};

struct info_head {
    uint8_t type, reserved;
    uint16_t size;
};

struct handle_head {
    uint32_t size;
    int32_t type;
};

enum { FSID_BYTES = 8, BTRFS_GENERATION = 16 };

static const struct inode_id no_inode = {RECORD_NULL_INT64, RECORD_NULL_INT64};

static uint32_t number32(const char *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

static uint64_t number64(const char *bytes)
{
    uint64_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

struct inode_id handle_inode(int type, const void *handle, size_t size)
{
    const char *bytes = handle;
    if ((type == INO32_GEN || type == INO32_GEN_PARENT) && size >= 8)
        return (struct inode_id){number32(bytes), number32(bytes + 4)};
    if ((type == INO64_GEN || type == INO64_GEN_PARENT) && size >= 12)
        return (struct inode_id){(int64_t)number64(bytes), number32(bytes + 8)};
    if (type >= BTRFS && type <= BTRFS_PARENT_ROOT && size >= BTRFS_GENERATION + 4)
        return (struct inode_id){(int64_t)number64(bytes), number32(bytes + BTRFS_GENERATION)};
    return no_inode;
}

/* Parse an information record of the event: a file handle, and a name if the type has one. */
static void take_info(struct name_event *event, uint8_t type, const char *bytes, size_t size)
{
    struct handle_head head;
    struct inode_id *inode = &event->parent;
    struct record_text *name = &event->name;
    if (type == INFO_FID)
        inode = &event->child, name = NULL;
    else if (type == INFO_DFID)
        name = NULL;
    else if (type == INFO_NEW_DFID_NAME)
        inode = &event->new_parent, name = &event->new_name;
    else if (type != INFO_DFID_NAME && type != INFO_OLD_DFID_NAME)
        return;
    if (size < FSID_BYTES + sizeof head)
        return;
    memcpy(&head, bytes + FSID_BYTES, sizeof head);
    bytes += FSID_BYTES + sizeof head;
    size -= FSID_BYTES + sizeof head;
    if (head.size > size)
        return;
    *inode = handle_inode(head.type, bytes, head.size);
    event->is_unknown |= inode->ino == RECORD_NULL_INT64;
    if (name)
        *name = (struct record_text){bytes + head.size, strnlen(bytes + head.size, size - head.size)};
}

bool name_events_next(struct name_events *events, struct name_event *event)
{
    struct fanotify_event_metadata metadata;
    if (events->size < sizeof metadata)
        return false;
    memcpy(&metadata, events->bytes, sizeof metadata);
    if (metadata.event_len < sizeof metadata || metadata.event_len > events->size ||
        metadata.vers != FANOTIFY_METADATA_VERSION)
        return false;
    *event = (struct name_event){metadata.mask, metadata.pid, false, no_inode, no_inode, no_inode, {0}, {0}};
    const char *at = events->bytes + metadata.metadata_len, *end = events->bytes + metadata.event_len;
    struct info_head head;
    while (at < end && (size_t)(end - at) >= sizeof head) {
        memcpy(&head, at, sizeof head);
        if (head.size < sizeof head || head.size > end - at)
            break;
        take_info(event, head.type, at + sizeof head, head.size - sizeof head);
        at += head.size;
    }
    events->bytes = end;
    events->size -= metadata.event_len;
    return true;
}
