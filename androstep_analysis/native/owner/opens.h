// A write is open until its thread begins another one, to whatever file: until then a page may become dirty by it, and
// it may turn out that its end went on with another event. Turns that depend on it wait.
#pragma once

#include "owner/state.h"

// The thread begins to write or to store; what it did before is over. Functions return false where memory is short.
bool opens_begin(struct owners *owners, const struct event *event, int64_t begin, int64_t end);

// Nothing becomes dirty by it any more.
bool opens_close(struct owners *owners, struct open_write *open);

// The write that the step is of, where it is open; else NULL.
struct open_write *opens_of(struct owners *owners, const struct step *step);

// The turn is decided no earlier than the write is closed.
bool opens_wait(struct open_write *open, struct waiting *waiting);

// The block was absent since; its last step is this write.
bool opens_keep(struct open_write *open, uint64_t life, int64_t file_block);

// The write that a turn of the block waits for was on its way when the block was written out: it is of the turn that
// comes.
bool opens_move_late(struct block *block);

// A turn that is decided.
bool turns_put(struct owners *owners, const struct turn *turn);
