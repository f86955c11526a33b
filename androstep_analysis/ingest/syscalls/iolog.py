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
from collections import Counter
from typing import Final

import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest import clock, lines
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
_QUOTED: Final = 60


def sniff(head: bytes) -> bool:
    """Return whether the first line is the version of such a log."""
    return _VERSION.match(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the I/O of a log. `events` counts the lines by action."""
    version = _VERSION.match(source.head)
    log = _Log(spool, has_times=version is None or version[1] == b"3")
    for text in lines.whole(source):
        log.read(text.decode(errors="backslashreplace"))
    return log.staging(lines.truncated(source))


class _Log:
    """A log that is being read."""

    def __init__(self, spool: Spool, has_times: bool) -> None:
        self._spool = spool
        self._has_times = has_times
        self._lines = 0
        self._events: Counter[str] = Counter()
        self._spans: list[int] = []
        self._disks: dict[str, int] = {}
        self._headers = 0
        self._rounded = 0
        self._unreadable = 0
        self._first_unreadable = ""

    def read(self, text: str) -> None:
        """Read several whole lines."""
        rows = pl.DataFrame({"text": [text]}).select(pl.col("text").str.split("\n")).explode("text")
        parsed = rows.with_row_index("line", self._lines + 1).with_columns(
            pl.col("text").str.strip_suffix("\r").str.extract_groups(_LINE).struct.unnest()
        )
        self._lines += parsed.height
        is_read = pl.col("file").is_not_null() & (pl.col("us").is_not_null() if self._has_times else True)
        self._refuse(parsed.filter(~is_read)["text"])
        parsed = parsed.filter(is_read).with_columns(
            ts_ns=pl.col("us").cast(pl.Int64) * _US_NS if self._has_times else pl.lit(None, pl.Int64),
            action=pl.coalesce("action", "file_action"),
            **{name: pl.col(name).cast(pl.Int64) for name in ("offset", "bytes")},
        )
        self._events.update(dict(parsed["action"].value_counts().rows()))
        self._spans += [time for time in (parsed["ts_ns"].min(), parsed["ts_ns"].max()) if isinstance(time, int)]
        moved = parsed.filter(~pl.col("action").is_in(["add", "wait"]))
        is_device = pl.col("file").str.contains(_DEVICE) if self._has_times else pl.lit(False)
        self._append_requests(moved.filter(is_device & pl.col("action").is_in(list(_OPERATIONS))))
        self._append_calls(moved.filter(~is_device))

    def _refuse(self, texts: pl.Series) -> None:
        is_header = texts.str.strip_chars().str.contains(_HEADER)
        self._headers += int(is_header.sum())
        unreadable = texts.filter(~is_header & (texts.str.strip_chars() != ""))
        self._unreadable += unreadable.len()
        if unreadable.len() and not self._first_unreadable:
            self._first_unreadable = unreadable[0][:_QUOTED]

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
            pl.col("line").cast(pl.Int64),
            call=pl.col("action").replace(_CALLS),
            state=pl.lit("whole", schema.enum("syscalls", "state")),
            path=pl.when(is_open).then("file"),
            fd_path=pl.when(~is_open).then("file"),
            offset_bytes="offset",
            bytes="bytes",
        )
        self._spool.append("syscalls", schema.complete(calls, "syscalls"))

    def staging(self, truncated: tuple[Loss, ...]) -> Staging:
        """Return the result of the reader after the last line."""
        return Staging(
            format="iolog",
            events=dict(sorted(self._events.items())),
            first_ns=min(self._spans, default=None),
            last_ns=max(self._spans, default=None),
            clock="since the start" if self._has_times else "none",
            losses=(*truncated, *self._losses()),
            words=frozenset(_OPERATIONS),
        )

    def _losses(self) -> tuple[Loss, ...]:
        disks = ", ".join(f"0:{number} for {printable(name)}" for name, number in self._disks.items())
        first = printable(self._first_unreadable)
        aligned = "requests are not aligned to sectors of 512 B; they count as all sectors that they touch"
        losses = (
            Loss(
                "unreadable",
                self._unreadable,
                f"{self._unreadable} lines could not be read as I/O; the first: “{first}”",
            ),
            Loss("rounded", self._rounded, f"{self._rounded} {aligned}", ()),
            Loss("numbered", len(self._disks), f"the log has names of disks; they became device numbers {disks}", ()),
        )
        setbacks = max(0, self._headers - 1) if self._has_times else 0
        return (*(loss for loss in losses if loss.count), *clock.mixed(setbacks))
