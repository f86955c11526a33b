"""Map filesystem events of binary recordings to columns of table `fs_events`.

The fields follow include/trace/events/{ext4,f2fs,jbd2,writeback,filemap}.h and fs/iomap/trace.h, Linux 3.9 to 6.18, and
android_fs.h of Android's kernels. `androstep_analysis.fs` explains the events.
`androstep_analysis.ingest.ftrace.fs_events_text` reads them from text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from androstep_analysis.ingest.ftrace.event_format import Event
from androstep_analysis.ingest.ftrace.programs import Do, What, code, number, text

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
"""The event for each name that dynamic probes have in recordings made without iotrace."""

OTHER_NAMES = {**PROBES, "f2fs_submit_page_mbio": "f2fs_submit_page_write"}
"""The event for each other name, also for the name of a tracepoint before Linux 4.13."""

F2FS_TYPES = {0: "DATA", 1: "NODE", 2: "META"}
"""enum page_type of fs/f2fs/f2fs.h."""

_INODE = {"dev": "dev", "ino": "ino"}
_EXTENT = {**_INODE, "file_block": "lblk", "nr_blocks": "len", "block": "pblk", "status": "status"}
_F2FS_FOUND = {**_INODE, "file_block": "fofs", "block": "blk", "nr_blocks": "len"}
_F2FS_PLACED = {**_INODE, "file_block": "pgofs", "block": "blk", "nr_blocks": "len"}
_WRITE = {**_INODE, "offset_bytes": "pos ki_pos", "nr_bytes": "len"}
_WRITTEN = {**_INODE, "offset_bytes": "pos", "nr_bytes": "copied"}
_DIRTY = {"bdi": "name", "ino": "ino", "page": "index"}
_PAGE = {"dev": "s_dev", "ino": "i_ino", "page": "index"}
_CACHE = {**_PAGE, "page_order": "order"}
_PAGES = {**_PAGE, "last_page": "last_index"}
_INVALIDATE = {**_INODE, "page": "index", "offset_bytes": "offset", "nr_bytes": "length"}
_COMMIT = {"dev": "dev", "transaction": "transaction"}
_F2FS_BLOCK = {
    **_INODE,
    "file_block": "index",
    "old_block": "old_blkaddr",
    "block": "new_blkaddr blkaddr",
    "type": "type",
}
_F2FS_INODE = {**_INODE, "parent": "pino", "mode": "mode", "nlink": "nlink"}
_TRANSFER = {"ino": "ino", "name": "pathbuf", "offset_bytes": "offset", "nr_bytes": "bytes"}
_ENTRY = {"dev": "dev", "parent": "ino", "name": "name"}
LEVELS = 8
"""The number of path components that a probe on a dentry records, beginning with the last."""
_DENTRY = {**_INODE, "parent": "parent", **{f"name{level}": f"d{level}" for level in range(LEVELS)}}

FIELDS: dict[str, dict[str, str]] = {
    "ext4_es_insert_extent": _EXTENT,
    "ext4_es_cache_extent": _EXTENT,
    "ext4_es_lookup_extent_exit": {**_EXTENT, "found": "found"},
    "ext4_ext_map_blocks_exit": {
        **_INODE,
        "file_block": "lblk",
        "nr_blocks": "len",
        "block": "pblk",
        "status": "mflags",
        "error": "ret",
    },
    "ext4_allocate_blocks": {
        **_INODE,
        "file_block": "logical",
        "nr_blocks": "len",
        "block": "block",
    },
    "ext4_free_blocks": {**_INODE, "mode": "mode", "block": "block", "nr_blocks": "count"},
    "ext4_allocate_inode": {**_INODE, "parent": "dir", "mode": "mode"},
    "ext4_free_inode": {**_INODE, "mode": "mode"},
    "ext4_evict_inode": {**_INODE, "nlink": "nlink"},
    "ext4_unlink_enter": {**_INODE, "parent": "parent"},
    "ext4_write_begin": _WRITE,
    "ext4_da_write_begin": _WRITE,
    "ext4_write_end": _WRITTEN,
    "ext4_da_write_end": _WRITTEN,
    "ext4_journalled_write_end": _WRITTEN,
    "ext4_load_inode": _INODE,
    "ext4_direct_IO_enter": _WRITE,
    "writeback_dirty_folio": _DIRTY,
    "writeback_dirty_page": _DIRTY,
    "iomap_dio_rw_begin": {**_INODE, "offset_bytes": "pos", "nr_bytes": "count"},
    "iomap_dio_complete": {**_INODE, "offset_bytes": "pos", "nr_bytes": "ret"},
    "iomap_dio_rw_queued": _INODE,
    "jbd2_start_commit": _COMMIT,
    "jbd2_end_commit": _COMMIT,
    "jbd2_handle_stats": {"dev": "dev", "transaction": "tid", "nr_blocks": "dirtied_blocks"},
    "mm_filemap_add_to_page_cache": _CACHE,
    "mm_filemap_delete_from_page_cache": _CACHE,
    "mm_filemap_get_pages": _PAGES,
    "mm_filemap_fault": _PAGE,
    "mm_filemap_map_pages": _PAGES,
    "ext4_invalidate_folio": _INVALIDATE,
    "ext4_journalled_invalidate_folio": _INVALIDATE,
    "ext4_invalidatepage": _INVALIDATE,
    "ext4_journalled_invalidatepage": _INVALIDATE,
    "f2fs_vm_page_mkwrite": {**_INODE, "page": "index"},
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
    "f2fs_lookup_extent_tree_end": _F2FS_FOUND,
    "f2fs_lookup_read_extent_tree_end": _F2FS_FOUND,
    "f2fs_update_extent_tree_range": _F2FS_PLACED,
    "f2fs_update_read_extent_tree_range": _F2FS_PLACED,
    "f2fs_new_inode": {**_INODE, "error": "ret"},
    "f2fs_lookup_start": _ENTRY,
    "f2fs_lookup_end": {**_ENTRY, "child": "cino", "error": "err"},
    "f2fs_unlink_enter": _ENTRY,
    "f2fs_rename_start": {"dev": "dev", "parent": "ino", "name": "old_name", "new_name": "new_name"},
    "f2fs_evict_inode": _F2FS_INODE,
    "f2fs_iget": _F2FS_INODE,
    "f2fs_write_begin": _WRITE,
    "f2fs_write_end": _WRITTEN,
    "f2fs_direct_IO_enter": _WRITE,
    "f2fs_datawrite_start": _TRANSFER,
    "f2fs_dataread_start": _TRANSFER,
    "android_fs_datawrite_start": _TRANSFER,
    "android_fs_dataread_start": _TRANSFER,
    "ext4_sync_file_enter": {**_INODE, "parent": "parent"},
    "ext4_sync_file_exit": {**_INODE, "error": "ret"},
    "f2fs_sync_file_enter": {**_INODE, "mode": "mode", "nlink": "nlink"},
    "f2fs_sync_file_exit": {**_INODE, "error": "ret"},
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
    "page_mkwrite": {**_INODE, "page": "index", "offset_bytes": "within"},
    "filemap_read": {**_INODE, "offset_bytes": "pos", "nr_bytes": "count", "last_page": "last"},
    "direct_begin": {**_INODE, "offset_bytes": "pos", "nr_bytes": "count"},
    "direct_end": {"nr_bytes": "moved"},
    "name_open": {"name": "name"},
    "name_unlink": {"name": "name"},
    "name_rename": {"name": "name from", "new_name": "new_name to"},
    "name_found": _DENTRY,
    "name_moved": {**_DENTRY, **{f"new_name{level}": f"n{level}" for level in range(LEVELS)}},
}
"""For each event, the columns that it fills, and the fields of each column. The first field that the kernel has is
used.

