// Builds rows of table syscalls from calls, in the notation of strace.
//
// The caller provides the meaning of the arguments of each call and the words for bits (ingest/syscalls/pairs.py).
#include "syscalls/rows.h"
#include "syscalls/columns.h"
#include "syscalls/names.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_WORDS = 1024, LONGEST_PATH = 8192 };

// Kinds of conversions of an argument; the names are those of ingest/syscalls/arguments.py.
enum step_kind {
    STEP_DESCRIPTOR, // a descriptor
    STEP_NUMBER,     // a number; a negative number of bytes is null
    STEP_SIGNED,     // a number that is negative if the highest bit of the register is set
    STEP_LOW_HIGH,   // a number in two registers
    STEP_PAGES,      // a number of units of `number` bytes
    STEP_MODE,       // permissions and type
    STEP_WORDS,      // words of set `words`
    STEP_DECIMAL,    // a signed 32-bit number, as text
    STEP_PATH,       // the path at the argument, or path number `number` of those without an address
};

enum step_condition { ALWAYS, IF_EQUAL, IF_ANY, UNLESS_EQUAL };

// A conversion, which applies if the condition is true for argument `tested`.
struct step {
    uint8_t kind;
    uint8_t column;
    uint8_t argument;
    uint8_t high; // register with the upper half
    uint8_t condition;
    uint8_t tested;
    uint16_t words;
    uint64_t operand;
    uint64_t number;
};

// `name` is the word for `value` under `mask`; an index in the names of the caller.
struct word {
    uint64_t mask;
    uint64_t value;
    uint32_t name;
    uint32_t pad;
};

struct word_set {
    uint32_t first;
    uint32_t count;
};

enum { ERRORS = UINT16_MAX, DECIMALS }; // spaces of words_out in addition to those of the sets

enum { NAMES, TEXTS }; // spaces of texts_out

void rows_output(struct call_rows *rows, struct table *calls)
{
    rows->out = calls;
    map_free(&rows->texts_out);
    map_free(&rows->words_out);
}

void rows_texts(struct call_rows *rows, struct strings *texts)
{
    if (rows->texts)
        strings_free(rows->texts);
    rows->texts = texts;
    map_free(&rows->texts_out);
}

void rows_free(struct call_rows *rows)
{
    rows_texts(rows, NULL);
    map_free(&rows->words_out);
}

// --- values ----------------------------------------------------------------------------------------------------------

static void put_number_of_string(struct table *table, size_t column, size_t row, uint64_t number)
{
    if (number)
        put_uint32(table, column, row, (uint32_t)(number - 1));
}

// Copy one of the names, or one of the texts of calls.
static void put_copy(struct call_rows *rows, size_t column, size_t row, unsigned space, uint32_t number)
{
    const struct strings *strings = space == TEXTS ? rows->texts : rows->knowledge.names;
    uint64_t *place = number == NO_STRING ? NULL : map_add(&rows->texts_out, space, number);
    const uint8_t *text;
    size_t length;

    if (!place)
        return;
    if (!*place) {
        text = strings_text(strings, number, &length);
        *place = (uint64_t)strings_add(rows->out->strings, text, length) + 1;
    }
    put_number_of_string(rows->out, column, row, *place);
}

// Write the words for the bits of `value`, separated by |; the remaining bits follow as a number.
static size_t words_of(const struct call_rows *rows, const struct word_set *set, uint64_t value, char *text)
{
    const struct word *words = rows->knowledge.words + set->first;
    size_t length = 0, size;
    uint64_t rest = value;

    for (size_t n = 0; n < set->count; n++) {
        const uint8_t *name;

        if ((rest & words[n].mask) != words[n].value || (!words[n].value && length))
            continue;
        name = strings_text(rows->knowledge.names, words[n].name, &size);
        if (length + size + 24 > LONGEST_WORDS)
            break;
        if (length)
            text[length++] = '|';
        memcpy(text + length, name, size);
        length += size;
        rest &= ~words[n].mask;
    }
    if (rest || !length)
        length += (size_t)snprintf(text + length, 24, rest ? "%s0x%llx" : "%s%llx", length ? "|" : "",
                                   (unsigned long long)rest);
    return length;
}

