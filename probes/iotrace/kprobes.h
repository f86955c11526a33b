/* Definition of dynamic events in the kernel. */
#ifndef ANDROSTEP_IOTRACE_KPROBES_H
#define ANDROSTEP_IOTRACE_KPROBES_H

#include <stdbool.h>

#define PROBE_GROUP "androstep"

/* Write a command to the kernel's dynamic events. Returns 0, or -1 with errno set. */
int kprobe_command(int tracefs, const char *text);

/* Define event `name` of a kind ("p", "r", "e", …) at a place, with these fetch arguments. Returns whether the event
 * exists now. */
bool kprobe_define(int tracefs, const char *kind, const char *name, const char *place, const char *arguments);

/* Define an event at the entry of a function, with its arguments as $arg1 to $arg4. */
bool kprobe_define_entry(int tracefs, const char *name, const char *function, const char *arguments);

#endif
