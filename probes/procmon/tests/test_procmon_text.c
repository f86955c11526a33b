/* Changes of numbers between two texts, the whole text if more than numbers differ, and random texts. */
#include "procmon/procmon.h"

#include "common/tests/tap.h"

static const struct {
    const char *before, *now, *changes; /* NULL: more than numbers differ */
} pairs[] = {
    {"ctxt 1\n", "ctxt 22\n", "1 22"},
    {"cpu  1 2 3\ncpu0 1 2\n", "cpu  1 9 3\ncpu0 1 8\n", "2 9 3 8"},
    {"Dirty:         9 kB\n", "Dirty:        10 kB\n", "1 10"},
    {"7 (a b) S 1 2\n", "7 (a b) R 1 3\n", "3 R 1 3"},
    {"lo: 1 2\n\n", "lo: 1 2\n\n", ""},
    {"lo: 1", "lo: 2", "1 2"},
    {"x 1\n", "y 1\n", NULL},
    {"x 1\n", "x 1", NULL},
    {"x 1\n", "x 1 2\n", NULL},
    {"x 1\n", "x 1\ny 2\n", NULL},
    {"x 1\ny 2\n", "x 1\n", NULL},
    {"x 1 2\n", "x 1\n2\n", NULL},
    {"x 1 \n", "x 1\n", NULL},
    {"x 1\n", "x -1\n", NULL},
    {"x a1\n", "x a2\n", NULL},
    {"7 0 a 1\n", "7 1 a 1\n", NULL}, /* a number before a name belongs to the name */
    {"17\n", "18\n", NULL},
    {"x 1\n17\n", "x 1\n18\n", NULL},
    {"", "x 1\n", NULL},
    {"x 1\n", "", NULL},
};

static struct span span_of(const char *text)
{
    return (struct span){text, text + strlen(text)};
}

static void test_pairs(void)
{
    static char changes[RECORD_TEXT_BYTES];
    for (size_t index = 0; index < sizeof pairs / sizeof *pairs; index++) {
        const char *expected = pairs[index].changes;
        long length = text_changes(span_of(pairs[index].before), span_of(pairs[index].now), changes);
        tap_ok(expected ? length == (long)strlen(expected) && !memcmp(changes, expected, strlen(expected))
                        : length == -1,
               "pair %zu", index);
    }
}

/* Changes that exceed a record are written as a whole text. */
static void test_many(void)
{
    static char changes[RECORD_TEXT_BYTES], before[8 * RECORD_TEXT_BYTES] = "x", now[8 * RECORD_TEXT_BYTES] = "x";
    for (size_t number = 1; number < 5000; number++) {
        strcat(before + 2 * number - 2, " 1");
        strcat(now + 2 * number - 2, " 2");
        if (text_changes(span_of(before), span_of(now), changes) > RECORD_TEXT_BYTES)
            exit(1);
    }
    tap_ok(text_changes(span_of(before), span_of(now), changes) == -1, "too many");
}

/* Random bytes in allocations of exactly their size: an access outside of them ends the test. */
static void test_anything(void)
{
    static const char letters[] = "() \n\t0123456789ax-:.\xff";
    char *changes = malloc(RECORD_TEXT_BYTES);
    uint32_t seed = 7;
    for (int round = 0; changes && round < 20000; round++) {
        size_t length = (seed >> 8) % 40, other = (seed >> 16) % 3 ? length : (seed >> 8) % 7;
        char *before = malloc(length ? length : 1), *now = malloc(other ? other : 1);
        if (!before || !now)
            exit(1);
        for (size_t index = 0; index < length || index < other; index++) {
            seed = seed * 1664525 + 1013904223;
            if (index < length)
                before[index] = letters[(seed >> 16) % (sizeof letters - 1)];
            if (index < other)
                now[index] = index < length && seed >> 30 ? before[index] : letters[(seed >> 8) % (sizeof letters - 1)];
        }
        seed = seed * 1664525 + 1013904223;
        text_changes((struct span){before, before + length}, (struct span){now, now + other}, changes);
        free(before);
        free(now);
    }
    free(changes);
    tap_ok(true, "any bytes");
}

int main(void)
{
    test_pairs();
    test_many();
    test_anything();
    return tap_done();
}
