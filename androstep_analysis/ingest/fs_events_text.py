"""Filesystem events in ftrace text: what maps and frees blocks, who writes to a file, and what names tell of it.

The fields follow include/trace/events/{ext4,f2fs,jbd2,writeback,filemap}.h and fs/iomap/trace.h, Linux 3.9 to 6.18,
and android_fs.h of Android's kernels, as the kernel prints them; where trace-cmd cannot (F2FS's writes), as it prints
fields instead. What these events mean is the subject of `androstep_analysis.fs`; the same events as binary records are
that of `androstep_analysis.ingest.fs_events`.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis import schema
from androstep_analysis.ingest import text
from androstep_analysis.ingest.fs_events import F2FS_TYPES, LEVELS, PROBES, named, path

_DEV = r"dev (?P<major>[0-9]+)[,:](?P<minor>[0-9]+)"
_INODE = rf"{_DEV} ino (?P<ino>[0-9]+)"
_EXTENT = r"\[(?P<file_block>[0-9]+)/(?P<nr_blocks>[0-9]+)\)"
_STATUS = r"(?P<status>[A-Z]*(?:0x[0-9a-f]+)?)"  # a flag that the kernel's own printing does not know is a number
_INSERT = rf"{_INODE} es {_EXTENT} mapped (?P<block>[0-9]+) status {_STATUS}"
_WRITE = rf"{_INODE} pos (?P<offset_bytes>[0-9]+) len (?P<nr_bytes>[0-9]+)"
# A backing device that is no disk has a name without numbers.
_DIRTY = r"bdi (?:(?P<major>[0-9]+):(?P<minor>[0-9]+)|[^ ]+): ino=(?P<ino>[0-9]+) index=(?P<page>[0-9]+)"
_COMMIT = rf"{_DEV} transaction (?P<transaction>[0-9]+)"

_END = r"(?:\r|\\n\\)?$"
_F2FS_DEV = r"dev = \((?P<major>[0-9]+),(?P<minor>[0-9]+)\)"
_F2FS_INODE = rf"{_F2FS_DEV}, ino = (?P<ino>[0-9]+)"
_F2FS_WRITE = rf"{_F2FS_INODE},? pos = (?P<offset_bytes>[0-9]+),? len = (?P<nr_bytes>[0-9]+)"
_F2FS_STATE = (
    rf"{_F2FS_INODE}, pino = (?P<parent>[0-9]+), i_mode = 0x(?P<mode_hex>[0-9a-f]+), i_size = [0-9]+,"
    r" i_nlink = (?P<nlink>[0-9]+)"
)
_F2FS_BLOCK = (
    rf"(?:{_F2FS_INODE}, page_index = 0x(?P<file_block_hex>[0-9a-f]+), oldaddr = 0x(?P<old_block_hex>[0-9a-f]+),"
    r" newaddr = 0x(?P<block_hex>[0-9a-f]+), .* type = (?:[A-Z]+_)?(?:(?P<status>DATA|NODE|META)|[A-Z_-]+)"
    r"|\[FAILED TO PARSE\] dev=(?P<dev>[0-9]+) ino=(?P<raw_ino>[0-9]+) index=0x(?P<raw_file_block_hex>[0-9a-f]+)"
    r" old_blkaddr=(?P<old_block>[0-9]+) new_blkaddr=(?P<block>[0-9]+) .*\btype=(?P<type>-?[0-9]+)) *" + _END
)
_TRANSFER = (
    r"entry_name (?P<name>.*), offset (?P<offset_bytes>[0-9]+), bytes (?P<nr_bytes>[0-9]+), cmdline .*, pid [0-9]+,"
    rf" i_size [0-9]+, ino (?P<ino>[0-9]+) *{_END}"
)
_PLACE = r"(?:\([^)]*\) *)?"  # where a probe stands
_FAULT = r"(?P<fault>\(fault\))"  # the probe could not read the string
_PATH = rf'{_PLACE}name=(?:"(?P<name>.*)"|{_FAULT})(?: flags=\w+)? *{_END}'
_PATHS = rf'{_PLACE}(?:from|name)=(?:"(?P<name>.*)"|{_FAULT}) (?:to|new_name)=(?:"(?P<new_name>.*)"|\(fault\)) *{_END}'
_DENTRY = rf"{_PLACE}dev=(?P<dev>[0-9]+) ino=(?P<ino>[0-9]+) parent=(?P<parent>[0-9]+)" + "".join(
    rf' d{level}=(?:"(?P<name{level}>.*)"|\(fault\))' for level in range(LEVELS)
)
_NEW = "".join(rf' n{level}=(?:"(?P<new_name{level}>.*)"|\(fault\))' for level in range(LEVELS))

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
        r" offset 0x(?P<offset_bytes_hex>[0-9a-f]+) length 0x(?P<nr_bytes_hex>[0-9a-f]+)"
    ),
    "jbd2_start_commit": _COMMIT,
    "jbd2_end_commit": _COMMIT,
    "jbd2_handle_stats": rf"{_DEV} tid (?P<transaction>[0-9]+) .*\bdirtied_blocks (?P<nr_blocks>-?[0-9]+)",
    "mm_filemap_add_to_page_cache": (
        rf"{_DEV} ino (?P<ino_hex>[0-9a-f]+) .*\bofs=(?P<page_bytes>[0-9]+)(?: order=(?P<page_order>[0-9]+))?"
    ),
    "f2fs_submit_page_write": _F2FS_BLOCK,
    "f2fs_submit_folio_write": _F2FS_BLOCK,
    "f2fs_submit_page_bio": _F2FS_BLOCK,
    "f2fs_submit_folio_bio": _F2FS_BLOCK,
    "f2fs_map_blocks": (
        rf"{_F2FS_INODE}, file offset = (?P<file_block>[0-9]+), start blkaddr = 0x(?P<block_hex>[0-9a-f]+),"
        r" len = 0x(?P<nr_blocks_hex>[0-9a-f]+), .*\berr = (?P<error>-?[0-9]+)"
    ),
    "f2fs_new_inode": rf"{_F2FS_INODE}, ret = (?P<error>-?[0-9]+)",
    "f2fs_lookup_start": rf"{_F2FS_DEV}, pino = (?P<parent>[0-9]+), name:(?P<name>.*), flags:[0-9]+ *{_END}",
    "f2fs_lookup_end": (
        rf"{_F2FS_DEV}, pino = (?P<parent>[0-9]+), name:(?P<name>.*), ino:(?P<child>[0-9]+),"
        rf" err:(?P<error>-?[0-9]+) *{_END}"
    ),
    "f2fs_unlink_enter": (
        rf"{_F2FS_DEV}, dir ino = (?P<parent>[0-9]+), i_size = [0-9]+, i_blocks = [0-9]+, name = (?P<name>.*?){_END}"
    ),
    "f2fs_rename_start": (
        rf"{_F2FS_DEV}, old_dir = (?P<parent>[0-9]+), old_name: (?P<name>.*), new_dir = [0-9]+,"
        rf" new_name: (?P<new_name>.*), flags = [0-9]+ *{_END}"
    ),
    "f2fs_evict_inode": _F2FS_STATE,
    "f2fs_iget": _F2FS_STATE,
    "f2fs_write_begin": _F2FS_WRITE,
    "f2fs_direct_IO_enter": _F2FS_WRITE,
    "f2fs_datawrite_start": _TRANSFER,
    "f2fs_dataread_start": _TRANSFER,
    "android_fs_datawrite_start": _TRANSFER,
    "android_fs_dataread_start": _TRANSFER,
    "bio_page": (
        rf"{_PLACE}dev=(?P<bio_dev>[0-9]+) opf=\w+ sector=(?P<sector>[0-9]+) size=(?P<nr_bytes>[0-9]+)"
        r"(?: vcnt=\d+ idx=\d+ done=\d+ offset=(?P<offset_bytes>[0-9]+) mapping=\w+ host=\w+)?"
        rf' ino=(?P<ino>[0-9]+) index=(?P<page>[0-9]+) sdev=(?P<dev>[0-9]+) name=(?:"(?P<name>.*)"|{_FAULT}) *{_END}'
    ),
    "direct_begin": (
        rf"{_PLACE}dev=(?P<dev>[0-9]+) ino=(?P<ino>[0-9]+) pos=(?P<offset_bytes>[0-9]+) count=(?P<nr_bytes>[0-9]+)"
        rf" *{_END}"
    ),
    "direct_end": rf"{_PLACE}moved=(?P<nr_bytes>-?[0-9]+) *{_END}",
    "name_open": _PATH,
    "name_unlink": _PATH,
    "name_rename": _PATHS,
    "name_found": rf"{_DENTRY} *{_END}",
    "name_moved": rf"{_DENTRY}{_NEW} *{_END}",
}
"""What follows the event's name, as a regular expression whose groups are named by the columns they fill.

