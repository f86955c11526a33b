// Looks up descriptors. The statements of the recording itself (strace -y) take precedence over the effects of
// the calls.
#include "calls/descriptors.h"

#include "calls/flags.h"
#include "calls/left.h"
#include "calls/texts.h"
#include "syscalls/columns.h"

static void tell(struct calls *calls, int32_t index, uint32_t path, uint8_t kind)
{
    struct description *description = &calls->open.descriptions[index];
    uint8_t left = kind_of_path(calls->in, path, kind);
    struct location location;
    uint32_t at;

    description->checked_path = path;
    if (left == LEFT_UNKNOWN)
        return;
    description_is(&calls->open, index, left);
    description = &calls->open.descriptions[index];
    if (left != LEFT_NOT || description->inode != NO_INDEX || kind == FD_KIND_DELETED ||
        !names_walk(&calls->names, ROOT, path, false, &location))
        return;
    names_confirm(&calls->names, &location, TYPE_UNKNOWN);
    description->inode = location.inode;
    if (description->inserted_open == NO_INDEX)
        return;
    at = names_path(&calls->names, location.dentry);
    calls->program.inserted[description->inserted_open].path = at;
    if (at == NO_STRING)
        description_is(&calls->open, index, LEFT_NO_PATH);
}

// Checks whether the recording says that the descriptor is open on another file than the one the calls led to.
static bool is_other(struct calls *calls, int32_t index, uint32_t path, uint8_t kind)
{
    struct description *description = &calls->open.descriptions[index];
    uint8_t left = kind_of_path(calls->in, path, kind);
    struct location location;

    if (left == LEFT_UNKNOWN || kind == FD_KIND_DELETED)
        return false;
    if (description->left != LEFT_UNKNOWN && (left == LEFT_NOT) != (description->left == LEFT_NOT))
        return left == LEFT_NOT ? description->left != LEFT_PIPE && description->left != LEFT_SOCKET : true;
    if (left != LEFT_NOT || description->inode == NO_INDEX || !names_walk(&calls->names, ROOT, path, false, &location))
        return false;
    if (location.inode == inode_find(&calls->files, description->inode))
        return false;
    // A name of unknown origin may be another name of the same file, by way of a link or another mount.
    return location.inode != NO_INDEX && calls->files.inodes[location.inode].origin != ORIGIN_UNKNOWN;
}

int32_t descriptor_at(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, uint8_t kind)
{
    int32_t descriptor, description;

    if (fd < 0)
        return NO_INDEX;
    descriptor = descriptor_known(&calls->open, thread, fd);
    if (descriptor == NO_INDEX) {
        // A descriptor that works although it was closed was opened by a call that is not recorded.
        if (descriptor_was_closed(&calls->open, thread, fd) && path == NO_STRING && calls->in->failed[row] != 0)
            return NO_INDEX;
        descriptor = descriptor_before(&calls->open, thread, row, fd);
    }
    description = calls->open.descriptors[descriptor].description;
    if (path != NO_STRING && path != calls->open.descriptions[description].checked_path) {
        if (is_other(calls, description, path, kind)) {
            descriptor_close(&calls->open, thread, row, fd);
            descriptor = descriptor_before(&calls->open, thread, row, fd);
            description = calls->open.descriptors[descriptor].description;
        }
        tell(calls, description, path, kind);
    }
    return descriptor;
}

void descriptor_foreign(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, int64_t flags)
{
    int32_t descriptor;

    if (fd < 0)
        return;
    descriptor_close(&calls->open, thread, row, fd);
    descriptor = descriptor_received(&calls->open, thread, row, fd, flags & FLAG_CLOEXEC);
    description_of(&calls->open, descriptor)->is_append = flags & FLAG_APPEND;
    tell(calls, calls->open.descriptors[descriptor].description, path, NO_CODE);
}

struct operation *operation_of(const struct calls *calls, const struct running *call)
{
    return &calls->program.operations[call->operation];
}
