// State of the decoder of the kernel's ring buffer: pages, records merged by time, and the programs that decode them.
#pragma once

#include "core/map.h"
#include "core/text.h"

#include <string.h>

// --- bytes of another machine -------------------------------------------------------------------------------------

static inline uint16_t get_u16(const uint8_t *at, bool big_endian)
{
    return (uint16_t)(big_endian ? at[0] << 8 | at[1] : at[1] << 8 | at[0]);
}

static inline uint32_t get_u32(const uint8_t *at, bool big_endian)
{
    return big_endian ? (uint32_t)get_u16(at, true) << 16 | get_u16(at + 2, true)
                      : (uint32_t)get_u16(at + 2, false) << 16 | get_u16(at, false);
}

static inline uint64_t get_u64(const uint8_t *at, bool big_endian)
{
    return big_endian ? (uint64_t)get_u32(at, true) << 32 | get_u32(at + 4, true)
                      : (uint64_t)get_u32(at + 4, false) << 32 | get_u32(at, false);
}

// --- pages (pages.c) -----------------------------------------------------------------------------------------

// Layout of a page, in bytes.
struct layout {
    uint32_t page_bytes;
    uint32_t commit_at;
    uint32_t commit_bytes;
    uint32_t data_at;
    uint32_t big_endian;
};

// Data and time stamp of one record.
struct record {
    const uint8_t *data;
    size_t size;
    uint64_t ts;
};

// Totals of one CPU: `lost` records as the kernel reports them, `broken` pages that could not be decoded to their end.
struct page_totals {
    uint64_t records;
    uint64_t lost;
    uint64_t broken;
};

// Consecutive pages and the position of the next record.
struct pages {
    struct layout layout;
    const uint8_t *page;
    const uint8_t *end;
    const uint8_t *word;
    const uint8_t *stop;
    uint64_t now;
    struct page_totals *totals;
};

// Sets the pages to read. An incomplete last page is ignored.
void pages_feed(struct pages *pages, const uint8_t *data, size_t size);

// Reads the next record; false at the end of the pages.
bool pages_next(struct pages *pages, struct record *record);

// --- fields (fields.c) ---------------------------------------------------------------------------------------

enum location { LOCATION_INLINE, LOCATION_DATA_LOC, LOCATION_REL_LOC };

// A field of an event, from its format file. An array of size 0 extends to the end of the record.
struct field {
    uint32_t offset;
    uint32_t size;
    uint8_t is_signed;
    uint8_t location;
    uint8_t is_there; // the event has such a field
    uint8_t pad;
};

// Reads an unsigned field; false if the record is too short.
static inline bool field_unsigned(const struct record *record, const struct field *field, bool big_endian,
                                  uint64_t *value)
{
    const uint8_t *at;

    if (!field->is_there || record->size < (size_t)field->offset + field->size)
        return false;
    at = record->data + field->offset;
    switch (field->size) {
    case 1:
        *value = *at;
        return true;
    case 2:
        *value = get_u16(at, big_endian);
        return true;
    case 4:
        *value = get_u32(at, big_endian);
        return true;
    case 8:
        *value = get_u64(at, big_endian);
        return true;
    default:
        return false;
    }
}

// Finds the text of a field up to its first NUL; false if the field is empty.
bool field_text(const struct record *record, const struct field *field, bool big_endian, struct text *text);

