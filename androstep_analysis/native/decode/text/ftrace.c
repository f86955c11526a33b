// Reads lines as ftrace prints them (kernel: kernel/trace/trace_output.c, trace_print_context).
#include "decode/text/blkparse.h"
#include "decode/text/calls.h"
#include "decode/text/forms.h"
#include "decode/text/scsi.h"
#include "syscalls/call_events.h"

#include <stddef.h>
#include <stdlib.h>

enum { MAX_EVENTS = 256, MAX_FORMS = 8 };

enum fs_column { FS_TS_NS, FS_TID, FS_PID, FS_COMM, FS_EVENT }; // table importance begins with the same columns
enum command_column {
    COMMAND_TS_NS,
    COMMAND_CPU,
    COMMAND_TID,
    COMMAND_PID,
    COMMAND_COMM,
    COMMAND_EVENT,
    COMMAND_STEP,
    COMMAND_DEVICE,
    COMMAND_TAG,
    COMMAND_OPCODE,
    COMMAND_LBA,
    COMMAND_NR_BLOCKS,
    COMMAND_NR_BYTES,
    COMMAND_RESULT,
};

enum sort { SORT_OTHER, SORT_BLOCK, SORT_FS, SORT_COMMAND, SORT_SCSI, SORT_IMPORTANCE, SORT_COUNTERS };

enum block_flags {
    BLOCK_ENDS_IN_ERROR = 1, // the line ends in [error] instead of [comm]
    BLOCK_HAS_RESULT = 2,    // and the error is the result of a completion
    BLOCK_IS_PLUG = 4,       // has no device
};

// Decoding of the events of one name.
struct event {
    uint8_t sort;
    uint8_t code;  // the action, or the code of the event in its table
    uint8_t flags; // of a block event; the step of a SCSI event
    uint8_t nr_forms;
    uint8_t error_column;
    struct form forms[MAX_FORMS];
};

// Totals of lines that are not events, until it is decided whether they count.
struct notes {
    uint64_t lost, gaps, buffered, written;
    struct refused refused;
};

struct ftrace_text {
    struct reader reader;
    struct event events[MAX_EVENTS]; // by index of the name
    size_t nr_events;
    struct actions actions; // of the tracer "blk", by its letters
    bool has_fences;        // a Markdown file: only code blocks with events count
    bool is_inside;
    bool has_event; // in this code block
    struct notes notes;
    struct matched matched;
};

struct head {
    struct text comm; // empty if not printed
    int32_t tid;
    int32_t pid;
    int32_t cpu;
    int64_t ts_ns;
    struct text event;
};

static void read_line(struct reader *reader, struct text line);

API struct ftrace_text *ftrace_text_new(struct strings *names, bool has_fences)
{
    struct ftrace_text *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return NULL;
    trace->has_fences = has_fences;
    actions_clear(&trace->actions);
    if (reader_start(&trace->reader, read_line, names))
        return trace;
    reader_end(&trace->reader);
    free(trace);
    return NULL;
}

API void ftrace_text_free(struct ftrace_text *trace)
{
    reader_end(&trace->reader);
    free(trace);
}

// Registers an event, before the first line. Returns its index; MAX_EVENTS at the limit.
API size_t ftrace_text_event(struct ftrace_text *trace, const uint8_t *name, size_t length, uint8_t sort, uint8_t code,
                             uint8_t flags, uint8_t error_column)
{
    size_t index = strings_add(trace->reader.names, name, length);

    if (index >= MAX_EVENTS)
        return MAX_EVENTS;
    trace->events[index] = (struct event){.sort = sort, .code = code, .flags = flags, .error_column = error_column};
    if (index >= trace->nr_events)
        trace->nr_events = index + 1;
    return index;
}

// Registers an action of the tracer "blk" by its letters, before the first line.
API void ftrace_text_action(struct ftrace_text *trace, const uint8_t *letters, size_t length, uint8_t action)
{
    actions_add(&trace->actions, letters, length, action);
}

// Adds a form to an event. The caller keeps the steps alive.
API bool ftrace_text_form(struct ftrace_text *trace, size_t index, const struct step *steps, size_t nr_steps)
{
    struct event *event;
    struct form *form;

    if (index >= trace->nr_events || trace->events[index].nr_forms == MAX_FORMS || nr_steps > MAX_STEPS)
        return false;
    event = &trace->events[index];
    form = &event->forms[event->nr_forms++];
    *form = (struct form){steps, nr_steps, 0};
    for (size_t step = 0; step < nr_steps; step++)
        form->nr_choices += steps[step].kind == STEP_ANY || steps[step].kind == STEP_WORDS_END ||
                            steps[step].kind == STEP_TEXT || steps[step].kind == STEP_QUOTED;
    return form->nr_choices <= MAX_CHOICES;
}

