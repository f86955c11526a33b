"""What no event of a recording tells, and what stays unknown for it.

A class of events that is missing costs exactly the answers that rest on it: nothing else says so, as a recorder names
the events that it recorded at best, and an event that never came looks like one that was not wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4


class Kind(NamedTuple):
    """Some events of which one suffices: what they tell, and what is unknown without them.

    What many events tell, each in its own way, is there where one of `columns` (table, column) has a value, too.
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
"""What any filesystem's recording needs."""

OF_EXT4 = (
    Kind("where ext4 puts data", ("ext4_es_insert_extent",), "files of newly allocated blocks"),
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

TOLD_BY_MANY = (
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
"""What the tables say whether any event told it."""


def in_words(kinds: Collection[Kind]) -> str:
    """The kinds in one sentence."""
    lacking = "; ".join(f"{kind.title} ({kind.unknown})" for kind in kinds)
    return f"no event records: {lacking}" if kinds else ""


def unrecorded(events: Collection[str], recorded: Collection[str], is_told: Callable[[str, str], bool]) -> list[Kind]:
    """The kinds of events of which a recording by ftrace or Perfetto has none, in a fixed order.

    `events` are those that came, by the kernel's names, `recorded` those that the recorder says it recorded;
    `is_told` says whether a column of a table has any value. Only what filesystems the recording has events of is
    looked for; a recording of another format lacks nothing by this measure. `fanotify` stands
    for the names that it told.
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
        for kind in TOLD_BY_MANY
        if not known.intersection(kind.events) and not any(is_told(*column) for column in kind.columns)
    ]
