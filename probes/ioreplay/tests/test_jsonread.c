/*
 * The reader of JSON. Without an argument: what it takes, what it refuses and where, and that every cut of a text is
 * refused. With the name of a file: prints what is in it, for tests/replay/test_replay_program.py to compare with
 * Python's.
 */
#define _GNU_SOURCE
#include "ioreplay/json_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/json.h"
#include "common/tests/tap.h"

#include <fcntl.h>

static const struct {
    const char *text, *expected; /* NULL: it is taken */
    size_t place;
} cases[] = {
    {"null", NULL, 0},
    {" {\"a\" : [1, -2, 0, true, false, null, \"b\"], \"c\": {}} \t", NULL, 0},
    {"9223372036854775807", NULL, 0},
    {"-9223372036854775808", NULL, 0},
    {"1e5", NULL, 0},
    {"-0.25E-3", NULL, 0},
    {"123456789012345678901234567890", NULL, 0},
    {"\"\\ud83d\\udcbe\\u00e4\\udcff\\n\"", NULL, 0},
    {"", "a value", 0},
    {"  ", "a value", 2},
    {"nul", "a value", 0},
    {"01", "a value", 2},
    {"-", "a value", 1},
    {"1.", "digits behind the point", 2},
    {"1e", "an exponent", 2},
    {"+1", "a value", 0},
    {"[1,]", "a value", 3},
    {"[1 2]", "a comma or a closing bracket", 3},
    {"[1}", "a comma or a closing bracket", 2},
    {"{\"a\"}", "a colon", 4},
    {"{\"a\":1,}", "a string", 7},
    {"{a:1}", "a string", 1},
    {"{\"a\":1,\"a\":2}", "each name once", 10},
    {"\"a", "the end of a string", 2},
    {"\"\t\"", "UTF-8 without control characters", 1},
    {"\"\xff\"", "UTF-8 without control characters", 1},
    {"\"\xc3", "UTF-8 without control characters", 1},
    {"\"\\x\"", "an escape", 2},
    {"\"\\", "an escape", 2},
    {"\"\\u12\"", "four hexadecimal digits", 5},
    {"\"\\u0000\"", "a string without NUL", 7},
    {"\"\\ud83d\"", "the second half of a character", 7},
    {"\"\\udc7f\"", "the first half of a character", 7},
    {"1 2", "nothing behind the value", 2},
    {"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", "fewer brackets within brackets", 17},
};

static void test_case(const char *text, const char *expected, size_t place)
{
    size_t length = strlen(text), found_place;
    char *copy = malloc(length ? length : 1); /* without a NUL: the sanitizer sees a step beyond the end */
    const char *found;
    struct jsonread *json;

    if (!copy)
        exit(1);
    memcpy(copy, text, length);
    json = jsonread_parse(copy, length, &found, &found_place);
    free(copy);
    if (expected)
        tap_ok(!json && !strcmp(found, expected) && found_place == place, "%s: %s at %zu (found %s at %zu)", text,
               expected, place, json ? "nothing" : found, found_place);
    else
        tap_ok(json, "%s is taken", text);
    jsonread_free(json);
}

static void test_cuts(void)
{
    static const char whole[] = "{\"a\": [1, {\"b\\u00e4\": \"\xc3\xa4\"}, -5e3, true], \"c\": null}";
    size_t refused = 0, place;
    const char *expected;

    for (size_t length = 0; length < sizeof whole - 1; length++) {
        struct jsonread *json = jsonread_parse(whole, length, &expected, &place);

        refused += !json && place <= length;
        jsonread_free(json);
    }
    tap_ok(refused == sizeof whole - 1, "every cut is refused");
}

static void test_bounds(void)
{
    size_t length = 2 * JSONREAD_VALUES + 1, place;
    char *text = malloc(JSONREAD_BYTES + 1);
    const char *expected;

    if (!text)
        exit(1);
    memset(text, ' ', JSONREAD_BYTES + 1);
    tap_ok(!jsonread_parse(text, JSONREAD_BYTES + 1, &expected, &place) && !strcmp(expected, "a shorter text"),
           "a text that is too long");
    for (size_t index = 0; index < length; index++)
        text[index] = index == 0 ? '[' : index == length - 1 ? ']' : index % 2 ? '1' : ',';
    tap_ok(!jsonread_parse(text, length, &expected, &place) && !strcmp(expected, "fewer values"), "too many values");
    free(text);
}

static void test_members(void)
{
    static const char text[] = "{\"n\": 5, \"big\": 1e3, \"s\": \"text\", \"o\": {\"n\": 6}}";
    const char *expected;
    size_t place;
    struct jsonread *json = jsonread_parse(text, sizeof text - 1, &expected, &place);
    const struct jsonread_value *root = json ? jsonread_root(json) : NULL;

    tap_ok(root && jsonread_integer(root, "n", 0, 9, -1) == 5, "an integer");
    tap_ok(jsonread_integer(root, "n", 6, 9, -1) == -1 && jsonread_integer(root, "n", 0, 4, -1) == -1,
           "an integer out of range");
    tap_ok(jsonread_integer(root, "big", 0, 9999, -1) == -1 && jsonread_integer(root, "s", 0, 9, -1) == -1,
           "what is no integer");
    tap_ok(jsonread_string(root, "s") && !strcmp(jsonread_string(root, "s"), "text"), "a string");
    tap_ok(!jsonread_string(root, "n") && !jsonread_string(root, "none"), "what is no string");
    tap_ok(jsonread_integer(jsonread_member(root, "o"), "n", 0, 9, -1) == 6, "a member of a member");
    tap_ok(!jsonread_member(jsonread_member(root, "s"), "n") && !jsonread_member(NULL, "n"), "of what is no object");
    jsonread_free(json);
}

static void print_value(struct json *out, const struct jsonread_value *value)
{
    bool is_object = value->kind == JSONREAD_OBJECT;

    switch (value->kind) {
    case JSONREAD_NULL:
        json_null(out, value->key);
        return;
    case JSONREAD_FALSE:
    case JSONREAD_TRUE:
        json_bool(out, value->key, value->kind == JSONREAD_TRUE);
        return;
    case JSONREAD_INTEGER:
        json_integer(out, value->key, value->integer);
        return;
    case JSONREAD_NUMBER:
        json_string(out, value->key, "number");
        return;
    case JSONREAD_STRING:
        json_string(out, value->key, value->string);
        return;
    case JSONREAD_ARRAY:
    case JSONREAD_OBJECT:
        json_open(out, value->key, is_object ? '{' : '[');
        for (const struct jsonread_value *item = value->first; item; item = item->next)
            print_value(out, item);
        json_close(out, is_object ? '}' : ']');
    }
}

static int print_file(const char *path)
{
    struct json out = {.out = stdout};
    struct contents file;
    const char *expected;
    size_t place;
    struct jsonread *json;

    if (file_read(AT_FDCWD, path, &file))
        return 1;
    json = jsonread_parse(file.data, file.size, &expected, &place);
    free(file.data);
    if (!json)
        return 1;
    print_value(&out, jsonread_root(json));
    jsonread_free(json);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return print_file(argv[1]);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        test_case(cases[index].text, cases[index].expected, cases[index].place);
    test_cuts();
    test_bounds();
    test_members();
    return tap_done();
}
