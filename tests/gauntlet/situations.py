"""The corruptions of a recording, each a function of the case and of a directory for its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from support import corpus, truth

from gauntlet import images
from gauntlet.judging import Case

SECOND, HOUR = 10**9, 3600 * 10**9

FIRST_SECTOR = 2048
"""First sector of the partition on the disk."""


@dataclass(frozen=True)
class Situation:
    """A corruption, the sentence (a pattern) that must name it, and the recordings to which it applies.

    `says` is None if nothing is missing or doubtful, so that no message is required.
    """

    title: str
    spoil: Callable[[Case, Path], Case]
    says: str | None = None
    on: Callable[[str], bool] = lambda _: True

    def named(self, said: Iterable[str]) -> str | None:
        """Return the sentence that names what happened."""
        return None if self.says is None else next((line for line in said if re.search(self.says, line)), None)


SITUATIONS: list[Situation] = []


def situation(
    title: str, says: str | None = None, on: Callable[[str], bool] = lambda _: True
) -> Callable[[Callable[[Case, Path], Case]], Callable[[Case, Path], Case]]:
    """Register the function in `SITUATIONS`."""

    def enter(spoil: Callable[[Case, Path], Case]) -> Callable[[Case, Path], Case]:
        SITUATIONS.append(Situation(title, spoil, says, on))
        return spoil

    return enter


def is_ext4(name: str) -> bool:
    """Return whether the recording is of ext4."""
    return name.startswith("ext4")


def is_numbered(name: str) -> bool:
    """Return whether the recording's filesystem has inode numbers (not FAT)."""
    return not name.startswith("vfat")


def has_before(name: str) -> bool:
    """Return whether the recording has an image from before it."""
    return name == "ext4_host_6.18"


def has_two_cpus(name: str) -> bool:
    """Return whether the recording has several CPUs."""
    return name == "ext4_host_6.18"


def has_bare_bios(name: str) -> bool:
    """Return whether the bios of the recording carry no file names."""
    return name == "ext4_host_6.18"


@situation("nothing")
def _(case: Case, _: Path) -> Case:
    return case


# --- images ------------------------------------------------------------------------------------------------------

NOT_OF_IT = r"not what device \S+ held"
NOT_PROVEN = r"not proven to belong"
"""Even the correct FAT image has files where directories were, so an image is not refused for that alone."""


@situation("image of another device, same names and UUID", NOT_OF_IT, is_numbered)
@situation("image of another device, same names and UUID (FAT)", NOT_PROVEN, lambda name: not is_numbered(name))
def _(case: Case, directory: Path) -> Case:
    names = case.truth["names"].explode().drop_nulls().unique().to_list()
    return replace(case, after=images.populated(case.fs_type, _image(case), names, directory), before=None)


@situation("image of another recording of this kind", NOT_OF_IT, is_ext4)
def _(case: Case, directory: Path) -> Case:
    other = "ext4_guest_6.1" if case.before is not None else "ext4_host_6.18"
    image = images.plain(corpus.path(f"kernel/{other}") / truth.IMAGES["after"], directory / "other.img")
    return replace(case, after=image, before=None)


@situation("image of another filesystem", NOT_OF_IT)
def _(case: Case, directory: Path) -> Case:
    other = "vfat_guest_6.1" if case.fs_type != "vfat" else "f2fs_guest_6.1"
    image = images.plain(corpus.path(f"kernel/{other}") / truth.IMAGES["after"], directory / "other.img")
    return replace(case, after=image, before=None)


@situation("image of another block size", NOT_OF_IT, is_ext4)
def _(case: Case, directory: Path) -> Case:
    names = case.truth["names"].explode().drop_nulls().unique().to_list()
    image = images.populated(case.fs_type, _image(case), names, directory, "-b", "1024")
    return replace(case, after=image, before=None)


@situation("image of another time: made anew since", f"{NOT_OF_IT}|{NOT_PROVEN}")
def _(case: Case, directory: Path) -> Case:
    return replace(case, after=images.empty(case.fs_type, _image(case), directory), before=None)


