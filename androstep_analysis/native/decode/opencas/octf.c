// Reads the traces of Open-CAS' iotrace (OCTF). There is one file for each queue, which is a CPU. It holds messages of
// type octf.proto.trace.Event, each preceded by its length as a varint (open-cas-telemetry-framework: trace.proto).
#include "core/array.h"
#include "core/protobuf.h"
#include "core/table.h"

#include <string.h>

enum event_field { EVENT_HEADER = 1, EVENT_IO, EVENT_DEVICE, EVENT_META, EVENT_COMPLETION, EVENT_NAME, EVENT_FILE };
enum header_field { HEADER_SID = 1, HEADER_TIMESTAMP };
enum io_field {
    IO_LBA = 1,
    IO_LENGTH,
    IO_CLASS,
    IO_DEVICE,
    IO_OPERATION,
    IO_FLUSH,
    IO_FUA,
    IO_WRITE_HINT,
    IO_ID,
    IO_METADATA,
    IO_DIRECT,
    IO_READAHEAD,
    NR_IO_FIELDS,
};
enum completion_field { COMPLETION_ERROR = 3 };
enum meta_field { META_IO_OF_VERSION_1 = 1, META_FILE, META_OFFSET, META_SIZE, META_IO };
enum name_field { NAME_FILE = 1, NAME_PARENT, NAME_TEXT };
enum file_field { FILE_PARTITION = 1, FILE_INODE, FILE_CREATED };
enum { NR_KINDS = 8, MAX_DEPTH = 64, LONGEST_PATH = 4096, EIO_NUMBER = 5, TYPE_METADATA = 3 };

// Identity of a file. `created` separates files that reuse an inode number.
struct file_id {
    uint64_t partition;
    uint64_t inode;
    uint64_t created; // seconds and nanoseconds, mixed
};

struct file {
    struct file_id parent;
    uint32_t name; // index of a string; NO_STRING if not recorded
};

struct octf {
    uint64_t kinds[NR_KINDS]; // events by their field in Event
    uint64_t damaged;
    int64_t first_ns;
    int64_t last_ns;
    uint8_t is_full; // the table had no free row for the next event
    struct strings *names;
    struct strings *ids; // string `n` holds the bytes of the file_id of file `n`
    struct file *files;
    size_t nr_files;
    size_t capacity;
    uint64_t last_id;
    size_t last_row;
    bool has_last;
    bool has_unknown; // IoType has a value for unknown, 0, since March 2020
};

// --- files ----------------------------------------------------------------------------------------------------------

static struct file_id take_file(struct wire wire)
{
    struct file_id id = {0};
    struct field field, part;
    uint32_t number, which;

    while (wire_field(&wire, &number, &field)) {
        if (number == FILE_PARTITION)
            id.partition = field.value;
        else if (number == FILE_INODE)
            id.inode = field.value;
        else if (number == FILE_CREATED && field.type == WIRE_BYTES)
            while (wire_field(&field.bytes, &which, &part))
                id.created = id.created * 1000000007u + part.value;
    }
    return id;
}

// Registers the name of a file. A later name replaces an earlier one.
static void take_name(struct octf *octf, struct wire wire)
{
    struct file file = {.name = NO_STRING};
    struct file_id id = {0};
    struct field field;
    uint32_t number, index;

    while (wire_field(&wire, &number, &field)) {
        if (field.type != WIRE_BYTES)
            continue;
        if (number == NAME_FILE)
            id = take_file(field.bytes);
        else if (number == NAME_PARENT)
            file.parent = take_file(field.bytes);
        else if (number == NAME_TEXT)
            file.name = strings_add(octf->names, field.bytes.at, (size_t)(field.bytes.end - field.bytes.at));
    }
    if (!array_reserve(&octf->files, octf->nr_files, &octf->capacity, sizeof(*octf->files)))
        return;
    index = strings_add(octf->ids, (const uint8_t *)&id, sizeof(id));
    if (index == NO_STRING)
        return;
    octf->nr_files += index == octf->nr_files;
    octf->files[index] = file;
}

static const struct file *file_of(const struct octf *octf, struct file_id id)
{
    uint32_t index = strings_find(octf->ids, (const uint8_t *)&id, sizeof(id));

    return index == NO_STRING ? NULL : &octf->files[index];
}