A group whose name ends in ``_hex`` holds a hexadecimal number, one that begins with ``raw_`` the same column in the
other of two forms. Those with other names are turned into columns by `_one_kind`.
"""

_PAGE_BYTES = 4096
"""The kernel prints offsets of pages in bytes and does not say how large its pages are; most have this size."""

# As for block events: it begins behind the seconds, where no thread name is long enough to hold the rest.
_BEHIND_SECONDS = r"\.[0-9]{6}(?:[0-9]{3})?: +"


def read(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Table `fs_events` of the events (columns line, ts_ns, tid, pid, comm, event) and the lines that cannot be read.

    Sorted by `ts_ns`; equal times keep the order of `events`.
    """
    known = events.with_row_index("order").filter(pl.col("event").is_in([*FIELDS, *PROBES]))
    parts = [_one_kind(str(name), rows) for (name,), rows in known.group_by("event", maintain_order=True)]
    if not parts:
        return schema.empty("fs_events"), pl.Series("line", [], pl.String)
    table = pl.concat(parts, how="diagonal").sort("order").sort("ts_ns", maintain_order=True)
    want = schema.table("fs_events").polars
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in want.items() if name not in table.columns]
    rows = table.filter("is_read").with_columns(absent).select(list(want))
    return schema.conform(named(rows), "fs_events"), table.filter(~pl.col("is_read"))["line"]