static bool take_process(struct text *text, int32_t *pid)
{
    const uint8_t *start;
    uint64_t number;

    *pid = NO_INT32;
    if (!take_byte(text, '('))
        return true;
    take_spaces(text);
    start = text->at;
    if (take_number(text, &number))
        *pid = int32_of(number);
    else
        while (take_byte(text, '-'))
            ;
    return text->at != start && take_byte(text, ')') && take_spaces(text);
}

// Reads optional flags of four to seven letters, and the time. Seven are those of PREEMPT_RT before Linux 6.13.
static bool take_flags_and_time(struct text *text, int64_t *ts_ns)
{
    struct text at = *text;

    while (at.at < at.end && *at.at != ' ' && at.at - text->at <= 7)
        at.at++;
    if (at.at - text->at >= 4 && at.at - text->at <= 7 && take_spaces(&at) && take_time(&at, 6, 9, ts_ns)) {
        *text = at;
        return true;
    }
    return take_time(text, 6, 9, ts_ns);
}

// Skips the time since the event before, as `trace-cmd report --ts-diff` prints it: "(+12) ".
static void skip_difference(struct text *text)
{
    struct text at = *text;
    uint64_t number;

    if (take_word(&at, "(+") && take_number(&at, &number) && take_byte(&at, ')') && take_spaces(&at))
        *text = at;
}

// Reads the fields after the name of the thread: ids, CPU, flags, time and the name of the event.
static bool take_context(struct text *text, struct head *head)
{
    const uint8_t *start;
    uint64_t number;

    if (!take_number(text, &number) || !take_spaces(text))
        return false;
    head->tid = int32_of(number);
    if (!take_process(text, &head->pid) || !take_byte(text, '['))
        return false;
    start = text->at;
    if (!take_number(text, &number) || text->at - start < 3 || !take_byte(text, ']') || !take_spaces(text))
        return false;
    head->cpu = int32_of(number);
    if (!take_flags_and_time(text, &head->ts_ns) || !take_byte(text, ':') || !take_spaces(text))
        return false;
    skip_difference(text);
    start = text->at;
    while (text->at < text->end && *text->at != ' ' && *text->at != ':' && *text->at != '(')
        text->at++;
    head->event = (struct text){start, text->at};
    return text->at != start;
}

// Checks for the marks of a quotation, as in a mail, or for the name of a file or the number of a line that grep
// prints.
static bool is_prefix(struct text text)
{
    text = text_trimmed(text);
    if (text_length(text) && (text.end[-1] == ':' || text.end[-1] == '-'))
        return !memchr(text.at, ' ', text_length(text));
    for (; text.at < text.end; text.at++)
        if (!memchr("> |/*#;\t", *text.at, 8))
            return false;
    return true;
}

// Returns the name of a thread without a prefix of the line. The name has at most 15 bytes and is right-aligned in 16
// columns. Longer names, as in converted traces, remain as they are.
static struct text unquoted(struct text name)
{
    struct text padded = {name.end - 16, name.end};

    if (text_length(name) <= 16 || *padded.at != ' ' || !is_prefix((struct text){name.at, padded.at}))
        return name;
    take_spaces(&padded);
    return text_length(padded) ? padded : name;
}

// Reads the part of a line before the fields. The name of the thread may contain any character, but it is too short to
// contain the fields after it. So the first match is the right one.
static bool take_head(struct text *line, struct head *head)
{
    const uint8_t *dash;

    take_spaces(line);
    for (dash = line->at; (dash = memchr(dash, '-', (size_t)(line->end - dash))); dash++) {
        struct text rest = {dash + 1, line->end};

        if (!at_digit(&rest) || !take_context(&rest, head))
            continue;
        head->comm = unquoted((struct text){line->at, dash});
        if (text_is(head->comm, "<...>"))
            head->comm = (struct text){NULL, NULL};
        *line = rest;
        return true;
    }
    return false;
}

// Reads "[cpu]", time, an optional period, and "system:event" in a line of `perf script`. Events other than tracepoints
// have no system, and may have no CPU.
static bool take_perf_event(struct text *text, struct head *head)
{
    const uint8_t *start, *colon;
    uint64_t number;

    head->cpu = NO_INT32;
    if (take_byte(text, '[')) {
        start = text->at;
        if (!take_number(text, &number) || text->at - start < 3 || !take_byte(text, ']') || !take_spaces(text))
            return false;
        head->cpu = int32_of(number);
    }
    if (!take_time(text, 6, 9, &head->ts_ns) || !take_byte(text, ':') || !take_spaces(text))
        return false;
    if (take_number(text, &number) && !take_spaces(text))
        return false;
    start = text->at;
    while (text->at < text->end && *text->at != ' ')
        text->at++;
    if (text->at - start < 2 || text->at[-1] != ':')
        return false;
    text->at--; // the fields follow the colon, as in the lines of ftrace
    colon = memchr(start, ':', (size_t)(text->at - start));
    head->event = (struct text){colon ? colon + 1 : start, text->at};
    return text_length(head->event);
}