// Writes the path of a file so that it ends at the end of `path`. Returns the offset where it begins, or LONGEST_PATH
// if a component is unknown.
static size_t path_of(const struct octf *octf, struct file_id id, uint8_t *path)
{
    size_t at = LONGEST_PATH;

    for (int depth = 0; depth < MAX_DEPTH; depth++) {
        const struct file *file = file_of(octf, id);
        const uint8_t *name;
        size_t length;

        if (!file || file->name == NO_STRING)
            return LONGEST_PATH;
        name = strings_text(octf->names, file->name, &length);
        if (!length)
            return LONGEST_PATH;
        if (!memcmp(&id, &file->parent, sizeof(id))) { // the root, whose name is "/"
            if (at == LONGEST_PATH)
                path[--at] = '/';
            return at;
        }
        if (length + 1 > at)
            return LONGEST_PATH;
        at -= length;
        memcpy(path + at, name, length);
        path[--at] = '/';
        id = file->parent;
    }
    return LONGEST_PATH;
}

// --- events ---------------------------------------------------------------------------------------------------------

// Reads the numeric fields of a message. Absent fields are 0, as in proto3.
static void take_numbers(struct wire wire, uint64_t *values)
{
    struct field field;
    uint32_t number;

    memset(values, 0, NR_IO_FIELDS * sizeof(*values));
    while (wire_field(&wire, &number, &field))
        if (number < NR_IO_FIELDS && field.type != WIRE_BYTES)
            values[number] = field.value;
}

static size_t append_request(struct table *table, int64_t ts_ns, int32_t cpu, enum action action, const char *event,
                             const uint64_t *values)
{
    size_t row = table_row(table);

    put_int64(table, BLOCK_TS_NS, row, ts_ns);
    put_int32(table, BLOCK_CPU, row, cpu);
    put_string(table, BLOCK_EVENT, row, (const uint8_t *)event, strlen(event));
    put_code(table, BLOCK_ACTION, row, (uint8_t)action);
    put_uint32(table, BLOCK_DEV, row, (uint32_t)values[IO_DEVICE]);
    if (values[IO_LBA] <= INT64_MAX)
        put_int64(table, BLOCK_SECTOR, row, (int64_t)values[IO_LBA]);
    if (values[IO_LENGTH] <= UINT32_MAX)
        put_int64(table, BLOCK_NR_SECTORS, row, (int64_t)values[IO_LENGTH]);
    return row;
}

static void append_io(struct octf *octf, struct table *table, int64_t ts_ns, int32_t cpu, uint64_t sid,
                      struct wire wire)
{
    static const char OPERATIONS[] = "NRWD"; // unknown is N, blktrace's letter for no data transfer
    uint64_t values[NR_IO_FIELDS], operation;
    char rwbs[8];
    size_t length = 0;

    take_numbers(wire, values);
    octf->last_row = append_request(table, ts_ns, cpu, ACTION_QUEUE, "io", values);
    octf->last_id = values[IO_ID] ? values[IO_ID] : sid;
    octf->has_last = true;
    operation = values[IO_OPERATION] + !octf->has_unknown;
    if (values[IO_FLUSH])
        rwbs[length++] = 'F';
    rwbs[length++] = OPERATIONS[operation < sizeof(OPERATIONS) - 1 ? operation : 0];
    if (values[IO_FUA])
        rwbs[length++] = 'F';
    if (values[IO_READAHEAD])
        rwbs[length++] = 'A';
    if (values[IO_METADATA])
        rwbs[length++] = 'M';
    put_string(table, BLOCK_RWBS, octf->last_row, (const uint8_t *)rwbs, length);
    if (values[IO_METADATA])
        put_code(table, BLOCK_BLOCK_TYPE, octf->last_row, TYPE_METADATA);
}

static void append_completion(struct table *table, int64_t ts_ns, int32_t cpu, struct wire wire)
{
    uint64_t values[NR_IO_FIELDS];
    size_t row;

    take_numbers(wire, values);
    row = append_request(table, ts_ns, cpu, ACTION_COMPLETE, "ioCompletion", values);
    put_int32(table, BLOCK_ERROR, row, values[COMPLETION_ERROR] ? -EIO_NUMBER : 0);
}

// Adds the path of the file to the last io. iotrace writes this message right after the io.
static void put_file_path(struct octf *octf, struct table *table, struct wire wire)
{
    uint8_t path[LONGEST_PATH];
    struct file_id id = {0};
    struct field field;
    uint32_t number;
    bool is_of_last = false;
    size_t start;

    while (wire_field(&wire, &number, &field)) {
        if (number == META_FILE && field.type == WIRE_BYTES)
            id = take_file(field.bytes);
        else if (number == META_IO_OF_VERSION_1 || number == META_IO)
            is_of_last |= octf->has_last && field.value == octf->last_id;
    }
    if (!is_of_last)
        return;
    start = path_of(octf, id, path);
    if (start < LONGEST_PATH)
        put_string(table, BLOCK_PATH, octf->last_row, path + start, LONGEST_PATH - start);
}

