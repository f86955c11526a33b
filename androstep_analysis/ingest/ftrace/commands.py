"""Map commands to the storage device in binary recordings to columns of table `commands`.

The events are:

- `ufshcd_command` (include/trace/events/ufs.h, Linux 4.7 to 6.18). The step is text up to 5.10, later the number
  `str_t`. The driver reads location and size of 10-byte reads and writes, later also of other commands
  (drivers/ufs/core/ufshcd.c, ``ufshcd_add_command_trace``). Other commands have size -1, and location -1 or 0.
- `mmc_request_start` and `mmc_request_done` (mmc.h, since 4.8, in Android since 4.4).
- `scsi_dispatch_cmd_*` (scsi.h, since 2.6.35).
"""

from __future__ import annotations

from androstep_analysis.ingest.ftrace.event_format import Event
from androstep_analysis.ingest.ftrace.programs import Do, What, code, number, text

TABLE = "commands"

STEPS = {"send": 0, "send_req": 0, "scsi_send": 0, "complete": 1, "complete_rsp": 1, "scsi_cmpl": 1}
"""The steps of a command in ufshcd_command, with the index of the value in column `step`. All other steps are
`other`.
"""

_NUMBERED_STEPS = ((0, 0), (1, 1))
"""UFS_CMD_SEND and UFS_CMD_COMP of enum ufs_trace_str_t (drivers/ufs/core/ufs_trace_types.h)."""

SCSI_STEPS = {
    "scsi_dispatch_cmd_start": "send",
    "scsi_dispatch_cmd_done": "complete",
    "scsi_dispatch_cmd_error": "other",
    "scsi_dispatch_cmd_timeout": "other",
}
"""The step of a command for each event of SCSI."""


def steps(event: Event) -> list[Do]:
    """Return how a record of `event` fills a row of `commands`; empty for events that yield no row."""
    if event.name == "ufshcd_command":
        return _ufs(event)
    if event.name in ("mmc_request_start", "mmc_request_done"):
        return _mmc(event)
    return _scsi(event) if event.name in SCSI_STEPS else []


def _ufs(event: Event) -> list[Do]:
    return [
        code(TABLE, "event", event.name),
        code(TABLE, "step", "other"),
        Do(What.STEP, "step", text(event, "str"), choices=tuple((step, name) for name, step in STEPS.items())),
        Do(What.CHOICE, "step", number(event, "str_t"), choices=_NUMBERED_STEPS),
        Do(What.TEXT, "device", text(event, "dev_name")),
        Do(What.NUMBER, "tag", number(event, "tag")),
        Do(What.NUMBER, "opcode", number(event, "opcode")),
        Do(What.PLACE, "lba", number(event, "lba"), number(event, "transfer_len")),
        Do(What.PLACE, "nr_bytes", number(event, "transfer_len")),
    ]


def _mmc(event: Event) -> list[Do]:
    blocks = number(event, "blocks")
    return [
        code(TABLE, "event", event.name),
        code(TABLE, "step", "send" if event.name.endswith("start") else "complete"),
        Do(What.TEXT, "device", text(event, "name")),
        Do(What.NUMBER, "tag", number(event, "tag")),
        Do(What.NUMBER, "opcode", number(event, "cmd_opcode")),
        Do(What.WITH, "lba", number(event, "blk_addr"), blocks),
        Do(What.NUMBER, "nr_blocks", blocks),
        Do(What.PRODUCT, "nr_bytes", blocks, number(event, "blksz")),
        Do(What.NUMBER, "nr_bytes", number(event, "bytes_xfered")),
        Do(What.FIRST, "result", fields=tuple(number(event, name) for name in ("cmd_err", "data_err", "stop_err"))),
    ]


def _scsi(event: Event) -> list[Do]:
    command = event.fields.get("cmnd")
    return [
        code(TABLE, "event", event.name),
        code(TABLE, "step", SCSI_STEPS[event.name]),
        Do(What.ADDRESS, "device", fields=tuple(number(event, name) for name in ("host_no", "channel", "id", "lun"))),
        Do(What.NUMBER, "tag", number(event, "driver_tag")),
        Do(What.NUMBER, "opcode", number(event, "opcode")),
        Do(What.SCSI_LBA, "lba", command),
        Do(What.SCSI_BLOCKS, "nr_blocks", command),
        Do(What.NUMBER, "result", number(event, "result rtn")),
    ]
