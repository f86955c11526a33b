// Reads dates and times of day.
#pragma once

#include "core/text.h"

struct calendar {
    int64_t day_ns;  // the day of the latest time of day, from the first one on
    int64_t last_ns; // the latest time of day
};

// Reads "2024-01-15 10:30:45.123456" or a time of day, with or without a time zone, as ns since 1970 or since the first
// midnight. A time without a zone is taken as UTC. Times of day continue after midnight.
bool calendar_ns(struct calendar *calendar, struct text text, int64_t *ns);
