// Reads tables of requests, one row a line. The caller sets the meaning of each column first.
#include "decode/text/calendar.h"
#include "decode/text/lines.h"

#include <stdlib.h>

enum { MAX_CELLS = 32, MAX_HOSTS = 256, MAX_DISK_BYTES = 32, SECTOR_BYTES = 512 };

// The minor number of a device that a row does not state, with major number 0. No volume or disk has it.
enum { UNKNOWN_MINOR = (1 << 20) - 1 };

enum meaning {
    CELL_IGNORED,
    CELL_TASK, // name of the thread, optionally with a dash and its id
    CELL_COMM,
    CELL_TID,
    CELL_PID,
    CELL_CPU,
    CELL_DEV, // the kernel's dev_t, major:minor, the number of a volume or the name of a disk
    CELL_MAJOR,
    CELL_MINOR,
    CELL_HOST, // the machine of the volume number
    CELL_OP,
    CELL_OFFSET,   // in units of `unit` bytes
    CELL_SIZE,     // in units of `unit` bytes
    CELL_TIME,     // `unit` to the second, from `origin` on
    CELL_RESPONSE, // from start to completion
    CELL_DONE,     // time of the completion, with `unit` and `origin` as above
    CELL_WAIT,     // from queueing to start
};

struct cell {
    uint8_t meaning;
    int64_t unit;
    int64_t origin;
};

enum { MAX_OPERATIONS = 64, WORD_BYTES = 16 };

// Maps a word of the operation column to rwbs.
struct operation {
    uint8_t word_length;
    uint8_t rwbs_length;
    uint8_t word[WORD_BYTES];
    uint8_t rwbs[WORD_BYTES];
};

// Recent requests, for the detection of repeated ones. A slot is free again once its request is too old.
enum { RECENT_SLOTS = 1 << 17, RECENT_PROBES = 32 };

struct recent {
    uint64_t key;
    int64_t ts_ns;
};

static const uint8_t EMPTY_WRITE[] = "FW";

enum header { HEADER_NONE, HEADER_ONE, HEADER_MAYBE };

struct block_csv {
    struct reader reader;
    struct cell cells[MAX_CELLS];
    size_t nr_cells;
    size_t name_cell; // index of the cell that may contain separators; nr_cells for none
    uint8_t separator;
    struct operation operations[MAX_OPERATIONS];
    size_t nr_operations;
    struct strings *hosts; // or disks, if the rows name them
    uint8_t start;         // the action at the time of a row, or at the completion minus the response time
    uint8_t header;        // header of the first line, until it is read
    bool is_by_done;       // rows have the time of completion and not of the start
    bool has_durations;    // rows may have a completion, so that a request without one has an unknown duration
    bool has_more;         // more cells follow, which are ignored
    bool is_0_unknown;     // a response time of 0 is unknown
    struct calendar calendar;
    uint64_t negative;   // durations below 0
    uint64_t deviceless; // rows with an empty device
    int64_t repeat_ns;   // 0: repeated requests are not detected
    uint64_t repeats;
    struct recent *recent; // RECENT_SLOTS
};

struct request {
    struct text comm, op, rwbs;
    bool is_answered; // the operation is not empty, so the response time is valid
    bool has_offset;  // false only for an empty flush
    uint64_t dev, major, minor, host;
    int64_t row, ts_ns, done_ns, response_ns, wait_ns, tid, pid, cpu;
    uint64_t offset, size, offset_unit, size_unit;
};

static void read_line(struct reader *reader, struct text line);

API void block_csv_free(struct block_csv *csv)
{
    reader_end(&csv->reader);
    free(csv->recent);
    free(csv);
}

API struct block_csv *block_csv_new(struct strings *names, struct strings *hosts, uint8_t separator, uint8_t header,
                                    bool has_more, bool is_0_unknown, int64_t repeat_ns, uint8_t start)
{
    struct block_csv *csv = calloc(1, sizeof(*csv));

    if (!csv)
        return NULL;
    csv->separator = separator;
    csv->hosts = hosts;
    csv->header = header;
    csv->has_more = has_more;
    csv->is_0_unknown = is_0_unknown;
    csv->start = start;
    csv->repeat_ns = repeat_ns;
    if (repeat_ns)
        csv->recent = calloc(RECENT_SLOTS, sizeof(*csv->recent));
    if (reader_start(&csv->reader, read_line, names) && (!repeat_ns || csv->recent))
        return csv;
    block_csv_free(csv);
    return NULL;
}

