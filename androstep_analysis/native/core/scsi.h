// SCSI commands as the drivers trace them.
#pragma once

#include "core/table.h"

// First block and number of blocks of a command that works on blocks, from its bytes; false for any other.
bool scsi_blocks(const uint8_t *command, size_t length, uint64_t *lba, uint64_t *blocks);
