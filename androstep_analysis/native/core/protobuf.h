// Iteration over messages in the wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

// The unread part of a message.
struct wire {
    const uint8_t *at;
    const uint8_t *end;
};

// A field. `value` is the value of a number (a negative varint is sign-extended). `bytes` are the contents of a field
// with a length; otherwise they are NULL.
struct field {
    uint8_t type;
    uint64_t value;
    struct wire bytes;
};

// Force inlining of the two functions that iterate: the position then stays in registers, which makes decoding a third
// faster.
#define INLINED static inline __attribute__((always_inline))

// Read a varint. Returns false if it is incomplete; `wire` is then unchanged.
INLINED bool wire_varint(struct wire *wire, uint64_t *value)
{
    const uint8_t *at = wire->at;
    uint64_t result = 0;

    if (at < wire->end && *at < 0x80) {
        *value = *at;
        wire->at = at + 1;
        return true;
    }
    for (unsigned shift = 0; shift < 70 && at < wire->end; shift += 7) {
        uint8_t byte = *at++;

        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            wire->at = at;
            return true;
        }
    }
    return false;
}

// Read the next field. Returns false at the end of the message or at damage; `wire` is then unchanged, and at == end
// distinguishes the two. Groups, which are obsolete, are treated as damage.
INLINED bool wire_field(struct wire *wire, uint32_t *number, struct field *field)
{
    struct wire rest = *wire;
    uint64_t key;

    if (!wire_varint(&rest, &key) || key >> 32 || key < 8)
        return false;
    *number = (uint32_t)(key >> 3);
    field->type = key & 7;
    field->bytes = (struct wire){NULL, NULL};
    if (field->type == WIRE_VARINT || field->type == WIRE_BYTES) {
        if (!wire_varint(&rest, &field->value))
            return false;
        if (field->type == WIRE_BYTES) {
            if (field->value > (uint64_t)(rest.end - rest.at))
                return false;
            field->bytes = (struct wire){rest.at, rest.at + field->value};
            rest.at = field->bytes.end;
        }
    } else if (field->type == WIRE_FIXED64 || field->type == WIRE_FIXED32) {
        size_t size = field->type == WIRE_FIXED64 ? 8 : 4;

        if ((size_t)(rest.end - rest.at) < size)
            return false;
        field->value = 0;
        for (size_t byte = 0; byte < size; byte++)
            field->value |= (uint64_t)rest.at[byte] << (8 * byte);
        rest.at += size;
    } else {
        return false;
    }
    *wire = rest;
    return true;
}
