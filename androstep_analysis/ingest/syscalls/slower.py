"""Read the lists that ext4slower and related tools of bcc and libbpf-tools print, a call per line.

``ext4slower``, ``xfsslower``, ``btrfsslower``, ``f2fsslower``, ``zfsslower``, ``nfsslower`` and ``fsslower`` print the
same columns, ``fileslower`` fewer. With ``-j`` or ``-c`` they print a CSV. All of them trace functions of the
filesystem, not system calls, and print a call when it returns (bcc: tools/ext4slower.py, ``trace_return`` and
``print_event``; libbpf-tools/fsslower.bpf.c, ``probe_exit``):

=========================  ==========================================================================================
``TIME``, ``TIME(s)``      when the line was printed, right after the return: the time of day in whole seconds; for
                           ``fileslower``, seconds since its start
``ENDTIME_us``, ``_ns``    the return, in CLOCK_MONOTONIC
``T``, ``D``, ``TYPE``     R read, W write, O open, S or F fsync, G getattr, C commit (NFS)
``BYTES``                  the return value of the function; for F and C the requested range, for ``fileslower`` the
                           requested bytes
``OFF_KB``                 the offset in KiB, rounded down: the exact byte is unknown, and `offset_bytes` is null
``OFFSET_b``               the offset in bytes
``LAT(ms)``                from the start of the function to its return
``FILENAME``, ``FILE``     the last component of the path, truncated by some tools to 31 bytes; a name that may be
                           truncated ends in “…”
=========================  ==========================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest import clock, lines
from androstep_analysis.ingest.matched import Matched
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_CALLS: Final = {"R": "read", "W": "write", "O": "open", "S": "fsync", "F": "fsync", "G": "getattr", "C": "commit"}

_FILE_COLUMNS: Final = ("TIME", "COMM", "PID", "T", "BYTES", "OFF_KB", "LAT(ms)", "FILENAME")
_VFS_COLUMNS: Final = ("TIME(s)", "COMM", "TID", "D", "BYTES", "LAT(ms)", "FILENAME")
_OLD_VFS_COLUMNS: Final = ("TIME(s)", "COMM", "PID", "D", "BYTES", "LAT(ms)", "FILENAME")
_HEADERS: Final = [" ".join(names) for names in (_FILE_COLUMNS, _VFS_COLUMNS, _OLD_VFS_COLUMNS)]
_CSV: Final = re.compile(r"ENDTIME_([un])s,TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE")

_COMM: Final = r"(?P<comm>\S(?:.*?\S)??)"
_SIZE: Final = r"(?P<size>-?\d{1,20}|LL_MAX)"
_LATENCY: Final = r"(?P<ms>\d{1,12}\.\d\d)"
_FILE_ROW: Final = (
    rf"^(?P<clock>\d\d:\d\d:\d\d) +{_COMM} +(?P<task>\d{{1,9}}) +(?P<type>[A-Z]) +{_SIZE} +-?\d+ +{_LATENCY} "
    r"(?P<file>.*)$"
)
_VFS_ROW: Final = (
    rf"^(?P<seconds>\d{{1,9}}\.\d\d\d) +{_COMM} +(?P<task>\d{{1,9}}) +(?P<type>[RW]) +{_SIZE} +{_LATENCY} (?P<file>.*)$"
)
_CSV_ROW: Final = (
    rf"^(?P<end>\d{{1,18}}),(?P<comm>.*?),(?P<task>\d{{1,9}}),(?P<type>[A-Z]),{_SIZE},"
    r"(?P<offset>-?\d{1,18}),(?P<us>\d{1,15}),(?P<file>.*)$"
)
_BEGIN: Final = re.compile(r"Tracing .*?(?:operations|read/writes)(?: (?:that are )?slower than (\d+) ms)?")
"""The line above the header. It states the threshold, if there is one."""

_HEAD_LINES: Final = 50
_NAME_BYTES: Final = 31
"""The length to which some tools truncate names (libbpf-tools/fsslower.h, FILE_NAME_LEN; DNAME_INLINE_LEN in bcc)."""

_DAY_NS: Final = 86_400 * 10**9
_ERRNOS: Final = 4095
"""A kernel function failed if it returned a negative value down to minus this (include/linux/err.h, MAX_ERRNO)."""


def sniff(head: bytes) -> bool:
    """Return whether one of the first lines is the header or a row of such a list."""
    return _kind(head) is not None


def _kind(head: bytes) -> str | None:
    """Return the pattern for the rows of a list with this head; None if it is not such a list."""
    for line in head.decode(errors="replace").splitlines()[:_HEAD_LINES]:
        names = tuple(line.split())
        if names == _FILE_COLUMNS or re.match(_FILE_ROW, line):
            return _FILE_ROW
        if names in (_VFS_COLUMNS, _OLD_VFS_COLUMNS) or re.match(_VFS_ROW, line):
            return _VFS_ROW
        if _CSV.fullmatch(line.strip()):
            return _CSV_ROW
    return None


def read(source: Source, spool: Spool) -> Staging:
    """Read the calls. `events` counts them by call. A call starts at its end minus its latency."""
    found = _List(source.head, spool)
    for text in lines.whole(source):
        found.read(text)
    return found.finish(lines.truncated(source))


class _List(Matched):
    """A list that is being read."""

    def __init__(self, head: bytes, spool: Spool) -> None:
        super().__init__(spool)
        self._row = _kind(head) or _FILE_ROW
        first = head.decode(errors="replace").splitlines()[:_HEAD_LINES]
        csv = next((found for line in first if (found := _CSV.fullmatch(line.strip()))), None)
        self._tick_ns = 1 if csv is not None and csv[1] == "n" else 1000
        self._begin = next((found for line in first if (found := _BEGIN.match(line))), None)
        self._last_clock_ns: int | None = None
        self._days = 0
        self._headers = 0
        self._dropped = 0

    def read(self, text: bytes) -> None:
        """Read several whole lines."""
        self._dropped += sum(map(int, lines.LOST.findall(text)))
        parsed = self.rows(lines.without_interrupt(text), self._row)
        is_call = (pl.col("task").is_not_null() & pl.col("type").is_in(list(_CALLS))).fill_null(False)
        self._refuse(parsed.filter(~is_call))
        self.append(self._calls(parsed.filter(is_call)))

    def _refuse(self, rows: pl.DataFrame) -> None:
        """Count the lines that are neither calls nor messages of the tools."""
        texts = rows["text"]
        names = texts.str.strip_chars().str.replace_all(r"\s+", " ")
        is_message = names.is_in(_HEADERS) | names.str.contains(_CSV.pattern)
        for pattern in (lines.NOTE, lines.LOST):
            is_message |= texts.str.contains(pattern.pattern.decode())
        self._headers += names.filter(names.is_in(_HEADERS)).len()
        self.refuse(rows.filter(~is_message))

    def _calls(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return columns of table `syscalls`."""
        call = pl.col("type").replace_strict(_CALLS, return_dtype=pl.String)
        returned, is_asked = _returned(), pl.col("type").is_in(["F", "C"]) | (self._row == _VFS_ROW)
        failed = pl.when(~is_asked & (returned < 0)).then(returned)
        is_path = pl.col("type").is_in(["O", "G"])
        task = pl.col("task").cast(pl.Int32)
        duration = self._duration()
        calls = rows.with_columns(end_ns=self._ends(rows)).select(
            "line",
            ts_ns=pl.col("end_ns") - duration,
            duration_ns=duration,
            pid=pl.lit(None, pl.Int32) if self._row == _VFS_ROW else task,
            tid=task if self._row == _VFS_ROW else pl.lit(None, pl.Int32),
            # nfsslower prints bytes as Python does.
            comm=pl.col("comm").str.replace(r"^b'(.*)'$", "$1"),
            call=call,
            state=pl.lit("whole", schema.enum("syscalls", "state")),
            fd_path=pl.when(~is_path).then(_name()),
            path=pl.when(is_path).then(_name()),
            offset_bytes=pl.when(pl.col("type").is_in(["R", "W"])).then(pl.col("offset").cast(pl.Int64))
            if self._row == _CSV_ROW
            else pl.lit(None, pl.Int64),
            bytes=pl.when(is_asked & (returned >= 0)).then(returned),
            # The filesystem's open function returns 0, not the descriptor that the system call returns.
            result=pl.coalesce(failed, pl.when(~is_asked & (pl.col("type") != "O")).then(returned)),
            error=pl.when(failed.is_not_null()).then(pl.lit("?")),
        )
        return calls.filter(pl.col("ts_ns").is_not_null())

    def _duration(self) -> pl.Expr:
        if self._row == _CSV_ROW:
            return pl.col("us").cast(pl.Int64) * 1000
        hundredths = pl.col("ms").str.replace(r"\.", "").cast(pl.Int64)
        return hundredths * 10_000

    def _ends(self, rows: pl.DataFrame) -> pl.Series:
        """Return when each call returned, in nanoseconds. Times of day continue after midnight."""
        if self._row == _CSV_ROW:
            return rows["end"].cast(pl.Int64, strict=False) * self._tick_ns
        if self._row == _VFS_ROW:
            return rows["seconds"].str.replace(r"\.", "").cast(pl.Int64) * 1_000_000
        parts = [rows["clock"].str.slice(at, 2).cast(pl.Int64) for at in (0, 3, 6)]
        clock = (parts[0] * 3600 + parts[1] * 60 + parts[2]) * 10**9
        before = clock.shift(1, fill_value=self._last_clock_ns if self._last_clock_ns is not None else clock.first())
        days = (before - clock > _DAY_NS // 2).cast(pl.Int64).cum_sum() + self._days
        if len(clock):
            self._last_clock_ns, self._days = int(clock[-1]), int(days[-1])
        return clock + days * _DAY_NS

    def finish(self, truncated: tuple[Loss, ...]) -> Staging:
        """Return the result of the reader after the last line."""
        clocks = {_FILE_ROW: "time of day", _VFS_ROW: "since the start", _CSV_ROW: "mono"}
        return self.staging(
            "fsslower",
            tasks=self.seen.table(),
            clock=clocks[self._row],
            lost_events=self._dropped,
            losses=(*truncated, *lines.dropped(self._dropped), *self._losses()),
        )

    def _losses(self) -> Iterator[Loss]:
        if self._row == _VFS_ROW:  # times restart at each header
            yield from clock.mixed(max(0, self._headers - 1))
        yield from self.unreadable("cannot be read as calls")
        if self._begin is None:
            yield Loss("faster", 1, "calls faster than the tool's threshold, by default 10 ms, are not in the list")
        elif self._begin[1]:
            yield Loss("faster", 1, f"calls of {self._begin[1]} ms or less are not in the list")


def _returned() -> pl.Expr:
    """Return the signed value of column `size`, which tools print as an unsigned number of 32 or 64 bits."""
    wide = pl.col("size").cast(pl.UInt64, strict=False)
    signed = pl.coalesce(pl.col("size").cast(pl.Int64, strict=False), wide.reinterpret(signed=True))
    is_narrow = signed.is_between((1 << 32) - _ERRNOS, (1 << 32) - 1)
    return pl.when(is_narrow).then(signed - (1 << 32)).otherwise(signed)


def _name() -> pl.Expr:
    """Return the last component of the path. A name that may be truncated ends in “…”."""
    name = pl.col("file")
    return pl.when(name.str.len_bytes() >= _NAME_BYTES).then(name + "…").otherwise(name)
