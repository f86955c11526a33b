// Calls on descriptors that tell or change sizes and positions.
#pragma once

#include "calls/state.h"

// What a recording tells of the size at the start on rows of other calls than stat: ioshark.
void size_recorded(struct calls *calls, const struct running *call);
void descriptor_begin(struct calls *calls, struct running *call);
void descriptor_end(struct calls *calls, const struct running *call);
void seek_begin(struct calls *calls, struct running *call);
void seek_end(struct calls *calls, struct running *call);
