// Records of the kernel's ring buffer: followed page by page, merged by time, decoded by small programs.
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

// How pages are laid out, in bytes.
struct layout {
    uint32_t page_bytes;
    uint32_t commit_at;
    uint32_t commit_bytes;
    uint32_t data_at;
    uint32_t big_endian;
};

// The fields of one record, and its time as recorded.
struct record {
    const uint8_t *data;
    size_t size;
    uint64_t ts;
};

// What the pages of one CPU held: `lost` as the kernel tells, `broken` pages whose rest could not be followed.
struct page_totals {
    uint64_t records;
    uint64_t lost;
    uint64_t broken;
};

// Pages one after the other, and the place of the next record.
struct pages {
    struct layout layout;
    const uint8_t *page;
    const uint8_t *end;
    const uint8_t *word;
    const uint8_t *stop;
    uint64_t now;
    struct page_totals *totals;
};

// Begins with more pages; what is missing of a last page is not read.
void pages_feed(struct pages *pages, const uint8_t *data, size_t size);

// The next record; false where there is none left.
bool pages_next(struct pages *pages, struct record *record);

// --- fields (fields.c) ---------------------------------------------------------------------------------------

enum place { PLACE_HERE, PLACE_DATA_LOC, PLACE_REL_LOC };

// One field of an event, as its format file tells. An array of size 0 goes on to the end of the record.
struct field {
    uint32_t offset;
    uint32_t size;
    uint8_t is_signed;
    uint8_t place;
    uint8_t is_there; // whether the event has such a field
    uint8_t pad;
};

// False where the record is too short for the field.
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

// Text up to its first NUL; false where the field holds no byte at all.
bool field_text(const struct record *record, const struct field *field, bool big_endian, struct text *text);

// What one instruction does with the columns of a row; the names are those of ingest/ftrace/programs.py.
enum what {
    OP_NUMBER,    // the number `field`, where it fits into the column
    OP_PLACE,     // the same; all ones is no place
    OP_CONSTANT,  // `value`
    OP_NAME,      // string number `value` of those given to ftrace_names
    OP_TEXT,      // the text `field`
    OP_SOME_TEXT, // the same; without a letter it is none
    OP_CUT,       // `other` - `field`, where it is not negative
    OP_ERRNO,     // the number `field`, where it is not positive
    OP_CHOICE,    // of `count` choices from `value` on the name or code for the number `field`; none: what the row has
    OP_FLAGS,     // of `count` choices from `value` on the letters for the bits of `field`, the rest as number
    OP_DEVICE,    // the numbers in the text `field` (8:0)
    OP_CHILD,     // the number `field`, where the number `other` is 0 and it is not all ones (32 bits)
    OP_UNLESS,    // `value` in place of all else, where the number `field` is 0 or missing
    OP_NO_TEXT,   // the empty text, where the number `field` is 0 or missing
    OP_PATH,      // the path of `count` texts, from the last name upwards, in fields from `value` on
    OP_PRODUCT,   // `field` * `other`
    OP_WITH,      // the number `field`, where the number `other` is not 0
    OP_FIRST,     // the first of the numbers in `count` fields from `value` on that is not 0, else 0
    OP_STEP,      // of `count` choices from `value` on the code for the text `field`; none: what the row has
    OP_ADDRESS,   // the numbers in `count` fields from `value` on, with colons between them
    OP_SCSI_LBA,  // first block in the command bytes `field`
    OP_SCSI_BLOCKS, // number of blocks in them
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

// What stands for a number: OP_CHOICE a name (its number) or a code, OP_FLAGS a letter; OP_STEP: the code `number` for
// the name.
struct choice {
    uint64_t number;
    uint32_t stands;
    uint32_t pad;
};

// Names, one after the other in `text`; number n ends at ends[n].
struct names {
    const uint8_t *text;
    const uint32_t *ends;
    uint64_t count;
};

enum { NR_TABLES = 5, NO_COLUMN = 255 };

// A table and where in it the columns are that every record fills. `numbers` are those of all names in its strings.
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

// What is done with the records of one event: `count` ops from `first` on fill a row of a table, and `next` (0: none)
// is the program that fills one of another.
struct program {
    uint32_t first;
    uint32_t next;
    uint16_t count;
    uint8_t target;
    uint8_t kind; // enum task_event_kind; TASK_EVENT_NONE: fills a row
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

// Fills the columns of a row that the event itself tells.
void row_fill(const struct code *code, const struct program *program, const struct record *record, bool big_endian,
              size_t row);

// --- threads (threads.c) -------------------------------------------------------------------------------------

// Numbers of threads, each kept once, with the last name each was told. All zeros is none.
struct threads {
    int32_t *tids;
    uint32_t *names;
    size_t count;
    size_t room;
    struct map places; // index and one, by number of the thread
};

void threads_free(struct threads *threads);

// Index of the thread, which is taken in if it is new; NO_THREAD where memory is short.
uint32_t threads_add(struct threads *threads, int32_t tid);

// Index of the thread; NO_THREAD if it is not known.
uint32_t threads_find(const struct threads *threads, int32_t tid);

#define NO_THREAD UINT32_MAX
