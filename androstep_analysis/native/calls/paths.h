// What calls do that are given paths.
#pragma once

#include "calls/state.h"

void path_begin(struct calls *calls, struct running *call);
void path_end(struct calls *calls, const struct running *call);

// Takes in what a call of the stat family found: at a place, or of an open file (`place` is NULL then).
void stat_end(struct calls *calls, struct place *place, int32_t inode, uint32_t row, bool is_steady);
void open_end(struct calls *calls, const struct running *call);

// The calls that change the tree of names.
void directory_end(struct calls *calls, const struct running *call);

// chdir, fchdir and getcwd tell where relative paths start from now on.
void directory_changed(struct calls *calls, const struct running *call);
