"""Derive extents and files from the tracepoints of filesystems.

This module contains the parts that all filesystems share:

- assign events to the filesystem's device
- number the incarnations of each inode number
- turn statements about blocks into table `extents`

`ext4.tracepoints` and `f2fs.tracepoints` interpret the events of one filesystem.

The *incarnation* of an inode, here and in every table, counts the allocations of its inode number during the capture so
far. Incarnation 0 is the file from before the capture.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.fs import event_passes
from androstep_analysis.fs.coverage import has
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.ingest.spool import batches

WRITES = ("ext4_write_begin", "ext4_da_write_begin", "f2fs_write_begin")
WRITE_ENDS = ("ext4_write_end", "ext4_da_write_end", "ext4_journalled_write_end", "f2fs_write_end")
DIRTIED = ("writeback_dirty_folio", "writeback_dirty_page")
DIRECT = ("iomap_dio_rw_begin", "ext4_direct_IO_enter", "f2fs_direct_IO_enter", "direct_begin")
NAMED_IO = ("f2fs_datawrite_start", "f2fs_dataread_start", "android_fs_datawrite_start", "android_fs_dataread_start")
STORES = ("page_mkwrite", "f2fs_vm_page_mkwrite")
"""From this event on, a process may store to a page of a file through a memory map."""
CACHED = "mm_filemap_add_to_page_cache"
UNCACHED = "mm_filemap_delete_from_page_cache"
READ_CALL = "filemap_read"
"""A buffered read call begins."""
READ, FAULTED, MAPPED = "mm_filemap_get_pages", "mm_filemap_fault", "mm_filemap_map_pages"
"""A read call gets pages from the cache; a page that is not mapped faults; fault-around maps its neighbours."""
ASKED = (READ_CALL, READ, FAULTED, MAPPED)
INVALIDATED_PLAINLY = ("ext4_invalidate_folio", "ext4_invalidatepage")
"""Part or all of a folio is invalidated; the folio may stay in the cache. ``…page`` is the name before Linux 5.18."""
INVALIDATED = (*INVALIDATED_PLAINLY, "ext4_journalled_invalidate_folio", "ext4_journalled_invalidatepage")
"""Also includes the events of files with journalled data."""
CREATIONS = ("ext4_allocate_inode", "f2fs_new_inode")
EVICTIONS = ("ext4_evict_inode", "f2fs_evict_inode")
DELETIONS = ("ext4_free_inode", *EVICTIONS)
SYNC_BEGINS = ("ext4_sync_file_enter", "f2fs_sync_file_enter")
SYNC_ENDS = ("ext4_sync_file_exit", "f2fs_sync_file_exit")
UNLINKS = ("ext4_unlink_enter", "f2fs_unlink_enter", "f2fs_rename_start")
COMPLETE = {
    "ext4": (
        (tracepoints_ext4.INSERTS[0],),
        (tracepoints_ext4.CACHED, tracepoints_ext4.LOOKUP),
        (tracepoints_ext4.FREES,),
    ),
    "f2fs": tracepoints_f2fs.COMPLETE,
}
"""Events that show every change of a filesystem's block map. At least one event of each group is required."""

FILESYSTEMS = ("ext4", "f2fs")
"""Filesystems with tracepoints of their own."""

_PAGES_ARE_FILES = "^(?:ext[34]$|v?fat|msdos|exfat|xfs)"
"""Filesystems that do not cache directories as pages of the directory's inode, so that an inode with pages is a file.

F2FS and ext2's own driver do cache them so.
"""

_RESERVED = {
    "root": {"ext4": tracepoints_ext4.ROOT_INODE, "f2fs": tracepoints_f2fs.ROOT_INODE},
    "journal": {"ext4": tracepoints_ext4.JOURNAL_INODE},
    "first": {"ext4": tracepoints_ext4.FIRST_INODE, "f2fs": tracepoints_f2fs.FIRST_INODE},
}
"""Reserved inode numbers. On other or unknown filesystems no inode number has a special meaning."""

