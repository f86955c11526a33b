/* System calls recorded by preset block+fs+syscalls: those that a replay of file I/O needs. */
#pragma once

#include "common/json.h"
#include "iotrace/presets.h"

/* Add the events of these calls to `selection`: a pair for each call, or raw_syscalls for all of them if the kernel
 * lacks CONFIG_FTRACE_SYSCALLS. Calls of iotrace itself are excluded. */
void calls_select(struct selection *selection, int tracefs);

/* The part of a system call that an event records; NO_CALL: the event belongs to devices, filesystems or threads. */
enum call_part { NO_CALL, CALL_BEGINS, CALL_GOES_ON };
enum call_part event_call_part(const struct event *event);

/* Write member `syscall_numbers`: the calls by number in raw_syscalls; null if no such event is selected. */
void calls_json(struct json *json, const struct selection *selection);
