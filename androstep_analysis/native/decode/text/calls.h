// System calls as ftrace prints them.
#pragma once

#include "decode/text/lines.h"

// Whether an event of that name begins or ends a call, or tells of a task that one makes.
static inline bool is_of_call(struct text event)
{
    return (text_length(event) > 4 && text_starts(event, "sys_")) || text_is(event, "task_newtask");
}

// The event's part of a call, and nothing of its thread, in a new row of table call_events; false, and no row, where it
// has another form.
bool put_call(struct table *table, struct text event, struct text fields, size_t *row);
