/* Executes one operation of a replay program. */
#pragma once

#include <stddef.h>

#include "ioreplay/descriptors.h"
#include "ioreplay/mappings.h"
#include "ioreplay/program.h"
#include "ioreplay/sandbox.h"
#include "ioreplay/target.h"
#include "ioreplay/transfer.h"

/* Context of a replay, shared by all threads. */
struct replay_place {
    const struct replay_program *program;
    const struct sandbox *sandbox; /* NULL: a device-level program with a target */
    const struct replay_target *target;
    struct replay_descriptors *descriptors;
    struct replay_mappings *mappings;
    size_t most_buffer; /* from replay_buffer_most */
};

/* Fill in the members other than the sandbox or target. Returns 0, or -1 after printing an error. */
int replay_place_open(struct replay_place *place, const struct replay_program *program);
void replay_place_close(struct replay_place *place);

/* Context of one thread. */
struct replay_caller {
    const struct replay_place *place;
    struct replay_buffer buffer; /* prepared for the next operation */
};

/* Execute an operation. Returns its result as in operations.result: a number of bytes, a position, 0, or a negative
 * errno. */
int64_t replay_do(struct replay_caller *caller, const struct replay_operation *operation);
