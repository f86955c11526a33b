"""Parse commands to the storage device in ftrace text, from the UFS and MMC drivers.

The fields follow include/trace/events/{ufs,mmc}.h, Linux 3.18 to 6.18, as the kernel prints them. schemas/commands.json
documents the columns. native/decode/text/scsi.c reads SCSI commands.
"""

from __future__ import annotations

from androstep_analysis.ingest.ftrace.commands import STEPS

_UFS = ": {device:text}: tag: {tag}, DB: 0x{w}, size: {nr_bytes:length}, IS: {#}, LBA: {lba}, opcode: 0x{opcode:x}"
_OTHER = 2

# The compiled reader computes nr_bytes from the number of blocks and their size, and result from the errors.
_MMC_OLD_START = (
    "{device:text}: start struct mmc_request[{w}]: cmd_opcode={opcode} {*w}blocks={nr_blocks} block_size={nr_bytes}"
    "{step:=0}"
)
"""Linux 4.8 to 4.14 print no blk_addr. Whether cmd_arg counts blocks or bytes depends on the card."""
_MMC_START = _MMC_OLD_START + " blk_addr={lba}"
_MMC_DONE = (
    "{device:text}: end struct mmc_request[{w}]: cmd_opcode={opcode} cmd_err={result:s} {*w}stop_err={result:s}"
    " {*w}bytes_xfered={nr_bytes} data_err={result:s}{step:=1}"
)
_TAG = " {*w}tag={tag:s} "

FIELDS: dict[str, tuple[str, ...]] = {
    "ufshcd_command": tuple(f"{word}{_UFS}{{step:={step}}}" for word, step in (*STEPS.items(), ("{w}", _OTHER))),
    "mmc_request_start": (_MMC_START + _TAG, _MMC_START, _MMC_OLD_START),
    "mmc_request_done": (_MMC_DONE + _TAG, _MMC_DONE),
}
"""The forms (`ingest.ftrace.forms`) of the text after an event's name. The first form that matches is used."""