_FORMAT = stat.S_IFMT(0o177777)

_KEY = ["dev", "ino", "incarnation"]


PAGES = (*WRITES, *WRITE_ENDS, *STORES, *DIRTIED, CACHED, UNCACHED, *ASKED, *INVALIDATED)
"""Events about pages of a file or bytes in them: nine of ten events of a busy filesystem."""

NEVER_WRITTEN = ("erofs", "squashfs")
"""Read-only filesystems, which a program creates as a whole, such as Android's system image."""

PATHS = ("name_open", "name_unlink", "name_rename")
"""A program passes a path to the kernel."""
HANDLE = "jbd2_handle_stats"
COMMITS = ("jbd2_start_commit", "jbd2_end_commit")

OF_NUMBERS = ("event", "dev", "ino", "nlink", "error")
"""Columns of fs_events that show which file an inode number belongs to."""
_OF_EXTENTS = (
    *("ts_ns", "event", "dev", "ino", "tid", "incarnation", "file_block", "block", "nr_blocks", "old_block", "status"),
    "error",
)
"""Columns of fs_events that describe blocks."""
_OF_KINDS = ("dev", "event", "error")
_OTHER, _PAGE, _LOOKUP, _HANDLE, _PATH, _OPEN = range(6)
"""``enum repetition_kind``."""
_REPETITIONS = event_passes.codes(
    {
        **dict.fromkeys(PAGES, _PAGE),
        **dict.fromkeys(PATHS, _PATH),
        **{tracepoints_ext4.LOOKUP: _LOOKUP, HANDLE: _HANDLE, "name_open": _OPEN},
    },
    _OTHER,
)
_NO_LIFETIME, _CREATION, _DELETION, _FREED_BLOCKS = range(4)
"""``enum lifetime_kind``."""
_LIFETIMES = event_passes.codes(
    {
        **dict.fromkeys(CREATIONS, _CREATION),
        **dict.fromkeys(DELETIONS, _DELETION),
        tracepoints_ext4.FREES: _FREED_BLOCKS,
    },
    _NO_LIFETIME,
)
_BATCH = 1 << 18


def on_disks(fs_events: pl.LazyFrame, requests: pl.LazyFrame) -> dict[int, list[int]]:
    """Return for each disk the filesystems that writeback events report under the disk's number.

    These are the filesystems on its partitions. A device-mapper device has a number of its own. A filesystem with
    events but no requests may be on any disk with partitions, and is added to each of these.
    """
    devices_of_disks = requests.select("dev", "part_dev").unique().collect(engine="streaming")
    reported = devices(fs_events, pl.col("event").is_in(DIRTIED))
    part = pl.col("part_dev")
    unplaced = sorted({*devices(fs_events, is_own())} - {*devices_of_disks["part_dev"]})
    # Requests to the whole disk are reads of the partition table, unless the disk has no partition with requests: a
    # filesystem on the whole disk leaves no space for partitions.
    is_part = pl.when(part == pl.col("dev")).then(pl.len().over("dev") == 1).otherwise(~part.is_in(reported))
    parts = devices_of_disks.filter(is_part).sort("part_dev").group_by("dev").agg("part_dev")
    return {
        disk: parts_of_disk if parts_of_disk == [disk] else [*parts_of_disk, *unplaced]
        for disk, parts_of_disk in parts.iter_rows()
    }


def sharing(disks: Mapping[int, list[int]]) -> set[int]:
    """Return the filesystems that share a disk (`on_disks`), for which dirtying events do not identify the file."""
    return {dev for devs in disks.values() if len(devs) > 1 for dev in devs}


