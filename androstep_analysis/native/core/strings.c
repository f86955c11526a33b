// Interned strings: an open-addressed hash table of indices into one buffer.
#include "core/table.h"

#include <stdlib.h>
#include <string.h>

struct strings {
    uint8_t *text;
    size_t bytes;
    size_t room;
    int32_t *ends;
    uint32_t *hashes;
    size_t count;
    size_t places;
    uint32_t *slots; // index of the string + 1; 0: free
    size_t mask;
};

enum { FIRST_PLACES = 256, FIRST_ROOM = 4096 };

static size_t start_of(const struct strings *strings, size_t number)
{
    return number ? (size_t)strings->ends[number - 1] : 0;
}

static uint64_t word_at(const uint8_t *text)
{
    uint64_t word;

    memcpy(&word, text, sizeof(word));
    return word;
}

// Return the bytes of a text of at most eight bytes; some are used twice.
static uint64_t short_word(const uint8_t *text, size_t length)
{
    uint32_t first, last;

    if (length < sizeof(first))
        return length ? (uint64_t)text[0] | (uint64_t)text[length / 2] << 8 | (uint64_t)text[length - 1] << 16 : 0;
    memcpy(&first, text, sizeof(first));
    memcpy(&last, text + length - sizeof(last), sizeof(last));
    return first | (uint64_t)last << 32;
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

// Hashes eight bytes at a time by multiplication (an idea of Wang Yi). The last eight bytes may overlap the previous
// ones.
static uint32_t hash_of(const uint8_t *text, size_t length)
{
    uint64_t hash = 0x9e3779b97f4a7c15u ^ length;

    if (length <= sizeof(uint64_t))
        return (uint32_t)mixed(hash, short_word(text, length));
    for (size_t at = 0; at < length - sizeof(uint64_t); at += sizeof(uint64_t))
        hash = mixed(hash, word_at(text + at));
    return (uint32_t)mixed(hash, word_at(text + length - sizeof(uint64_t)));
}

struct strings *strings_new(void)
{
    struct strings *strings = calloc(1, sizeof(*strings));

    if (!strings)
        return NULL;
    strings->room = FIRST_ROOM;
    strings->places = FIRST_PLACES;
    strings->mask = 2 * FIRST_PLACES - 1;
    strings->text = malloc(strings->room);
    strings->ends = malloc(strings->places * sizeof(*strings->ends));
    strings->hashes = malloc(strings->places * sizeof(*strings->hashes));
    strings->slots = calloc(strings->mask + 1, sizeof(*strings->slots));
    if (strings->text && strings->ends && strings->hashes && strings->slots)
        return strings;
    strings_free(strings);
    return NULL;
}

void strings_free(struct strings *strings)
{
    if (!strings)
        return;
    free(strings->text);
    free(strings->ends);
    free(strings->hashes);
    free(strings->slots);
    free(strings);
}

static bool grow_text(struct strings *strings, size_t more)
{
    size_t room = strings->room;
    uint8_t *text;

    if (more > INT32_MAX - strings->bytes)
        return false;
    while (room < strings->bytes + more)
        room *= 2;
    if (room == strings->room)
        return true;
    text = realloc(strings->text, room);
    if (!text)
        return false;
    strings->text = text;
    strings->room = room;
    return true;
}

static bool grow_places(struct strings *strings)
{
    size_t places = 2 * strings->places;
    size_t mask = 2 * places - 1;
    int32_t *ends = realloc(strings->ends, places * sizeof(*ends));
    uint32_t *hashes, *slots;

    if (!ends)
        return false;
    strings->ends = ends;
    hashes = realloc(strings->hashes, places * sizeof(*hashes));
    if (!hashes)
        return false;
    strings->hashes = hashes;
    slots = calloc(mask + 1, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t number = 0; number < strings->count; number++) {
        size_t slot = hashes[number] & mask;

        while (slots[slot])
            slot = (slot + 1) & mask;
        slots[slot] = (uint32_t)number + 1;
    }
    free(strings->slots);
    strings->slots = slots;
    strings->mask = mask;
    strings->places = places;
    return true;
}

// Return the index of the string. If it is missing, return NO_STRING and set `slot` to the free slot for it.
static uint32_t find(const struct strings *strings, const uint8_t *text, size_t length, uint32_t hash, size_t *slot)
{
    uint32_t number;

    for (*slot = hash & strings->mask; (number = strings->slots[*slot]); *slot = (*slot + 1) & strings->mask) {
        size_t start = start_of(strings, --number);

        if (strings->hashes[number] == hash && (size_t)strings->ends[number] - start == length &&
            (!length || !memcmp(strings->text + start, text, length)))
            return number;
    }
    return NO_STRING;
}

uint32_t strings_find(const struct strings *strings, const uint8_t *text, size_t length)
{
    size_t slot;

    return find(strings, text, length, hash_of(text, length), &slot);
}

const uint8_t *strings_text(const struct strings *strings, uint32_t number, size_t *length)
{
    size_t start = start_of(strings, number);

    *length = (size_t)strings->ends[number] - start;
    return strings->text + start;
}

uint32_t strings_add(struct strings *strings, const uint8_t *text, size_t length)
{
    uint32_t hash = hash_of(text, length);
    size_t slot;
    uint32_t number = find(strings, text, length, hash, &slot);

    if (number != NO_STRING)
        return number;
    if (!grow_text(strings, length))
        return NO_STRING;
    if (strings->count == strings->places) {
        if (!grow_places(strings))
            return NO_STRING;
        for (slot = hash & strings->mask; strings->slots[slot]; slot = (slot + 1) & strings->mask)
            ;
    }
    if (length)
        memcpy(strings->text + strings->bytes, text, length);
    strings->bytes += length;
    number = (uint32_t)strings->count++;
    strings->ends[number] = (int32_t)strings->bytes;
    strings->hashes[number] = hash;
    strings->slots[slot] = number + 1;
    return number;
}

size_t strings_count(const struct strings *strings)
{
    return strings->count;
}

size_t strings_bytes(const struct strings *strings)
{
    return strings->bytes;
}

void strings_copy(const struct strings *strings, uint8_t *text, int32_t *offsets)
{
    offsets[0] = 0;
    if (strings->bytes)
        memcpy(text, strings->text, strings->bytes);
    if (strings->count)
        memcpy(offsets + 1, strings->ends, strings->count * sizeof(*offsets));
}