// Returns the number of repeated requests.
API uint64_t block_csv_repeats(const struct block_csv *csv)
{
    return csv->repeats;
}

// Returns the number of negative durations.
API uint64_t block_csv_negative(const struct block_csv *csv)
{
    return csv->negative;
}

// Returns the number of rows that do not state their device.
API uint64_t block_csv_deviceless(const struct block_csv *csv)
{
    return csv->deviceless;
}

// Adds the next column from the left; false at the limit.
API bool block_csv_cell(struct block_csv *csv, uint8_t meaning, int64_t unit, int64_t origin)
{
    if (csv->nr_cells == MAX_CELLS || unit <= 0)
        return false;
    if (csv->name_cell == csv->nr_cells && meaning != CELL_TASK && meaning != CELL_COMM)
        csv->name_cell++;
    csv->is_by_done |= meaning == CELL_DONE;
    csv->has_durations |= meaning == CELL_DONE || meaning == CELL_RESPONSE;
    csv->cells[csv->nr_cells++] = (struct cell){meaning, unit, origin};
    return true;
}

// Registers an operation. Other words of capital letters are rwbs if they have its form.
API bool block_csv_operation(struct block_csv *csv, const uint8_t *word, size_t word_length, const uint8_t *rwbs,
                             size_t rwbs_length)
{
    struct operation *operation = &csv->operations[csv->nr_operations];

    if (csv->nr_operations == MAX_OPERATIONS || word_length > WORD_BYTES || rwbs_length > WORD_BYTES)
        return false;
    operation->word_length = (uint8_t)word_length;
    operation->rwbs_length = (uint8_t)rwbs_length;
    memcpy(operation->word, word, word_length);
    memcpy(operation->rwbs, rwbs, rwbs_length);
    csv->nr_operations++;
    return true;
}

// Returns the end of the first cell. A cell in quotation marks may contain separators. NULL if no separator follows.
static const uint8_t *cell_end(const struct block_csv *csv, struct text line)
{
    const uint8_t *at = line.at;

    if (text_length(line) && *at == '"') {
        at = memchr(at + 1, '"', text_length(line) - 1);
        if (at && at + 1 == line.end)
            return NULL;
        if (!at || at[1] != csv->separator)
            at = line.at;
    }
    return memchr(at, csv->separator, (size_t)(line.end - at));
}

// Returns the start of the last cell, which may be in quotation marks.
static const uint8_t *cell_start(const struct block_csv *csv, struct text line)
{
    const uint8_t *start = line.end;

    if (text_length(line) > 1 && line.end[-1] == '"') {
        for (start = line.end - 2; start > line.at && *start != '"'; start--)
            ;
        if (start > line.at && start[-1] == csv->separator)
            return start;
        start = line.end;
    }
    while (start > line.at && start[-1] != csv->separator)
        start--;
    return start;
}

// Splits a line into cells. Of cells without quotation marks, only the name may contain a separator, so the cells on
// both sides of it determine its ends.
static bool split(const struct block_csv *csv, struct text line, struct text cells[MAX_CELLS])
{
    // With more columns on the right the end of the name cannot be found from there.
    size_t left = 0, right = csv->nr_cells, plain = csv->has_more ? csv->nr_cells : csv->name_cell;

    for (; left < plain && left + 1 < csv->nr_cells; left++) {
        const uint8_t *end = cell_end(csv, line);

        if (!end)
            return false;
        cells[left] = (struct text){line.at, end};
        line.at = end + 1;
    }
    if (csv->has_more) {
        const uint8_t *end = cell_end(csv, line);

        cells[left] = (struct text){line.at, end ? end : line.end};
        return true;
    }
    for (; right > left + 1; right--) {
        const uint8_t *start = cell_start(csv, line);

        if (start == line.at)
            return false;
        cells[right - 1] = (struct text){start, line.end};
        line.end = start - 1;
    }
    cells[left] = line;
    return csv->name_cell < csv->nr_cells || !cell_end(csv, line);
}

