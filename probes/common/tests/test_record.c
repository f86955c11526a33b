/* The writer of record streams. Without an argument, test what it rejects and counts. With a file name, write the
 * stream that tests/probes/test_probes.py expects. */
#include "common/record.h"

struct row {
    int64_t wide;
    uint64_t large;
    int32_t narrow;
    uint32_t plain;
    struct record_string name, note;
};

static const struct record_field fields[] = {
    RECORD_FIELD(row, wide, true, "ns", "A time."),
    RECORD_FIELD(row, large, false, NULL, "A number."),
    RECORD_FIELD(row, narrow, true, NULL, "A small number."),
    RECORD_FIELD(row, plain, false, "B", "A size."),
    RECORD_FIELD(row, name, true, NULL, "A name."),
    RECORD_FIELD(row, note, true, NULL, "A \"note\" with \\ and \x01."),
};

static const struct record_type mixed = {"mixed", NULL, "All dtypes.", fields, 6};
static const struct record_type numbers = {"numbers", "io", "No strings.", fields, 2};
static const struct record_type absent = {"absent", NULL, "Not in the probe.", fields, 2};

static const struct record_type *const types[] = {&mixed, &numbers};
static const struct record_probe probe = {"test", types, 2};

static int failures;

static void expect(int holds, const char *what)
{
    if (holds)
        return;
    printf("not true: %s\n", what);
    failures++;
}

static void test_refusals(void)
{
    struct row row = {0};
    expect(!record_open("/nowhere/at/all", &probe), "a path that cannot be made is refused");
    struct record *out = record_open("/dev/null", &probe);
    expect(out && record_add(out, &absent, &row, NULL) < 0, "a type that the header lacks is refused");
    expect(record_add(out, &numbers, &row, NULL) < 0, "nothing is added after a failure");
    expect(record_close(out) < 0, "a failure is reported at the end");
}

/* Append a row that depends on `number` alone, so that Python can compute it too. */
static void add_row(struct record *out, uint32_t number)
{
    struct row row = {
        .wide = number % 7 ? (int64_t)number * 1000003 - 5000000000 : RECORD_NULL_INT64,
        .large = UINT64_MAX - number,
        .narrow = number % 5 ? -(int32_t)number : RECORD_NULL_INT32,
        .plain = number,
    };
    char name[32], note[3] = {(char)0xFF, '\n', (char)(number % 128)};
    struct record_text texts[2] = {{name, (size_t)snprintf(name, sizeof name, "n%u", number)}, {note, sizeof note}};
    if (number % 3 == 0)
        texts[0].bytes = NULL;
    if (number % 4 == 0)
        texts[1].length = 0;
    record_add(out, &mixed, &row, texts);
    if (number % 2)
        record_add(out, &numbers, &row, NULL);
}

static int write_sample(const char *path)
{
    struct record *out = record_open(path, &probe);
    struct row row = {0};
    char *text = calloc(1, RECORD_TEXT_BYTES + 1);
    struct record_text fits = {text, RECORD_TEXT_BYTES}, is_long = {text, RECORD_TEXT_BYTES + 1};
    if (!out || !text)
        return 1;
    memset(text, 'x', RECORD_TEXT_BYTES);
    for (uint32_t number = 0; number < 20000; number++)
        add_row(out, number);
    for (int repeat = 0; repeat < 9; repeat++)
        record_add(out, &mixed, &row, (struct record_text[]){fits, fits});
    record_add(out, &mixed, &row, (struct record_text[]){is_long, fits});
    record_lose(out, "seen", "things \"lost\"", 2);
    record_lose(out, "seen", "things \"lost\"", 3);
    free(text);
    return record_close(out) ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return write_sample(argv[1]);
    test_refusals();
    return failures ? 1 : 0;
}
