"""Filesystem events of a binary recording: which field of which tracepoint fills which column of table `fs_events`.

The fields follow include/trace/events/{ext4,f2fs,jbd2,writeback,filemap}.h and fs/iomap/trace.h, Linux 3.9 to 6.18,
and android_fs.h of Android's kernels. What the events mean is the subject of `androstep_analysis.fs`; the same events
as text are that of `androstep_analysis.ingest.fs_events_text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import polars as pl

from androstep_analysis import schema, units
from androstep_analysis.ingest.ftrace_format import Event

PROBES = {
    "sbio": "bio_page",
    "e_open": "name_open",
    "k_open": "name_open",
    "u_open": "name_open",
    "u_openat": "name_open",
    "e_unlink": "name_unlink",
    "u_unlink": "name_unlink",
    "u_unlinkat": "name_unlink",
    "e_rename": "name_rename",
    "u_rename": "name_rename",
}
"""Names that dynamic probes bear in recordings made without iotrace, and the event each is."""

F2FS_TYPES = {0: "DATA", 1: "NODE", 2: "META"}
"""enum page_type of fs/f2fs/f2fs.h."""

_INODE = {"dev": "dev", "ino": "ino"}
_EXTENT = {**_INODE, "file_block": "lblk", "nr_blocks": "len", "block": "pblk", "status": "status"}
_WRITE = {**_INODE, "offset_bytes": "pos ki_pos", "nr_bytes": "len"}
_DIRTY = {"bdi": "name", "ino": "ino", "page": "index"}
_COMMIT = {"dev": "dev", "transaction": "transaction"}
_F2FS_BLOCK = {
    **_INODE,
    "file_block": "index",
    "old_block": "old_blkaddr",
    "block": "new_blkaddr",
    "type": "type",
}
_F2FS_INODE = {**_INODE, "parent": "pino", "mode": "mode", "nlink": "nlink"}
_TRANSFER = {"ino": "ino", "name": "pathbuf", "offset_bytes": "offset", "nr_bytes": "bytes"}
_ENTRY = {"dev": "dev", "parent": "ino", "name": "name"}
LEVELS = 8
"""Names of a path, from the last upwards, that a probe on a dentry tells."""
PATH_FIELDS = tuple(f"{path}{level}" for path in ("d", "n") for level in range(LEVELS))
"""The fields with the names of a path and of the new path."""
_DENTRY = {**_INODE, "parent": "parent", **{f"name{level}": f"d{level}" for level in range(LEVELS)}}

FIELDS: dict[str, dict[str, str]] = {
    "ext4_es_insert_extent": _EXTENT,
    "ext4_es_cache_extent": _EXTENT,
    "ext4_es_lookup_extent_exit": {**_EXTENT, "found": "found"},
    "ext4_free_blocks": {**_INODE, "mode": "mode", "block": "block", "nr_blocks": "count"},
    "ext4_allocate_inode": {**_INODE, "parent": "dir", "mode": "mode"},
    "ext4_free_inode": {**_INODE, "mode": "mode"},
    "ext4_evict_inode": {**_INODE, "nlink": "nlink"},
    "ext4_unlink_enter": {**_INODE, "parent": "parent"},
    "ext4_write_begin": _WRITE,
    "ext4_da_write_begin": _WRITE,
    "ext4_direct_IO_enter": _WRITE,
    "writeback_dirty_folio": _DIRTY,
    "writeback_dirty_page": _DIRTY,
    "iomap_dio_rw_begin": {**_INODE, "offset_bytes": "pos", "nr_bytes": "count"},
    "jbd2_start_commit": _COMMIT,
    "jbd2_end_commit": _COMMIT,
    "jbd2_handle_stats": {"dev": "dev", "transaction": "tid", "nr_blocks": "dirtied_blocks"},
    "mm_filemap_add_to_page_cache": {
        "dev": "s_dev",
        "ino": "i_ino",
        "page": "index",
        "page_order": "order",
    },
    "f2fs_submit_page_write": _F2FS_BLOCK,
    "f2fs_submit_folio_write": _F2FS_BLOCK,
    "f2fs_submit_page_bio": _F2FS_BLOCK,
    "f2fs_submit_folio_bio": _F2FS_BLOCK,
    "f2fs_map_blocks": {
        **_INODE,
        "file_block": "m_lblk",
        "block": "m_pblk",
        "nr_blocks": "m_len",
        "error": "ret",
    },
    "f2fs_new_inode": {**_INODE, "error": "ret"},
    "f2fs_lookup_start": _ENTRY,
    "f2fs_lookup_end": {**_ENTRY, "child": "cino", "error": "err"},
    "f2fs_unlink_enter": _ENTRY,
    "f2fs_rename_start": {"dev": "dev", "parent": "ino", "name": "old_name", "new_name": "new_name"},
    "f2fs_evict_inode": _F2FS_INODE,
    "f2fs_iget": _F2FS_INODE,
    "f2fs_write_begin": _WRITE,
    "f2fs_direct_IO_enter": _WRITE,
    "f2fs_datawrite_start": _TRANSFER,
    "f2fs_dataread_start": _TRANSFER,
    "android_fs_datawrite_start": _TRANSFER,
    "android_fs_dataread_start": _TRANSFER,
    "bio_page": {
        "dev": "sdev",
        "ino": "ino",
        "page": "index",
        "offset_bytes": "offset",
        "name": "name",
        "sector": "sector",
        "nr_bytes": "size",
        "bio_dev": "dev",
    },
    "direct_begin": {**_INODE, "offset_bytes": "pos", "nr_bytes": "count"},
    "direct_end": {"nr_bytes": "moved"},
    "name_open": {"name": "name"},
    "name_unlink": {"name": "name"},
    "name_rename": {"name": "name from", "new_name": "new_name to"},
    "name_found": _DENTRY,
    "name_moved": {**_DENTRY, **{f"new_name{level}": f"n{level}" for level in range(LEVELS)}},
}
"""For each event the columns it fills and the field each is taken from: the first of several that the kernel has.

