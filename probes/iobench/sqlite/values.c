#include "iobench/sqlite/engine.h"

static const char digits[65] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

enum {
    DIGIT_BITS = 6,
    DIGITS_OF_A_NUMBER = 64 / DIGIT_BITS, /* digits with all bits random */
    WORKER_SHIFT = 40,                    /* exceeds the values of one worker */
};

void sqlite_values_open(struct sqlite_values *values, const struct bench_job *job, uint64_t nonce, int32_t worker)
{
    rng_seed(&values->rng, job->seed,
             worker < 0 ? rng_stream(RNG_LAYOUT, 0) : rng_stream(RNG_PAYLOAD, (uint32_t)worker));
    values->stamp = nonce + ((uint64_t)(worker + 1) << WORKER_SHIFT);
    values->size = job->sqlite.value;
    values->text = grow(NULL, (size_t)values->size, 1);
}

static void write_digits(char *text, int64_t count, uint64_t number)
{
    for (int64_t at = 0; at < count; at++, number >>= DIGIT_BITS)
        text[at] = digits[number & ((1 << DIGIT_BITS) - 1)];
}

const char *sqlite_values_next(struct sqlite_values *values)
{
    int64_t at = SQLITE_LEAST_VALUE;
    write_digits(values->text, at, values->stamp++);
    while (at < values->size) {
        int64_t count = values->size - at < DIGITS_OF_A_NUMBER ? values->size - at : DIGITS_OF_A_NUMBER;
        write_digits(values->text + at, count, rng_next(&values->rng));
        at += count;
    }
    return values->text;
}

void sqlite_values_start(uint64_t stamp, char start[SQLITE_LEAST_VALUE + 1])
{
    write_digits(start, SQLITE_LEAST_VALUE, stamp);
    start[SQLITE_LEAST_VALUE] = 0;
}

void sqlite_values_close(struct sqlite_values *values)
{
    free(values->text);
    values->text = NULL;
}