// Instructions that fill one column of a row. ingest/ftrace/programs.py has the same names.
enum what {
    OP_NUMBER,    // the number `field`, if it fits into the column
    OP_PLACE,     // as OP_NUMBER; all ones is null
    OP_CONSTANT,  // `value`
    OP_NAME,      // string `value` of the names in `struct code`
    OP_TEXT,      // the text `field`
    OP_SOME_TEXT, // as OP_TEXT; an empty text is null
    OP_CUT,       // `other` - `field`, unless negative
    OP_ERRNO,     // the number `field`, unless positive
    OP_CHOICE,  // the name or code of the choice for `field`, of `count` choices at `value`; no match leaves the column
    OP_FLAGS,   // the letters of the bits of `field`, of `count` choices at `value`; other bits as a hexadecimal number
    OP_DEVICE,  // the device number in the text `field` (8:0)
    OP_CHILD,   // the number `field`, if the number `other` is 0 and `field` is not all ones (32 bits)
    OP_UNLESS,  // `value` replaces the column if the number `field` is 0 or missing
    OP_NO_TEXT, // the empty text, if the number `field` is 0 or missing
    OP_PATH,    // the path of `count` components, last one first, in the fields at `value`
    OP_PRODUCT, // `field` * `other`
    OP_WITH,    // the number `field`, if the number `other` is not 0
    OP_FIRST,   // the first nonzero number of `count` fields at `value`, else 0
    OP_STEP, // the code of the choice for the text `field`, of `count` choices at `value`; no match leaves the column
    OP_ADDRESS,     // the numbers of `count` fields at `value`, separated by colons
    OP_SCSI_LBA,    // first block of the SCSI command `field`
    OP_SCSI_BLOCKS, // number of blocks of the SCSI command `field`
    OP_BITS,        // the bits of the number `field`
};

struct op {
    uint8_t what;
    uint8_t column;
    uint16_t count;
    uint32_t pad;
    int64_t value;
    struct field field;
    struct field other;
};

// Maps `number` to `stands`: the index of a name or a code (OP_CHOICE), or a letter (OP_FLAGS). OP_STEP maps the name
// `stands` to the code `number`.
struct choice {
    uint64_t number;
    uint32_t stands;
    uint32_t pad;
};

// Concatenated names; name n ends at ends[n].
struct names {
    const uint8_t *text;
    const uint32_t *ends;
    uint64_t count;
};

enum { NR_TABLES = 6, NO_COLUMN = 255 };

// A table and the columns that every record fills. `numbers` maps names of `struct code` to strings of the table.
struct target {
    struct table *table;
    const uint32_t *numbers;
    uint8_t ts_ns;
    uint8_t cpu;
    uint8_t tid;
    uint8_t pid;
    uint8_t comm;
    uint8_t pad[3];
};

// A program for the records of one event. `count` instructions at `first` fill a row of a table. `next` (0: none) is a
// program that fills a further row.
struct program {
    uint32_t first;
    uint32_t next;
    uint16_t count;
    uint8_t target;
    uint8_t kind; // enum task_event_kind; TASK_EVENT_NONE: the program fills a row
    struct field subject;
    struct field flags;
    struct field name;
    struct field new_name;
};

enum task_event_kind {
    TASK_EVENT_NONE,
    TASK_EVENT_NAME,
    TASK_EVENT_NEWTASK,
    TASK_EVENT_FORK,
    TASK_EVENT_RENAME,
    TASK_EVENT_EXEC
};

struct code {
    const struct op *ops;
    const struct choice *choices;
    const struct field *fields;
    struct names names;
    struct target targets[NR_TABLES];
};

// Fills the columns of a row from the fields of a record.
void row_fill(const struct code *code, const struct program *program, const struct record *record, bool big_endian,
              size_t row);

// --- threads (threads.c) -------------------------------------------------------------------------------------

// Thread ids, each once, with the last name recorded for each and the time when it was last seen. All zeros is empty.
struct threads {
    int32_t *tids;
    uint32_t *names;
    int64_t *named_ns;
    size_t count;
    size_t capacity;
    struct map indices; // index plus one, by tid
};

void threads_free(struct threads *threads);

// Returns the index of the thread and adds it if it is new; NO_THREAD without memory.
uint32_t threads_add(struct threads *threads, int32_t tid);

// Returns the index of the thread, or NO_THREAD.
uint32_t threads_find(const struct threads *threads, int32_t tid);

#define NO_THREAD UINT32_MAX