// Reads a whole number, which may have a decimal fraction of zeros.
static bool is_number(struct text cell, uint64_t *number)
{
    if (!take_number(&cell, number))
        return false;
    if (take_byte(&cell, '.'))
        while (take_byte(&cell, '0'))
            ;
    return cell.at == cell.end;
}

static bool take_point(struct text *cell)
{
    return take_byte(cell, '.') || take_byte(cell, ',');
}

// Reads a number, which may have a fraction, as nanoseconds rounded to the nearest. `unit` is per second.
static bool take_ns(struct text cell, const struct cell *column, int64_t *ns)
{
    // Twelve decimals of the unit; `part` of them are one nanosecond.
    uint64_t nanoseconds = 1000000000 / (uint64_t)column->unit, part = 1000000000000 / nanoseconds;
    uint64_t whole, fraction = 0, scale = 100000000000;

    if (!take_number(&cell, &whole) || whole > INT64_MAX)
        return false;
    if (take_point(&cell)) {
        if (!at_digit(&cell))
            return false;
        for (; at_digit(&cell); cell.at++, scale /= 10)
            fraction += (uint64_t)(*cell.at - '0') * scale;
    }
    if (cell.at != cell.end || (int64_t)whole < column->origin)
        return false;
    whole -= (uint64_t)column->origin;
    if (whole >= (uint64_t)INT64_MAX / nanoseconds)
        return false;
    *ns = (int64_t)(whole * nanoseconds + (fraction + part / 2) / part);
    return *ns <= INT64_MAX - (int64_t)nanoseconds;
}

static bool take_time_cell(struct block_csv *csv, struct text cell, const struct cell *column, int64_t *ns)
{
    if (memchr(cell.at, ':', text_length(cell)))
        return calendar_ns(&csv->calendar, cell, ns);
    return take_ns(cell, column, ns);
}

// Reads a duration. An empty or negative one is unknown.
static bool take_duration(struct block_csv *csv, struct text cell, const struct cell *column, int64_t *ns)
{
    bool is_negative = take_byte(&cell, '-');

    if (!text_length(cell) && !is_negative)
        return true;
    if (!take_ns(cell, column, ns))
        return false;
    if (is_negative && *ns) {
        csv->negative++;
        *ns = NO_INT64;
    }
    return true;
}

// Reads "name-tid" or a name alone, optionally quoted.
static void take_task(struct text cell, struct request *request)
{
    const uint8_t *last;
    struct text number;
    uint64_t tid;

    if (text_length(cell) && cell.at[0] == '"')
        cell.at++;
    if (text_length(cell) && cell.end[-1] == '"')
        cell.end--;
    request->comm = cell;
    for (last = cell.end; last > cell.at && is_digit(last[-1]); last--)
        ;
    number = (struct text){last, cell.end};
    if (last == cell.end || last == cell.at || last[-1] != '-')
        return;
    request->comm.end = last - 1;
    if (take_number(&number, &tid))
        request->tid = int64_of(tid);
}

// Skips the letter of a flag if it is next.
static const uint8_t *after_letter(const uint8_t *at, const uint8_t *end, uint8_t letter)
{
    return at < end && *at == letter ? at + 1 : at;
}

// Checks for one operation and its flags, in the order of the kernel (blk_fill_rwbs in kernel/trace/blktrace.c).
static bool is_operation_with_flags(const uint8_t *at, const uint8_t *end)
{
    if (at == end)
        return false;
    switch (*at++) {
    case 'R':
    case 'F':
    case 'N':
        break;
    case 'W':
        at = after_letter(at, end, 'Z');
        break;
    case 'D':
        at = after_letter(at, end, 'E');
        break;
    case 'Z':
        if (at < end && *at == 'R')
            at = after_letter(at + 1, end, 'A');
        else if (at < end && memchr("AOCF", *at, 4))
            at++;
        break;
    default:
        return false;
    }
    for (const char *flag = "FABSMU"; *flag; flag++)
        at = after_letter(at, end, (uint8_t)*flag);
    return at == end;
}

// Checks for rwbs, which begins with F if a flush precedes the operation (`RWBS` of ingest/staging.py).
static bool is_rwbs(struct text cell)
{
    return is_operation_with_flags(cell.at, cell.end) ||
           (text_length(cell) && *cell.at == 'F' && is_operation_with_flags(cell.at + 1, cell.end));
}

