/* What processes have open: the record that iotrace writes of descriptors whose making it did not see. */
#ifndef ANDROSTEP_IOTRACE_DESCRIPTORS_H
#define ANDROSTEP_IOTRACE_DESCRIPTORS_H

#include "common/record.h"

extern const struct record_type descriptor_type;

/* Records every descriptor of every process in /proc but of this one, and where each process is (its working directory,
 * as descriptor -100). Returns 0, or -1 when `out` cannot be written, of which record_close complains. */
int descriptors_record(struct record *out);

#endif
