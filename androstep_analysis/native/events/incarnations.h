// Number the incarnations of inodes in order of time (`numbered` in fs/tracepoints.py states the rules).
#pragma once

#include "core/table.h"

enum lifetime_kind { LIFETIME_OTHER, LIFETIME_CREATION, LIFETIME_DELETION, LIFETIME_FREED_BLOCKS };

struct incarnations;

// Returns NULL if memory runs out.
API struct incarnations *incarnations_new(void);
API void incarnations_free(struct incarnations *incarnations);

// State how the incarnations of a device are recognised: by creations, or else by deletions. They begin with `first`.
// Returns false if memory runs out.
API bool incarnations_device(struct incarnations *incarnations, uint32_t dev, bool has_creations, int32_t first);

// State all deletions of inodes on devices without creations, in order of time. `is_free`: the inode itself is freed,
// not only evicted. Returns false if memory runs out.
API bool incarnations_deletions(struct incarnations *incarnations, size_t rows, const uint32_t *dev, const int64_t *ino,
                                const uint8_t *is_free);

// Number the events of a batch: a device, an inode and an enum lifetime_kind each. Batches must be in order of time.
// Returns false if memory runs out.
API bool incarnations_number(struct incarnations *incarnations, size_t rows, const uint32_t *dev, const int64_t *ino,
                             const uint8_t *kind, int32_t *incarnation);
