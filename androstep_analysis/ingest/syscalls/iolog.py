"""Read the logs of fio's option ``write_iolog``, versions 2 and 3 (fio: iolog.c, ``log_io_u`` and ``log_file``).

A line is ``[microseconds] file action [offset length]``, with the time since the start of the job in version 3 only.
fio writes it when it submits the I/O. Duration, result and process are not recorded.

- I/O to a device (``/dev/sdb``, and ``/replay_redirect/8:0`` of `androstep export`) becomes requests that are queued.
- I/O to a file becomes rows of table `syscalls`. ``sync`` and ``datasync`` are fsync and fdatasync.
- Version 2 has no times. All of its rows are in table `syscalls`, in the order of the lines. The unit and the origin of
  its action ``wait`` differ between fio's manual and its code, so that no time follows from it.

Jobs with the same log append to one file. Each begins with the version, and has times of its own.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest import clock, lines
from androstep_analysis.ingest.matched import Matched
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_VERSION: Final = re.compile(rb"fio version ([23]) iolog\r?\n")
_HEADER: Final = r"^fio version \d+ iolog$"
_LINE: Final = (
    r"^ *(?:(?P<us>\d{1,15}) +)?(?P<file>\S.*?) +"
    r"(?:(?P<file_action>add|open|close)|(?P<action>read|write|trim|sync|datasync|sync_file_range|wait)"
    r" +(?P<offset>\d{1,18}) +(?P<bytes>\d{1,18})) *$"
)
_CALLS: Final = {"sync": "fsync", "datasync": "fdatasync"}
_OPERATIONS: Final = {"read": "R", "write": "W", "trim": "D", "sync": "FW", "datasync": "FW"}
"""rwbs of each action. Linux queues an empty write with a preflush for a synchronised device."""

_DEVICE: Final = r"^/(?:dev/(?P<disk>\w[\w/-]*)|replay_redirect/(?P<major>\d{1,4}):(?P<minor>\d{1,7}))$"

_US_NS: Final = 1000


def sniff(head: bytes) -> bool:
    """Return whether the first line is the version of such a log."""
    return _VERSION.match(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the I/O of a log. `events` counts the lines by action."""
    version = _VERSION.match(source.head)
    log = _Log(spool, has_times=version is None or version[1] == b"3")
    for text in lines.whole(source):
        log.read(text)
    return log.finish(lines.truncated(source))


class _Log(Matched):
    """A log that is being read."""

    def __init__(self, spool: Spool, has_times: bool) -> None:
        super().__init__(spool)
        self._has_times = has_times
        self._disks: dict[str, int] = {}
        self._headers = 0
        self._rounded = 0

    def read(self, text: bytes) -> None:
        """Read several whole lines."""
        parsed = self.rows(text, _LINE)
        is_read = pl.col("file").is_not_null() & (pl.col("us").is_not_null() if self._has_times else True)
        self._refuse(parsed.filter(~is_read))
        parsed = parsed.filter(is_read).with_columns(
            ts_ns=pl.col("us").cast(pl.Int64) * _US_NS if self._has_times else pl.lit(None, pl.Int64),
            action=pl.coalesce("action", "file_action"),
            **{name: pl.col(name).cast(pl.Int64) for name in ("offset", "bytes")},
        )
        self.count(parsed["action"], parsed["ts_ns"])
        moved = parsed.filter(~pl.col("action").is_in(["add", "wait"]))
        is_device = pl.col("file").str.contains(_DEVICE) if self._has_times else pl.lit(False)
        self._append_requests(moved.filter(is_device & pl.col("action").is_in(list(_OPERATIONS))))
        self._append_calls(moved.filter(~is_device))

    def _refuse(self, rows: pl.DataFrame) -> None:
        """Count the headers, and the lines that cannot be read."""
        text = rows["text"].str.strip_chars()
        is_header = text.str.contains(_HEADER)
        self._headers += int(is_header.sum())
        self.refuse(rows.filter(~is_header & (text != "")))

    def _append_requests(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        for disk in rows["file"].str.extract(_DEVICE, 1).drop_nulls().unique(maintain_order=True):
            self._disks.setdefault(disk, len(self._disks))
        device = pl.col("file").str.extract_groups(_DEVICE).struct
        numbered = device.field("disk").replace_strict(self._disks, default=None, return_dtype=pl.Int64)
        first, is_flush = pl.col("offset") // units.SECTOR_BYTES, pl.col("action").is_in(list(_CALLS))
        end = pl.col("offset") + pl.col("bytes")
        is_whole = (pl.col("offset") % units.SECTOR_BYTES == 0) & (end % units.SECTOR_BYTES == 0)
        self._rounded += rows.filter(~is_whole).height
        events = rows.select(
            "ts_ns",
            event=pl.col("action"),
            action=pl.lit("queue", schema.enum("block_events", "action")),
            dev=pl.coalesce(
                numbered, device.field("major").cast(pl.Int64) * (1 << 20) + device.field("minor").cast(pl.Int64)
            ).cast(pl.UInt32),
            sector=pl.when(~is_flush).then(first),
            nr_sectors=pl.when(is_flush).then(0).otherwise(-(-end // units.SECTOR_BYTES) - first),
            rwbs=pl.col("action").replace_strict(_OPERATIONS),
        )
        self._spool.append("block_events", schema.complete(events, "block_events"))

    def _append_calls(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        is_open = pl.col("action") == "open"
        calls = rows.select(
            "ts_ns",
            "line",
            call=pl.col("action").replace(_CALLS),
            state=pl.lit("whole", schema.enum("syscalls", "state")),
            path=pl.when(is_open).then("file"),
            fd_path=pl.when(~is_open).then("file"),
            offset_bytes="offset",
            bytes="bytes",
        )
        self._spool.append("syscalls", schema.complete(calls, "syscalls"))

    def finish(self, truncated: tuple[Loss, ...]) -> Staging:
        """Return the result of the reader after the last line."""
        return self.staging(
            "iolog",
            clock="since the start" if self._has_times else "none",
            losses=(*truncated, *self._losses()),
            words=frozenset(_OPERATIONS),
        )

    def _losses(self) -> tuple[Loss, ...]:
        disks = ", ".join(f"0:{number} for {printable(name)}" for name, number in self._disks.items())
        aligned = "requests are not aligned to sectors of 512 B; they count as all sectors that they touch"
        losses = (
            Loss("rounded", self._rounded, f"{self._rounded} {aligned}", ()),
            Loss("numbered", len(self._disks), f"the log has names of disks; they became device numbers {disks}", ()),
        )
        setbacks = max(0, self._headers - 1) if self._has_times else 0
        unreadable = self.unreadable("could not be read as I/O")
        return (*unreadable, *(loss for loss in losses if loss.count), *clock.mixed(setbacks))
