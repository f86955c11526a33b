// What the kernel prints of a SCSI command.
#pragma once

#include "decode/text/lines.h"

// A command as a line tells it; none of what it does not tell.
struct scsi_command {
    char device[96]; // host:channel:id:lun
    int32_t tag;
    int32_t opcode;
    int64_t lba;
    int64_t nr_blocks;
    int32_t result;
};

// Reads what follows the name of an event of SCSI; false where it has another form.
bool take_scsi_command(struct text text, struct scsi_command *command);
