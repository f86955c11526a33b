/*
 * The reader of whole record streams, on what the writer writes: every record comes back, fields are found by name, and
 * every cut and every flipped bit is refused.
 */
#define _GNU_SOURCE
#include "ioreplay/record_reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/files.h"
#include "common/tests/tap.h"

#define ROWS 3000

struct row {
    int64_t wide;
    int32_t narrow;
    uint32_t plain;
    struct record_string name;
};

static const struct record_field fields[] = {
    RECORD_FIELD(row, wide, RECORD_INT64, false, "ns", "A time."),
    RECORD_FIELD(row, narrow, RECORD_INT32, true, NULL, "A small number."),
    RECORD_FIELD(row, plain, RECORD_UINT32, false, NULL, "A size."),
    RECORD_FIELD(row, name, RECORD_STRING, true, NULL, "A name."),
};
static const struct record_type rows = {"row", NULL, "Rows.", fields, 4};
static const struct record_type empty = {"empty", NULL, "No rows.", fields, 2};
static const struct record_type *const types[] = {&rows, &empty};
static const struct record_probe probe = {"test", types, 2};

/* The same fields, fewer and in another order. */
struct part {
    struct record_string name;
    int32_t narrow;
    int64_t wide;
};

static const struct record_field part_fields[] = {
    RECORD_FIELD(part, name, RECORD_STRING, true, NULL, NULL),
    RECORD_FIELD(part, wide, RECORD_INT64, false, NULL, NULL),
    RECORD_FIELD(part, narrow, RECORD_INT32, true, NULL, NULL),
};
static const struct record_type parts = {"row", NULL, NULL, part_fields, 3};

static const struct record_field strict_fields[] = {RECORD_FIELD(part, narrow, RECORD_INT32, false, NULL, NULL)};
static const struct record_field other_fields[] = {RECORD_FIELD(part, wide, RECORD_UINT64, false, NULL, NULL)};
static const struct record_field named_fields[] = {
    {"none", RECORD_INT64, false, NULL, NULL, 0, 8},
};
static const struct record_type unfit[] = {
    {"row", NULL, NULL, strict_fields, 1},
    {"row", NULL, NULL, other_fields, 1},
    {"row", NULL, NULL, named_fields, 1},
    {"none", NULL, NULL, part_fields, 3},
};

static char path[] = "/tmp/androstep-recordread-XXXXXX";

static struct row row_of(uint64_t number, char text[32], struct record_text *name)
{
    struct row row = {(int64_t)number * 1000003, (int32_t)(number % 7 ? number : (uint64_t)RECORD_NULL_INT32), 5, {0}};

    snprintf(text, 32, "name %llu", (unsigned long long)number);
    name->bytes = number % 5 ? text : NULL;
    name->length = number % 5 ? strlen(text) : 0;
    return row;
}

static bool write_rows(bool with_loss)
{
    struct record *out = record_open(path, &probe);

    for (uint64_t number = 0; out && number < ROWS; number++) {
        char text[32];
        struct record_text name;
        struct row row = row_of(number, text, &name);

        if (record_add(out, &rows, &row, &name))
            return false;
    }
    if (out && with_loss)
        record_lose(out, "lost", "rows that are not there", 1);
    return out && !record_close(out);
}

static int compare(void *context, uint64_t number, const void *given, const struct record_text *texts)
{
    uint64_t *count = context;
    const struct part *found = given;
    char text[32];
    struct record_text name;
    struct row row = row_of(number, text, &name);

    if (number != *count || found->wide != row.wide || found->narrow != row.narrow)
        return -1;
    if (!texts->bytes != !name.bytes || texts->length != name.length ||
        (name.bytes && memcmp(texts->bytes, name.bytes, name.length) != 0))
        return -1;
    ++*count;
    return 0;
}

static int stop(void *context, uint64_t number, const void *given, const struct record_text *texts)
{
    (void)context;
    (void)given;
    (void)texts;
    return number == 10;
}