// Reads the fields after the name of the thread in a line of `perf script`: "tid" or "pid/tid", and the event.
static bool take_perf_context(struct text *text, struct head *head)
{
    uint64_t number, second;

    if (!take_number(text, &number))
        return false;
    second = number;
    head->pid = NO_INT32;
    if (take_byte(text, '/')) {
        if (!take_number(text, &second))
            return false;
        head->pid = int32_of(number);
    }
    head->tid = int32_of(second);
    return take_spaces(text) && take_perf_event(text, head);
}

// Reads the part before the fields in a line of `perf script`. The name of the thread may contain spaces. With
// `-F tid,time,event,trace` there is no name, with `-F time,event,trace` there is no thread.
static bool take_perf_head(struct text *line, struct head *head)
{
    const uint8_t *space;
    struct text unnamed;

    take_spaces(line);
    for (space = line->at; (space = memchr(space, ' ', (size_t)(line->end - space)));) {
        struct text rest = {space, line->end};

        take_spaces(&rest);
        head->comm = unquoted((struct text){line->at, space});
        space = rest.at;
        if (!at_digit(&rest) || !take_perf_context(&rest, head))
            continue;
        *line = rest;
        return true;
    }
    unnamed = *line;
    *head = (struct head){.tid = NO_INT32, .pid = NO_INT32};
    if (!take_perf_context(&unnamed, head)) {
        unnamed = *line;
        *head = (struct head){.tid = NO_INT32, .pid = NO_INT32};
        if (!take_perf_event(&unnamed, head))
            return false;
    }
    *line = unnamed;
    return head->event.at[-1] == ':'; // with the system in front
}

// A priority as a number (include/uapi/linux/ioprio.h).
#define PRIORITY_CLASS_SHIFT 13
#define PRIORITY_HINT_SHIFT  3
#define MAX_HINT             1024
#define MAX_LEVEL            8
#define MAX_PRIORITY         0xffff

// Fields of a block event.
struct block_fields {
    bool has_device, has_name, is_remap, is_cut;
    uint64_t major, minor, sector, length, old_major, old_minor, old_sector;
    struct text rwbs, name;
    uint64_t priority; // UINT64_MAX: unknown
};

static bool is_hex_or_space(uint8_t byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F') || byte == ' ';
}

// Skips the command of a passthrough request, in brackets.
static bool take_command(struct text *text)
{
    if (!take_byte(text, '('))
        return false;
    while (text->at < text->end && is_hex_or_space(*text->at))
        text->at++;
    return take_byte(text, ')') && take_byte(text, ' ');
}

// Returns the number of a class of I/O priority, or UINT64_MAX. trace-cmd prints the number itself.
static uint64_t class_of(struct text name)
{
    static const char *const classes[] = {"none", "rt", "be", "idle"};

    if (text_length(name) == 3 && name.at[0] == '0' && name.at[1] == 'x' && name.at[2] >= '0' && name.at[2] <= '7')
        return name.at[2] - '0';
    for (uint64_t number = 0; number < 4; number++)
        if (text_is(name, classes[number]))
            return number;
    return UINT64_MAX;
}

// Takes the I/O priority (Linux 6.5), a class, a hint and a level. Returns it as a number, or UINT64_MAX.
static uint64_t take_priority(struct text *text)
{
    struct text at = *text, name;
    uint64_t class, hint, level;

    if (!take_byte(&at, ' '))
        return UINT64_MAX;
    name = at;
    while (at.at < at.end && *at.at != ',' && *at.at != ' ' && *at.at != '[')
        at.at++;
    name.end = at.at;
    if (!text_length(name) || !take_byte(&at, ',') || !take_number(&at, &hint) || !take_byte(&at, ',') ||
        !take_number(&at, &level))
        return UINT64_MAX;
    text->at = at.at;
    class = class_of(name);
    if (class == UINT64_MAX || hint >= MAX_HINT || level >= MAX_LEVEL)
        return UINT64_MAX;
    return class << PRIORITY_CLASS_SHIFT | hint << PRIORITY_HINT_SHIFT | level;
}

static bool take_extent(struct text *text, struct block_fields *fields)
{
    const uint8_t *start;
    struct text at;

    if (!take_number(text, &fields->major) || !take_byte(text, ',') || !take_number(text, &fields->minor) ||
        !take_byte(text, ' '))
        return false;
    start = text->at;
    while (text->at < text->end && *text->at != ' ')
        text->at++;
    fields->rwbs = (struct text){start, text->at};
    if (!take_byte(text, ' '))
        return false;
    at = *text;
    if (take_number(&at, &fields->length) && take_byte(&at, ' ') && at_byte(&at, '('))
        *text = at;
    if (at_byte(text, '(') && !take_command(text))
        return false;
    if (!take_number(text, &fields->sector) || !take_byte(text, ' '))
        return false;
    fields->is_cut = at_byte(text, '/');
    if (!(take_byte(text, '+') || take_byte(text, '/')) || !take_byte(text, ' '))
        return false;
    fields->has_device = true;
    if (!take_number(text, &fields->length))
        return false;
    fields->priority = take_priority(text);
    return true;
}