static bool take_operation(const struct block_csv *csv, struct text cell, struct request *request)
{
    request->op = request->rwbs = cell;
    request->is_answered = text_length(cell) != 0;
    for (size_t i = 0; i < csv->nr_operations; i++) {
        const struct operation *operation = &csv->operations[i];

        if (text_length(cell) == operation->word_length && !memcmp(cell.at, operation->word, operation->word_length)) {
            request->rwbs = (struct text){operation->rwbs, operation->rwbs + operation->rwbs_length};
            if (!text_length(cell))
                request->op = request->rwbs;
            return true;
        }
    }
    if (!text_length(cell))
        return false;
    if (!is_rwbs(cell))
        request->rwbs.end = request->rwbs.at; // a word for an unknown operation
    for (; cell.at < cell.end; cell.at++)
        if (*cell.at < 'A' || *cell.at > 'Z')
            return false;
    return true;
}

static bool take_int(struct text cell, int64_t *number)
{
    uint64_t value;

    if (!text_length(cell))
        return true; // unknown in this row
    if (!is_number(cell, &value))
        return false;
    *number = int64_of(value);
    return true;
}

// Reads a device. The n-th name of a disk in the file becomes device 0:n, a number that no block device of Linux has.
static bool take_device(struct block_csv *csv, struct text cell, struct request *request)
{
    struct text at = cell;
    uint64_t number;

    if (!text_length(cell)) {
        request->dev = UNKNOWN_MINOR;
        csv->deviceless++;
        return true;
    }
    if (is_number(cell, &request->dev))
        return true;
    if (take_number(&at, &number) && (take_byte(&at, ':') || take_byte(&at, ',')) && is_number(at, &request->minor))
        return is_device(request->major = number, request->minor);
    if (at_digit(&cell) || text_length(cell) > MAX_DISK_BYTES)
        return false;
    request->dev = strings_add(csv->hosts, cell.at, text_length(cell));
    return request->dev < MAX_HOSTS;
}

static bool take_cell(struct block_csv *csv, const struct cell *column, struct text cell, struct request *request)
{
    switch ((enum meaning)column->meaning) {
    case CELL_IGNORED:
        return true;
    case CELL_TASK:
        take_task(cell, request);
        return true;
    case CELL_COMM:
        request->comm = cell;
        return true;
    case CELL_TID:
        return take_int(cell, &request->tid);
    case CELL_PID:
        return take_int(cell, &request->pid);
    case CELL_CPU:
        return take_int(cell, &request->cpu);
    case CELL_DEV:
        return take_device(csv, cell, request);
    case CELL_MAJOR:
        return is_number(cell, &request->major);
    case CELL_MINOR:
        return is_number(cell, &request->minor);
    case CELL_HOST:
        if (text_length(cell) > 1024)
            return false;
        request->host = strings_add(csv->hosts, cell.at, text_length(cell));
        return request->host < MAX_HOSTS;
    case CELL_OP:
        return take_operation(csv, cell, request);
    case CELL_OFFSET:
        request->offset_unit = (uint64_t)column->unit;
        request->has_offset = text_length(cell) != 0;
        return !request->has_offset || is_number(cell, &request->offset);
    case CELL_SIZE:
        request->size_unit = (uint64_t)column->unit;
        return is_number(cell, &request->size);
    case CELL_TIME:
        return take_time_cell(csv, cell, column, &request->ts_ns);
    case CELL_RESPONSE:
        if (!take_duration(csv, cell, column, &request->response_ns))
            return false;
        if (csv->is_0_unknown && !request->response_ns)
            request->response_ns = NO_INT64;
        return true;
    case CELL_DONE:
        return take_time_cell(csv, cell, column, &request->done_ns);
    case CELL_WAIT:
        return take_duration(csv, cell, column, &request->wait_ns);
    }
    return false;
}