static void test_whole(void)
{
    struct recordread *in = recordread_open(path);
    uint64_t count = 0;

    if (!tap_ok(in, "a whole file"))
        return;
    tap_ok(recordread_count(in, "row") == ROWS && recordread_count(in, "empty") == 0 &&
               recordread_count(in, "none") == 0,
           "records are counted");
    tap_ok(!recordread_each(in, &parts, compare, &count) && count == ROWS, "every record comes back");
    tap_ok(recordread_each(in, &parts, stop, NULL) == -1, "reading can be ended");
    tap_ok(!strcmp(jsonread_string(recordread_header(in), "probe"), "test"), "the header tells who wrote it");
    for (size_t index = 0; index < sizeof unfit / sizeof *unfit; index++)
        tap_ok(recordread_each(in, &unfit[index], compare, &count) == -1, "refused: %s", complained());
    recordread_close(in);
}

/* Makes the file anew of `size` bytes; whether it is refused. */
static bool is_refused(const char *data, size_t size)
{
    struct recordread *in;

    if (file_save(AT_FDCWD, path, data, size))
        exit(1);
    in = recordread_open(path);
    recordread_close(in);
    return !in && strstr(complained(), path);
}

static void test_damage(const struct contents *whole)
{
    size_t cuts = 0, flips = 0, tried = 0;
    char *longer = malloc(whole->size + 1);

    for (size_t size = 0; size < whole->size; size += size < 400 || size + 400 > whole->size ? 1 : 211, tried++)
        cuts += is_refused(whole->data, size);
    tap_ok(cuts == tried, "every cut is refused");
    tried = 0;
    for (size_t place = 0; place < whole->size; place += place < 400 || place + 400 > whole->size ? 1 : 211, tried++) {
        whole->data[place] ^= (char)(1 << place % 8);
        flips += is_refused(whole->data, whole->size);
        whole->data[place] ^= (char)(1 << place % 8);
    }
    tap_ok(flips == tried, "every flipped bit is refused");
    if (!longer)
        exit(1);
    memcpy(longer, whole->data, whole->size);
    longer[whole->size] = 0;
    tap_ok(is_refused(longer, whole->size + 1), "an additional byte: %s", complained());
    free(longer);
}

static size_t frame_bytes(const char *frame)
{
    uint32_t length;

    memcpy(&length, frame + 16, sizeof length);
    return 24 + length;
}

/* A block is missing, and a block is there twice: each has the right checksum. */
static void test_blocks(const struct contents *whole)
{
    size_t first = frame_bytes(whole->data), second = frame_bytes(whole->data + first);
    size_t rest = whole->size - first - second;
    char *other = malloc(whole->size + second);

    if (!other)
        exit(1);
    memcpy(other, whole->data, first);
    memcpy(other + first, whole->data + first + second, rest);
    tap_ok(is_refused(other, whole->size - second), "a missing block: %s", complained());
    memcpy(other, whole->data, first + second);
    memcpy(other + first + second, whole->data + first, second + rest);
    tap_ok(is_refused(other, whole->size + second), "a block twice: %s", complained());
    free(other);
}

static void test_others(void)
{
    tap_ok(is_refused("some text, no record stream at all", 34), "another file: %s", complained());
    tap_ok(!recordread_open("/dev/null"), "no file: %s", complained());
    tap_ok(!recordread_open("/nowhere/at/all"), "no such file: %s", complained());
}

int main(void)
{
    struct contents whole;
    int file = mkstemp(path);

    if (file < 0 || close(file) || !write_rows(false) || file_read(AT_FDCWD, path, &whole))
        return 1;
    test_whole();
    test_damage(&whole);
    test_blocks(&whole);
    test_others();
    tap_ok(write_rows(true) && !recordread_open(path), "a file with losses: %s", complained());
    free(whole.data);
    unlink(path);
    return tap_done();
}