struct event {
    uint64_t sid;
    int64_t ts_ns;
    uint32_t kind;
    struct wire body;
};

static bool take_event(struct wire wire, struct event *event)
{
    struct field field, part;
    uint32_t number, which;

    *event = (struct event){.ts_ns = 0};
    while (wire_field(&wire, &number, &field)) {
        if (field.type != WIRE_BYTES)
            continue;
        if (number == EVENT_HEADER) {
            while (wire_field(&field.bytes, &which, &part)) {
                if (which == HEADER_SID)
                    event->sid = part.value;
                else if (which == HEADER_TIMESTAMP && part.value <= INT64_MAX)
                    event->ts_ns = (int64_t)part.value;
            }
        } else if (number < NR_KINDS) {
            event->kind = number;
            event->body = field.bytes;
        }
    }
    return wire.at == wire.end && event->kind;
}

static void count(struct octf *octf, const struct event *event)
{
    octf->kinds[event->kind]++;
    if (octf->first_ns == NO_INT64 || event->ts_ns < octf->first_ns)
        octf->first_ns = event->ts_ns;
    if (octf->last_ns == NO_INT64 || event->ts_ns > octf->last_ns)
        octf->last_ns = event->ts_ns;
}

// --- for Python -----------------------------------------------------------------------------------------------------

API struct octf *octf_new(bool has_unknown);
API void octf_free(struct octf *octf);
API size_t octf_names(struct octf *octf, const uint8_t *data, size_t length);
API size_t octf_decode(struct octf *octf, const uint8_t *data, size_t length, int32_t cpu, struct table *table);

struct octf *octf_new(bool has_unknown)
{
    struct octf *octf = calloc(1, sizeof(*octf));

    if (!octf)
        return NULL;
    octf->has_unknown = has_unknown;
    octf->first_ns = octf->last_ns = NO_INT64;
    octf->names = strings_new();
    octf->ids = strings_new();
    if (octf->names && octf->ids)
        return octf;
    octf_free(octf);
    return NULL;
}

void octf_free(struct octf *octf)
{
    if (!octf)
        return;
    free(octf->files);
    strings_free(octf->names);
    strings_free(octf->ids);
    free(octf);
}

// Splits the next message off; false if it is incomplete.
static bool take_message(struct wire *wire, struct wire *message)
{
    struct wire at = *wire;
    uint64_t length;

    if (!wire_varint(&at, &length) || length > (uint64_t)(at.end - at.at))
        return false;
    *message = (struct wire){at.at, at.at + length};
    wire->at = at.at + length;
    return true;
}

// Registers the file names in a chunk of a file. Returns how many bytes are complete messages.
size_t octf_names(struct octf *octf, const uint8_t *data, size_t length)
{
    struct wire wire = {data, data + length}, message;
    struct event event;

    while (take_message(&wire, &message))
        if (take_event(message, &event) && event.kind == EVENT_NAME)
            take_name(octf, event.body);
    return (size_t)(wire.at - data);
}

// Decodes messages until the input ends or the table is full. Returns how many bytes were decoded. A later message may
// still add the path to the row of the last io, so drain the table only when it is full.
size_t octf_decode(struct octf *octf, const uint8_t *data, size_t length, int32_t cpu, struct table *table)
{
    struct wire wire = {data, data + length}, message;
    const uint8_t *start = wire.at;
    struct event event;

    octf->has_last &= table->rows > 0;
    octf->is_full = false;
    for (; take_message(&wire, &message); start = wire.at) {
        if (!take_event(message, &event)) {
            octf->damaged++;
            continue;
        }
        octf->is_full = table_is_full(table) && (event.kind == EVENT_IO || event.kind == EVENT_COMPLETION);
        if (octf->is_full)
            break;
        count(octf, &event);
        if (event.kind == EVENT_IO)
            append_io(octf, table, event.ts_ns, cpu, event.sid, event.body);
        else if (event.kind == EVENT_COMPLETION)
            append_completion(table, event.ts_ns, cpu, event.body);
        else if (event.kind == EVENT_META)
            put_file_path(octf, table, event.body);
    }
    return (size_t)(start - data);
}
