/* Contents of files before a replay: data that does not compress, is the same in each replay, and differs from all
 * writes. */
#pragma once

#include <stdbool.h>

#include "common/payload.h"

/* Receive the bytes done and in total. Returns false to stop early. NULL: no progress. */
typedef bool replay_show(int64_t done, int64_t all);

struct replay_filling {
    struct payload payload;
    unsigned char *chunk;
    int64_t done, all; /* bytes */
    replay_show *show;
};

/* Prepare filling; end the program if memory runs out. */
void replay_filling_open(struct replay_filling *filling, int64_t all, replay_show *show);
void replay_filling_close(struct replay_filling *filling);

/* Write `bytes` at the current position of the file. Returns 0, a negative errno, or 1 if `show` stopped it. */
int replay_fill(struct replay_filling *filling, int file, int64_t bytes);
