// SCSI commands as the kernel prints them.
#pragma once

#include "decode/text/lines.h"

// A command; values that are not printed are null.
struct scsi_command {
    char device[96]; // host:channel:id:lun
    int32_t tag;
    int32_t opcode;
    int64_t lba;
    int64_t nr_blocks;
    int32_t result;
};

// Reads the fields after the name of a SCSI event; false if they have another form.
bool take_scsi_command(struct text text, struct scsi_command *command);
