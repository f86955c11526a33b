#define _GNU_SOURCE
#include "procmon/procmon.h"

#include <string.h>

#include "extmap/extmap.h"

struct series_row {
    uint32_t series, dev;
    int32_t pid;
    struct record_string scope, counter, unit, instance;
};

static const struct record_field series_fields[] = {
    RECORD_FIELD(series_row, series, RECORD_UINT32, false, NULL, "Number of the counter in this file."),
    RECORD_FIELD(series_row, dev, RECORD_UINT32, false, NULL,
                 "Block device (major<<20|minor) that it is of; 0: it is of none."),
    RECORD_FIELD(series_row, pid, RECORD_INT32, true, NULL, "Process that it is of."),
    RECORD_FIELD(series_row, scope, RECORD_STRING, false, NULL, "What it is of."),
    RECORD_FIELD(series_row, counter, RECORD_STRING, false, NULL, "File and name as the kernel has them."),
    RECORD_FIELD(series_row, unit, RECORD_STRING, false, NULL, "Unit of its values."),
    RECORD_FIELD(series_row, instance, RECORD_STRING, true, NULL,
                 "Which of several: CPU, interface, disk, thermal zone, or the name of the process."),
};

static const struct record_type series_type = {
    "series", "samples", "A counter.", series_fields, sizeof series_fields / sizeof *series_fields,
};

struct reading_row {
    int64_t ts_ns, value;
    uint32_t series;
};

static const struct record_field reading_fields[] = {
    RECORD_FIELD(reading_row, ts_ns, RECORD_INT64, false, "ns", "When it was read."),
    RECORD_FIELD(reading_row, value, RECORD_INT64, false, NULL, "Its value, in the unit of the counter."),
    RECORD_FIELD(reading_row, series, RECORD_UINT32, false, NULL, "Number of the counter."),
};

static const struct record_type reading_type = {
    "reading",
    NULL,
    "A reading of a counter. One that is equal to the reading before and to the one after is left out: a straight line "
    "between two readings goes through all that are not there.",
    reading_fields,
    sizeof reading_fields / sizeof *reading_fields,
};

static const struct record_field tick_fields[] = {
    RECORD_FIELD(tick, ts_ns, RECORD_INT64, false, "ns", "When the tick was to be."),
    RECORD_FIELD(tick, late_ns, RECORD_INT64, false, "ns", "How much later it began."),
    RECORD_FIELD(tick, took_ns, RECORD_INT64, false, "ns", "How long its readings took."),
    RECORD_FIELD(tick, cpu_ns, RECORD_INT64, false, "ns", "CPU time that procmon has used by its end."),
    RECORD_FIELD(tick, missed, RECORD_UINT32, false, NULL, "Ticks before it that could not be."),
    RECORD_FIELD(tick, processes, RECORD_UINT32, false, NULL, "Processes that were read."),
    RECORD_FIELD(tick, began, RECORD_UINT32, false, NULL, "Processes that were new."),
    RECORD_FIELD(tick, ended, RECORD_UINT32, false, NULL,
                 "Processes that had ended; what they used after their last reading is in no reading."),
};

static const struct record_type tick_type = {
    "tick", NULL, "A tick.", tick_fields, sizeof tick_fields / sizeof *tick_fields,
};

/* Counters before their readings: so they are flushed. */
static const struct record_type *const types[] = {&series_type, &reading_type, &tick_type, &task_type};
const struct record_probe procmon_probe = {"procmon", types, sizeof types / sizeof *types};

static struct record_text text_of(struct span span)
{
    return (struct record_text){span_length(span) ? span.at : NULL, span_length(span)};
}

static void tell(struct output *out, struct series *series, const struct about *about)
{
    struct series_row row = {.series = ++out->count, .dev = about->dev, .pid = about->pid};
    char counter[256];
    int length =
        snprintf(counter, sizeof counter, "%s.%.*s", about->file, (int)span_length(about->field), about->field.at);
    const struct record_text texts[] = {
        {about->scope, strlen(about->scope)},
        {counter, length < (int)sizeof counter ? (size_t)length : sizeof counter - 1},
        {about->unit, strlen(about->unit)},
        text_of(about->instance),
    };

    series->number = row.series;
    out->failed |= record_add(out->record, &series_type, &row, texts) < 0;
}

static void write_last(struct output *out, struct series *series, const struct about *about)
{
    struct reading_row row = {.ts_ns = series->ts_ns, .value = series->value};

    if (!series->number)
        tell(out, series, about);
    row.series = series->number;
    series->written = true;
    out->failed |= record_add(out->record, &reading_type, &row, NULL) < 0;
}

void series_read(struct output *out, struct series *series, const struct about *about, int64_t ts_ns, int64_t value)
{
    bool differs = !series->known || series->value != value;

    if (differs && series->known && !series->written)
        write_last(out, series, about);
    if (!series->known && about->from_zero && value == 0)
        differs = false;
    *series = (struct series){series->number, true, false, ts_ns, value};
    if (differs)
        write_last(out, series, about);
}

void series_end(struct output *out, struct series *series, const struct about *about)
{
    if (series->known && !series->written && (series->number || series->value))
        write_last(out, series, about);
}

void tick_write(struct output *out, const struct tick *tick)
{
    out->failed |= record_add(out->record, &tick_type, tick, NULL) < 0;
}