def _one_kind(event: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one event with the columns they fill; is_read where the line has the form of the event."""
    want = schema.table("fs_events").polars
    name = PROBES.get(event, event)
    fields = pl.col("line").str.extract_groups(f"{_BEHIND_SECONDS}{event}: *{FIELDS[name]}").alias("fields")
    parsed = rows.lazy().with_columns(fields).collect(engine="streaming")["fields"].struct.unnest()
    columns: dict[str, list[pl.Expr]] = {}
    for group in parsed.columns:
        column = group.removeprefix("raw_").removesuffix("_hex")
        columns.setdefault(column, []).append(_value(group, want.get(column.rstrip("0123456789"), pl.Int64())))
    values = {column: pl.coalesce(choices) for column, choices in columns.items()}
    has_device = pl.lit(True)
    if "major" in values:
        values["dev"] = pl.coalesce(text.device("major", "minor"), *columns.get("dev", []))
        has_device = pl.col("major").is_null() | values["dev"].is_not_null()
    if "type" in values:
        kinds = values["type"].replace_strict(F2FS_TYPES, default=None, return_dtype=pl.String)
        values["status"] = pl.coalesce(values["status"], kinds)
        values["nr_blocks"] = pl.lit(1, pl.Int64)
    if "child" in values:
        values["ino"] = pl.when((values["error"] == 0) & (values["child"] != _NO_INODE)).then(values["child"])
    if "page_bytes" in values:
        values["page"] = values["page_bytes"] // _PAGE_BYTES
    for column in ("name", "new_name"):
        if f"{column}0" in values:
            values[column] = path([values.pop(f"{column}{level}") for level in range(LEVELS)])
    has_inode = [pl.col(g).is_null() | _value(g, want["ino"]).is_not_null() for g in parsed.columns if g in _INODES]
    is_read = pl.any_horizontal(pl.col(group).is_not_null() for group in parsed.columns)
    is_read = pl.all_horizontal(is_read, has_device, *has_inode)
    return pl.concat(
        [
            rows.select("order", "line", "ts_ns", "tid", "pid", "comm", event=pl.lit(name, want["event"])),
            parsed.select(is_read=is_read, **{column: value for column, value in values.items() if column in want}),
        ],
        how="horizontal",
    )


_INODES = ("ino", "ino_hex", "raw_ino")
_NO_INODE = (1 << 32) - 1


def _value(group: str, dtype: pl.DataType) -> pl.Expr:
    """What a group holds; a number that does not fit is null (all ones: the block of an extent that has none)."""
    if dtype == pl.String:
        return pl.col(group)
    base = 16 if group.endswith("_hex") else 8 if group == "mode" else 10
    return pl.col(group).str.to_integer(base=base, strict=False, dtype=pl.Int64).cast(dtype, strict=False)
