// Finds the records of a stream and skips damaged ranges between them.
#include "decode/blktrace/state.h"

enum { MAGIC_BYTES = 4 };

// Larger payloads are rare: messages have up to 128 bytes (BLK_TN_MAX_MSG), commands up to 32.
enum { USUAL_PDU_BYTES = 128 + CGROUP_BYTES };

// Returns the size of the header that begins here, or 0 if none does.
static inline size_t header_at(const uint8_t *at, bool *is_big)
{
    uint8_t version;

    if (at[1] == 0x74 && at[2] == 0x61 && at[3] == 0x65) {
        version = at[0];
        *is_big = false;
    } else if (at[0] == 0x65 && at[1] == 0x61 && at[2] == 0x74) {
        version = at[3];
        *is_big = true;
    } else {
        return 0;
    }
    return version == VERSION ? HEADER_BYTES : version == VERSION2 ? HEADER2_BYTES : 0;
}

// Returns the distance to the first possible start of a record. Without one, all but the last three bytes are skipped.
static size_t before_magic(const uint8_t *data, size_t length)
{
    bool is_big;

    for (size_t i = 0; i + MAGIC_BYTES <= length; i++) {
        if (header_at(data + i, &is_big))
            return i;
    }
    return length < MAGIC_BYTES ? 0 : length - MAGIC_BYTES + 1;
}

static void skip_gap(struct blktrace *trace, struct stream *stream)
{
    size_t left = stream->length - stream->offset;
    size_t bytes = before_magic(stream->data + stream->offset, left);

    if (stream->is_last && left - bytes < MAGIC_BYTES)
        bytes = left;
    if (!bytes)
        return;
    trace->report.gaps += !stream->in_gap;
    trace->report.gap_bytes += bytes;
    stream->in_gap = true;
    stream->offset += bytes;
}

// Checks a record against what follows it. If no record follows, or the payload is unusually long, the record may be
// truncated. The next record then begins inside of it.
enum progress record_next(struct blktrace *trace, struct stream *stream)
{
    struct record *record = &stream->record;
    bool is_big;

    for (;;) {
        size_t left = stream->length - stream->offset;
        const uint8_t *at;
        size_t size, inside;

        if (!left && stream->is_last)
            return ENDED;
        if (left < MAGIC_BYTES && !stream->is_last)
            return MORE;
        at = stream->data + stream->offset;
        if (left < MAGIC_BYTES && !stream->in_gap) {
            trace->report.torn++;
            stream->offset = stream->length;
            return ENDED;
        }
        record->header = left < MAGIC_BYTES ? 0 : header_at(at, &record->is_big);
        if (!record->header) {
            skip_gap(trace, stream);
            continue;
        }
        stream->in_gap = false;
        if (left < HEADER2_BYTES && !stream->is_last)
            return MORE;
        record->at = at;
        record->pdu = 0;
        size = record->header;
        if (left >= size) {
            record->pdu = number16(record, device_offset(record) + 10);
            size += record->pdu;
        }
        if (left < size + MAGIC_BYTES && !stream->is_last)
            return MORE;
        if (record->pdu <= USUAL_PDU_BYTES &&
            (left == size || (left >= size + MAGIC_BYTES && header_at(at + size, &is_big))))
            return RECORD_WHOLE;
        inside = MAGIC_BYTES + before_magic(at + MAGIC_BYTES, (left < size ? left : size) - MAGIC_BYTES);
        if (inside + MAGIC_BYTES <= (left < size ? left : size)) {
            trace->report.torn++;
            stream->offset += inside;
        } else if (left < size) {
            trace->report.torn++;
            stream->offset = stream->length;
        } else {
            return RECORD_WHOLE;
        }
    }
}
