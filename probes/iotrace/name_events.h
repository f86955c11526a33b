/* Parser of fanotify events about directory entries (fanotify(7)). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/record.h"

/* Missing in headers before Linux 5.17. */
#ifndef FAN_REPORT_TARGET_FID
#define FAN_REPORT_TARGET_FID 0x00001000
#endif
#ifndef FAN_RENAME
#define FAN_RENAME 0x10000000
#endif

/* An inode from its file handle; both are RECORD_NULL_INT64 if the type of the handle is unknown. */
struct inode_id {
    int64_t ino, generation;
};

/* One event; its texts point into the buffer it was read from. Missing fields are null. The kernel may merge events of
 * the same process, inode and name into one, with all their mask bits. */
struct name_event {
    uint64_t mask; /* FAN_... */
    int32_t pid;
    bool is_unknown; /* the type of one of its handles is unknown */
    struct inode_id child, parent, new_parent;
    struct record_text name, new_name;
};

/* The remaining bytes of events. */
struct name_events {
    const char *bytes;
    size_t size;
};

/* Parse the next event. Returns false at the end, or if the remaining bytes are invalid. */
bool name_events_next(struct name_events *events, struct name_event *event);

/* Return the inode of a file handle of this type. */
struct inode_id handle_inode(int type, const void *handle, size_t size);
