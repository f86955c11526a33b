/* Open descriptors of processes: the records for descriptors created before the trace began. */
#pragma once

#include "common/record.h"

extern const struct record_type descriptor_type;

/* Record every descriptor of every process in /proc except this one, and their working directories as descriptor -100.
 * Returns 0, or -1 if `out` cannot be written; record_close then prints the error. */
int descriptors_record(struct record *out);