static void put_words(struct call_rows *rows, size_t column, size_t row, unsigned set, uint64_t value)
{
    uint64_t *place = map_add(&rows->words_out, set, value);
    char text[LONGEST_WORDS];
    size_t length;

    if (!place)
        return;
    if (!*place) {
        if (set == DECIMALS)
            length = (size_t)snprintf(text, sizeof(text), "%d", (int32_t)(uint32_t)value);
        else
            length = words_of(rows, &rows->knowledge.sets[set], value, text);
        *place = (uint64_t)strings_add(rows->out->strings, (const uint8_t *)text, length) + 1;
    }
    put_number_of_string(rows->out, column, row, *place);
}

// Return the bits of a register as a signed number of the machine.
static int64_t as_signed(const struct call_rows *rows, int64_t bits)
{
    return rows->knowledge.long_bytes == 4 ? (int32_t)(uint32_t)(uint64_t)bits : bits;
}

static bool is_done(const struct step *step, const struct pending *call)
{
    uint64_t tested = (uint64_t)call->arguments[step->tested];

    if (step->condition != ALWAYS && call->arguments[step->tested] == NO_INT64)
        return false;
    switch (step->condition) {
    case IF_EQUAL:
        return (uint32_t)tested == step->operand;
    case IF_ANY:
        return tested & step->operand;
    case UNLESS_EQUAL:
        return (uint32_t)tested != step->operand;
    default:
        return true;
    }
}

// Return the path at an address in the caller's memory, or number `number` if addresses were not recorded.
static uint32_t path_at(const struct pending *call, int64_t place, uint32_t number)
{
    for (uint32_t n = 0; n < call->nr_paths; n++)
        if (call->paths[n].place == NO_INT64 ? n == number : call->paths[n].place == place)
            return call->paths[n].text;
    return NO_STRING;
}

// Return an argument. If 64-bit numbers take two registers each, the last argument may not be recorded.
static int64_t argument_of(const struct pending *call, unsigned argument)
{
    return argument < CALL_ARGUMENTS ? call->arguments[argument] : NO_INT64;
}

static void put_number(struct call_rows *rows, const struct step *step, const struct pending *call, size_t row)
{
    int64_t value = argument_of(call, step->argument), high;

    if (step->kind == STEP_PAGES) {
        value = (int64_t)((uint64_t)value * step->number);
    } else if (step->kind == STEP_LOW_HIGH) {
        high = argument_of(call, step->high);
        if (high == NO_INT64)
            return;
        value = (int64_t)((uint64_t)(uint32_t)value | (uint64_t)high << 32);
    } else if (step->kind == STEP_SIGNED) {
        value = as_signed(rows, value);
    }
    if (value >= 0 || step->column != SYSCALL_BYTES)
        put_int64(rows->out, step->column, row, value);
}

static void put_step(struct call_rows *rows, const struct step *step, const struct pending *call, size_t row)
{
    int64_t value = argument_of(call, step->argument);

    if (value == NO_INT64 || !is_done(step, call))
        return;
    switch (step->kind) {
    case STEP_NUMBER:
    case STEP_SIGNED:
    case STEP_PAGES:
    case STEP_LOW_HIGH:
        put_number(rows, step, call, row);
        break;
    case STEP_DESCRIPTOR:
        put_int32(rows->out, step->column, row, (int32_t)(uint32_t)(uint64_t)value);
        break;
    case STEP_MODE:
        put_int32(rows->out, step->column, row, (int32_t)(value & 0xffff));
        break;
    case STEP_WORDS:
        put_words(rows, step->column, row, step->words, (uint64_t)value & step->number);
        break;
    case STEP_DECIMAL:
        put_words(rows, step->column, row, DECIMALS, (uint32_t)value);
        break;
    case STEP_PATH:
        put_copy(rows, step->column, row, TEXTS, path_at(call, value, (uint32_t)step->number));
        break;
    default:
        break;
    }
}

enum { LAST_ERROR = 4095 }; // include/linux/err.h: MAX_ERRNO

static void put_error(struct call_rows *rows, size_t row, int64_t result)
{
    uint64_t *place;

    if (result >= 0 || result < -LAST_ERROR)
        return;
    place = map_add(&rows->words_out, ERRORS, (uint64_t)result);
    if (!place)
        return;
    if (!*place) {
        struct text name = errno_name((int)-result);

        if (text_length(name))
            *place = (uint64_t)strings_add(rows->out->strings, name.at, text_length(name)) + 1;
        else
            *place = (uint64_t)strings_add(rows->out->strings, (const uint8_t *)"?", 1) + 1;
    }
    put_number_of_string(rows->out, SYSCALL_ERROR, row, *place);
}