@situation("image of another time: before it was made anew", NOT_OF_IT, is_numbered)
@situation("image of another time: before it was made anew (FAT)", NOT_PROVEN, lambda name: not is_numbered(name))
def _(case: Case, directory: Path) -> Case:
    names = case.truth["names"].explode().drop_nulls().unique().to_list()
    image = images.populated(case.fs_type, _image(case), names, directory)
    return replace(case, before=image, after=None)


@situation("first half of the image", r"ends \d+ bytes before|cut|truncated|beyond|lies behind")
def _(case: Case, directory: Path) -> Case:
    return replace(case, after=images.cut(_image(case), directory), before=None)


@situation("image of the whole disk, trace of the partition", r"is not the start of a supported filesystem|partition")
def _(case: Case, directory: Path) -> Case:
    return replace(case, after=images.on_disk(_image(case), FIRST_SECTOR, directory), before=None)


@situation("before and after swapped", r"swapped", has_before)
def _(case: Case, _: Path) -> Case:
    return replace(case, before=case.after, after=case.before)


@situation("the image before given as the one after", None, has_before)
def _(case: Case, _: Path) -> Case:
    return replace(case, before=None, after=case.before)


@situation("the image after given as the one before", r"before", has_before)
def _(case: Case, _: Path) -> Case:
    return replace(case, before=case.after, after=None)


@situation("image said to be of a device that the trace does not have", r"assigned to device")
def _(case: Case, _: Path) -> Case:
    return replace(case, device="99:7")


# --- events that were not recorded -------------------------------------------------------------------------------

CLASSES = {
    "where extents are": r"^ext4_(es_|ext_|map)|^f2fs_(submit|map_blocks|lookup_.*extent|update_.*extent)|^sbio$",
    "the insertion of extents": r"^ext4_es_insert|^f2fs_submit",
    "the freeing of blocks": r"^ext4_(free_blocks|discard|mballoc_free|es_remove)|^f2fs_truncate",
    "the allocation of inodes": r"_(allocate|new|request)_inode|^f2fs_(new_inode|create)",
    "the freeing and eviction of inodes": r"_(free|evict)_inode",
    "inodes altogether": r"_(free|evict|allocate|new|request|drop)_inode|unlink",
    "names": r"^(e_|k_|u_)|unlink|rename|lookup_(start|end)|datawrite|dataread|sys_",
    "writes into pages": r"write_(begin|end)",
    "pages becoming dirty": r"dirty_(folio|page)|set_page_dirty|dirty_inode",
    "writes and dirtying": r"write_(begin|end)|dirty_(folio|page)|set_page_dirty",
    "pages coming into the cache": r"^mm_filemap",
    "direct I/O": r"iomap_dio|direct_IO|direct_begin",
    "the journal": r"^jbd2_",
    "threads": r"^(task_|sched_)",
    "writeback": r"writepages|^writeback_(mark|single|start|written|wait|queue|bdi|lazytime|sb)",
    "the queueing of bios": r"^block_bio_queue$",
    "the issue of requests": r"^block_rq_issue$",
    "their completion": r"^block_rq_complete$",
    "issue and completion": r"^block_rq_",
}
"""Classes of events by their information."""


def _without(pattern: str) -> Callable[[Case, Path], Case]:
    return lambda case, _: replace(case, trace=case.trace.having(~pl.col("event").str.contains(pattern)))


def _only(pattern: str) -> Callable[[Case, Path], Case]:
    keep = rf"^block_|{pattern}"
    return lambda case, _: replace(case, trace=case.trace.having(pl.col("event").str.contains(keep)))


NOT_RECORDED = r"no event records|[Nn]o completion is recorded|no issue"
UNSAID = "writeback"
"""The class without a message, because no answer depends on it alone."""

ON = {"the freeing of blocks": is_ext4, "the journal": is_ext4, "names": has_bare_bios}
"""Recordings with events of a class, if not all have them; for names, those whose bios carry none."""

SITUATIONS += [
    Situation(
        f"not recorded: {what}",
        _without(pattern),
        None if what == UNSAID else NOT_RECORDED,
        ON.get(what, lambda _: True),
    )
    for what, pattern in CLASSES.items()
]
SITUATIONS += [
    Situation(f"recorded besides the block layer only: {what}", _only(pattern), NOT_RECORDED)
    for what, pattern in CLASSES.items()
    if "block_" not in pattern
]
SITUATIONS.append(
    Situation(
        "not recorded: names but those that bios carry",
        _without(CLASSES["names"]),
        on=lambda name: not has_bare_bios(name),
    )
)


