// SCSI commands as traced by drivers.
#pragma once

#include "core/table.h"

// Extract the first block and the number of blocks of a command on blocks. Returns false for any other command.
bool scsi_blocks(const uint8_t *command, size_t length, uint64_t *lba, uint64_t *blocks);
