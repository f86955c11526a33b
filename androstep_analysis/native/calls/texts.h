// Texts of a recording.
#pragma once

#include "calls/input.h"

bool text_of(const struct calls_input *in, uint32_t text, const uint8_t **at, size_t *length);

// Checks whether the text is possible as a path or as the target of a symbolic link.
bool text_is_path(const uint8_t *text, size_t length);

// Returns what the recording says that a descriptor is open on (enum left). `kind` is NO_CODE if there is only the
// text.
uint8_t kind_of_path(const struct calls_input *in, uint32_t path, uint8_t kind);
