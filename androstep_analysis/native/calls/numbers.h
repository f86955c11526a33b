// Calls that create, close or mark descriptor numbers.
#pragma once

#include "calls/state.h"

void close_begin(struct calls *calls, struct running *call);
void close_range_begin(struct calls *calls, const struct running *call);
bool is_duplicate(const struct calls *calls, uint32_t row);
void duplicate_end(struct calls *calls, const struct running *call);

// Handles fcntl other than duplication. Returns why the row is omitted.
uint8_t descriptor_control(struct calls *calls, const struct running *call);
uint8_t device_control(struct calls *calls, const struct running *call);
void special_end(struct calls *calls, const struct running *call);
void foreign_end(struct calls *calls, const struct running *call);
