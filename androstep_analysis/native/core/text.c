// Searching text, paths from names, and device names.
#include "core/text.h"

const uint8_t *text_find(struct text text, const char *wanted)
{
    size_t length = strlen(wanted);

    for (const uint8_t *at = text.at; (size_t)(text.end - at) >= length; at++) {
        at = memchr(at, *wanted, (size_t)(text.end - at) - length + 1);
        if (!at)
            return NULL;
        if (!memcmp(at, wanted, length))
            return at;
    }
    return NULL;
}

struct text text_trimmed(struct text text)
{
    while (text.at < text.end && (*text.at == ' ' || *text.at == '\t'))
        text.at++;
    while (text.at < text.end && (text.end[-1] == ' ' || text.end[-1] == '\t' || text.end[-1] == '\r'))
        text.end--;
    return text;
}

uint32_t path_of_names(struct strings *strings, const struct text *names, size_t levels)
{
    uint8_t path[4096]; // PATH_MAX of Linux
    size_t length = 0, root = 0;

    while (root < levels && !text_is(names[root], "/"))
        root++;
    if (root == levels)
        return levels && text_length(names[0]) ? strings_add(strings, names[0].at, text_length(names[0])) : NO_STRING;
    if (!root)
        path[length++] = '/';
    while (root--) {
        size_t more = text_length(names[root]);

        if (!more || more >= sizeof(path) - length)
            return NO_STRING;
        path[length++] = '/';
        memcpy(path + length, names[root].at, more);
        length += more;
    }
    return strings_add(strings, path, length);
}

uint32_t device_of_name(struct text name)
{
    uint64_t major, minor;

    if (!take_number(&name, &major) || !take_byte(&name, ':') || !take_number(&name, &minor) || name.at != name.end)
        return NO_UINT32;
    return is_device(major, minor) ? device_of(major, minor) : NO_UINT32;
}
