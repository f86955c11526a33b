// Functions shared by the readers of blkparse's text formats.
#pragma once

#include "decode/text/lines.h"

// Actions by the one or two capital letters of blkparse; NO_CODE for none.
struct actions {
    uint8_t of[26 * 27];
};

void actions_clear(struct actions *actions);
void actions_add(struct actions *actions, const uint8_t *letters, size_t length, uint8_t action);
uint8_t action_of(const struct actions *actions, struct text letters);

// The fields of a line before its tail.
struct blk_event {
    uint64_t major, minor;
    int32_t cpu, tid;
    int64_t ts_ns;
    struct text letters, rwbs; // of the action and of the operation
};

// Reads the letters of the action ("m" for a message) and of the operation.
bool blkparse_letters(struct text *line, struct blk_event *event);

// Appends an event with the tail `text` to table block_events; false if the tail has no known form.
bool blkparse_block(struct reader *reader, const struct blk_event *event, uint8_t action, struct text text);

// Returns the time of an event. Events of other CPUs may precede the start of the trace. blkparse prints their negative
// times modulo 2^64 ns and truncates the seconds to 32 bits (blkparse_fmt.c: (int) SECONDS(t->time)).
int64_t blkparse_time(struct totals *totals, int64_t ns);

// Returns the same time, continued after a setback of the clock (`continued_time`).
int64_t blkparse_continued(struct reader *reader, uint64_t stream, int64_t ns, int64_t least_ns);

// Reads a line that is not an event: a line of the summary after the events, or one that cannot be parsed.
void blkparse_note(struct totals *totals, bool *is_summary, struct text line);
