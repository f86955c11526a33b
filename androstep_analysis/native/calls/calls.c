// The cleaner: recorded system calls in, operations on files out.
#include "calls/calls.h"

#include <string.h>

void *calls_push(struct calls *calls, void **objects, size_t *count, size_t *room, size_t size)
{
    uint8_t *object;

    if (*count == INT32_MAX)
        calls_out_of_memory(calls);
    if (*count == *room) {
        void *grown = array_grow(*objects, room, size);

        if (!grown)
            calls_out_of_memory(calls);
        *objects = grown;
    }
    object = (uint8_t *)*objects + (*count)++ * size;
    memset(object, 0, size);
    return object;
}

_Noreturn void calls_out_of_memory(struct calls *calls)
{
    longjmp(calls->no_memory, 1);
}

void *calls_allocate(struct calls *calls, size_t size)
{
    void *memory = malloc(size);

    if (!memory)
        calls_out_of_memory(calls);
    return memory;
}

uint64_t *calls_slot(struct calls *calls, struct map *map, uint64_t space, uint64_t key)
{
    uint64_t *value = map_add(map, space, key);

    if (!value)
        calls_out_of_memory(calls);
    return value;
}

uint32_t calls_string(struct calls *calls, const uint8_t *text, size_t length)
{
    uint32_t number = strings_add(calls->strings, text, length);

    if (number == NO_STRING)
        calls_out_of_memory(calls);
    return number;
}

static struct operation *prepare(struct operation *operation, uint32_t row, int32_t thread, uint8_t call)
{
    *operation = (struct operation){
        .row = row,
        .thread = thread,
        .descriptor = NOBODY,
        .descriptor2 = NOBODY,
        .inode = NOBODY,
        .inode2 = NOBODY,
        .path = NO_STRING,
        .path2 = NO_STRING,
        .offset = NO_INT64,
        .offset2 = NO_INT64,
        .flags = NO_INT64,
        .bytes = NO_INT64,
        .call = call,
    };
    return operation;
}

// The operation that a row is.
struct operation *calls_operation(struct calls *calls, uint32_t row, int32_t thread, uint8_t call)
{
    return prepare(PUSH(calls, operations), row, thread, call);
}

// An operation that comes before that of the row; those of one row come in the order of their ranks.
struct operation *calls_insert(struct calls *calls, uint32_t row, int32_t thread, uint8_t call, uint8_t rank)
{
    struct operation *operation = prepare(PUSH(calls, late), row, thread, call);

    operation->rank = rank;
    operation->is_inserted = true;
    return operation;
}

API void calls_free(struct calls *calls)
{
    if (!calls)
        return;
    for (size_t n = 0; n < calls->nr_tables; n++)
        map_free(&calls->tables[n].entries);
    for (size_t n = 0; n < calls->nr_spaces; n++)
        free(calls->spaces[n].mappings);
    map_free(&calls->dentry_numbers);
    map_free(&calls->inode_numbers);
    map_free(&calls->thread_numbers);
    map_free(&calls->process_numbers);
    free(calls->inodes);
    free(calls->dentries);
    free(calls->descriptions);
    free(calls->descriptors);
    free(calls->entries);
    free(calls->tables);
    free(calls->forks);
    free(calls->spaces);
    free(calls->directories);
    free(calls->processes);
    free(calls->threads);
    free(calls->operations);
    free(calls->late);
    free(calls->changes);
    free(calls->running);
    free(calls->heap);
    free(calls->scratch);
    free(calls->row_threads);
    free(calls->ordered);
    free(calls);
}

static void follow(struct calls *calls)
{
    const struct calls_input *in = calls->in;

    calls->row_threads = calls_allocate(calls, (in->rows + 1) * sizeof(*calls->row_threads));
    names_begin(calls);
    for (size_t row = 0; row < in->rows; row++) {
        running_end_until(calls, in->ts_ns[row]);
        call_begin(calls, (uint32_t)row);
    }
    running_end_until(calls, INT64_MAX);
}

// Follows all rows, and tells for each in `left` why it is left out (enum left; 0: it is an operation). `pids` are the
// processes to keep, all where there are none. What is found is taken with calls_tables. NULL where memory is short.
API struct calls *calls_clean(const struct calls_input *in, struct strings *strings, uint8_t *left, const int32_t *pids,
                              size_t nr_pids, bool has_unknown)
{
    struct calls *calls = in->rows < INT32_MAX ? calloc(1, sizeof(*calls)) : NULL;

    if (!calls)
        return NULL;
    calls->in = in;
    calls->strings = strings;
    calls->left = left;
    calls->free_running = NOBODY;
    calls->has_unknown = has_unknown;
    if (setjmp(calls->no_memory)) {
        calls_free(calls);
        return NULL;
    }
    follow(calls);
    output_finish(calls, pids, nr_pids);
    return calls;
}