static void put_result(struct call_rows *rows, size_t row, int64_t bits)
{
    int64_t result = as_signed(rows, bits);

    if (bits == NO_INT64)
        return;
    // An address in the upper half of 32 bits is not an error.
    if (rows->knowledge.long_bytes == 4 && result < -LAST_ERROR)
        result = (int64_t)(uint32_t)(uint64_t)bits;
    put_int64(rows->out, SYSCALL_RESULT, row, result);
    put_error(rows, row, result);
}

// --- opened files ----------------------------------------------------------------------------------------------------

enum { TYPE_BITS = 0170000, TYPE_FIFO = 0010000, TYPE_SOCKET = 0140000 };

// Find the mount point of the filesystem on a device (its root: an empty text). Returns false if it is unknown.
static bool mount_of(const struct call_rows *rows, uint32_t dev, const uint8_t **text, size_t *length)
{
    for (uint64_t n = 0; n < rows->knowledge.nr_mounts; n++) {
        if (rows->knowledge.mount_devs[n] != dev)
            continue;
        *text = strings_text(rows->knowledge.names, rows->knowledge.mounts[n], length);
        return true;
    }
    return false;
}

// Write the path from the root of a file with a known path on its filesystem. Returns its length; 0: the mount point is
// unknown.
static size_t path_from_root(const struct call_rows *rows, uint32_t dev, const uint8_t *path, size_t length, char *text)
{
    const uint8_t *mount;
    size_t mount_length;

    if (!mount_of(rows, dev, &mount, &mount_length) || mount_length + length > LONGEST_PATH)
        return 0;
    if (mount_length && length == 1)
        length = 0; // the mount point itself, without a trailing slash
    memcpy(text, mount, mount_length);
    memcpy(text + mount_length, path, length);
    return mount_length + length;
}

// Write the kernel's name of a file without a path. Returns its length; 0: unknown.
static size_t name_without_path(const struct opened_file *file, const uint8_t *name, size_t length, char *text)
{
    int32_t type = file->mode & TYPE_BITS;

    if (file->fd == NO_INT32 || file->mode == NO_INT32 || length > LONGEST_PATH / 2)
        return 0;
    if (type == TYPE_SOCKET || type == TYPE_FIFO)
        return (size_t)snprintf(text, LONGEST_PATH, "%s:[%llu]", type == TYPE_FIFO ? "pipe" : "socket",
                                (unsigned long long)file->ino);
    if (!type)
        return (size_t)snprintf(text, LONGEST_PATH, "anon_inode:%.*s", (int)length, (const char *)name);
    if (length > 6 && !memcmp(name, "memfd:", 6))
        return (size_t)snprintf(text, LONGEST_PATH, "/%.*s", (int)length, (const char *)name);
    return 0; // the path has too many levels to reach the root
}

// Write the name of the file as in strace. Returns its length; 0: unknown.
static size_t name_of_file(const struct call_rows *rows, const struct opened_file *file, char *text)
{
    const uint8_t *path = (const uint8_t *)"";
    size_t length = 0;

    if (file->path != NO_STRING)
        path = strings_text(rows->texts, file->path, &length);
    if (length && *path == '/')
        return path_from_root(rows, file->dev, path, length, text);
    return name_without_path(file, path, length, text);
}

static void put_file_name(struct call_rows *rows, size_t column, size_t row, const struct opened_file *file)
{
    char text[LONGEST_PATH];
    size_t length = name_of_file(rows, file, text);

    if (length)
        put_string(rows->out, column, row, (const uint8_t *)text, length);
}

// Write the file of the call's result.
static void put_result_file(struct call_rows *rows, const struct opened_file *file, size_t row, bool is_open)
{
    struct table *table = rows->out;

    put_file_name(rows, SYSCALL_RESULT_PATH, row, file);
    if (!is_open)
        return;
    put_uint32(table, SYSCALL_DEV, row, file->dev);
    put_int64(table, SYSCALL_INO, row, file->ino);
    put_int64(table, SYSCALL_SIZE, row, file->size);
    if (((const int32_t *)table->values[SYSCALL_MODE])[row] == NO_INT32)
        put_int32(table, SYSCALL_MODE, row, file->mode);
}