// Returns the sectors that contain the bytes of the request; false if they overflow.
static bool sectors_of(const struct request *request, int64_t *sector, int64_t *nr_sectors, bool *is_rounded)
{
    uint64_t start, end;

    if (!request->has_offset) {
        *sector = NO_INT64;
        *nr_sectors = 0;
        return true;
    }
    if (request->offset_unit == SECTOR_BYTES && request->size_unit == SECTOR_BYTES) {
        *sector = int64_of(request->offset);
        *nr_sectors = int64_of(request->size);
        return true;
    }
    if (request->offset > INT64_MAX / request->offset_unit || request->size > INT64_MAX / request->size_unit)
        return false;
    start = request->offset * request->offset_unit;
    end = start + request->size * request->size_unit;
    *is_rounded = start % SECTOR_BYTES || end % SECTOR_BYTES;
    *sector = (int64_t)(start / SECTOR_BYTES);
    *nr_sectors = (int64_t)(end / SECTOR_BYTES + !!(end % SECTOR_BYTES)) - *sector;
    return true;
}

static uint64_t device_number(const struct request *request)
{
    if (request->major != UINT64_MAX)
        return is_device(request->major, request->minor) ? device_of(request->major, request->minor) : UINT64_MAX;
    if (request->host != UINT64_MAX)
        return is_device(request->host, request->dev) ? device_of(request->host, request->dev) : UINT64_MAX;
    return request->dev;
}

static void append_request(struct reader *reader, const struct request *request, uint8_t action, int64_t ts_ns,
                           int64_t sector, int64_t nr_sectors)
{
    struct table *table = reader->tables.block;
    size_t row = table_row(table);
    uint64_t dev = device_number(request);

    put_int64(table, BLOCK_TS_NS, row, ts_ns);
    put_cached(reader, BLOCK_EVENT, row, request->op);
    put_code(table, BLOCK_ACTION, row, action);
    if (dev < UINT32_MAX)
        put_uint32(table, BLOCK_DEV, row, (uint32_t)dev);
    put_int64(table, BLOCK_SECTOR, row, sector);
    put_int64(table, BLOCK_NR_SECTORS, row, nr_sectors);
    put_int64(table, BLOCK_OLD_SECTOR, row, request->row);
    if (text_length(request->rwbs))
        put_cached(reader, BLOCK_RWBS, row, request->rwbs);
    if (action == ACTION_COMPLETE && request->ts_ns != NO_INT64)
        return; // the start event already has the thread
    if (request->tid != NO_INT64)
        put_int32(table, BLOCK_TID, row, int32_of_signed(request->tid));
    if (request->pid != NO_INT64)
        put_int32(table, BLOCK_PID, row, int32_of_signed(request->pid));
    if (request->cpu != NO_INT64)
        put_int32(table, BLOCK_CPU, row, int32_of_signed(request->cpu));
    if (text_length(request->comm) && !text_is(request->comm, "<...>"))
        put_cached(reader, BLOCK_COMM, row, request->comm);
}

static bool is_blank(struct text line)
{
    while (line.at < line.end && (*line.at == ' ' || (*line.at >= '\t' && *line.at <= '\r')))
        line.at++;
    return line.at == line.end;
}

// Checks whether an equal request came within `repeat_ns`, among those remembered.
static bool is_repeated(struct block_csv *csv, const struct request *request, int64_t sector, int64_t nr_sectors)
{
    uint64_t key = device_number(request) * 0x9e3779b97f4a7c15u ^ (uint64_t)sector;
    struct recent *slot = NULL;

    key = (key ^ key >> 32) * 0xd6e8feb86659fd93u ^ (uint64_t)nr_sectors;
    for (size_t letter = 0; letter < text_length(request->rwbs); letter++)
        key = key * 0x100000001b3u ^ request->rwbs.at[letter];
    key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9u | 1; // 0 is an empty slot
    for (size_t probe = 0; probe < RECENT_PROBES; probe++) {
        struct recent *at = &csv->recent[((key >> 20) + probe) & (RECENT_SLOTS - 1)];
        bool is_old = !at->key || at->ts_ns < request->ts_ns - csv->repeat_ns;

        if (at->key == key) {
            at->ts_ns = request->ts_ns;
            return !is_old;
        }
        if (is_old && !slot)
            slot = at;
        if (!at->key)
            break;
    }
    if (slot)
        *slot = (struct recent){key, request->ts_ns};
    return false;
}

// Computes the start or the completion from the other one and the response time; false if it overflows.
static bool set_times(struct request *request)
{
    if (request->ts_ns == NO_INT64 && request->response_ns != NO_INT64)
        request->ts_ns = request->done_ns - request->response_ns;
    if (request->done_ns == NO_INT64 && request->response_ns != NO_INT64 && request->is_answered) {
        if (request->response_ns > INT64_MAX - request->ts_ns)
            return false;
        request->done_ns = request->ts_ns + request->response_ns;
    }
    return true;
}

