// Calls on paths.
#pragma once

#include "calls/state.h"

void path_begin(struct calls *calls, struct running *call);
void path_end(struct calls *calls, const struct running *call);

// Records the result of a call of the stat family on a path or, if `location` is NULL, on an open file.
void stat_end(struct calls *calls, struct location *location, int32_t inode, uint32_t row, bool is_steady);
void open_end(struct calls *calls, const struct running *call);

// Ends a call that changes the tree of names.
void directory_end(struct calls *calls, const struct running *call);

// Sets the working directory after chdir, fchdir and getcwd.
void directory_changed(struct calls *calls, const struct running *call);
