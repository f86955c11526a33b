#include "replay_tally.h"

#include <inttypes.h>
#include <stdlib.h>

#include "complain.h"
#include "replay_moves.h"

static void add(struct replay_tally *tally, const struct replay_run *run, const struct replay_operation *operation,
                const struct replay_outcome *outcome, int64_t *late)
{
    int64_t due_ns = replay_due_ns(run, operation);
    enum replay_divergence divergence = replay_compare(operation, outcome->result);
    struct replay_moved moved = replay_moved(operation, outcome->result);

    if (operation->inserted) {
        tally->inserted++;
        return;
    }
    tally->done++;
    tally->divergences[divergence]++;
    tally->diverged += replay_diverged(divergence);
    tally->read += moved.read;
    tally->written += moved.written;
    tally->io_ns += outcome->latency_ns;
    if (due_ns != RECORD_NULL_INT64)
        late[tally->nr_due++] = outcome->start_ns - due_ns;
}

static int by_value(const void *a, const void *b)
{
    const int64_t *first = a, *second = b;

    return (*first > *second) - (*first < *second);
}

static void take_percentiles(struct replay_tally *tally, int64_t *late)
{
    int64_t count = tally->nr_due;

    if (!count)
        return;
    qsort(late, (size_t)count, sizeof *late, by_value);
    tally->late_p50_ns = late[(count * 50 + 99) / 100 - 1];
    tally->late_p99_ns = late[(count * 99 + 99) / 100 - 1];
    tally->late_most_ns = late[count - 1];
}

int replay_tally_make(struct replay_tally *tally, const struct replay_run *run)
{
    const struct replay_program *program = run->program;
    int64_t *late = malloc((program->nr_operations + (size_t)1) * sizeof *late);

    *tally = (struct replay_tally){.operations = (int64_t)program->nr_operations - program->nr_inserted};
    if (!late)
        return complain("no memory for the summary of %" PRIu32 " operations", program->nr_operations);
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_outcome *outcome = replay_outcome(run, number);

        if (outcome)
            add(tally, run, &program->operations[number], outcome, late);
    }
    take_percentiles(tally, late);
    free(late);
    return 0;
}
