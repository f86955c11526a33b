"""List the kinds of events that a recording lacks, and what stays unknown without them.

A missing class of events costs only the results that rest on it. No other part reports this: at best a recorder names
the events that it recorded, and an event that never occurred looks like one that was not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4


class Kind(NamedTuple):
    """Events of which one suffices, and what is unknown without them.

    A value in one of `columns` (table, column) suffices, too, as many kinds of events can supply it.
    """

    title: str
    events: tuple[str, ...]
    unknown: str
    columns: tuple[tuple[str, str], ...] = ()


EVERYWHERE = (
    Kind("pages becoming dirty", tracepoints.DIRTIED, "who stored through memory maps"),
    Kind("pages coming into the cache", (tracepoints.CACHED,), "how many pages became dirty at once"),
    Kind("direct I/O", tracepoints.DIRECT, "which writes did not go through the cache"),
    Kind("threads", ("task_newtask", "sched_process_fork", "sched_process_exec"), "processes and names of new threads"),
)
"""Kinds that the recording of any filesystem needs."""

OF_EXT4 = (
    Kind("where ext4 puts data", ("ext4_es_insert_extent", tracepoints_ext4.MAPS), "files of newly allocated blocks"),
    Kind("the freeing of blocks", (tracepoints_ext4.FREES,), "until when a block was a file's"),
    Kind("the allocation of inodes", ("ext4_allocate_inode",), "which of several files bore a number"),
    Kind("the freeing of inodes", ("ext4_free_inode", "ext4_evict_inode"), "until when a file bore its number"),
    Kind("writes into pages", ("ext4_write_begin", "ext4_da_write_begin"), "who wrote what others wrote out"),
    Kind("the journal", ("jbd2_handle_stats",), "for whom the journal was written"),
)

OF_F2FS = (
    Kind(
        "where F2FS puts data",
        ("f2fs_submit_page_write", "f2fs_submit_folio_write", "f2fs_submit_page_bio", "f2fs_submit_folio_bio"),
        "files of newly allocated blocks",
    ),
    Kind("the allocation of inodes", ("f2fs_new_inode",), "which of several files bore a number"),
    Kind("the eviction of inodes", ("f2fs_evict_inode",), "until when a file bore its number"),
    Kind("writes into pages", ("f2fs_write_begin",), "who wrote what others wrote out"),
)

OF_BLOCK = (
    Kind("the queueing of bios", ("block_bio_queue",), "which thread submitted what, and files within requests"),
    Kind("the issue of requests", ("block_rq_issue", "block_io_start"), "when the device got them"),
    Kind("the completion of requests", ("block_rq_complete", "block_io_done"), "how long they took"),
)

OF_MANY_EVENTS = (
    Kind(
        "names of files",
        ("fanotify",),
        "paths that no image and no listing has",
        (("fs_events", "name"), ("syscalls", "path")),
    ),
    Kind(
        "the process of a thread",
        (),
        "process numbers, packages by process",
        (("requests", "submit_pid"), ("fs_events", "pid"), ("syscalls", "pid")),
    ),
)
"""Kinds that are present if a table has a value."""


def in_words(kinds: Collection[Kind]) -> str:
    """Return the kinds in one sentence."""
    lacking = "; ".join(f"{kind.title} ({kind.unknown})" for kind in kinds)
    return f"no event records: {lacking}" if kinds else ""


def unrecorded(events: Collection[str], recorded: Collection[str], has_value: Callable[[str, str], bool]) -> list[Kind]:
    """Return the kinds of events of which a recording by ftrace or Perfetto has none, in a fixed order.

    `events` are those that occurred, by the kernel's names, and `recorded` those that the recorder reports. `has_value`
    returns whether a column of a table has any value. Kinds of a filesystem count only if the recording has any of its
    events. A recording of another format lacks nothing. `fanotify` stands for the names from it.
    """
    known = {*events, *recorded}
    if not any(name.startswith("block_") for name in known):
        return []
    kinds = [*OF_BLOCK, *EVERYWHERE]
    for prefix, own in (("ext4_", OF_EXT4), ("f2fs_", OF_F2FS)):
        kinds += own if any(name.startswith(prefix) for name in known) else ()
    kinds = [kind for kind in kinds if not known.intersection(kind.events)]
    return kinds + [
        kind
        for kind in OF_MANY_EVENTS
        if not known.intersection(kind.events) and not any(has_value(*column) for column in kind.columns)
    ]
