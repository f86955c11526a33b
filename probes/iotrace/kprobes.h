/* How a dynamic event is defined for the kernel. */
#ifndef ANDROSTEP_IOTRACE_KPROBES_H
#define ANDROSTEP_IOTRACE_KPROBES_H

#include <stdbool.h>

#define PROBE_GROUP "androstep"

/* Gives the kernel a command about its dynamic events; 0, or -1 with errno. */
int kprobe_command(int tracefs, const char *text);

/* Defines event `name` of a kind ("p", "r", "e", …) at a place, which fetches these arguments. Returns whether there is
 * such an event now. */
bool kprobe_define(int tracefs, const char *kind, const char *name, const char *place, const char *arguments);

/* Likewise at the entry of a function, whose arguments are $arg1 to $arg4. */
bool kprobe_define_entry(int tracefs, const char *name, const char *function, const char *arguments);

#endif
