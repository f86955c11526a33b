/* What files hold before a replay: data that does not compress, the same in each replay, and other than any writes. */
#ifndef ANDROSTEP_IOREPLAY_FILLING_H
#define ANDROSTEP_IOREPLAY_FILLING_H

#include <stdbool.h>

#include "common/payload.h"

/* Gets the bytes done and to do, and says false to end it early; NULL: nobody looks. */
typedef bool replay_show(int64_t done, int64_t all);

struct replay_filling {
    struct payload payload;
    unsigned char *chunk;
    int64_t done, all; /* bytes */
    replay_show *show;
};

/* Ends the program where there is no memory. */
void replay_filling_open(struct replay_filling *filling, int64_t all, replay_show *show);
void replay_filling_close(struct replay_filling *filling);

/* Writes so many bytes at the file's position. 0, a negative errno, or 1 where `show` ended it. */
int replay_fill(struct replay_filling *filling, int file, int64_t bytes);

#endif
