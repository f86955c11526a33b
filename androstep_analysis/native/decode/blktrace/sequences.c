// Counts missing events. Each CPU numbers the events of each device consecutively, so a gap in the numbers is a loss.
#include "decode/blktrace/state.h"

#include "core/array.h"

enum { MAX_COUNTERS = 1 << 16 };

// Returns the counter of a device and CPU. A new counter starts at `sequence` and NULL is returned, as without memory.
static struct counter *counter_of(struct blktrace *trace, uint32_t device, uint32_t cpu, uint32_t sequence)
{
    uint64_t value = map_value(&trace->counter_of, device, cpu);
    uint64_t *slot;

    if (value)
        return &trace->counters[value - 1];
    if (trace->nr_counters == MAX_COUNTERS)
        return NULL;
    if (!array_reserve(&trace->counters, trace->nr_counters, &trace->counters_capacity, sizeof(*trace->counters)))
        return NULL;
    slot = map_add(&trace->counter_of, device, cpu);
    if (!slot)
        return NULL;
    trace->counters[trace->nr_counters] = (struct counter){.sequence = sequence};
    *slot = ++trace->nr_counters;
    return NULL;
}

// Adds the events missing before `sequence`, which is `steps` records after the last valid one.
static void count_gap(struct blktrace *trace, const struct counter *counter, uint32_t sequence, uint32_t steps)
{
    if (sequence > counter->sequence && sequence - counter->sequence > steps)
        trace->report.missing += sequence - counter->sequence - steps;
}

// Compares the sequence number with its predecessor. A number that goes back begins another recording. A number that
// does not follow is accepted only once the next one confirms it: a single damaged number would otherwise count as
// billions of missing events.
void sequence_seen(struct blktrace *trace, uint32_t device, uint32_t cpu, uint32_t sequence)
{
    struct counter *counter = counter_of(trace, device, cpu, sequence);

    if (!counter)
        return;
    if (!counter->is_doubtful) {
        counter->is_doubtful = sequence != counter->sequence + 1;
        counter->doubtful = sequence;
        if (!counter->is_doubtful)
            counter->sequence = sequence;
        return;
    }
    counter->is_doubtful = false;
    if (sequence == counter->sequence + 2) { // only the number before was damaged
        counter->sequence = sequence;
    } else if (sequence > counter->doubtful || counter->doubtful <= counter->sequence) {
        count_gap(trace, counter, counter->doubtful, 1);
        counter->is_doubtful = sequence != counter->doubtful + 1;
        counter->sequence = counter->is_doubtful ? counter->doubtful : sequence;
        counter->doubtful = sequence;
    } else {
        count_gap(trace, counter, sequence, 2);
        counter->sequence = sequence;
    }
}

void sequences_end(struct blktrace *trace)
{
    for (size_t i = 0; i < trace->nr_counters; i++) {
        struct counter *counter = trace->counters + i;

        if (counter->is_doubtful)
            count_gap(trace, counter, counter->doubtful, 1);
        counter->is_doubtful = false;
    }
}
