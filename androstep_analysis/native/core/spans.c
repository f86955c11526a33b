// Spans are stored in leaves that are found by binary search. There are usually few spans (requests in flight), so one
// level above the leaves is enough; splitting a leaf moves the pointers after it.
#include "core/spans.h"

#include "core/array.h"

#include <string.h>

enum { LEAF_SPANS = 256 };

struct leaf {
    size_t count;
    struct span spans[LEAF_SPANS];
};

void spans_free(struct spans *spans)
{
    for (size_t number = 0; number < spans->count; number++)
        free(spans->leaves[number]);
    free(spans->leaves);
    *spans = (struct spans){0};
}

// Return the last leaf that starts at or before the position, or the first leaf.
static size_t leaf_of(const struct spans *spans, int64_t place)
{
    size_t low = 0, high = spans->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (spans->leaves[middle]->spans[0].start <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Return the first span of the leaf that ends after the position, or the leaf's count if there is none.
static size_t span_behind(const struct leaf *leaf, int64_t place)
{
    size_t low = 0, high = leaf->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (leaf->spans[middle].end > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool add_leaf(struct spans *spans, size_t at)
{
    struct leaf *leaf;

    if (!array_reserve(&spans->leaves, spans->count, &spans->room, sizeof(*spans->leaves)))
        return false;
    leaf = malloc(sizeof(*leaf));
    if (!leaf)
        return false;
    leaf->count = 0;
    memmove(spans->leaves + at + 1, spans->leaves + at, (spans->count - at) * sizeof(struct leaf *));
    spans->leaves[at] = leaf;
    spans->count++;
    return true;
}

static void remove_leaf(struct spans *spans, size_t at)
{
    free(spans->leaves[at]);
    spans->count--;
    memmove(spans->leaves + at, spans->leaves + at + 1, (spans->count - at) * sizeof(struct leaf *));
}

bool spans_put(struct spans *spans, struct span span)
{
    size_t number, at, half = LEAF_SPANS / 2;
    struct leaf *leaf;

    if (!spans->count && !add_leaf(spans, 0))
        return false;
    number = leaf_of(spans, span.start);
    leaf = spans->leaves[number];
    at = span_behind(leaf, span.start);
    if (leaf->count == LEAF_SPANS) {
        struct leaf *next;

        if (!add_leaf(spans, number + 1))
            return false;
        next = spans->leaves[number + 1];
        if (at == LEAF_SPANS)
            half = LEAF_SPANS; // ascending positions fill their leaves
        next->count = LEAF_SPANS - half;
        memcpy(next->spans, leaf->spans + half, next->count * sizeof(span));
        leaf->count = half;
        if (at >= half && (at > half || half == LEAF_SPANS)) {
            leaf = next;
            at -= half;
        }
    }
    memmove(leaf->spans + at + 1, leaf->spans + at, (leaf->count - at) * sizeof(span));
    leaf->spans[at] = span;
    leaf->count++;
    return true;
}

static struct span part_of(struct span span, int64_t start, int64_t end)
{
    if (span.start < start)
        span.start = start;
    if (span.end > end)
        span.end = end;
    return span;
}

bool spans_take(struct spans *spans, int64_t start, int64_t end, span_visitor visitor, void *context)
{
    size_t number, at;

    if (!spans->count)
        return true;
    number = leaf_of(spans, start);
    at = span_behind(spans->leaves[number], start);
    while (number < spans->count) {
        struct leaf *leaf = spans->leaves[number];
        struct span *span = leaf->spans + at;

        if (at == leaf->count) {
            number++;
            at = 0;
            continue;
        }
        if (span->start >= end)
            break;
        if (!visitor(context, part_of(*span, start, end)))
            return false;
        if (span->start < start && span->end > end) {
            struct span rest = {end, span->end, span->value};

            span->end = start;
            return spans_put(spans, rest);
        }
        if (span->start < start) {
            span->end = start;
            at++;
        } else if (span->end > end) {
            span->start = end;
            break;
        } else {
            leaf->count--;
            memmove(span, span + 1, (leaf->count - at) * sizeof(*span));
            if (!leaf->count)
                remove_leaf(spans, number);
        }
    }
    return true;
}

bool spans_see(const struct spans *spans, int64_t start, int64_t end, span_visitor visitor, void *context)
{
    size_t number = spans->count ? leaf_of(spans, start) : 0;
    size_t at = spans->count ? span_behind(spans->leaves[number], start) : 0;

    for (; number < spans->count; number++, at = 0) {
        const struct leaf *leaf = spans->leaves[number];

        for (; at < leaf->count; at++) {
            if (leaf->spans[at].start >= end)
                return true;
            if (!visitor(context, part_of(leaf->spans[at], start, end)))
                return false;
        }
    }
    return true;
}

const struct span *spans_at(const struct spans *spans, int64_t place)
{
    const struct leaf *leaf;
    size_t at;

    if (!spans->count)
        return NULL;
    leaf = spans->leaves[leaf_of(spans, place)];
    at = span_behind(leaf, place);
    return at < leaf->count && leaf->spans[at].start <= place ? leaf->spans + at : NULL;
}

const struct span *spans_before(const struct spans *spans, int64_t place)
{
    const struct leaf *leaf;
    size_t at;

    if (!spans->count)
        return NULL;
    leaf = spans->leaves[leaf_of(spans, place - 1)];
    at = span_behind(leaf, place - 1);
    at += at < leaf->count && leaf->spans[at].start < place;
    return at ? leaf->spans + at - 1 : NULL;
}
