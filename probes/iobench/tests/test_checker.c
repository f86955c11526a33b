/* Sampled records: missing data is detected, and nothing is claimed if the content is unknown. */
#include "iobench/checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/tests/tap.h"

#define RECORD  1000 /* the last word of it is partial */
#define RECORDS 40
#define NONE    UINT64_MAX
#define SLOTS   256

static unsigned char data[RECORD];

static const unsigned char *filled(unsigned char with)
{
    memset(data, with, sizeof data);
    return data;
}

/* Events of records, one letter each: b: a write begins; e: it ends; w: the file gets the data begun last; o: it gets
 * older data; t: it gets only the first half. */
static const struct {
    const char *what;
    bool found; /* a wrong record is reported */
} cases[] = {
    {"", false},        {"bwe", false},    {"be", true},      {"boe", true},    {"bte", true},
    {"bwebwe", false},  {"bweboe", true},  {"bbwee", false},  {"bboee", false}, {"bboeebwe", false},
    {"bboeeboe", true}, {"bbebwe", false}, {"bbeboe", false}, {"bbeebe", true}, {"bboeebbee", false},
};

static void put(int file, uint64_t record, unsigned char with, size_t bytes)
{
    if (pwrite(file, filled(with), bytes, (off_t)(record * RECORD)) != (ssize_t)bytes)
        abort();
}

static void play(struct checker *checker, int file, uint64_t record, const char *what)
{
    unsigned char with = 'a';

    for (; *what; what++)
        switch (*what) {
        case 'b':
            checker_begin(checker, record, filled(++with), RECORD);
            break;
        case 'e':
            checker_end(checker, record, (int64_t)(record + 1) * RECORD);
            break;
        default:
            put(file, record, *what == 'o' ? '-' : with, *what == 't' ? RECORD / 2 : RECORD);
        }
}

static void check_case(int file, const char *what, bool found)
{
    struct checker_slot slots[SLOTS] = {0};
    struct checker checker = {0};
    uint64_t wrong;

    checker_make(&checker, RECORDS, slots, SLOTS);
    for (uint64_t record = 0; record < RECORDS; record++)
        put(file, record, '-', RECORD);
    play(&checker, file, 7, what);
    tap_ok(!checker_verify(&checker, file, RECORD, &wrong) && wrong == (found ? 7 : NONE), "\"%s\"", what);
    tap_ok(checker.end == (strchr(what, 'e') ? 8 * RECORD : 0), "\"%s\": the end of what was written", what);
}

/* For any number of records some are sampled, and never more than there are slots. */
static void check_samples(uint64_t nr_records, unsigned nr_slots, unsigned least)
{
    struct checker_slot slots[SLOTS] = {0};
    struct checker checker = {0};
    unsigned sampled = 0;

    checker_make(&checker, nr_records, slots, nr_slots);
    for (uint64_t record = 0; record < nr_records; record++)
        checker_begin(&checker, record, filled('x'), RECORD);
    for (unsigned slot = 0; slot < SLOTS; slot++)
        sampled += slots[slot].sure;
    tap_ok(sampled >= least && sampled <= nr_slots, "%u of %llu records for %u slots", sampled,
           (unsigned long long)nr_records, nr_slots);
}

int main(void)
{
    FILE *file = tmpfile();

    if (!file)
        abort();
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        check_case(fileno(file), cases[index].what, cases[index].found);
    check_samples(1, 256, 1);
    check_samples(256, 256, 256);
    check_samples(257, 256, 129);
    check_samples(100000, 256, 128);
    check_samples(100000, 1, 1);
    check_samples(100000, 16, 8);
    fclose(file);
    return tap_done();
}
