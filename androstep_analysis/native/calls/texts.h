// What the texts of a recording say.
#pragma once

#include "calls/input.h"

bool text_of(const struct calls_input *in, uint32_t text, const uint8_t **at, size_t *length);

// Whether a call can be given the text as a path, or as what a symbolic link says.
bool text_is_path(const uint8_t *text, size_t length);

// What the recording itself says that a descriptor is open on (enum left). `kind` is NO_CODE where only the text is
// there.
uint8_t kind_of_path(const struct calls_input *in, uint32_t path, uint8_t kind);
