"""Filesystem events in ftrace text: what maps and frees blocks, and who writes to a file.

The fields follow include/trace/events/ext4.h, writeback.h and fs/iomap/trace.h, Linux 3.9 to 6.18. What these events
mean is the subject of `androstep_analysis.fs.tracepoints`.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis import schema
from androstep_analysis.ingest import text

_INODE = r"dev (?P<major>[0-9]+)[,:](?P<minor>[0-9]+) ino (?P<ino>[0-9]+)"
_EXTENT = r"\[(?P<file_block>[0-9]+)/(?P<nr_blocks>[0-9]+)\)"
_STATUS = r"(?P<status>[A-Z]*(?:0x[0-9a-f]+)?)"  # a flag that the kernel's own printing does not know is a number
_INSERT = rf"{_INODE} es {_EXTENT} mapped (?P<block>[0-9]+) status {_STATUS}"
_WRITE = rf"{_INODE} pos (?P<offset_bytes>[0-9]+) len (?P<nr_bytes>[0-9]+)"
_DIRTY = r"bdi (?P<major>[0-9]+):(?P<minor>[0-9]+): ino=(?P<ino>[0-9]+) index=(?P<page>[0-9]+)"

FIELDS = {
    "ext4_es_insert_extent": _INSERT,
    "ext4_es_cache_extent": _INSERT,
    "ext4_es_lookup_extent_exit": rf"{_INODE} found [01] {_EXTENT} (?P<block>[0-9]+) ?{_STATUS}",
    "ext4_free_blocks": rf"{_INODE} mode 0(?P<mode>[0-7]*) block (?P<block>[0-9]+) count (?P<nr_blocks>[0-9]+)",
    "ext4_allocate_inode": rf"{_INODE} dir (?P<parent>[0-9]+) mode 0(?P<mode>[0-7]*)",
    "ext4_free_inode": rf"{_INODE} mode 0(?P<mode>[0-7]*)",
    "ext4_evict_inode": rf"{_INODE} nlink (?P<nlink>[0-9]+)",
    "ext4_unlink_enter": rf"{_INODE} size [0-9]+ parent (?P<parent>[0-9]+)",
    "ext4_write_begin": _WRITE,
    "ext4_da_write_begin": _WRITE,
    "ext4_direct_IO_enter": _WRITE,
    "writeback_dirty_folio": _DIRTY,
    "writeback_dirty_page": _DIRTY,
    "iomap_dio_rw_begin": (
        r"dev (?P<major>[0-9]+):(?P<minor>[0-9]+) ino 0x(?P<ino_hex>[0-9a-f]+) size 0x[0-9a-f]+"
        r" offset 0x(?P<offset_hex>[0-9a-f]+) length 0x(?P<length_hex>[0-9a-f]+)"
    ),
}
"""What follows the event's name, as a regular expression whose groups are named by the columns they fill."""

_HEX = {"ino_hex": "ino", "offset_hex": "offset_bytes", "length_hex": "nr_bytes"}
# As for block events: it begins behind the seconds, where no thread name is long enough to hold the rest.
_BEHIND_SECONDS = r"\.[0-9]{6}(?:[0-9]{3})?: +"


def read(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Table `fs_events` of the events (columns line, ts_ns, tid, pid, comm, event) and the lines that cannot be read.

    Sorted by `ts_ns`; equal times keep the order of `events`.
    """
    known = events.with_row_index("order").filter(pl.col("event").is_in(list(FIELDS)))
    parts = [_one_kind(str(name), rows) for (name,), rows in known.group_by("event", maintain_order=True)]
    if not parts:
        return schema.empty("fs_events"), pl.Series("line", [], pl.String)
    table = pl.concat(parts, how="diagonal_relaxed").sort("order").sort("ts_ns", maintain_order=True)
    is_read = table["dev"].is_not_null() & table["ino"].is_not_null()
    want = schema.table("fs_events").polars
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in want.items() if name not in table.columns]
    rows = table.filter(is_read).with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in want.items())
    return schema.conform(rows, "fs_events"), table.filter(~is_read)["line"]


def _one_kind(event: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one event with its fields; one that cannot be read has neither device nor inode."""
    fields = pl.col("line").str.extract_groups(f"{_BEHIND_SECONDS}{event}: *{FIELDS[event]}").struct.unnest()
    parsed = rows.lazy().with_columns(fields).collect(engine="streaming")
    want = schema.table("fs_events").polars
    numbers = [
        _number(name).alias(name)
        for name in parsed.columns
        if name in want and name not in rows.columns and name != "status"
    ]
    hexadecimal = [
        pl.col(name).str.to_integer(base=16, strict=False, dtype=pl.Int64).alias(column)
        for name, column in _HEX.items()
        if name in parsed.columns
    ]
    return parsed.with_columns(text.device("major", "minor").alias("dev"), *numbers, *hexadecimal).drop(
        "major", "minor", *_HEX, strict=False
    )


def _number(name: str) -> pl.Expr:
    """The field as a number; null where it does not fit (all ones: the block of an extent that has none)."""
    if name == "mode":
        return pl.col(name).str.to_integer(base=8, strict=False, dtype=pl.Int32)
    return pl.col(name).cast(pl.Int64, strict=False)
