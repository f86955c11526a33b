/* Words and numbers of the kernel's text files: as they are, cut, and as nobody wrote them. */
#include "procmon/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

static struct span span_of(const char *text)
{
    return (struct span){text, text + strlen(text)};
}

static const struct {
    const char *text;
    bool is_number;
    int64_t number;
} numbers[] = {
    {"0", true, 0},
    {"  42 rest", true, 42},
    {"-7", true, -7},
    {"0x1f", true, 31},
    {"0xAb\n", true, 171},
    {"9223372036854775807", true, INT64_MAX},
    {"9223372036854775808", false, 0},
    {"0x8000000000000000", false, 0},
    {"99999999999999999999999999", false, 0},
    {"", false, 0},
    {"  \n", false, 0},
    {"-", false, 0},
    {"0x", false, 0},
    {"1a", false, 0},
    {"a1", false, 0},
    {"1.5", false, 0},
    {"12:", false, 0},
};

static void test_numbers(void)
{
    for (size_t index = 0; index < sizeof numbers / sizeof *numbers; index++) {
        struct span rest = span_of(numbers[index].text), before = rest;
        int64_t number = 1;
        bool is_number = text_number(&rest, &number);

        tap_ok(is_number == numbers[index].is_number && (!is_number || number == numbers[index].number) &&
                   (is_number || rest.at == before.at),
               "number in \"%s\"", numbers[index].text);
    }
}

static void test_lines(void)
{
    static const char text[] = "one two\n\nlast";
    struct span rest = span_of(text), line, word;

    tap_ok(text_line(&rest, &line) && span_is(line, "one two"), "the first line");
    tap_ok(text_word(&line, &word) && span_is(word, "one") && text_word(&line, &word) && span_is(word, "two") &&
               !text_word(&line, &word),
           "its words");
    tap_ok(text_line(&rest, &line) && span_is(line, ""), "an empty line");
    tap_ok(text_line(&rest, &line) && span_is(line, "last") && !text_line(&rest, &line), "a line without its end");
    tap_ok(span_begins(span_of("kworker/0:1"), "kworker/") && !span_begins(span_of("kwork"), "kworker/"),
           "a beginning");
}

/* Fields from the state on, each its own number as in proc_pid_stat(5). */
#define FIELDS                                                                                                         \
    " S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 "  \
    "42"                                                                                                               \
    " 43 44\n"

static const char *const names[] = {"sh", "", "a b", ") S 1 2 3", "((", "))", "\n\t", "\x1b[31m\xff"};

static void test_stat(void)
{
    char text[512];

    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        struct text_stat stat;
        int length = snprintf(text, sizeof text, "77 (%s)%s", names[index], FIELDS);
        bool found = text_stat((struct span){text, text + length}, &stat);

        tap_ok(found && span_is(stat.name, names[index]) && stat.major_faults == 12 && stat.user == 14 &&
                   stat.system == 15 && stat.children_user == 16 && stat.children_system == 17 && stat.threads == 20 &&
                   stat.started == 22 && stat.resident == 24 && stat.io_wait == 42,
               "stat of a process of name %zu", index);
    }
}

/* Every cut of a stat file, in memory of exactly its size: reads behind it end the test. */
static void test_cuts(void)
{
    static const char whole[] = "77 (a ) b)" FIELDS;
    size_t least = (size_t)(strstr(whole, " 42 43") - whole) + 2;
    bool right = true;

    for (size_t length = 0; length < sizeof whole; length++) {
        char *cut = malloc(length ? length : 1);
        struct text_stat stat;

        if (!cut)
            exit(1);
        memcpy(cut, whole, length);
        right &= text_stat((struct span){cut, cut + length}, &stat) == (length >= least);
        free(cut);
    }
    tap_ok(right, "a stat file that is cut");
}

/* Whatever the bytes, all that is taken lies within them, and every call makes progress. */
static void test_anything(void)
{
    static const char letters[] = "() \n\t0123456789abcdefx-:.\xff\x80";
    uint32_t seed = 7;
    bool right = true;

    for (int round = 0; round < 20000; round++) {
        size_t length = (seed >> 8) % 64;
        char *text = malloc(length ? length : 1);
        struct span whole = {text, text + length}, rest = whole, line, word;
        struct text_stat stat;
        int64_t number;

        if (!text)
            exit(1);
        for (size_t index = 0; index < length; index++) {
            seed = seed * 1664525 + 1013904223;
            text[index] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        seed = seed * 1664525 + 1013904223;
        if (text_stat(whole, &stat))
            right &= stat.name.at >= whole.at && stat.name.end <= whole.end && stat.name.at <= stat.name.end;
        while (text_line(&rest, &line)) {
            right &= line.at >= whole.at && line.end <= whole.end;
            while (text_word(&line, &word)) {
                struct span again = word;

                right &= word.at >= whole.at && word.end <= line.end && word.at < word.end;
                if (text_number(&again, &number))
                    right &= again.at == word.end;
            }
        }
        free(text);
    }
    tap_ok(right, "any bytes");
}

int main(void)
{
    test_numbers();
    test_lines();
    test_stat();
    test_cuts();
    test_anything();
    return tap_done();
}
