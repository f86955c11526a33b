// System calls as ftrace prints them.
#pragma once

#include "decode/text/lines.h"

// Checks for the begin or end of a call, or a new task.
static inline bool is_of_call(struct text event)
{
    return (text_length(event) > 4 && text_starts(event, "sys_")) || text_is(event, "task_newtask");
}

// Appends a row to table call_events, without the columns of the thread. Returns false, without a row, if the line has
// another form.
bool append_call(struct table *table, struct text event, struct text fields, size_t *row);