static bool take_origin(struct text *text, struct block_fields *fields)
{
    fields->is_remap = take_word(text, "<- (");
    if (!fields->is_remap || !take_number(text, &fields->old_major) || !take_byte(text, ',') ||
        !take_number(text, &fields->old_minor) || !take_word(text, ") ") || !take_number(text, &fields->old_sector))
        return false;
    if (text_length(*text) > 1 && text->at[0] == ' ' && is_digit(text->at[1])) {
        text->at++;
        while (at_digit(text))
            text->at++;
    }
    return text->at == text->end;
}

// Strips trailing blanks or an escaped newline.
static void trim(struct text *text)
{
    if (text_ends(*text, "\\n\\")) {
        text->end -= 3;
        return;
    }
    while (text->end > text->at && (text->end[-1] == ' ' || text->end[-1] == '\t'))
        text->end--;
}

static bool is_word_byte(uint8_t byte)
{
    return byte == '_' || is_digit(byte) || (byte >= 'a' && byte <= 'z');
}

// Reads "name=value " in front of the next name or at the end of the line. A value may contain spaces.
static bool take_raw_field(struct text *text, struct text *name, struct text *value)
{
    const uint8_t *at = text->at, *word;

    while (at < text->end && is_word_byte(*at))
        at++;
    *name = (struct text){text->at, at};
    if (at == text->at || at == text->end || *at != '=')
        return false;
    value->at = at + 1;
    for (word = at + 1; at < text->end; at++) {
        if (*at == ' ')
            word = at + 1;
        else if (*at == '=' && at > word && word > value->at)
            break;
        else if (!is_word_byte(*at))
            word = text->end;
    }
    value->end = at == text->end ? at : word - 1;
    text->at = at == text->end ? at : word;
    if (text_length(*value) >= 2 && *value->at == '"' && value->end[-1] == '"')
        *value = (struct text){value->at + 1, value->end - 1};
    return true;
}

static bool raw_number(struct text value, uint64_t *number)
{
    uint64_t digit;

    if (!take_word(&value, "0x"))
        return take_number(&value, number) && value.at == value.end;
    if (value.at == value.end || text_length(value) > 16)
        return false;
    for (*number = 0; value.at < value.end; value.at++) {
        digit = is_digit(*value.at) ? (uint64_t)(*value.at - '0') : (uint64_t)(*value.at - 'a' + 10);
        if (digit > 15)
            return false;
        *number = *number << 4 | digit;
    }
    return true;
}

// Reads the fields of a block event as `trace-cmd report -R` prints them: by their names in the kernel, and devices as
// numbers.
static bool take_raw_fields(struct text text, struct block_fields *fields)
{
    static const struct {
        const char *name;
        size_t field;
    } numbers[] = {
        {"dev", offsetof(struct block_fields, major)},        {"old_dev", offsetof(struct block_fields, old_major)},
        {"sector", offsetof(struct block_fields, sector)},    {"old_sector", offsetof(struct block_fields, old_sector)},
        {"nr_sector", offsetof(struct block_fields, length)}, {"new_sector", offsetof(struct block_fields, length)},
        {"ioprio", offsetof(struct block_fields, priority)},
    };
    struct text name, value;
    bool is_ended = false; // with a result

    while (take_raw_field(&text, &name, &value)) {
        for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
            if (text_is(name, numbers[i].name) &&
                !raw_number(value, (uint64_t *)(void *)((uint8_t *)fields + numbers[i].field)))
                return false;
        fields->has_device |= text_is(name, "dev");
        fields->is_remap |= text_is(name, "old_dev");
        fields->is_cut |= text_is(name, "new_sector");
        if (text_is(name, "rwbs"))
            fields->rwbs = value;
        if (text_is(name, "error") || (text_is(name, "comm") && !is_ended))
            fields->name = value;
        is_ended |= text_is(name, "error");
        fields->has_name |= text_is(name, "error") || text_is(name, "comm");
    }
    fields->minor = fields->major & 0xfffff;
    fields->major >>= 20;
    fields->old_minor = fields->old_major & 0xfffff;
    fields->old_major >>= 20;
    return text.at == text.end && (fields->has_device || fields->has_name);
}

