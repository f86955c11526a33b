"""Read the tables of file operations that io-tracer (cacheMon) writes, a call per row.

The columns are timestamp, operation, pid, command, filename, size, inode and flags, and then offset and tid, or only
latency_ns (docs/TRACE_FORMAT.md and docs/traces/VFS_EVENTS.md there). A header may name them in any order. The events
are recorded when a function of the VFS begins (src/tracer/prober/prober.c, ``trace_vfs_read``), so that results are
unknown, and `size` is what was asked for. The timestamp is that of the tracer, which reads the events later. An offset
of 0 is empty. Of renames and links, `filename` is ``old->new``.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.ingest import lines
from androstep_analysis.ingest.matched import Matched
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_CELLS: Final = {
    "timestamp": r"(?P<date>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?",
    "operation": r"(?P<operation>[A-Z][A-Z_]{1,20})",
    "pid": r"(?P<pid>\d{0,9})",
    "command": r"(?P<comm>.*?)",
    "filename": r'(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<file>.*?))',
    "size": r"(?P<size>\d{0,18})",
    "inode": r"\d*(?::\d*)?",
    "flags": r'"?(?P<flags>(?:[A-Z][A-Z0-9_|]*)?)(?:,[A-Z][A-Z0-9_|]*)?"?',
    "offset": r"(?P<offset>\d{0,18})",
    "tid": r"(?P<tid>\d{0,9})",
    "latency_ns": r"\d*",
}
"""A pattern for the values of each column. Names of files may contain commas."""

_REQUIRED: Final = tuple(_CELLS)[:8]
_ORDERS: Final = ((*_REQUIRED, "offset", "tid"), (*_REQUIRED, "latency_ns"))
"""The columns of tables without a header."""

_HEAD_LINES: Final = 16
_OF_DESCRIPTORS: Final = (
    *("READ", "WRITE", "CLOSE", "FSYNC", "MMAP", "READDIR", "FALLOCATE", "SENDFILE", "MSYNC", "DIO_READ", "DIO_WRITE"),
)
"""The operations on an open file. The file of the other ones is an argument."""

_NAMELESS: Final = ("", "[decode_error]", "[sendfile]")


def _pattern(names: tuple[str, ...]) -> str:
    return rf"^{','.join(_CELLS[name] for name in names)}$"


def _columns(head: bytes) -> tuple[str, ...] | None:
    """Return the columns of a table with this head; None if it is no such table."""
    first = head.decode(errors="replace").splitlines()[:_HEAD_LINES]
    if first and {*_REQUIRED} <= {*(names := tuple(first[0].strip().split(",")))} <= {*_CELLS}:
        return names if len({*names}) == len(names) else None
    whole = first if head.endswith(b"\n") or len(first) == _HEAD_LINES else first[:-1]
    return next((names for names in _ORDERS if whole and all(re.match(_pattern(names), row) for row in whole)), None)


def sniff(head: bytes) -> bool:
    """Return whether the first line names the columns of such a table, or all of the first lines are its rows."""
    return _columns(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the calls. `events` counts them by operation."""
    names = _columns(source.head) or _ORDERS[0]
    header, pattern = ",".join(names), _pattern(names)
    table = Matched(spool)
    for text in lines.whole(source):
        rows = table.rows(text, pattern)
        is_call = _date().is_not_null()
        table.refuse(rows.filter(~is_call, ~pl.col("text").is_in(["", header])))
        table.append(_calls(rows.filter(is_call)))
    losses = (*lines.truncated(source), *table.unreadable("cannot be read as calls"))
    return table.staging("io_tracer", tasks=table.seen.table(), clock="local time", losses=losses)


def _calls(rows: pl.DataFrame) -> pl.DataFrame:
    """Return columns of table `syscalls`."""
    optional = [pl.lit(None, pl.String).alias(name) for name in ("offset", "tid") if name not in rows.columns]
    fraction = pl.col("fraction").fill_null("").str.pad_end(9, "0").cast(pl.Int64)
    name = pl.coalesce(pl.col("quoted").str.replace_all('""', '"', literal=True), "file")
    both = name.str.splitn(
        pl.when(name.str.contains(" -> ", literal=True)).then(pl.lit(" -> ")).otherwise(pl.lit("->")), 2
    )
    is_pair = pl.col("operation").is_in(["RENAME", "LINK", "SYMLINK"])
    is_open = pl.col("operation").is_in(_OF_DESCRIPTORS)
    known = pl.when(~name.is_in(_NAMELESS))
    return rows.with_columns(optional).select(
        "line",
        ts_ns=_date() + fraction,
        **{column: pl.col(column).cast(pl.Int32, strict=False) for column in ("pid", "tid")},
        comm=pl.col("comm"),
        call=pl.col("operation").str.to_lowercase(),
        state=pl.lit("whole", schema.enum("syscalls", "state")),
        fd_path=pl.when(is_open).then(known.then(name)),
        path=pl.when(~is_open).then(known.then(pl.when(is_pair).then(both.struct[0]).otherwise(name))),
        path2=pl.when(is_pair).then(both.struct[1]),
        flags=pl.when(pl.col("operation") == "OPEN", ~pl.col("flags").is_in(["", "NO_FLAGS"])).then("flags"),
        bytes=pl.when(is_open & ~pl.col("operation").is_in(["CLOSE", "FSYNC", "READDIR"])).then(
            pl.col("size").cast(pl.Int64, strict=False)
        ),
        offset_bytes=pl.col("offset").cast(pl.Int64, strict=False),
    )  # fmt: skip


def _date() -> pl.Expr:
    return pl.col("date").str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False).dt.epoch("ns")
