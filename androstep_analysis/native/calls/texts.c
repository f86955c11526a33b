// Paths of calls, and the paths that a recording has of descriptors.
#include "calls/texts.h"

#include "calls/flags.h"
#include "calls/left.h"
#include "syscalls/columns.h"

#include <string.h>

bool text_of(const struct calls_input *in, uint32_t text, const uint8_t **at, size_t *length)
{
    if (text == NO_STRING || text >= in->nr_texts)
        return false;
    *at = in->text + in->text_starts[text];
    *length = (size_t)(in->text_starts[text + 1] - in->text_starts[text]);
    return true;
}

bool text_is_path(const uint8_t *text, size_t length)
{
    return length && length <= MOST_PATH_BYTES && !memchr(text, 0, length);
}

static bool starts(const uint8_t *text, size_t length, const char *word)
{
    return length >= strlen(word) && !memcmp(text, word, strlen(word));
}

uint8_t kind_of_path(const struct calls_input *in, uint32_t path, uint8_t kind)
{
    static const uint8_t LEFT_OF_KIND[] = {LEFT_NOT,  LEFT_NOT,    LEFT_MEMFD, LEFT_DEVICE, LEFT_DEVICE,
                                           LEFT_PIPE, LEFT_SOCKET, LEFT_ANON,  LEFT_ANON};
    const uint8_t *text;
    size_t length;

    if (!text_of(in, path, &text, &length))
        return LEFT_UNKNOWN;
    if (starts(text, length, "/memfd:"))
        return LEFT_MEMFD;
    if (starts(text, length, "/dev/ashmem"))
        return LEFT_ASHMEM;
    if (starts(text, length, "/dev/shm/"))
        return LEFT_MEMORY;
    if (kind != NO_CODE && kind > FD_KIND_DELETED && kind <= FD_KIND_OTHER)
        return LEFT_OF_KIND[kind];
    if (starts(text, length, "/dev/"))
        return LEFT_DEVICE;
    if (starts(text, length, "/proc/") || starts(text, length, "/sys/"))
        return LEFT_PROC;
    if (length && *text == '/')
        return LEFT_NOT;
    if (starts(text, length, "pipe:"))
        return LEFT_PIPE;
    if (starts(text, length, "socket:") || (length && *text >= 'A' && *text <= 'Z'))
        return LEFT_SOCKET;
    return LEFT_ANON;
}