// Reads the fields of a block event (include/trace/events/block.h, Linux 3.4 to 6.18).
static bool take_block_fields(struct text text, struct block_fields *fields)
{
    take_byte(&text, ':');
    take_spaces(&text);
    trim(&text);
    if (text.at < text.end && is_word_byte(*text.at) && !is_digit(*text.at))
        return take_raw_fields(text, fields);
    if (at_digit(&text) && !take_extent(&text, fields))
        return false;
    take_byte(&text, ' ');
    if (at_byte(&text, '<'))
        return take_origin(&text, fields) && (fields->has_device || !fields->is_remap);
    fields->has_name = take_bracketed(&text, &fields->name);
    return fields->has_name;
}

// Appends a block event; false if its fields have no known form.
static bool read_block(struct reader *reader, const struct event *event, const struct head *head, struct text text)
{
    struct table *table = reader->tables.block;
    struct block_fields fields = {.priority = UINT64_MAX};
    struct text comm = head->comm;
    int64_t sector, length;
    size_t row;

    if (!take_block_fields(text, &fields))
        return false;
    if (fields.has_device ? !is_device(fields.major, fields.minor) : !(event->flags & BLOCK_IS_PLUG))
        return false;
    if (fields.is_remap && !is_device(fields.old_major, fields.old_minor))
        return false;
    row = table_row(table);
    put_int64(table, BLOCK_TS_NS, row, head->ts_ns);
    put_int32(table, BLOCK_CPU, row, head->cpu);
    put_int32(table, BLOCK_TID, row, head->tid);
    put_int32(table, BLOCK_PID, row, head->pid);
    put_cached(reader, BLOCK_EVENT, row, head->event);
    put_code(table, BLOCK_ACTION, row, event->code);
    if (event->flags & BLOCK_ENDS_IN_ERROR) {
        struct text name = fields.name;
        int64_t error;

        // Before Linux 4.12 the error may be a positive status of the driver, which has no meaning here.
        if (event->flags & BLOCK_HAS_RESULT && fields.has_name && take_signed(&name, &error) && name.at == name.end &&
            error <= 0 && error >= INT32_MIN)
            put_int32(table, BLOCK_ERROR, row, (int32_t)error);
    } else if (fields.has_name) {
        comm = fields.name; // the name at the event; the one at the start of the line may be newer
    }
    if (comm.at)
        put_cached(reader, BLOCK_COMM, row, comm);
    // Both are names of the current thread. The one at the start of the line is not always saved.
    if (!head->comm.at && text_length(comm) && !text_is(comm, "<...>"))
        see_thread(reader, head->ts_ns, head->tid, head->pid, comm);
    if (!fields.has_device)
        return true;
    sector = int64_of(fields.sector); // all ones, the sector of an empty flush, is null
    length = int64_of(fields.length);
    put_uint32(table, BLOCK_DEV, row, device_of(fields.major, fields.minor));
    put_int64(table, BLOCK_SECTOR, row, sector);
    // A split prints the sector of the second part. The length is that of the first part.
    if (!fields.is_cut)
        put_int64(table, BLOCK_NR_SECTORS, row, length);
    else if (sector != NO_INT64 && length != NO_INT64 && length >= sector)
        put_int64(table, BLOCK_NR_SECTORS, row, length - sector);
    put_cached(reader, BLOCK_RWBS, row, fields.rwbs);
    if (fields.priority <= MAX_PRIORITY)
        put_int32(table, BLOCK_IOPRIO, row, (int32_t)fields.priority);
    if (fields.is_remap) {
        put_uint32(table, BLOCK_OLD_DEV, row, device_of(fields.old_major, fields.old_minor));
        put_int64(table, BLOCK_OLD_SECTOR, row, int64_of(fields.old_sector));
    }
    return true;
}

// Combines values that the MMC driver prints separately: the number and size of the blocks, and the errors of the
// command, of the stop command and of the data.
static void finish_command(struct table *table, size_t row, const struct form *form, const struct matched *matched)
{
    int64_t blocks = ((int64_t *)table->values[COMMAND_NR_BLOCKS])[row];
    int64_t *bytes = (int64_t *)table->values[COMMAND_NR_BYTES] + row;
    int64_t errors[3] = {0};
    size_t nr_errors = 0;

    for (size_t step = 0; step < form->nr_steps && nr_errors < 3; step++)
        if (form->steps[step].column == COMMAND_RESULT)
            memcpy(&errors[nr_errors++], &matched->numbers[step], sizeof(*errors));
    if (nr_errors == 3)
        put_int32(table, COMMAND_RESULT, row,
                  int32_of_signed(errors[0]   ? errors[0]
                                  : errors[2] ? errors[2]
                                              : errors[1]));
    if (blocks == NO_INT64) {
        if (*bytes == NO_INT64) // UFS: the driver reads neither location nor size of most commands, and prints 0 and -1
            put_int64(table, COMMAND_LBA, row, NO_INT64);
        return;
    }
    if (blocks == 0)
        put_int64(table, COMMAND_LBA, row, NO_INT64);
    if (blocks <= UINT32_MAX && *bytes != NO_INT64 && *bytes <= UINT32_MAX / 2)
        *bytes *= blocks;
    else
        *bytes = NO_INT64;
}