@situation("entries of system calls without exits")
def _(case: Case, _: Path) -> Case:
    return replace(case, trace=case.trace.having(~pl.col("event").str.contains(r"^sys_exit|_ret$")))


# --- what was lost -----------------------------------------------------------------------------------------------


@situation("one CPU missing", r"events of a CPU|not what device", has_two_cpus)
def _(case: Case, _: Path) -> Case:
    return replace(case, trace=case.trace.having(pl.col("cpu") != 1))


def _lost(first: float, last: float, *, counted: bool) -> Callable[[Case, Path], Case]:
    """Drop the records between two fractions of the trace."""

    def spoil(case: Case, _: Path) -> Case:
        times = case.trace.events["ts_ns"].sort()
        start, stop = (int(times[int(part * (len(times) - 1))]) for part in (first, last))
        gone = pl.col("ts_ns").is_between(start, stop, closed="left")
        counts = case.trace.events.filter(gone).group_by("cpu").len().rows() if counted else ()
        lost = tuple((cpu, stop, count) for cpu, count in counts)
        return replace(case, trace=replace(case.trace.having(~gone), lost=lost))

    return spoil


SITUATIONS += [
    Situation("head lost, counted", _lost(0, 0.4, counted=True), r"lost|overwritten"),
    Situation("middle lost, counted", _lost(0.4, 0.6, counted=True), r"lost|overwritten"),
    Situation("recording began later", _lost(0, 0.4, counted=False)),
    Situation("recording ended earlier", _lost(0.6, 1, counted=False)),
]


# --- clocks ------------------------------------------------------------------------------------------------------


def _half(case: Case) -> int:
    return int(case.trace.events["ts_ns"].median())


@situation("the clock jumps by an hour", r"clock")
def _(case: Case, _: Path) -> Case:
    later = pl.when(pl.col("ts_ns") >= _half(case)).then(HOUR).otherwise(0)
    return replace(case, trace=case.trace.retimed(pl.col("ts_ns") + later))


@situation("the clock starts again at zero", r"clock")
def _(case: Case, _: Path) -> Case:
    half = _half(case)
    later = pl.when(pl.col("ts_ns") >= half).then(half).otherwise(0)
    return replace(case, trace=case.trace.retimed(pl.col("ts_ns") - later))


@situation("the clock goes back by a second", r"clock")
def _(case: Case, _: Path) -> Case:
    later = pl.when(pl.col("ts_ns") >= _half(case)).then(SECOND).otherwise(0)
    return replace(case, trace=case.trace.retimed(pl.col("ts_ns") - later))


@situation("one CPU has another clock", r"clock|not what device", has_two_cpus)
def _(case: Case, _: Path) -> Case:
    other = pl.when(pl.col("cpu") == 1).then(5 * SECOND).otherwise(0)
    return replace(case, trace=case.trace.retimed(pl.col("ts_ns") + other))


@situation("times shuffled within two microseconds")
def _(case: Case, _: Path) -> Case:
    jitter = (pl.col("ts_ns").hash(1) % 4001).cast(pl.Int64) - 2000
    shuffled = case.trace.retimed(pl.col("ts_ns") + jitter)
    return replace(case, trace=replace(shuffled, events=shuffled.events.sort("cpu", "ts_ns", maintain_order=True)))


