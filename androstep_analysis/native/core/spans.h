// Which value holds each place: spans [start, end) that do not overlap, in order.
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
    struct leaf **leaves; // none is empty
    size_t count;
    size_t room;
};

// Is told of a part of a span; must not change the spans. False ends the walk.
typedef bool (*span_visitor)(void *context, struct span part);

void spans_free(struct spans *spans);

// Takes a span in where there is none yet; false where memory is short.
bool spans_put(struct spans *spans, struct span span);

// Tells the visitor, in order, what lies in [start, end), and takes it out; false where the visitor or memory failed.
bool spans_take(struct spans *spans, int64_t start, int64_t end, span_visitor visitor, void *context);

// As spans_take, but leaves everything in its place.
bool spans_see(const struct spans *spans, int64_t start, int64_t end, span_visitor visitor, void *context);

// The span that holds the place, or NULL.
const struct span *spans_at(const struct spans *spans, int64_t place);

// The last span that starts before the place, or NULL.
const struct span *spans_before(const struct spans *spans, int64_t place);
