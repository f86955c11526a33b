// Calls on descriptors that return or change sizes and positions.
#pragma once

#include "calls/state.h"

// Learns the size at the start from rows of calls other than stat (ioshark).
void size_recorded(struct calls *calls, const struct running *call);
void descriptor_begin(struct calls *calls, struct running *call);
void descriptor_end(struct calls *calls, const struct running *call);
void seek_begin(struct calls *calls, struct running *call);
void seek_end(struct calls *calls, struct running *call);