@situation("times in whole microseconds")
def _(case: Case, _: Path) -> Case:
    return replace(case, trace=case.trace.retimed(pl.col("ts_ns") // 1000 * 1000))


# --- threads -----------------------------------------------------------------------------------------------------


@situation("processes of threads not recorded", NOT_RECORDED)
def _(case: Case, _: Path) -> Case:
    told = case.trace.having(~pl.col("event").str.contains("^(task_|sched_)"))
    return replace(case, trace=replace(told, tgids=""))


@situation("all threads bear one name")
def _(case: Case, _: Path) -> Case:
    told = case.trace.having(~pl.col("event").str.contains("^(task_rename|sched_process_exec)$"))
    names = "".join(f"{line.split()[0]} app\n" for line in told.cmdlines.splitlines() if line.split())
    return replace(case, trace=replace(told, cmdlines=names))


# --- devices -----------------------------------------------------------------------------------------------------

OTHER = 259 << 20 | 3
DISK, PARTITION = 8 << 20, 8 << 20 | 1

OF_BLOCK_LAYER = "^block_(bio|rq|io|split|plug|unplug|getrq)"
"""Events with the disk and its sectors; those of a filesystem name its partition."""


def _renumbered(case: Case, dev: int, block_dev: int | None = None) -> Case:
    """Return the case on device `dev`, of which the block layer and writeback know only the disk `block_dev`."""
    of_block = pl.col("event").str.contains(OF_BLOCK_LAYER)
    renumbered, disk = case.trace, dev if block_dev is None else block_dev
    for name in ("dev", "s_dev"):
        known = renumbered.field(name)
        rows = renumbered.events.select(is_block=of_block).with_columns(known.alias("dev"))
        target = pl.when("is_block").then(disk).otherwise(dev)
        renumbered = renumbered.with_field(
            name, rows.select(pl.when(pl.col("dev").is_not_null()).then(target)).to_series()
        )
    renumbered = renumbered.with_text("name", case.mounts[0]["dev"], _dev_text(disk))
    return replace(case, trace=renumbered, mounts=({**case.mounts[0], "dev": _dev_text(dev)},))


@situation("devices renumbered")
def _(case: Case, _: Path) -> Case:
    return _renumbered(case, OTHER)


@situation("a partition of a disk, the image of the partition")
def _(case: Case, _: Path) -> Case:
    return _on_partition(case)


@situation("a partition of a disk, the image of the whole disk", r"not the start of a supported filesystem|partition")
def _(case: Case, directory: Path) -> Case:
    return replace(_on_partition(case), after=images.on_disk(_image(case), FIRST_SECTOR, directory), before=None)


def _on_partition(case: Case) -> Case:
    """Return the case on a partition, with disk and disk sectors in the block layer's events."""
    moved = _renumbered(case, PARTITION, DISK)
    is_block = moved.trace.events["event"].str.contains(OF_BLOCK_LAYER)
    shift = moved.trace.events.select(pl.when(is_block).then(FIRST_SECTOR)).to_series()
    on_disk = moved.trace.with_field("sector", moved.trace.field("sector") + shift)
    size = _image(case).stat().st_size // 512
    disk = {
        "dev": _dev_text(DISK),
        "name": "sda",
        "parent": None,
        "start_sector": None,
        "nr_sectors": size + FIRST_SECTOR,
    }
    part = {"dev": _dev_text(PARTITION), "name": "sda1", "parent": _dev_text(DISK), "start_sector": FIRST_SECTOR}
    return replace(moved, trace=on_disk, shift=FIRST_SECTOR, devices=(disk, {**part, "nr_sectors": size}))


# --- several files -----------------------------------------------------------------------------------------------


@situation("two recordings of one device, the later first")
def _(case: Case, _: Path) -> Case:
    half = _half(case)
    first, second = (case.trace.having(which) for which in (pl.col("ts_ns") < half, pl.col("ts_ns") >= half))
    return replace(case, parts=(second, first))


@situation("two recordings with a gap between them", "nothing was recorded between the files")
def _(case: Case, _: Path) -> Case:
    times = case.trace.events["ts_ns"].sort()
    first, last = pl.col("ts_ns") < times[len(times) // 3], pl.col("ts_ns") >= times[len(times) * 2 // 3]
    told = case.trace.having(first | last)
    return replace(case, trace=told, parts=(told.having(first), told.having(last)))


def _image(case: Case) -> Path:
    assert case.after is not None
    return case.after


def _dev_text(dev: int) -> str:
    return f"{dev >> 20}:{dev & (1 << 20) - 1}"


@situation("as text, without process and page size", "the process of a thread", has_before)
def _(case: Case, _: Path) -> Case:
    return replace(case, files=(corpus.path("kernel/ext4_host_6.18/trace.txt.gz"),))
