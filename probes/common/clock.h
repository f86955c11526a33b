/* Times of the kernel's clocks in nanoseconds, and offsets between clocks. */
#pragma once

#include <stdint.h>
#include <time.h>

/* The clock of all times in a record stream. It starts at boot, continues during suspend and cannot be set. */
#define CLOCK_RECORD CLOCK_BOOTTIME

int64_t clock_now(clockid_t clock);

/* Return `other` minus CLOCK_RECORD. Takes the most tightly bracketed of several readings. */
int64_t clock_offset(clockid_t other);
