// What texts that come from blkparse have in common.
#pragma once

#include "decode/text/lines.h"

// Actions by the one or two capital letters that blkparse prints for them; NO_CODE for none.
struct actions {
    uint8_t of[26 * 27];
};

void actions_clear(struct actions *actions);
void actions_add(struct actions *actions, const uint8_t *letters, size_t length, uint8_t action);
uint8_t action_of(const struct actions *actions, struct text letters);

// What a line tells before its tail.
struct blk_event {
    uint64_t major, minor;
    int32_t cpu, tid;
    int64_t ts_ns;
    struct text letters, rwbs; // of the action and of the operation
};

// Takes the letters of the action ("m" for a message) and of the operation.
bool blkparse_letters(struct text *line, struct blk_event *event);

// Puts an event, whose tail is `text`, into the table of block events; false where it has no known form.
bool blkparse_block(struct reader *reader, const struct blk_event *event, uint8_t action, struct text text);

// The time that was printed, ns: events of other CPUs may be from before the start of the trace. blkparse counts those
// modulo 2^64 ns and then cuts the seconds to 32 bits (blkparse_fmt.c: (int) SECONDS(t->time)).
int64_t blkparse_time(struct totals *totals, int64_t ns);

// A line that is no event: a line of the summary, which follows the events, or one that cannot be read.
void blkparse_note(struct totals *totals, bool *is_summary, struct text line);
