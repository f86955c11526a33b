// A map from positions to values: ordered spans [start, end) that do not overlap.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
    int64_t start;
    int64_t end;
    int64_t value;
};

struct leaf;

struct spans {
    struct leaf **leaves; // no leaf is empty
    size_t count;
    size_t room;
};

// Receive a part of a span; must not change the spans. Returns false to stop.
typedef bool (*span_visitor)(void *context, struct span part);

void spans_free(struct spans *spans);

// Insert a span into a free range. Returns false if memory runs out.
bool spans_put(struct spans *spans, struct span span);

// Remove the range [start, end) and pass its parts to the visitor in order. Returns false if the visitor or an
// allocation failed.
bool spans_take(struct spans *spans, int64_t start, int64_t end, span_visitor visitor, void *context);

// Pass the parts within [start, end) to the visitor without removing them.
bool spans_see(const struct spans *spans, int64_t start, int64_t end, span_visitor visitor, void *context);

// Return the span that contains the position, or NULL.
const struct span *spans_at(const struct spans *spans, int64_t place);

// Return the last span that starts before the position, or NULL.
const struct span *spans_before(const struct spans *spans, int64_t place);