def on_filesystems(fs_events: pl.LazyFrame, disks: Mapping[int, list[int]]) -> pl.LazyFrame:
    """Assign events that do not record the filesystem's device to that device.

    - Dirtying events (`DIRTIED`) record only the whole disk, that of the bdi. They are assigned to the only filesystem
      on it (`on_disks`), and removed if there are several (see `on_each_filesystem`). The thread's previous event does
      not help: a store through a memory map, to a file with the same inode number on another of these filesystems, may
      leave no event at all.
    - Events of reads and writes with a path (`NAMED_IO`) record no device. They are assigned to the only filesystem
      with events of its own.
    """
    is_dirtying, dev = pl.col("event").is_in(DIRTIED), pl.col("dev")
    placed = dev
    # replace_strict with a mapping would make polars load the whole table.
    for disk, devs in disks.items():
        if devs == [disk]:
            continue
        own = pl.lit(devs[0] if len(devs) == 1 else None, pl.UInt32)
        placed = pl.when(is_dirtying & (dev == disk)).then(own).otherwise(placed)
    return _on_only_filesystem(fs_events.with_columns(dev=placed).filter(~is_dirtying | dev.is_not_null()))


def on_each_filesystem(fs_events: pl.LazyFrame, disks: Mapping[int, list[int]]) -> pl.LazyFrame:
    """Assign events as `on_filesystems`, but dirtying events of a shared disk to each of its filesystems.

    A filesystem then has all of its own dirtying events, and perhaps others.
    """
    shared = pl.lit(None, pl.List(pl.UInt32))
    for disk, devs in disks.items():
        if len(devs) > 1:
            shared = pl.when(pl.col("dev") == disk).then(pl.lit(devs, pl.List(pl.UInt32))).otherwise(shared)
    is_dirtying = pl.col("event").is_in(DIRTIED)
    copied = fs_events.with_columns(shared=pl.when(is_dirtying).then(shared)).explode("shared")
    only = {disk: devs for disk, devs in disks.items() if len(devs) == 1}
    return on_filesystems(copied.with_columns(dev=pl.coalesce("shared", "dev")).drop("shared"), only)


def _on_only_filesystem(fs_events: pl.LazyFrame) -> pl.LazyFrame:
    """Assign `NAMED_IO` events to the only filesystem that they can belong to, if there is exactly one."""
    event = pl.col("event").cast(pl.String)
    is_named = pl.col("event").is_in(NAMED_IO)
    own = fs_events.filter(is_own() & ~is_named).select("dev", "event").unique().collect(engine="streaming")
    own = own.with_columns(event)
    devices = {
        name: own.filter(pl.col("event").str.starts_with(name))["dev"].drop_nulls().unique() for name in ("", "f2fs")
    }
    only = {name: int(devs[0]) if len(devs) == 1 else None for name, devs in devices.items()}
    device = pl.when(is_own("f2fs")).then(pl.lit(only["f2fs"])).otherwise(pl.lit(only[""]))
    return fs_events.with_columns(dev=pl.when(is_named).then(device.cast(pl.UInt32)).otherwise("dev"))


