#define _GNU_SOURCE
#include "iotrace/kprobes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"

/* Registers of the arguments, for kernels without $arg1 (before 4.20). */
#if defined(__x86_64__)
static const char *const registers[] = {"%di", "%si", "%dx", "%cx"};
#elif defined(__aarch64__)
static const char *const registers[] = {"%x0", "%x1", "%x2", "%x3"};
#else
static const char *const registers[] = {"%r0", "%r1", "%r2", "%r3"};
#endif

/* dynamic_events (since 5.0) accepts all kinds, kprobe_events only kprobes. */
int kprobe_command(int tracefs, const char *text)
{
    const char *file = faccessat(tracefs, "dynamic_events", W_OK, 0) == 0 ? "dynamic_events" : "kprobe_events";
    return file_command(tracefs, file, text, O_APPEND);
}

/* Replace each "$argN" in `arguments` by the register that holds it at the entry of the function. */
static char *with_registers(const char *arguments)
{
    char *text = format("%s", "");
    while (*arguments) {
        char *longer;
        if (strncmp(arguments, "$arg", 4) == 0 && arguments[4] >= '1' && arguments[4] <= '4') {
            longer = format("%s%s", text, registers[arguments[4] - '1']);
            arguments += 5;
        } else {
            longer = format("%s%c", text, *arguments++);
        }
        free(text);
        text = longer;
    }
    return text;
}

bool kprobe_define(int tracefs, const char *kind, const char *name, const char *place, const char *arguments)
{
    char *text = format("%s:" PROBE_GROUP "/%s %s %s", kind, name, place, arguments);
    bool defined = kprobe_command(tracefs, text) == 0 || errno == EEXIST;
    free(text);
    return defined;
}

bool kprobe_define_entry(int tracefs, const char *name, const char *function, const char *arguments)
{
    if (kprobe_define(tracefs, "p", name, function, arguments))
        return true;
    char *older = with_registers(arguments);
    bool defined = kprobe_define(tracefs, "p", name, function, older);
    free(older);
    return defined;
}