Names that are not columns of the table denote values that are converted first (`_SPECIAL`).
"""

TABLE = "fs_events"

_FLAG = re.compile(
    r"\{ *\(*(?:1U?L{0,2}\)* *<< *\(?(?P<shift>\d{1,2})|(?P<number>0x[0-9a-fA-F]+|\d+))"
    r'[^,"]{0,40}, *"(?P<letter>[A-Z])" *\}'
)


def steps(event: Event) -> list[Do]:
    """Return how a record of `event` fills a row of `fs_events`; empty for events that yield no row."""
    name = OTHER_NAMES.get(event.name, event.name)
    columns = FIELDS.get(name)
    if columns is None:
        return []
    done = [code(TABLE, "event", name)]
    for column, fields in columns.items():
        special = _SPECIAL.get(column)
        done += special(event, fields) if special else _plain(event, column, fields)
    for column in ("name", "new_name"):
        if f"{column}0" in columns:
            levels = tuple(text(event, columns[f"{column}{level}"]) for level in range(LEVELS))
            done.append(Do(What.PATH, column, fields=levels))
    return done


def _plain(event: Event, column: str, fields: str) -> list[Do]:
    """Return the step for an unconverted number or text. `steps` composes paths."""
    if column[-1].isdigit():
        return []
    if column in ("name", "new_name"):
        return [Do(What.SOME_TEXT, column, text(event, fields))]
    return [Do(What.NUMBER, column, number(event, fields))]


def _status(event: Event, fields: str) -> list[Do]:
    """Return the step for the letters of an extent's status, as the kernel prints them.

    Other flags follow as a number.
    """
    flags = {
        1 << int(match["shift"]) if match["shift"] else int(match["number"], 0): match["letter"]
        for match in _FLAG.finditer(event.print_format)
    }
    return [Do(What.FLAGS, "status", number(event, fields), choices=tuple(flags.items()))]


def _type(event: Event, fields: str) -> list[Do]:
    types = tuple(F2FS_TYPES.items())
    return [Do(What.CHOICE, "status", number(event, fields), choices=types), Do(What.CONSTANT, "nr_blocks", value=1)]


def _not_found(event: Event, fields: str) -> list[Do]:
    """Return the steps for an extent that was not found.

    The kernel then prints nothing, but the record has stale values.
    """
    found = number(event, fields)
    return [Do(What.UNLESS, "block", found), Do(What.NO_TEXT, "status", found)]


def _child(event: Event, fields: str) -> list[Do]:
    return [Do(What.CHILD, "ino", number(event, fields), number(event, "err"))]


_SPECIAL: dict[str, Callable[[Event, str], list[Do]]] = {
    "status": _status,
    "type": _type,
    "found": _not_found,
    "bdi": lambda event, fields: [Do(What.DEVICE, "dev", text(event, fields))],
    "child": _child,
}
"""Conversions for the names in `FIELDS` that are not columns, and for columns that need one."""
