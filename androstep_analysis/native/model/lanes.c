// Assigns the requests of a block device to lanes: on each lane one request follows another, and as many lanes are busy
// at a time as requests were in flight. Also determines the dependencies between lanes that preserve the meaning of
// flushes (replay/device.py).

#include <string.h>

#include "core/array.h"
#include "core/table.h"

enum {
    DOES_WRITE = 1, // made durable by a later flush
    DOES_FLUSH = 2, // later requests rely on the durability of earlier ones
};

#define NO_REQUEST (-1)

// A lane. Times may be equal, so order is expressed by the number of requests that had ended.
struct lane {
    uint64_t begun;    // when its last request began
    int64_t write;     // its last ended write, or NO_REQUEST
    uint64_t ended;    // when that write ended
    int64_t next_free; // lane that became free after this one, or -1
};

struct flush {
    int64_t request;
    uint64_t begun, ended;
};

struct order {
    int64_t request, after;
};

struct lanes {
    const int64_t *start_ns, *end_ns; // rows ordered by start_ns
    const uint8_t *does;
    int32_t *on; // lane of each request
    struct lane *lanes;
    size_t nr_lanes, lanes_room;
    int64_t first_free, last_free;
    int64_t *busy; // requests in flight, as a heap by end
    size_t nr_busy, busy_room;
    uint64_t nr_ended;
    struct flush *flushes; // ended flushes that no later flush had to wait for
    size_t nr_flushes, flushes_room;
    struct order *orders;
    size_t nr_orders, orders_room;
};

API struct lanes *lanes_new(size_t rows, const int64_t *start_ns, const int64_t *end_ns, const uint8_t *does,
                            int32_t *on);
API void lanes_free(struct lanes *lanes);
API size_t lanes_count(const struct lanes *lanes);
API size_t lanes_orders(const struct lanes *lanes);
API void lanes_copy(const struct lanes *lanes, int64_t *request, int64_t *after);

// --- requests in flight ----------------------------------------------------------------------------------------------

static bool ends_before(const struct lanes *lanes, int64_t one, int64_t other)
{
    return lanes->end_ns[one] != lanes->end_ns[other] ? lanes->end_ns[one] < lanes->end_ns[other] : one < other;
}

static bool push_busy(struct lanes *lanes, int64_t request)
{
    size_t place = lanes->nr_busy;

    if (!array_reserve(&lanes->busy, place, &lanes->busy_room, sizeof(*lanes->busy)))
        return false;
    lanes->nr_busy++;
    for (; place > 0 && ends_before(lanes, request, lanes->busy[(place - 1) / 2]); place = (place - 1) / 2)
        lanes->busy[place] = lanes->busy[(place - 1) / 2];
    lanes->busy[place] = request;
    return true;
}

static int64_t pop_busy(struct lanes *lanes)
{
    int64_t first = lanes->busy[0], moved = lanes->busy[--lanes->nr_busy];
    size_t place = 0;

    while (2 * place + 1 < lanes->nr_busy) {
        size_t below = 2 * place + 1;

        if (below + 1 < lanes->nr_busy && ends_before(lanes, lanes->busy[below + 1], lanes->busy[below]))
            below++;
        if (!ends_before(lanes, lanes->busy[below], moved))
            break;
        lanes->busy[place] = lanes->busy[below];
        place = below;
    }
    lanes->busy[place] = moved;
    return first;
}

// --- lanes -----------------------------------------------------------------------------------------------------------

static void put_free(struct lanes *lanes, int32_t lane)
{
    lanes->lanes[lane].next_free = -1;
    if (lanes->first_free < 0)
        lanes->first_free = lane;
    else
        lanes->lanes[lanes->last_free].next_free = lane;
    lanes->last_free = lane;
}

static bool add_lane(struct lanes *lanes)
{
    if (lanes->nr_lanes == INT32_MAX)
        return false;
    if (!array_reserve(&lanes->lanes, lanes->nr_lanes, &lanes->lanes_room, sizeof(*lanes->lanes)))
        return false;
    lanes->lanes[lanes->nr_lanes] = (struct lane){0, NO_REQUEST, 0, -1};
    put_free(lanes, (int32_t)lanes->nr_lanes++);
    return true;
}

// Return the lane that has been free for longest: it is the least likely to be delayed in a replay.
static bool take_lane(struct lanes *lanes, int32_t *lane)
{
    if (lanes->first_free < 0 && !add_lane(lanes))
        return false;
    *lane = (int32_t)lanes->first_free;
    lanes->first_free = lanes->lanes[*lane].next_free;
    return true;
}

// --- orders ----------------------------------------------------------------------------------------------------------

