#include <ctype.h>

#include "extmap/extmap.h"
#include "procmon/procmon.h"

/* A changing text is written whole at least this often. This bounds what a damaged block costs. */
#define WHOLE_NS (10 * SECOND_NS)

/* A shorter read is the end of the file: the kernel returns as many lines as fit a page, and no line is longer. */
#define PART_BYTES 1024

struct text_row {
    int64_t ts_ns, before_ns;
    uint32_t file, parts_left;
    struct record_string path, text, numbers;
};

static const struct record_field text_fields[] = {
    RECORD_FIELD(text_row, ts_ns, false, "ns", "When it was read."),
    RECORD_FIELD(text_row, before_ns, true, "ns", "Time of the record before it of this file."),
    RECORD_FIELD(text_row, file, false, NULL, "ID of the file in this recording."),
    RECORD_FIELD(text_row, parts_left, false, NULL, "Number of following records with the rest of this text."),
    RECORD_FIELD(text_row, path, true, NULL, "Path of the file; null if there is no text."),
    RECORD_FIELD(text_row, text, true, NULL, "Its whole contents."),
    RECORD_FIELD(
        text_row, numbers, true, NULL,
        "Numbers that differ from the previous record, if nothing else does: for each, the count of words since "
        "the last differing one, and the number. If this and text are null, the file was unchanged."),
};

static const struct record_type text_type = RECORD_TYPE(
    "text", NULL, "A reading of a file. Readings equal to the previous and the next one are omitted.", text_fields);

static const struct record_field tick_fields[] = {
    RECORD_FIELD(tick, ts_ns, false, "ns", "When the tick was due."),
    RECORD_FIELD(tick, late_ns, false, "ns", "Delay of its begin."),
    RECORD_FIELD(tick, took_ns, false, "ns", "Duration of its readings."),
    RECORD_FIELD(tick, cpu_ns, false, "ns", "CPU time that procmon has used by its end."),
    RECORD_FIELD(tick, missed, false, NULL, "Missed ticks before it."),
    RECORD_FIELD(tick, processes, false, NULL, "Processes read."),
    RECORD_FIELD(tick, began, false, NULL, "New processes."),
    RECORD_FIELD(tick, ended, false, NULL, "Ended processes; their usage after their last reading is lost."),
};

static const struct record_type tick_type = RECORD_TYPE("tick", NULL, "A tick.", tick_fields);

static const struct record_type *const types[] = {&text_type, &tick_type, &task_type};
const struct record_probe procmon_probe = {"procmon", types, sizeof types / sizeof *types};

