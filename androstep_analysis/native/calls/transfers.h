// Reads and writes: their bytes and offsets.
#pragma once

#include "calls/state.h"

bool transfer_is_write(uint8_t call);
bool transfer_is_at_position(const struct calls *calls, uint32_t row);
void transfer_begin(struct calls *calls, struct running *call);
void transfer_end(struct calls *calls, const struct running *call);
void between_begin(struct calls *calls, struct running *call);
void between_end(struct calls *calls, const struct running *call);
