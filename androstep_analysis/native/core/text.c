// Pieces of text: what is looked for in all of them.
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