// Appends an event by the first of its forms that matches; false if none does.
static bool read_form(struct ftrace_text *trace, const struct event *event, const struct head *head, struct text text)
{
    struct tables *tables = &trace->reader.tables;
    bool is_fs = event->sort != SORT_COMMAND;
    struct table *table = event->sort == SORT_FS        ? tables->fs
                          : event->sort == SORT_COMMAND ? tables->commands
                                                        : tables->importance;
    size_t row = table->rows;

    if (!take_byte(&text, ':'))
        return false;
    take_spaces(&text);
    for (size_t i = 0; i < event->nr_forms; i++) {
        if (!form_matches(&event->forms[i], text, &trace->matched))
            continue;
        if (!form_put(&event->forms[i], &trace->matched, table, row, event->error_column))
            return false;
        table_row(table);
        put_int64(table, is_fs ? FS_TS_NS : COMMAND_TS_NS, row, head->ts_ns);
        put_int32(table, is_fs ? FS_TID : COMMAND_TID, row, head->tid);
        put_int32(table, is_fs ? FS_PID : COMMAND_PID, row, head->pid);
        if (head->comm.at)
            put_text(table, is_fs ? FS_COMM : COMMAND_COMM, row, head->comm);
        put_code(table, is_fs ? FS_EVENT : COMMAND_EVENT, row, event->code);
        if (!is_fs) {
            put_int32(table, COMMAND_CPU, row, head->cpu);
            finish_command(table, row, &event->forms[i], &trace->matched);
        }
        return true;
    }
    return false;
}

// Appends the counters of an event that the form matched; false if the device does not fit.
static bool put_counters(struct table *table, int64_t ts_ns, const struct form *form, const struct matched *matched)
{
    uint64_t dev = 0;

    for (size_t i = 0; i < form->nr_steps; i++) {
        const struct step *step = &form->steps[i];
        const uint8_t *space;
        size_t row;

        if (step->kind == STEP_DEVICE)
            dev = matched->numbers[i];
        if (dev > UINT32_MAX)
            return false;
        if (step->kind != STEP_NUMBER || matched->numbers[i] > INT64_MAX)
            continue;
        space = memchr(step->literal, ' ', step->length);
        row = table_row(table);
        put_int64(table, SAMPLE_TS_NS, row, ts_ns);
        put_code(table, SAMPLE_SCOPE, row, SCOPE_DEVICE);
        put_uint32(table, SAMPLE_DEV, row, (uint32_t)dev);
        put_text(table, SAMPLE_COUNTER, row, (struct text){step->literal, space});
        put_int64(table, SAMPLE_VALUE, row, (int64_t)matched->numbers[i]);
        put_text(table, SAMPLE_UNIT, row, (struct text){space + 1, step->literal + step->length});
    }
    return true;
}

// Appends the counters of an event; false if it has another form.
static bool read_counters(struct ftrace_text *trace, const struct event *event, int64_t ts_ns, struct text text)
{
    if (!take_byte(&text, ':'))
        return false;
    take_spaces(&text);
    for (size_t i = 0; i < event->nr_forms; i++)
        if (form_matches(&event->forms[i], text, &trace->matched))
            return put_counters(trace->reader.tables.samples, ts_ns, &event->forms[i], &trace->matched);
    return false;
}

// Appends a command of the SCSI midlayer; false if it has another form.
static bool read_scsi(struct table *table, const struct event *event, const struct head *head, struct text text)
{
    struct scsi_command command;
    size_t row;

    if (!take_byte(&text, ':'))
        return false;
    take_spaces(&text);
    if (!take_scsi_command(text, &command))
        return false;
    row = table_row(table);
    put_int64(table, COMMAND_TS_NS, row, head->ts_ns);
    put_int32(table, COMMAND_CPU, row, head->cpu);
    put_int32(table, COMMAND_TID, row, head->tid);
    put_int32(table, COMMAND_PID, row, head->pid);
    if (head->comm.at)
        put_text(table, COMMAND_COMM, row, head->comm);
    put_code(table, COMMAND_EVENT, row, event->code);
    put_code(table, COMMAND_STEP, row, event->flags);
    put_string(table, COMMAND_DEVICE, row, (const uint8_t *)command.device, strlen(command.device));
    put_int32(table, COMMAND_TAG, row, command.tag);
    put_int32(table, COMMAND_OPCODE, row, command.opcode);
    put_int64(table, COMMAND_LBA, row, command.lba);
    put_int64(table, COMMAND_NR_BLOCKS, row, command.nr_blocks);
    put_int32(table, COMMAND_RESULT, row, command.result);
    return true;
}

