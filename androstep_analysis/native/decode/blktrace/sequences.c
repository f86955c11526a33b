// Each CPU numbers the events of each device, one after the other: what is left out is missing.
#include "decode/blktrace/state.h"

#include "core/array.h"

enum { MAX_COUNTERS = 1 << 16 };

// The counter of a CPU's events of a device; NULL where it is new, and takes in this number, or there is no room.
static struct counter *counter_of(struct blktrace *trace, uint32_t device, uint32_t cpu, uint32_t sequence)
{
    uint64_t number = map_value(&trace->counter_of, device, cpu);
    uint64_t *place;

    if (number)
        return &trace->counters[number - 1];
    if (trace->nr_counters == MAX_COUNTERS)
        return NULL;
    if (trace->nr_counters == trace->room_counters) {
        struct counter *counters = array_grow(trace->counters, &trace->room_counters, sizeof(*counters));

        if (!counters)
            return NULL;
        trace->counters = counters;
    }
    place = map_add(&trace->counter_of, device, cpu);
    if (!place)
        return NULL;
    trace->counters[trace->nr_counters] = (struct counter){.sequence = sequence};
    *place = ++trace->nr_counters;
    return NULL;
}

// Events that are missing before the number `sequence`, which is so many events after the last good one.
static void count_gap(struct blktrace *trace, const struct counter *counter, uint32_t sequence, uint32_t steps)
{
    if (sequence > counter->sequence && sequence - counter->sequence > steps)
        trace->report.missing += sequence - counter->sequence - steps;
}

// A number that goes back begins another recording. One that does not fit is believed only after the next one: a
// damaged one would count for billions of events.
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
    if (sequence == counter->sequence + 2) { // only that number was damaged
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
