#include "ioreplay/replay.h"

#define CHUNK_BYTES (1 << 20)
#define SEED        0

void replay_filling_open(struct replay_filling *filling, int64_t all, replay_show *show)
{
    *filling = (struct replay_filling){.chunk = grow(NULL, CHUNK_BYTES, 1), .all = all, .show = show};
    payload_open(&filling->payload, CHUNK_BYTES, 0, 0, SEED, RNG_LAYOUT, 0);
}

void replay_filling_close(struct replay_filling *filling)
{
    payload_close(&filling->payload);
    free(filling->chunk);
}

int replay_fill(struct replay_filling *filling, int file, int64_t bytes)
{
    do {
        size_t chunk = bytes < CHUNK_BYTES ? (size_t)bytes : CHUNK_BYTES;
        payload_fill(&filling->payload, filling->chunk, chunk);
        if (write_all(file, filling->chunk, chunk))
            return -errno;
        bytes -= (int64_t)chunk;
        filling->done += (int64_t)chunk;
        if (filling->show && !filling->show(filling->done, filling->all))
            return 1;
    } while (bytes > 0);
    return 0;
}
