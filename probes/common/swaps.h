/* Swap spaces in use: partitions, other block devices, and files. */
#pragma once

#include "common/topology.h"

/* Read /proc/swaps into the topology. Without it, or for a path that cannot be reached, no swap space is known. */
void swaps_read(struct topology *topology);
void swaps_free(struct topology *topology);

/* Write the swap spaces as an array. */
void swaps_json(const struct topology *topology, const char *key, struct json *json);