// Write the two descriptors created by a call.
static void put_pair(struct call_rows *rows, const struct pending *call, size_t row)
{
    put_int32(rows->out, SYSCALL_FD, row, call->files[0].fd);
    put_file_name(rows, SYSCALL_FD_PATH, row, &call->files[0]);
    if (call->nr_files < 2)
        return;
    put_int32(rows->out, SYSCALL_FD2, row, call->files[1].fd);
    put_file_name(rows, SYSCALL_FD2_PATH, row, &call->files[1]);
}

// Write a descriptor that another process passed; of several only the first, because the table has columns for one.
static void put_passed(struct call_rows *rows, const struct opened_file *file, size_t row)
{
    put_int32(rows->out, SYSCALL_FD2, row, file->fd);
    put_file_name(rows, SYSCALL_FD2_PATH, row, file);
    put_copy(rows, SYSCALL_REQUEST, row, NAMES, rows->knowledge.passed);
}

static void put_files(struct call_rows *rows, const struct pending *call, size_t row)
{
    unsigned flags = call_numbered(&rows->knowledge, call->call)->flags;
    const struct opened_file *file = call->files;
    int64_t result = ((const int64_t *)rows->out->values[SYSCALL_RESULT])[row];

    if (!call->nr_files || result < 0)
        return;
    if (file->fd == NO_INT32) {
        if (flags & CALL_OPENS)
            put_result_file(rows, file, row, true);
    } else if (flags & CALL_PAIR) {
        put_pair(rows, call, row);
    } else if (flags & CALL_RECEIVES) {
        put_passed(rows, file, row);
    } else if (file->fd == result) {
        put_result_file(rows, file, row, flags & CALL_OPENS);
    }
}

// --- calls ----------------------------------------------------------------------------------------------------------

static size_t put_call(struct call_rows *rows, const struct pending *call, enum syscall_state state)
{
    struct table *table = rows->out;
    size_t row = table_row(table);

    put_int64(table, SYSCALL_TS_NS, row, call->ts_ns);
    put_int32(table, SYSCALL_PID, row, call->pid);
    put_int32(table, SYSCALL_TID, row, call->tid);
    put_copy(rows, SYSCALL_COMM, row, TEXTS, call->comm);
    put_copy(rows, SYSCALL_CALL, row, NAMES, call->call);
    put_code(table, SYSCALL_STATE, row, (uint8_t)state);
    return row;
}

static void put_arguments_of(struct call_rows *rows, const struct pending *call, size_t row)
{
    const struct call *kind = call_numbered(&rows->knowledge, call->call);

    for (const struct step *step = rows->knowledge.steps + kind->first;
         step < rows->knowledge.steps + kind->first + kind->count; step++)
        put_step(rows, step, call, row);
    if (kind->flags & CALL_FLAGS_BY_TASK && call->task_flags != NO_INT64)
        put_words(rows, SYSCALL_FLAGS, row, rows->knowledge.task_words, (uint64_t)call->task_flags);
}

void put_unfinished(struct call_rows *rows, const struct pending *call)
{
    bool is_last = call_numbered(&rows->knowledge, call->call)->flags & CALL_NO_RETURN;

    put_arguments_of(rows, call, put_call(rows, call, is_last ? STATE_WHOLE : STATE_UNFINISHED));
}

void put_resumed(struct call_rows *rows, const struct pending *call, int64_t result)
{
    put_result(rows, put_call(rows, call, STATE_RESUMED), result);
}

void put_whole(struct call_rows *rows, const struct pending *call, int64_t end_ns, int64_t result)
{
    size_t row = put_call(rows, call, STATE_WHOLE);
    int64_t duration_ns;

    // A clock that went back, or damaged times, give no duration.
    if (!__builtin_sub_overflow(end_ns, call->ts_ns, &duration_ns) && duration_ns >= 0)
        put_int64(rows->out, SYSCALL_DURATION_NS, row, duration_ns);
    put_arguments_of(rows, call, row);
    put_result(rows, row, result);
    put_files(rows, call, row);
}
