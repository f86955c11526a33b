/* What fanotify tells of entries of directories, out of the bytes that it gives (fanotify(7)). */
#ifndef ANDROSTEP_IOTRACE_NAME_EVENTS_H
#define ANDROSTEP_IOTRACE_NAME_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/record.h"

/* What headers before Linux 5.17 lack. */
#ifndef FAN_REPORT_TARGET_FID
#define FAN_REPORT_TARGET_FID 0x00001000
#endif
#ifndef FAN_RENAME
#define FAN_RENAME 0x10000000
#endif

/* An inode as its file handle tells it; both RECORD_NULL_INT64 where the handle is of a kind that is not known. */
struct inode_id {
    int64_t ino, generation;
};

/* One event; its texts lie in the bytes that it was read from. What it does not have is null. Events that say the same
 * of the same may be one, with the mask of all of them. */
struct name_event {
    uint64_t mask; /* FAN_... */
    int32_t pid;
    bool is_unknown; /* whether one of its handles is of a kind that is not known */
    struct inode_id child, parent, new_parent;
    struct record_text name, new_name;
};

/* The bytes of events that are not yet taken. */
struct name_events {
    const char *bytes;
    size_t size;
};

/* Takes the next event. False: there is none left, or what is left is no event. */
bool name_events_next(struct name_events *events, struct name_event *event);

/* The inode that a file handle of this type names. */
struct inode_id handle_inode(int type, const void *handle, size_t size);

#endif
