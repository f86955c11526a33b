// Merges the per-CPU streams of a blktrace recording into rows of table block_events.
//
// The streams are read twice. `blktrace_survey` collects the names of threads: where CPUs were dumped one after the
// other, a name may follow the events that need it. `blktrace_merge` then makes the rows.
#include "decode/blktrace/state.h"

#include <stdlib.h>

API void blktrace_free(struct blktrace *trace);

API struct blktrace *blktrace_new(struct strings *strings, size_t nr_streams)
{
    struct blktrace *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return NULL;
    trace->strings = strings;
    trace->nr_streams = nr_streams;
    trace->streams = calloc(nr_streams, sizeof(*trace->streams));
    memset(trace->event_strings, 0xff, sizeof(trace->event_strings));
    memset(trace->rwbs_strings, 0xff, sizeof(trace->rwbs_strings));
    trace->report.clock_ns = trace->report.realtime_ns = trace->report.first_name_ns = NO_INT64;
    trace->report.first_ns = trace->report.last_ns = trace->report.earliest_ns = NO_INT64;
    if (trace->streams)
        return trace;
    blktrace_free(trace);
    return NULL;
}

API void blktrace_free(struct blktrace *trace)
{
    if (!trace)
        return;
    free(trace->streams);
    free(trace->threads);
    map_free(&trace->thread_of);
    free(trace->names);
    free(trace->counters);
    map_free(&trace->counter_of);
    free(trace);
}

API const struct blktrace_report *blktrace_report(const struct blktrace *trace)
{
    return &trace->report;
}

// Passes the next bytes of a stream. They begin at the first byte that `blktrace_used` did not count.
API void blktrace_feed(struct blktrace *trace, size_t index, const uint8_t *data, size_t length, bool is_last)
{
    struct stream *stream = trace->streams + index;

    stream->data = data;
    stream->length = length;
    stream->offset = 0;
    stream->is_last = is_last;
    stream->is_ended = stream->has_record = false;
}

// Returns how many bytes of the last `blktrace_feed` are decoded.
API size_t blktrace_used(const struct blktrace *trace, size_t index)
{
    return trace->streams[index].offset;
}

static void survey_note(struct blktrace *trace, const struct record *record, uint64_t action)
{
    struct blktrace_report *report = &trace->report;
    int64_t ts_ns = time_of(record);
    size_t length;
    const uint8_t *pdu = record_payload(record, action, &length);

    if ((action & TA_MASK) == NOTE_PROCESS) {
        thread_rename(trace, pid_of(record), ts_ns, pdu, length);
        if (report->first_name_ns == NO_INT64 || ts_ns < report->first_name_ns)
            report->first_name_ns = ts_ns;
    } else if (length >= 8 && (report->clock_ns == NO_INT64 || ts_ns < report->clock_ns)) {
        size_t offset = (size_t)(pdu - record->at);

        report->clock_ns = ts_ns;
        report->realtime_ns = number32(record, offset) * INT64_C(1000000000) + number32(record, offset + 4);
    }
}

// Reads the thread names, the wall clock and the time range of a stream.
API void blktrace_survey(struct blktrace *trace, size_t index)
{
    struct blktrace_report *report = &trace->report;
    struct stream *stream = trace->streams + index;

    while (record_next(trace, stream) == RECORD_WHOLE) {
        uint64_t action = action_of(&stream->record);
        enum event event = event_of(action);

        if (event == EVENT_NONE) {
            survey_note(trace, &stream->record, action);
        } else if (event != EVENT_UNKNOWN) {
            int64_t ts_ns = time_of(&stream->record);

            if (stream->is_begun && ts_ns < stream->ts_ns)
                report->is_disordered = true;
            stream->ts_ns = ts_ns;
            stream->is_begun = true;
            if (report->earliest_ns == NO_INT64 || ts_ns < report->earliest_ns)
                report->earliest_ns = ts_ns;
        }
        record_take(stream);
    }
}

// Ends the survey and rewinds the streams. `shift_ns` is how far the clock of the thread names is ahead of the events.
API void blktrace_surveyed(struct blktrace *trace, int64_t shift_ns)
{
    struct blktrace_report *report = &trace->report;

    threads_settle(trace, shift_ns);
    report->torn = report->gaps = report->gap_bytes = 0;
    memset(trace->streams, 0, trace->nr_streams * sizeof(*trace->streams));
}

// Finds the two streams with the earliest next records; NULL if fewer have one. Equal times are in the order of the
// streams. Returns the index of a stream that needs more data, or `nr_streams` if none does.
static size_t find_earliest(struct blktrace *trace, struct stream **first, struct stream **second)
{
    *first = *second = NULL;
    for (size_t i = 0; i < trace->nr_streams; i++) {
        struct stream *stream = trace->streams + i;

        if (!stream->has_record && !stream->is_ended) {
            enum progress progress = record_next(trace, stream);

            if (progress == MORE)
                return i;
            stream->is_ended = progress == ENDED;
            stream->has_record = progress == RECORD_WHOLE;
            stream->ts_ns = stream->has_record ? time_of(&stream->record) : 0;
        }
        if (stream->is_ended)
            continue;
        if (!*first || stream->ts_ns < (*first)->ts_ns) {
            *second = *first;
            *first = stream;
        } else if (!*second || stream->ts_ns < (*second)->ts_ns) {
            *second = stream;
        }
    }
    return trace->nr_streams;
}

// Counts the record and appends its row if it is an event. Returns false if the table is full.
static bool merge_record(struct blktrace *trace, struct table *table, const struct stream *stream)
{
    struct blktrace_report *report = &trace->report;
    uint64_t action = action_of(&stream->record);
    enum event event = event_of(action);

    if (event > EVENT_NONE && event < EVENT_MESSAGE) {
        const struct record *record = &stream->record;
        size_t device = device_offset(record);

        if (table_is_full(table))
            return false;
        append_record(trace, table, stream, event, action);
        sequence_seen(trace, number32(record, device), number32(record, device + 4), number32(record, 4));
    }
    report->counts[event]++;
    if (event != EVENT_NONE && event != EVENT_UNKNOWN) {
        if (report->first_ns == NO_INT64 || stream->ts_ns < report->first_ns)
            report->first_ns = stream->ts_ns;
        if (report->last_ns == NO_INT64 || stream->ts_ns > report->last_ns)
            report->last_ns = stream->ts_ns;
    }
    return true;
}

// Appends the records of all streams as rows, in order of time. Equal times are in the order of the streams. Returns
// the index of a stream that needs more data, `nr_streams` when all have ended, `nr_streams` + 1 when the table is
// full.
API size_t blktrace_merge(struct blktrace *trace, struct table *table)
{
    for (;;) {
        struct stream *first, *second;
        size_t index = find_earliest(trace, &first, &second);

        if (index < trace->nr_streams)
            return index;
        if (!first) {
            sequences_end(trace);
            return trace->nr_streams;
        }
        while (first->has_record) {
            if (second && (first->ts_ns > second->ts_ns || (first->ts_ns == second->ts_ns && first > second)))
                break;
            if (!merge_record(trace, table, first))
                return trace->nr_streams + 1;
            record_take(first);
            first->has_record = record_next(trace, first) == RECORD_WHOLE;
            if (first->has_record)
                first->ts_ns = time_of(&first->record);
        }
    }
}
