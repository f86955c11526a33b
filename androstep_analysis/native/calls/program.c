// Operations store their row. output.c determines their order.
#include "calls/program.h"

#include <stdlib.h>

void program_free(struct program *program)
{
    free(program->operations);
    free(program->inserted);
}

static struct operation *prepare(struct operation *operation, uint32_t row, int32_t thread, uint8_t call)
{
    *operation = (struct operation){
        .row = row,
        .thread = thread,
        .descriptor = NO_INDEX,
        .descriptor2 = NO_INDEX,
        .inode = NO_INDEX,
        .inode2 = NO_INDEX,
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

struct operation *operation_new(struct program *program, uint32_t row, int32_t thread, uint8_t call)
{
    return prepare(PUSH(program, operations), row, thread, call);
}

struct operation *operation_insert(struct program *program, uint32_t row, int32_t thread, uint8_t call, uint8_t rank)
{
    struct operation *operation = prepare(PUSH(program, inserted), row, thread, call);

    operation->rank = rank;
    operation->is_inserted = true;
    return operation;
}
