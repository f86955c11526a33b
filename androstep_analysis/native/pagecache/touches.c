#include "pagecache/touches.h"

#include <stdlib.h>
#include <string.h>

enum { RETAINED_REPETITIONS = 3 };

// Return whether the last touches equal this one except for their time. Three of a run are enough: the first states
// when it began, the last when it ended, and the one before is needed if the last turns out to belong to the next
// interval.
static bool is_repeated(const struct touches *touches, const struct touch *touch)
{
    if (touches->count < RETAINED_REPETITIONS)
        return false;
    for (const struct touch *before = last_touch(touches) - RETAINED_REPETITIONS + 1; before <= last_touch(touches);
         before++)
        if (before->thread != touch->thread || before->kind != touch->kind || before->may_dirty != touch->may_dirty ||
            before->is_within_write != touch->is_within_write)
            return false;
    return true;
}

bool append_touch(struct touches *touches, const struct touch *touch)
{
    if (is_repeated(touches, touch)) {
        touches->touches[touches->count - 2] = touches->touches[touches->count - 1];
        touches->touches[touches->count - 1] = *touch;
        return true;
    }
    if (touches->count == touches->capacity) {
        uint32_t capacity = touches->capacity ? 2 * touches->capacity : 2;
        struct touch *grown = realloc(touches->touches, capacity * sizeof(*grown));

        if (!grown)
            return false;
        touches->touches = grown;
        touches->capacity = capacity;
    }
    touches->touches[touches->count++] = *touch;
    return true;
}

void remove_touch(struct touches *touches, size_t at)
{
    touches->count--;
    memmove(&touches->touches[at], &touches->touches[at + 1], (touches->count - at) * sizeof(*touches->touches));
}