// Appends the begin or end of a system call; false if it has another form.
static bool read_call(struct table *table, const struct head *head, struct text fields)
{
    size_t row;

    if (!append_call(table, head->event, fields, &row))
        return false;
    put_int64(table, CALL_EVENT_TS_NS, row, head->ts_ns);
    put_int32(table, CALL_EVENT_TID, row, head->tid);
    put_int32(table, CALL_EVENT_PID, row, head->pid);
    if (head->comm.at)
        put_text(table, CALL_EVENT_COMM, row, head->comm);
    return true;
}

// Reads CLOCK_REALTIME minus the trace clock from atrace's first clock mark, in milliseconds.
static void read_clock_mark(struct totals *totals, const struct head *head, struct text text)
{
    uint64_t milliseconds;
    const uint8_t *start;

    if (!take_byte(&text, ':'))
        return;
    take_spaces(&text);
    take_word(&text, "tracing_mark_write: "); // trace-cmd prints it as the text of a print event
    if (!take_word(&text, "trace_event_clock_sync: realtime_ts="))
        return;
    start = text.at;
    if (take_number(&text, &milliseconds) && text.at - start <= 13)
        totals->realtime_offset_ns = (int64_t)milliseconds * 1000000 - head->ts_ns;
}

static void read_event(struct ftrace_text *trace, struct text line, const struct head *head, struct text fields)
{
    struct reader *reader = &trace->reader;
    uint32_t index = count_event(reader, head->ts_ns, head->event);
    const struct event *event;

    if (index == MAX_NAMES) {
        refuse(&reader->totals.refused[REFUSED_LINE], line);
        return;
    }
    see_thread(reader, head->ts_ns, head->tid, head->pid, head->comm);
    if (is_of_call(head->event) && reader->tables.calls && !read_call(reader->tables.calls, head, fields)) {
        refuse(&reader->totals.refused[REFUSED_CALL], line);
        return;
    }
    if (index >= trace->nr_events || trace->events[index].sort == SORT_OTHER) {
        if (reader->totals.realtime_offset_ns == NO_INT64)
            read_clock_mark(&reader->totals, head, fields);
        return;
    }
    event = &trace->events[index];
    if (event->sort == SORT_BLOCK) {
        if (!read_block(reader, event, head, fields))
            refuse(&reader->totals.refused[REFUSED_BLOCK], line);
    } else if (event->sort == SORT_SCSI) {
        if (!read_scsi(reader->tables.commands, event, head, fields))
            refuse(&reader->totals.refused[REFUSED_COMMAND], line);
    } else if (event->sort == SORT_COUNTERS) {
        if (!read_counters(trace, event, head->ts_ns, fields))
            refuse(&reader->totals.refused[REFUSED_COUNTERS], line);
    } else if (!read_form(trace, event, head, fields)) {
        refuse(&reader->totals.refused[event->sort == SORT_FS        ? REFUSED_FS
                                       : event->sort == SORT_COMMAND ? REFUSED_COMMAND
                                                                     : REFUSED_IMPORTANCE],
               line);
    }
}

// Checks for the tracer "blk", which prints a device instead of the name of an event (kernel/trace/blktrace.c,
// blk_log_action).
static bool is_of_blk_tracer(struct text name, struct blk_event *event)
{
    return take_number(&name, &event->major) && take_byte(&name, ',') && take_number(&name, &event->minor) &&
           name.at == name.end;
}

// Skips the "inode,generation" of the cgroup, which option blk_cgroup prints after the device, in hexadecimal digits.
static void skip_cgroup(struct text *text)
{
    struct text at = *text;

    while (at.at < at.end && *at.at != ' ')
        at.at++;
    if (memchr(text->at, ',', (size_t)(at.at - text->at)) && take_spaces(&at))
        *text = at;
}

static void read_blk_tracer(struct ftrace_text *trace, struct text line, const struct head *head,
                            struct blk_event *event, struct text text)
{
    struct reader *reader = &trace->reader;

    event->cpu = head->cpu;
    event->tid = head->tid;
    event->ts_ns = head->ts_ns;
    trim(&text);
    if (!take_spaces(&text)) {
        refuse(&reader->totals.refused[REFUSED_LINE], line);
        return;
    }
    skip_cgroup(&text);
    if (!blkparse_letters(&text, event) || count_event(reader, head->ts_ns, event->letters) == MAX_NAMES) {
        refuse(&reader->totals.refused[REFUSED_LINE], line);
        return;
    }
    see_thread(reader, head->ts_ns, head->tid, head->pid, head->comm);
    if (*event->letters.at != 'm' && !blkparse_block(reader, event, action_of(&trace->actions, event->letters), text))
        refuse(&reader->totals.refused[REFUSED_BLOCK], line);
}

static bool is_blank(struct text text)
{
    while (text.at < text.end && (*text.at == ' ' || (*text.at >= '\t' && *text.at <= '\r')))
        text.at++;
    return text.at == text.end;
}