Names that are no columns of the table stand for what must be turned into one first (`_converted`).
"""


def wanted(event: str) -> tuple[str, ...]:
    """The fields of the tracepoint `event` that the table needs; none for an event that is not in it."""
    columns = FIELDS.get(PROBES.get(event, event), {})
    return tuple(name for names in columns.values() for name in names.split())


def table(decoded: Iterable[tuple[Event, pl.DataFrame]]) -> pl.DataFrame:
    """Table `fs_events` of decoded events, sorted by `ts_ns`; equal times by `common_order`.

    `decoded` holds tracepoints and, of each, the fields it has of those `wanted`, and common_order, common_ts_ns and
    common_pid. Names and processes of threads are null.
    """
    want = schema.table("fs_events").polars
    parts = [_one_kind(event, frame) for event, frame in decoded if wanted(event.name)]
    if not parts:
        return schema.empty("fs_events")
    rows = in_time(pl.concat(parts, how="diagonal"))
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in want.items() if name not in rows.columns]
    return schema.conform(named(rows.with_columns(absent).select(list(want))), "fs_events")


def in_time(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` sorted by ts_ns and, where that is equal, by order: two keys at once cost polars several times as much."""
    rows = rows.rechunk()  # rows of many chunks are gathered at half the speed
    return rows[np.lexsort((rows["order"].to_numpy(), rows["ts_ns"].to_numpy()))]


def named(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` with null for names without a letter: the probe could not read the string."""
    return rows.with_columns(
        pl.when(pl.col(name).str.len_bytes() > 0).then(name).alias(name) for name in ("name", "new_name")
    )


def _one_kind(event: Event, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of one tracepoint with the columns of the table that it fills."""
    want = schema.table("fs_events").polars
    name = PROBES.get(event.name, event.name)
    columns = {
        column: next((pl.col(field) for field in fields.split() if field in frame.columns), pl.lit(None))
        for column, fields in FIELDS[name].items()
    }
    if "status" in columns and "status" in frame.columns:
        letters = _letters(frame["status"], event.print_format)
        columns["status"] = pl.col("status").replace_strict(letters, default=None, return_dtype=pl.String)
    # What does not fit is none: all ones, as the block of an extent that has none.
    typed = [value.cast(want[column], strict=False).alias(column) for column, value in _converted(columns).items()]
    return frame.select(
        *typed,
        order="common_order",
        ts_ns="common_ts_ns",
        tid="common_pid",
        event=pl.lit(name, want["event"]),
    )


def _converted(columns: dict[str, pl.Expr]) -> dict[str, pl.Expr]:
    """Turns what the kernel encodes into what the table holds."""
    if "type" in columns:
        columns["status"] = columns.pop("type").replace_strict(F2FS_TYPES, default=None, return_dtype=pl.String)
        columns["nr_blocks"] = pl.lit(1)
    if "found" in columns:
        # The kernel prints nothing of what it did not find; the record holds what was there before.
        is_found = columns.pop("found") != 0
        columns["block"] = pl.when(is_found).then(columns["block"]).otherwise(0)
        columns["status"] = pl.when(is_found).then(columns["status"]).otherwise(pl.lit(""))
    if "bdi" in columns:
        columns["dev"] = _device(columns.pop("bdi"))
    if "child" in columns:
        child = columns.pop("child")
        columns["ino"] = pl.when((columns["error"] == 0) & (child != _NO_INODE)).then(child)
    for name in ("name", "new_name"):
        if f"{name}0" in columns:
            columns[name] = path([columns.pop(f"{name}{level}") for level in range(LEVELS)])
    return columns


def path(levels: list[pl.Expr]) -> pl.Expr:
    """The path of the names from the last up to the root, "/"; only the last name where the root is not among them.

    Null where the probe could not read one of the names.
    """
    names = pl.concat_list(pl.when(level != "").then(level.cast(pl.String)) for level in levels)
    is_root = names.list.eval(pl.element().eq("/").fill_null(False))
    below = names.list.head(is_root.list.arg_max())
    whole = pl.lit("/") + below.list.reverse().list.join("/", ignore_nulls=False)
    return pl.when(is_root.list.any()).then(whole).otherwise(levels[0])


_NO_INODE = (1 << 32) - 1


def _device(name: pl.Expr) -> pl.Expr:
    """`dev` of a backing device's name (``8:0``); null where it bears another name."""
    numbers = [name.str.extract(r"^([0-9]{1,4}):([0-9]{1,7})$", group).cast(pl.UInt32) for group in (1, 2)]
    return numbers[0] * (1 << units.MINOR_BITS) + numbers[1]


_FLAG = re.compile(
    r"\{ *\(*(?:1U?L{0,2} *<< *\(?(?P<shift>\d{1,2})|(?P<number>0x[0-9a-fA-F]+|\d+))"
    r'[^,"]{0,40}, *"(?P<letter>[A-Z])" *\}'
)


def _letters(status: pl.Series, print_format: str) -> dict[int, str]:
    """The letters of each distinct status, as the kernel prints them; flags that it has none for follow as number."""
    flags = {
        1 << int(match["shift"]) if match["shift"] else int(match["number"], 0): match["letter"]
        for match in _FLAG.finditer(print_format)
    }
    texts = {}
    for value in status.drop_nulls().unique():
        rest = value & ~sum(flags)
        texts[value] = "".join(letter for flag, letter in flags.items() if value & flag) + (
            f"{rest:#x}" if rest else ""
        )
    return texts
