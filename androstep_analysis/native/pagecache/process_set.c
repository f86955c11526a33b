#include "pagecache/process_set.h"

#include <stdlib.h>
#include <string.h>

bool add_process(struct process_set *set, int64_t process)
{
    size_t at = set->count;

    while (at > 0 && set->processes[at - 1] > process)
        at--;
    if (at > 0 && set->processes[at - 1] == process)
        return true;
    if (set->count == set->capacity) { // most sets have one or two processes
        size_t capacity = set->capacity ? 2 * set->capacity : 2;
        int64_t *grown = realloc(set->processes, capacity * sizeof(*grown));

        if (!grown)
            return false;
        set->processes = grown;
        set->capacity = capacity;
    }
    memmove(&set->processes[at + 1], &set->processes[at], (set->count - at) * sizeof(process));
    set->processes[at] = process;
    set->count++;
    return true;
}

bool has_process(const struct process_set *set, int64_t process)
{
    for (size_t at = 0; at < set->count; at++)
        if (set->processes[at] == process)
            return true;
    return false;
}