// Returns a cell without blanks around it and without its quotation marks.
static struct text bare(struct text cell)
{
    cell = text_trimmed(cell);
    if (text_length(cell) >= 2 && *cell.at == '"' && cell.end[-1] == '"')
        cell = (struct text){cell.at + 1, cell.end - 1};
    return cell;
}

static bool take_request(struct block_csv *csv, struct text line, struct request *request)
{
    struct text cells[MAX_CELLS];

    if (!split(csv, line, cells))
        return false;
    for (size_t i = 0; i < csv->nr_cells; i++)
        if (!take_cell(csv, &csv->cells[i], bare(cells[i]), request))
            return false;
    return (request->has_offset || !request->size) && set_times(request);
}

// Appends the events of a row; false if the row cannot be parsed.
static bool read_row(struct block_csv *csv, struct text line)
{
    struct reader *reader = &csv->reader;
    struct request request = {.dev = UINT64_MAX, .major = UINT64_MAX, .minor = UINT64_MAX, .host = UINT64_MAX};
    int64_t sector, nr_sectors, written_ns;
    bool is_rounded = false;
    uint8_t start = csv->start;

    request.ts_ns = request.done_ns = request.response_ns = request.wait_ns = NO_INT64;
    request.tid = request.pid = request.cpu = NO_INT64;
    request.row = (int64_t)reader->totals.events;
    request.offset_unit = request.size_unit = SECTOR_BYTES;
    if (!take_request(csv, line, &request) || !sectors_of(&request, &sector, &nr_sectors, &is_rounded))
        return false;
    // A request that was only queued would not count: it may never have reached the device.
    if (csv->has_durations && request.done_ns == NO_INT64)
        start = ACTION_ISSUE;
    // Without a completion, an empty flush is only known as the bio with which Linux asks for it: an empty write.
    if (!nr_sectors && request.done_ns == NO_INT64 && start == ACTION_QUEUE && text_is(request.rwbs, "F"))
        request.rwbs = (struct text){EMPTY_WRITE, EMPTY_WRITE + 2};
    written_ns = csv->is_by_done ? request.done_ns : request.ts_ns;
    see_setback(reader, device_number(&request), written_ns, SETBACK_NS);
    if (count_event(reader, written_ns, request.op) == MAX_NAMES)
        return false;
    reader->totals.rounded += is_rounded;
    csv->repeats += csv->repeat_ns && is_repeated(csv, &request, sector, nr_sectors);
    if (request.ts_ns != NO_INT64 && request.wait_ns != NO_INT64)
        append_request(reader, &request, ACTION_QUEUE, request.ts_ns - request.wait_ns, sector, nr_sectors);
    if (request.ts_ns != NO_INT64)
        append_request(reader, &request, start, request.ts_ns, sector, nr_sectors);
    if (request.done_ns == NO_INT64)
        return true;
    if (request.ts_ns != NO_INT64)
        count_event(reader, csv->is_by_done ? request.ts_ns : request.done_ns, request.op);
    append_request(reader, &request, ACTION_COMPLETE, request.done_ns, sector, nr_sectors);
    return true;
}

// Checks for names of columns: no cell is a number.
static bool is_header(const struct block_csv *csv, struct text line)
{
    for (;;) {
        const uint8_t *end = memchr(line.at, csv->separator, text_length(line));
        struct text cell = bare((struct text){line.at, end ? end : line.end});

        take_byte(&cell, '-');
        if (at_digit(&cell))
            return false;
        if (!end)
            return true;
        line.at = end + 1;
    }
}

static void read_line(struct reader *reader, struct text line)
{
    struct block_csv *csv = (struct block_csv *)reader;
    uint8_t header = csv->header;

    if (is_blank(line))
        return;
    csv->header = HEADER_NONE;
    if (header == HEADER_ONE || read_row(csv, line))
        return;
    if (at_byte(&line, '#')) // a comment
        csv->header = header;
    else if (header == HEADER_NONE || !is_header(csv, line))
        refuse(&reader->totals.refused[REFUSED_LINE], line);
}