static bool add_order(struct lanes *lanes, int64_t request, int64_t after)
{
    if (!array_reserve(&lanes->orders, lanes->nr_orders, &lanes->orders_room, sizeof(*lanes->orders)))
        return false;
    lanes->orders[lanes->nr_orders++] = (struct order){request, after};
    return true;
}

// Record an ended flush. Every later request waits for it, and so no longer for the flushes that it waited for itself.
static bool end_flush(struct lanes *lanes, int64_t request)
{
    struct flush flush = {request, lanes->lanes[lanes->on[request]].begun, lanes->nr_ended};
    size_t pending = 0;

    for (size_t index = 0; index < lanes->nr_flushes; index++)
        if (lanes->flushes[index].ended >= flush.begun)
            lanes->flushes[pending++] = lanes->flushes[index];
    lanes->nr_flushes = pending;
    if (!array_reserve(&lanes->flushes, pending, &lanes->flushes_room, sizeof(*lanes->flushes)))
        return false;
    lanes->flushes[lanes->nr_flushes++] = flush;
    return true;
}

static bool end_before(struct lanes *lanes, int64_t now_ns)
{
    while (lanes->nr_busy && lanes->end_ns[lanes->busy[0]] <= now_ns) {
        int64_t request = pop_busy(lanes);
        struct lane *lane = &lanes->lanes[lanes->on[request]];

        put_free(lanes, lanes->on[request]);
        if (lanes->does[request] & DOES_WRITE) {
            lane->write = request;
            lane->ended = lanes->nr_ended;
        }
        if (lanes->does[request] & DOES_FLUSH && !end_flush(lanes, request))
            return false;
        lanes->nr_ended++;
    }
    return true;
}

// Let a request wait for the ended flushes, except those that the previous request on its lane waited for.
static bool wait_for_flushes(struct lanes *lanes, int64_t request, int32_t lane)
{
    for (size_t index = 0; index < lanes->nr_flushes; index++) {
        const struct flush *flush = &lanes->flushes[index];

        if (lanes->on[flush->request] != lane && flush->ended >= lanes->lanes[lane].begun &&
            !add_order(lanes, request, flush->request))
            return false;
    }
    return true;
}

// Let a flush wait for the ended writes, except those that a flush it waits for has waited for.
static bool wait_for_writes(struct lanes *lanes, int64_t request, int32_t lane)
{
    uint64_t waited = 0;

    for (size_t index = 0; index < lanes->nr_flushes; index++)
        if (lanes->flushes[index].begun > waited)
            waited = lanes->flushes[index].begun;
    for (size_t other = 0; other < lanes->nr_lanes; other++) {
        int64_t write = lanes->lanes[other].write;

        if ((int32_t)other == lane || write == NO_REQUEST || lanes->lanes[other].ended < waited)
            continue;
        // A write that is also a flush is waited for as a flush.
        if (!(lanes->does[write] & DOES_FLUSH) && !add_order(lanes, request, write))
            return false;
    }
    return true;
}

static bool take(struct lanes *lanes, int64_t request)
{
    int32_t lane;

    if (!end_before(lanes, lanes->start_ns[request]) || !take_lane(lanes, &lane))
        return false;
    lanes->on[request] = lane;
    if (!wait_for_flushes(lanes, request, lane))
        return false;
    if (lanes->does[request] & DOES_FLUSH && !wait_for_writes(lanes, request, lane))
        return false;
    lanes->lanes[lane].begun = lanes->nr_ended;
    return push_busy(lanes, request);
}

// --- entry points ----------------------------------------------------------------------------------------------------

// Assign the requests; NULL if memory runs out. `on` is filled with the lane of each request.
struct lanes *lanes_new(size_t rows, const int64_t *start_ns, const int64_t *end_ns, const uint8_t *does, int32_t *on)
{
    struct lanes *lanes = calloc(1, sizeof(*lanes));

    if (!lanes)
        return NULL;
    *lanes = (struct lanes){.start_ns = start_ns, .end_ns = end_ns, .does = does, .on = on, .first_free = -1};
    for (size_t row = 0; row < rows; row++) {
        if (!take(lanes, (int64_t)row)) {
            lanes_free(lanes);
            return NULL;
        }
    }
    return lanes;
}

void lanes_free(struct lanes *lanes)
{
    free(lanes->lanes);
    free(lanes->busy);
    free(lanes->flushes);
    free(lanes->orders);
    free(lanes);
}

size_t lanes_count(const struct lanes *lanes)
{
    return lanes->nr_lanes;
}

size_t lanes_orders(const struct lanes *lanes)
{
    return lanes->nr_orders;
}

void lanes_copy(const struct lanes *lanes, int64_t *request, int64_t *after)
{
    for (size_t row = 0; row < lanes->nr_orders; row++) {
        request[row] = lanes->orders[row].request;
        after[row] = lanes->orders[row].after;
    }
}
