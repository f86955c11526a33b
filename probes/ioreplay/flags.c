#include "ioreplay/flags.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

/* Values of include/uapi/asm-generic/fcntl.h. O_SYNC includes the bit of O_DSYNC, and O_TMPFILE that of O_DIRECTORY. */
static const struct {
    int64_t generic;
    int flag;
} open_flags[] = {
    {01, O_WRONLY},        {02, O_RDWR},          {0100, O_CREAT},     {0200, O_EXCL},         {01000, O_TRUNC},
    {02000, O_APPEND},     {010000, O_DSYNC},     {04010000, O_SYNC},  {040000, O_DIRECT},     {0200000, O_DIRECTORY},
    {0400000, O_NOFOLLOW}, {01000000, O_NOATIME}, {010000000, O_PATH}, {020200000, O_TMPFILE},
};

int replay_open_flags(int64_t generic)
{
    int flags = O_LARGEFILE;

    for (size_t index = 0; index < sizeof open_flags / sizeof *open_flags; index++)
        if ((generic & open_flags[index].generic) == open_flags[index].generic)
            flags |= open_flags[index].flag;
    return flags;
}

int replay_map_flags(int64_t generic)
{
    int flags = (int)generic & (MAP_SHARED | MAP_PRIVATE | MAP_POPULATE | MAP_NONBLOCK | MAP_NORESERVE);

    return generic & MAP_LOCKED ? flags | MAP_POPULATE : flags;
}