void tick_write(struct output *out, const struct tick *tick)
{
    out->failed |= record_add(out->record, &tick_type, tick, NULL) < 0;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

struct text text_of(char *path)
{
    return (struct text){.path = path, .file = -1};
}

static bool read_all(struct output *out, int file, struct span *now)
{
    size_t length = 0;
    ssize_t got;
    do {
        if (out->capacity - length < 4096) {
            out->capacity = out->capacity ? 2 * out->capacity : 16384;
            out->bytes = grow(out->bytes, out->capacity, 1);
        }
        got = pread(file, out->bytes + length, out->capacity - length, (off_t)length);
        if (got < 0 && errno != EINTR)
            return false;
        length += got > 0 ? (size_t)got : 0;
    } while (got < 0 || got >= PART_BYTES);
    *now = (struct span){out->bytes, out->bytes + length};
    return true;
}

bool text_load(struct output *out, struct text *text, struct span *now)
{
    int file = text->file >= 0 ? text->file : open(text->path, O_RDONLY | O_CLOEXEC), error;
    bool is_read = file >= 0 && read_all(out, file, now);
    error = errno;
    if (text->file < 0 && is_read && out->descriptors > 0) {
        text->file = file;
        out->descriptors--;
    } else if (file >= 0 && file != text->file) {
        close(file);
    }
    errno = error;
    return is_read;
}

/* -- changes ------------------------------------------------------------------------------------------------------- */

static size_t span_length(struct span span)
{
    return (size_t)(span.end - span.at);
}

/* Split the first word off `rest`. An empty word is the end of an empty line, or of one with a trailing blank. Returns
 * whether the word ends a line. */
static bool take_word(struct span *rest, struct span *word)
{
    while (rest->at < rest->end && *rest->at == ' ')
        rest->at++;
    word->at = rest->at;
    while (rest->at < rest->end && *rest->at != ' ' && *rest->at != '\n')
        rest->at++;
    word->end = rest->at;
    if (rest->at == rest->end || *rest->at != '\n')
        return false;
    rest->at++;
    return true;
}

/* Return whether a word is digits, or one letter like the state of a process. */
static bool is_number(struct span word)
{
    if (span_length(word) == 1)
        return true;
    for (const char *at = word.at; at < word.end; at++)
        if (!isdigit((unsigned char)*at))
            return false;
    return word.at < word.end;
}

static bool is_same(struct span one, struct span other)
{
    return span_length(one) == span_length(other) && !memcmp(one.at, other.at, span_length(one));
}

long text_changes(struct span before, struct span now, char changes[RECORD_TEXT_BYTES])
{
    bool is_named = false; /* the line has a name: numbers before the name belong to it */
    unsigned int between = 0;
    size_t length = 0;
    while (before.at < before.end && now.at < now.end) {
        struct span old, new;
        bool ends = take_word(&before, &old), numbers;
        if (take_word(&now, &new) != ends)
            return -1;
        numbers = is_number(old) && is_number(new);
        if (is_same(old, new)) {
            between += old.at < old.end;
        } else if (is_named && numbers && length + span_length(new) + sizeof "4294967295  " < RECORD_TEXT_BYTES) {
            length += (size_t)sprintf(changes + length, "%s%u %.*s", length ? " " : "", between, (int)span_length(new),
                                      new.at);
            between = 0;
        } else {
            return -1;
        }
        is_named = !ends && (is_named || (old.at < old.end && !numbers));
    }
    return before.at == before.end && now.at == now.end ? (long)length : -1;
}

/* -- records ------------------------------------------------------------------------------------------------------- */

static void write_row(struct output *out, struct text *text, size_t parts_left, const struct record_text texts[3])
{
    if (!text->number)
        text->number = ++out->files;
    const struct text_row row = {
        .ts_ns = text->read_ns,
        .before_ns = text->written_ns ? text->written_ns : RECORD_NULL_INT64,
        .file = text->number,
        .parts_left = (uint32_t)parts_left,
    };
    out->failed |= record_add(out->record, &text_type, &row, texts) < 0;
    if (!parts_left)
        text->written_ns = row.ts_ns;
}

static void write_whole(struct output *out, struct text *text, struct span now)
{
    size_t parts = 1 + span_length(now) / RECORD_TEXT_BYTES;
    while (parts--) {
        size_t length = parts ? RECORD_TEXT_BYTES : span_length(now);
        const struct record_text texts[] = {{text->path, strlen(text->path)}, {now.at, length}, {NULL, 0}};
        write_row(out, text, parts, texts);
        now.at += length;
    }
    text->whole_ns = text->read_ns;
}

/* Record the time of the last unchanged reading. */
static void write_same(struct output *out, struct text *text)
{
    if (text->read_ns != text->written_ns)
        write_row(out, text, 0, (const struct record_text[3]){{NULL, 0}});
}

static void keep(struct text *text, struct span now)
{
    text->length = span_length(now);
    if (text->capacity < text->length) {
        text->capacity = text->length + text->length / 8;
        text->bytes = grow(text->bytes, text->capacity, 1);
    }
    memcpy(text->bytes, now.at, text->length);
}

bool text_take(struct output *out, struct text *text, int64_t ts_ns, struct span now, bool whole)
{
    const struct span before = {text->bytes, text->bytes + text->length};
    bool is_first = !text->number, same = !is_first && !whole && is_same(before, now);
    char changes[RECORD_TEXT_BYTES];
    long length = -1;
    if (!same)
        write_same(out, text);
    text->read_ns = ts_ns;
    if (same)
        return false;
    if (!is_first && !whole && ts_ns < text->whole_ns + WHOLE_NS)
        length = text_changes(before, now, changes);
    if (length < 0)
        write_whole(out, text, now);
    else
        write_row(out, text, 0, (const struct record_text[]){{NULL, 0}, {NULL, 0}, {changes, (size_t)length}});
    keep(text, now);
    return !is_first;
}

void text_end(struct output *out, struct text *text)
{
    write_same(out, text);
    if (text->file >= 0) {
        close(text->file);
        out->descriptors++;
    }
    free(text->bytes);
    free(text->path);
}