def without_repetitions(fs_events: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Yield table fs_events without most of the events that repeat others, which are most events of a busy filesystem.

    | events | rows that remain |
    |---|---|
    | about pages (`PAGES`) | the first of each kind, thread and folio size class between two other events of the file |
    | look-ups in the block map | the first of each thread and extent between two other events of the file |
    | journal handles | for each thread and transaction, the last with changes and the last without |
    | opened paths | the first of each thread and path; also each that is not followed by another path event |
    | others | all |

    The remaining rows still show the files with pages, their users, the locations of blocks, the kinds of events on a
    device, and the begin of each inode's lifetime. The rows are yielded in batches, in order. Repetitions are found
    only within a batch.
    """
    for events in batches(fs_events, _BATCH):
        states_block = events.select(tracepoints_ext4.states_block()).to_series()
        kind = _REPETITIONS[events["event"].to_physical().to_numpy()]
        kind[events.select(tracepoints_ext4.is_miss()).to_series().to_numpy()] = _OTHER
        yield events.filter(event_passes.is_original(events, kind, states_block))


def filesystems(fs_events: pl.LazyFrame, stated: Mapping[int, str]) -> dict[int, str]:
    """Return the filesystem on each device, as its own events prove it, or else as `stated`.

    Devices with events of two filesystems are not included. The filesystem decides the meaning of inode numbers: 8 is
    the journal on ext4, but on FAT it is the seventh file that was looked up. ext4's driver also serves ext2 and ext3,
    which have the same reserved numbers.
    """
    own = fs_events.filter(is_own()).select("dev", "event").unique().collect()
    own = own.select("dev", fs_type=pl.col("event").cast(pl.String).str.head(4)).drop_nulls().unique()
    proven = own.filter(pl.len().over("dev") == 1)
    return {dev: name for dev, name in stated.items() if dev not in own["dev"]} | dict(proven.iter_rows())


def with_kinds(fs_events: pl.LazyFrame, stated: Mapping[int, str]) -> pl.LazyFrame:
    """Add the columns `fs_type` (`filesystems`) and `has_events` (the device's filesystem has events of its own).

    The device of an event about a bio is `bio_dev`.
    """
    dev = pl.coalesce("bio_dev", "dev")
    fs_types = filesystems(fs_events, stated)
    has_events = _is_of_any(fs_events, is_own(), dev)
    fs_type = dev.replace_strict(fs_types, default=None, return_dtype=pl.String)
    return fs_events.with_columns(has_events=has_events, fs_type=fs_type)


def is_own(*filesystems: str) -> pl.Expr:
    """Return whether an event comes from the driver of one of these filesystems (default: `FILESYSTEMS`)."""
    prefixes = tuple(f"{name}_" for name in filesystems or FILESYSTEMS)
    return pl.col("event").is_in(
        [name for name in schema.enum("fs_events", "event").categories if name.startswith(prefixes)]
    )


def kinds(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return a row for each kind of event of each device, with the columns `_OF_KINDS`.

    Functions that only ask which devices have an event of a kind take this table as well as table fs_events.
    """
    large = (pl.col("page_order") > 0).cast(pl.Int32)
    return fs_events.select(*_OF_KINDS, page_order=large).unique().collect(engine="streaming")


def devices(fs_events: pl.DataFrame | pl.LazyFrame, condition: pl.Expr) -> list[int]:
    """Return the devices with any event for which the condition holds."""
    found = fs_events.filter(condition).select(pl.col("dev").unique().drop_nulls())
    return (found.collect() if isinstance(found, pl.LazyFrame) else found)["dev"].to_list()


def _is_of_any(fs_events: pl.LazyFrame, condition: pl.Expr, dev: pl.Expr) -> pl.Expr:
    """Return whether an event's device (`dev`) has any event for which the condition holds."""
    devices = fs_events.filter(condition).select(dev.unique()).collect().to_series()
    return dev.is_in(devices.implode(), nulls_equal=True)


def pages_are_files() -> pl.Expr:
    """Return whether an inode with pages is certainly a file on `fs_type`; false if the filesystem is unknown."""
    return pl.col("fs_type").str.contains(_PAGES_ARE_FILES).fill_null(False)


def creations() -> pl.Expr:
    """Return whether an event allocates an inode number for a new file."""
    event = pl.col("event")
    made = (event == "f2fs_new_inode") & (pl.col("error").fill_null(0) == 0)
    return (event == "ext4_allocate_inode") | made


def deletions() -> pl.Expr:
    """Return whether an event deletes the file with this inode number."""
    return (pl.col("event") == "ext4_free_inode") | (pl.col("event").is_in(EVICTIONS) & (pl.col("nlink") == 0))


def numbered(fs_events: pl.DataFrame, recorded: Collection[str] = ()) -> pl.DataFrame:
    """Add column `incarnation` (Int32), the incarnation of the inode at the time of the event, to table `fs_events`.

    The columns `OF_NUMBERS` are required. `recorded` are the events that the recorder enabled on every traced device.
    If such an event does not occur, it did not happen.

    | the device's trace records | a new incarnation begins |
    |---|---|
    | allocations of inodes | at the allocation |
    | only deletions | at the first event after the deletion |
    | neither | never: all are incarnation 1, because the file may not be the one from before the capture |
    """
    return Incarnations(fs_events.lazy(), recorded).added(fs_events)


class Incarnations:
    """Numbers incarnations (`numbered`) in batches of events, in order of time."""

    def __init__(self, fs_events: pl.LazyFrame, recorded: Collection[str] = ()) -> None:
        """Find out which events the recording has. `fs_events` is the whole table."""
        event = pl.col("event")
        devices = (
            fs_events.group_by("dev")
            .agg(
                has_creations=(event.is_in(CREATIONS) | is_recorded(CREATIONS, recorded)).any(),
                has_deletions=(event.is_in(DELETIONS) | is_recorded(DELETIONS, recorded)).any(),
                is_own=is_own().any(),
            )
            .collect(engine="streaming")
        )
        first = (pl.col("is_own") & ~pl.col("has_creations") & ~pl.col("has_deletions")).cast(pl.Int32)
        without = devices.filter(~pl.col("has_creations"))["dev"]
        of_others = fs_events.filter(deletions() & pl.col("dev").is_in(without.implode(), nulls_equal=True))
        deleted = of_others.select("dev", "ino", is_free=event == "ext4_free_inode").collect()
        self._pass = event_passes.Incarnations(devices.with_columns(first=first), deleted)

    def added(self, fs_events: pl.DataFrame) -> pl.DataFrame:
        """Return the next events with column `incarnation`."""
        rows = fs_events.select(OF_NUMBERS)
        kind = _LIFETIMES[rows["event"].to_physical().to_numpy()]
        kind[(kind == _CREATION) & ~_holds(rows, creations())] = _NO_LIFETIME
        kind[(kind == _DELETION) & ~_holds(rows, deletions())] = _NO_LIFETIME
        return fs_events.with_columns(self._pass.number(rows, kind))


def _holds(rows: pl.DataFrame, condition: pl.Expr) -> npt.NDArray[np.bool_]:
    is_true: npt.NDArray[np.bool_] = rows.select(condition.fill_null(False)).to_series().to_numpy()
    return is_true


def is_recorded(events: Collection[str], recorded: Collection[str]) -> pl.Expr:
    """Return whether an event comes from a filesystem for which one of `events` was `recorded`."""
    filesystems = sorted({name.split("_")[0] for name in events if name in recorded})
    return is_own(*filesystems) if filesystems else pl.lit(False)


def without_lifetimes(fs_events: pl.DataFrame | pl.LazyFrame, recorded: Collection[str] = ()) -> list[int]:
    """Return the devices without events of creation and deletion, on which an inode number may have been reused."""
    event = pl.col("event")
    shows_lifetimes = event.is_in([*CREATIONS, *DELETIONS]) | is_recorded([*CREATIONS, *DELETIONS], recorded)
    by_device = (
        fs_events.drop_nulls("dev")
        .group_by("dev")
        .agg(has_events=is_own().any(), shows_lifetimes=shows_lifetimes.any())
    )
    return devices(by_device, pl.col("has_events") & ~pl.col("shows_lifetimes"))


def maps_completely(
    fs_events: pl.DataFrame | pl.LazyFrame, dev: int, recorded: Collection[str] = (), fs_type: str | None = None
) -> bool:
    """Return whether the events that show every change of the block map of `dev` were recorded (`COMPLETE`).

    Some of them may still be lost. `recorded` is as in `numbered`. `fs_type` is needed for a device that is only read
    and has no events of its driver. The map of a read-only filesystem never changes.
    """
    if fs_type in NEVER_WRITTEN:
        return True
    own = fs_events.filter((pl.col("dev") == dev) & is_own()).select(pl.col("event").unique().cast(pl.String))
    events = own.lazy().collect()["event"]
    names = {fs_type, *(event.partition("_")[0] for event in events)}
    available = {*recorded, *events}
    return any(all(available.intersection(group) for group in COMPLETE[name]) for name in names & COMPLETE.keys())


def lifetimes(fs_events: pl.LazyFrame, fs_types: Mapping[int, str] | None = None) -> pl.DataFrame:
    """Return the lifetimes of inodes: one row for each inode and incarnation in the events (`numbered`).

    `fs_types` is the filesystem of each device, as far as it is stated. The columns are:

    - dev, ino, incarnation
    - first_ns: the time of its first event
    - created_ns: null for incarnation 0
    - deleted_ns: null if it was not deleted
    - end_ns: the deletion, or the next allocation if the trace has no deletion
    - block_type, subtype: as in table extents; `unknown` if no event shows whether the inode is a file or a directory
    """
    event, ts_ns = pl.col("event"), pl.col("ts_ns")
    typed = with_kinds(fs_events, fs_types or {}).filter(pl.col("dev").is_not_null())
    is_named = pl.col("name").is_not_null() | event.is_in([*DIRECT, *STORES])
    is_page = event.is_in([*DIRTIED, CACHED]) | ((event == "bio_page") & (pl.col("bio_dev") == pl.col("dev")))
    selected = typed.filter(pl.col("ino").is_not_null()).select(
        "ts_ns",
        *(*_KEY, "mode", "fs_type"),
        first_ns=ts_ns,
        created_ns=pl.when(creations()).then(ts_ns),
        deleted_ns=pl.when(deletions()).then(ts_ns),
        gone_ns=pl.when(deletions()).then(ts_ns),
        has_pages=event.is_in([*WRITES, *DIRECT]) | (is_page & pages_are_files()),
        is_opened=is_named,
    )
    table = _merged(pl.concat(_merged(events) for events in batches(selected, _BATCH))).sort(_KEY)
    table = table.join(_parents(typed, table), on=_KEY, how="left", maintain_order="left")
    # If neither creations nor deletions are recorded, one inode number may have been a file and later a directory.
    is_one = (pl.col("incarnation") == 0) | _begins_ns().is_not_null()
    table = table.with_columns(mode=pl.when(is_one).then("mode"))
    return table.with_columns(
        *_kind(), end_ns=pl.min_horizontal("deleted_ns", pl.col("created_ns").shift(-1).over("dev", "ino"))
    ).select(*_KEY, "first_ns", "created_ns", "deleted_ns", "end_ns", "block_type", "subtype")


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    """Merge the rows of each inode and incarnation, which are in order of time, into one."""
    first, last = (pl.col("first_ns", "created_ns", "deleted_ns"), pl.col("gone_ns", "mode"))
    return rows.group_by(_KEY).agg(
        first.drop_nulls().first(),
        last.drop_nulls().last(),
        pl.col("fs_type").first(),
        pl.col("has_pages", "is_opened").any(),
    )


def _parents(fs_events: pl.LazyFrame, incarnations: pl.DataFrame) -> pl.DataFrame:
    """Return the inodes in which entries were created or unlinked: dev, ino, incarnation at that time, is_parent.

    `incarnations` are sorted. An incarnation begins with its creation, or with the deletion of the previous one if
    creations are not recorded. Between its deletion and the next begin, the inode number belongs to no incarnation.
    """
    begun = incarnations.select(*_KEY, "deleted_ns", begins_ns=_begins_ns()).drop_nulls("begins_ns").sort("begins_ns")
    parts = []
    for named in batches(fs_events.select("ts_ns", "dev", ino="parent").drop_nulls("ino"), _BATCH):
        at = named.join_asof(
            begun, left_on="ts_ns", right_on="begins_ns", by=["dev", "ino"], check_sortedness=False
        ).drop_nulls("incarnation")
        alive = at.filter(pl.col("ts_ns") <= pl.col("deleted_ns").fill_null(pl.col("ts_ns")))
        parts.append(alive.select(_KEY).unique())
    return pl.concat(parts).unique().with_columns(is_parent=pl.lit(True))


def _begins_ns() -> pl.Expr:
    """Return the begin of each lifetime (sorted): 0 if it began before the trace, null if unknown."""
    before_ns = pl.col("gone_ns").shift(1).over("dev", "ino")
    return pl.when(pl.col("incarnation") > 0).then(pl.coalesce("created_ns", before_ns)).otherwise(0)


def _kind() -> tuple[pl.Expr, pl.Expr]:
    """Return block_type and subtype of an inode's content, by its mode, or else by the operations on it."""
    kind, ino = pl.col("mode") & _FORMAT, pl.col("ino")
    root, journal, first = (
        pl.col("fs_type").replace_strict(_RESERVED[name], default=None, return_dtype=pl.Int64)
        for name in ("root", "journal", "first")
    )
    is_root, is_reserved = (ino == root).fill_null(False), (ino < first).fill_null(False)
    is_directory = pl.coalesce(kind == stat.S_IFDIR, is_root | pl.col("is_parent").fill_null(False))
    is_data = pl.coalesce(kind.is_in([stat.S_IFREG, stat.S_IFLNK]), pl.col("has_pages"))
    # These inodes may be quota files, which are never created during a trace or opened. Only an image can show it.
    may_be_quota = (pl.col("fs_type") == "f2fs") & ino.is_in(tracepoints_f2fs.QUOTA_INODES)
    may_be_quota &= pl.col("created_ns").is_null() & ~pl.col("is_opened") & (kind != stat.S_IFLNK).fill_null(True)
    block_type = (
        pl.when(ino == journal)
        .then(pl.lit("journal"))
        .when(is_directory & (is_root | ~is_reserved))
        .then(pl.lit("directory"))
        .when(is_data & ~is_reserved & ~may_be_quota.fill_null(False))
        .then(pl.lit("data"))
        .otherwise(pl.lit("unknown"))
    )
    subtype = pl.when(kind == stat.S_IFLNK).then(pl.lit("symlink"))
    return (
        block_type.cast(schema.enum("extents", "block_type")).alias("block_type"),
        subtype.cast(schema.enum("extents", "subtype")).alias("subtype"),
    )


def statements(
    fs_events: pl.LazyFrame, lifetimes: pl.DataFrame, block_bytes: Mapping[int, int], recorded: Collection[str] = ()
) -> pl.DataFrame:
    """Return table `extents` with doubt_ns, tid, event and status: a row for each mapping or freeing, in order of time.

    A row is valid from its event to the end of its inode's lifetime (null if that is not in the trace). It is a fact
    until `doubt_ns` (null: as long as it is valid). Rows may overlap. For each block and time the latest row applies,
    so that a row ends when another one follows (`link.extents.timeline`).

    Parameters
    ----------
    fs_events : LazyFrame
        Table fs_events with incarnations (`numbered`).
    lifetimes : DataFrame
        The lifetimes of inodes (`lifetimes`), which give the type of their blocks.
    block_bytes : mapping of int
        The block size of the filesystem on each device. Devices that are not included have no rows.
    recorded : collection of str
        The events that the recorder enabled, as in `numbered`.
    """
    is_statement = pl.col("event").is_in([*tracepoints_ext4.OF_BLOCKS, *tracepoints_f2fs.OF_BLOCKS])
    events = fs_events.filter(is_statement).select(_OF_EXTENTS).collect().with_row_index("order")
    held = lifetimes.select(*_KEY, "end_ns", life_type=pl.col("block_type"), life_subtype=pl.col("subtype"))
    of_ext4 = tracepoints_ext4.mappings(events, recorded).join(held, on=_KEY, how="left", maintain_order="left")
    events_of_f2fs = events.filter(pl.col("event").is_in(tracepoints_f2fs.OF_BLOCKS))
    of_f2fs = tracepoints_f2fs.mappings(events_of_f2fs, recorded).join(
        held.drop("end_ns"), on=_KEY, how="left", maintain_order="left"
    )
    free = pl.concat([tracepoints_ext4.frees(events), tracepoints_f2fs.frees(events)])
    free = free.select("order", "ts_ns", "tid", "event", "dev", "block", "nr_blocks", block_type=pl.lit("free"))
    size = pl.col("dev").replace_strict(block_bytes, default=None, return_dtype=pl.Int64)
    enums = {name: schema.enum("extents", name) for name in ("block_type", "subtype")}
    rows = pl.concat(
        [
            of_ext4.with_columns(valid_to_ns="end_ns", block_type="life_type", subtype="life_subtype"),
            of_f2fs.with_columns(
                pl.coalesce(pl.col(name).cast(enum), f"life_{kind}").alias(name)
                for (name, enum), kind in zip(enums.items(), ("type", "subtype"), strict=True)
            ),
            free.with_columns(pl.col("block_type").cast(enums["block_type"])),
        ],
        how="diagonal",
    ).sort("order")
    rows = rows.filter(pl.col("dev").is_in(list(block_bytes)))
    want = schema.table("extents").polars
    unknown = pl.lit("unknown").cast(enums["block_type"])
    return rows.with_columns(
        sector=pl.col("block") * (size // units.SECTOR_BYTES),
        nr_sectors=pl.col("nr_blocks") * (size // units.SECTOR_BYTES),
        file_offset_bytes=pl.col("file_block") * size,
        generation=pl.lit(None),
        valid_from_ns=pl.col("ts_ns"),
        block_type=pl.col("block_type").fill_null(unknown),
        source=pl.lit("tracepoint"),
    ).select("doubt_ns", "tid", "event", "status", *(pl.col(name).cast(dtype) for name, dtype in want.items()))


def extents(stated: pl.DataFrame) -> pl.DataFrame:
    """Return table `extents` of the statements, each row valid as long as it is a fact."""
    rows = stated.with_columns(valid_to_ns=pl.min_horizontal("valid_to_ns", "doubt_ns"))
    return schema.conform(rows.select(list(schema.table("extents").polars)), "extents")


def likely(stated: pl.DataFrame) -> pl.DataFrame:
    """Return table `extents` with source `inferred`, for devices with a statement that may stop being a fact."""
    doubtful = stated.filter(pl.col("doubt_ns").is_not_null())["dev"].unique()
    inferred = pl.lit("inferred").cast(stated.schema["source"])
    rows = stated.filter(pl.col("dev").is_in(doubtful.implode())).with_columns(source=inferred)
    return schema.conform(rows.select(list(schema.table("extents").polars)), "extents")


def doubts(fs_events: pl.LazyFrame, recorded: Collection[str] = ()) -> pl.DataFrame:
    """Return the time from which an inode's map from before the trace is doubtful: dev, ino, incarnation, doubt_ns.

    There are rows only for devices without events of reading the map (`tracepoints_ext4.CACHED`). See `statements`.
    """
    is_relevant = pl.col("event").is_in([tracepoints_ext4.CACHED, tracepoints_ext4.LOOKUP])
    events = fs_events.filter(is_relevant).select("event", *_KEY, "ts_ns", "nr_blocks").collect()
    is_silent = ~has(recorded, tracepoints_ext4.CACHED)
    misses = events.filter(is_silent & tracepoints_ext4.is_miss())
    return misses.group_by(_KEY).agg(doubt_ns=pl.col("ts_ns").min())


def file_type() -> pl.Expr:
    """Return column `file_type` as far as `block_type` and `subtype` of a lifetime determine it."""
    return (
        pl.when(pl.col("block_type") == "directory")
        .then(pl.lit("directory"))
        .when(pl.col("subtype") == "symlink")
        .then(pl.lit("symlink"))
        .otherwise(pl.lit("unknown"))
    )


def files(lifetimes: pl.DataFrame) -> pl.DataFrame:
    """Return table `files` of the incarnations that were created or deleted in the trace, without names."""
    is_dated = pl.col("created_ns").is_not_null() | pl.col("deleted_ns").is_not_null()
    want = schema.table("files").polars
    rows = lifetimes.filter(is_dated).with_columns(
        names=pl.lit([], pl.List(pl.String)),
        name_encrypted=pl.lit(False),
        file_type=file_type(),
        source=pl.lit("tracepoint"),
    )
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in want.items() if name not in rows.columns]
    rows = rows.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in want.items())
    return schema.conform(rows, "files")