// Reads "CPU:1 [LOST 12 EVENTS]", the kernel's and trace-cmd's report of a gap.
static void read_gap(struct notes *notes, struct text line)
{
    uint64_t count = 1;
    const uint8_t *start;

    if (!take_word(&line, "CPU:") || !take_number(&line, &count) || !take_word(&line, " ["))
        return;
    take_word(&line, "LOST ");
    start = line.at;
    count = 1;
    if (take_number(&line, &count)) {
        if (line.at - start > 18 || !take_byte(&line, ' '))
            return;
    } else {
        count = 1;
    }
    if (!take_word(&line, "EVENTS"))
        return;
    take_word(&line, " DROPPED");
    if (take_byte(&line, ']')) {
        notes->lost += count;
        notes->gaps++;
    }
}

static void read_header(struct notes *notes, struct text line)
{
    const uint8_t *start;
    uint64_t buffered, written;

    if (!take_word(&line, "# entries-in-buffer/entries-written: "))
        return;
    start = line.at;
    if (!take_number(&line, &buffered) || line.at - start > 18 || !take_byte(&line, '/'))
        return;
    start = line.at;
    if (take_number(&line, &written) && line.at - start <= 18) {
        notes->buffered += buffered;
        notes->written += written;
    }
}

// Checks for a function of a call chain in `perf script`: an address of at least 8 digits, and a name.
static bool is_call_chain(struct text line)
{
    const uint8_t *start;

    while (at_byte(&line, ' ') || at_byte(&line, '\t'))
        line.at++;
    start = line.at;
    while (line.at < line.end && *line.at != ' ' && is_hex_or_space(*line.at))
        line.at++;
    return line.at - start >= 8 && at_byte(&line, ' ');
}

// Reads a line that is not an event: a comment, a note of the recorder, or an unreadable line.
static void read_note(struct notes *notes, struct text line)
{
    struct text at = line;
    uint64_t number;

    while (at.at < at.end && memchr("> |\t", *at.at, 4)) // indentation and marks of quotation
        at.at++;
    if (at_byte(&at, '#')) {
        read_header(notes, at);
        return;
    }
    if (take_word(&at, "=> ") || take_word(&at, "^C")) // a function of a stack trace, or a key of the terminal
        return;
    at = line;
    if (take_word(&at, "CPU:") && take_number(&at, &number) && take_word(&at, " [")) {
        read_gap(notes, line);
        return;
    }
    at = line;
    if (take_word(&at, "CPU ") && take_number(&at, &number) && take_word(&at, " is empty"))
        return;
    if (is_call_chain(line))
        return;
    at = line;
    if (!take_word(&at, "version = ") && !take_word(&at, "cpus=") && !is_blank(line))
        refuse(&notes->refused, line);
}

// Adds the notes to the totals: those of the whole text, or of a code block with events.
static void keep_notes(struct ftrace_text *trace)
{
    struct totals *totals = &trace->reader.totals;
    struct refused *refused = &totals->refused[REFUSED_LINE];
    uint64_t count = refused->count;

    totals->lost += trace->notes.lost;
    totals->gaps += trace->notes.gaps;
    totals->buffered += trace->notes.buffered;
    totals->written += trace->notes.written;
    if (trace->notes.refused.count && !count)
        *refused = trace->notes.refused;
    else
        refused->count = count + trace->notes.refused.count;
    trace->notes = (struct notes){0};
}

static void read_fence(struct ftrace_text *trace)
{
    if (trace->has_event)
        keep_notes(trace);
    trace->notes = (struct notes){0};
    trace->has_event = false;
    trace->is_inside = !trace->is_inside;
}

static void read_line(struct reader *reader, struct text line)
{
    struct ftrace_text *trace = (struct ftrace_text *)reader;
    struct text at = line;
    struct blk_event event;
    struct head head;

    if (trace->has_fences) {
        if (take_word(&at, "```")) {
            read_fence(trace);
            return;
        }
        if (!trace->is_inside)
            return;
    }
    if (take_head(&at, &head) || (at = line, take_perf_head(&at, &head))) {
        trace->has_event = true;
        head.ts_ns = head.cpu == NO_INT32
                         ? continued_time(&trace->reader, 0, head.ts_ns, SETBACK_NS)
                         : continued_time(&trace->reader, (uint64_t)head.cpu + 1, head.ts_ns, SETBACK_OF_CPU_NS);
        if (is_of_blk_tracer(head.event, &event))
            read_blk_tracer(trace, line, &head, &event, at);
        else
            read_event(trace, line, &head, at);
    } else {
        read_note(&trace->notes, line);
    }
}

// Adds the notes of the whole text, or of an unclosed code block, after the last line. A last line without a newline is
// read if it is complete.
API void ftrace_text_end(struct ftrace_text *trace)
{
    read_last_line(&trace->reader, 2);
    if (!trace->has_fences || (trace->is_inside && trace->has_event))
        keep_notes(trace);
}
