/* The system calls that preset block+fs+syscalls records: what a replay of the I/O to files needs. */
#ifndef ANDROSTEP_IOTRACE_CALLS_H
#define ANDROSTEP_IOTRACE_CALLS_H

#include "common/json.h"
#include "iotrace/presets.h"

/* Adds the events of these calls to `selection`: a pair for each call or, in a kernel without CONFIG_FTRACE_SYSCALLS,
 * raw_syscalls for all of them. Calls of iotrace itself are left out. */
void calls_select(struct selection *selection, int tracefs);

/* What of a program's call an event tells; NO_CALL: it tells what devices, filesystems or threads do. */
enum call_part { NO_CALL, CALL_BEGINS, CALL_GOES_ON };
enum call_part event_call_part(const struct event *event);

/* Writes member `syscall_numbers`: what raw_syscalls' numbers mean; null where no such event is selected. */
void calls_json(struct json *json, const struct selection *selection);

#endif
