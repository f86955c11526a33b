/*
 * The reader of record streams (FORMAT.md) of which nothing may be missing: a file that is cut, damaged or has lost
 * records is refused.
 */
#ifndef ANDROSTEP_IOREPLAY_RECORD_READER_H
#define ANDROSTEP_IOREPLAY_RECORD_READER_H

#include <stddef.h>
#include <stdint.h>

#include "common/record.h"
#include "ioreplay/json_reader.h"

struct recordread;

/* Reads and checks file `path`; NULL after it complained. For recordread_close. */
struct recordread *recordread_open(const char *path);
void recordread_close(struct recordread *in);

/* What the header says: the outermost object. */
const struct jsonread_value *recordread_header(const struct recordread *in);

/* The size of the file, which bounds what its records can hold. */
size_t recordread_bytes(const struct recordread *in);

/* The SHA-256 of the file. */
const char *recordread_sha256(const struct recordread *in);

/* How many records of type `name` there are; 0 where the file has no such type. */
uint64_t recordread_count(const struct recordread *in, const char *name);

/* Is given record `number`, from 0: the row and one text for each string field, which last until it returns. Anything
 * but 0 ends the reading. */
typedef int recordread_take(void *context, uint64_t number, const void *row, const struct record_text *texts);

/*
 * Gives all records of `type` to `take`, as rows of the C struct that its fields lie in; the file may have more fields,
 * and others in another order. Returns 0, or -1 after `take` ended it, or after it complained: the file has no such
 * type or field, or a null where there can be none.
 */
int recordread_each(const struct recordread *in, const struct record_type *type, recordread_take *take, void *context);

#endif
