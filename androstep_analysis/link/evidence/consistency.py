"""Whether an image or a listing is of the recorded filesystem, and of the time that it is said to be of.

Nothing in an image says which recording it belongs to. So before one of its statements counts, it is compared with what
the trace itself states, kind by kind of evidence, and agreements and contradictions are counted (`Count`):

- `filesystem`: type and block size, as the events and the mount tell them; size, as the device has it; the order of two
  images, by their journals or checkpoints; the time of mkfs. One contradiction is one too many.
- `commits`: the journal's transactions, each with its time. An image after has those of the trace, one before does not.
- `age`: what shows that an image is of the recorded filesystem, and of another time: it was taken while the recording
  ran, or lacks files and is older than the recording. Such an image proves nothing, and is not refused for what it has
  of another time.
- `creations`: files that were created in the trace and are not deleted there, with their time of creation.
- `clock`: such files and transactions with times that fit only if the clock was set meanwhile, by less than
  `CLOCK_NS`, and nothing tells whether it was. They prove nothing and refuse nothing.
- `numbers`: numbers of such files, which no file of an image before has.
- `extents`: which block of which file the trace says to lie where; for an image before the first that is said of a
  place, of files that were there already, for an image after the last.
- `pages`, `changes`: where the trace does not map blocks. Buffered writes are of pages that were made dirty before; and
  no block of a file is written long after the file was last changed.
- `lineage`: files that two images both must have. An image before belongs to the trace if one after does.
- `boot`: a listing's own clock, which is that of the recorded boot.
- `metadata`: requests with REQ_META, and pages of the device itself that became dirty, lie where metadata do.

A true image need not agree in everything: one that was copied while mounted lacks what was not yet written out, and a
later one has what was changed since. What a change of a file or a directory explains, within the recording or later,
contradicts nothing, and an image is refused only where a kind has more contradictions than agreements, and more than
`CHANCE`. Where it is not refused:

- `content` is proven by agreement (`PROVING`) with hardly a contradiction (`TOLERATED`); what the image says is then
  worth what `images` says;
- `layout`, the place of what mkfs placed, is proven by content and by `metadata`;
- what is not proven is inferred, and its inode numbers are not those of the trace's events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.common import units
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs import Filesystem, tracepoints, tsk
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import intervals
from androstep_analysis.link.evidence import images, incarnations
from androstep_analysis.link.evidence.snapshots import UNNUMBERED, Images, Snapshot, is_numbered
from androstep_analysis.link.extents import bio_pages

CHANCE = 2
"""Contradictions of one kind that refuse no image: a clock that was set, an event that was lost."""

TOLERATED = 0.05
"""Contradictions per agreement up to which content is proven: an image of a mounted filesystem has up to 0.04."""

CLOCK_NS = 1_000_000_000
"""How far CLOCK_REALTIME may have been set during a recording that does not tell, for which no image is refused."""

SLEW = 5e-4
"""How much faster or slower CLOCK_REALTIME may run than the trace's clock (adjtimex(2): 500 ppm)."""

LAYOUT_TOLERATED = 0.1
"""The same for layout: directories and extent trees that an image has no longer, or not yet, count against it."""

LAYOUT = ("size", "metadata")
STRICT = ("filesystem",)
PROVING = ("commits", "births", "extents", "pages", "changes", "lineage", "boot")
"""Kinds of evidence whose agreement proves content."""


OF_EVENTS = ("births", "numbers", "extents", "pages")
"""Kinds of evidence that rest on the absence of events: where some were lost, they refuse nothing."""


class Count(NamedTuple):
    """How often a snapshot agrees with the trace in one kind of evidence, and how often it contradicts it.

    `statement` says what the contradictions are, as the end of a sentence about the snapshot. `explained` are those
    besides that a change within the recording explains: they refuse nothing, and prove nothing either.
    """

    kind: str
    agreements: int
    contradictions: int
    statement: str
    explained: int = 0


@dataclass(frozen=True)
class Standing:
    """What the comparison of one snapshot with the trace came to; `role` is that of its source (`manifest.ROLES`)."""

    role: str
    counts: tuple[Count, ...]
    is_lossy: bool = False
    """Whether filesystem events of the device were lost, which may be what a difference comes from."""

    @property
    def proves_content(self) -> bool:
        """Whether what it says of files belongs to the trace."""
        agreements = sum(count.agreements for count in self.counts if count.kind in PROVING)
        contradictions = sum(count.contradictions for count in self.counts if count.kind not in LAYOUT)
        return agreements > 0 and contradictions <= TOLERATED * agreements

    @property
    def _is_of_other_time(self) -> bool:
        """Whether it is certainly of the recorded filesystem, and not of the time that it is said to be of."""
        return any(count.kind == "age" and count.contradictions for count in self.counts)

    @property
    def _has_identity(self) -> bool:
        """Whether more than the sort of its blocks agrees."""
        return any(
            count.agreements and count.kind not in ("pages", "changes")
            for count in self.counts
            if count.kind in PROVING
        )

    @property
    def proves_layout(self) -> bool:
        """Whether what it says of metadata at fixed places belongs to the trace."""
        counts = [count for count in self.counts if count.kind in LAYOUT]
        agreements = sum(count.agreements for count in counts)
        odd = sum(count.contradictions + count.explained for count in counts)
        return self.proves_content or (agreements > CHANCE and odd <= LAYOUT_TOLERATED * agreements)

    @property
    def refuting(self) -> Count | None:
        """The kind of evidence in which it contradicts the trace; None where it may belong to it."""
        for count in self.counts:
            if count.kind in STRICT and count.contradictions:
                return count
            if count.kind in ("clock", "age"):
                continue
            if (self.is_lossy or self._is_of_other_time) and count.kind in OF_EVENTS:
                continue
            is_overruled = count.kind in LAYOUT and self.proves_content and self._has_identity
            if count.contradictions > max(CHANCE, count.agreements) and not is_overruled:
                return count
        return None


@dataclass(frozen=True)
class Stated:
    """What is known of devices besides the trace, each by device: the filesystem's type and block size, the size.

    `page_bytes` is the size of the kernel's pages; None where it is not known.
    """

    fs_types: Mapping[int, str]
    block_bytes: Mapping[int, int]
    nr_sectors: Mapping[int, int]
    page_bytes: int | None


@dataclass(frozen=True)
class _Trace:
    """The events and requests of one device, and the recording they are of."""

    dev: int
    events: pl.LazyFrame
    """Without repetitions (`tracepoints.without_repetitions`)."""
    dirtied: pl.LazyFrame
    """Every event of pages that became dirty."""
    lives: pl.DataFrame
    moved: pl.LazyFrame
    """Requests that read or write: part_sector, nr_sectors, op, meta, sync, ts_ns."""
    staging: Staging
    offset: int | None
    slack_ns: int
    """How far apart the recording's and an image's times of one event are at most, by what is known of the clocks."""
    clock_may_be_set: bool
    """Whether nothing tells that CLOCK_REALTIME was not set during the recording."""
    page_bytes: int | None

    @property
    def limit_ns(self) -> int:
        """How far apart two times of one event must be to contradict each other."""
        return max(self.slack_ns, CLOCK_NS) if self.clock_may_be_set else self.slack_ns

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last time of the recording, of CLOCK_REALTIME."""
        first, last = self.staging.first_ns, self.staging.last_ns
        if self.offset is None or first is None or last is None:
            return None
        return first + self.offset, last + self.offset


def weighed(
    snapshots: Images, staging: Staging, all_events: pl.LazyFrame, requests: pl.LazyFrame, stated: Stated
) -> tuple[Images, list[Standing]]:
    """The images and listings with what is proven of them (`Images.proven`, `placed`), and the comparison of each.

    `staging` has the events of each filesystem on its own device (`tracepoints.on_filesystems`), without repetitions
    (`tracepoints.without_repetitions`); `all_events` has all. Raises `InputError` where one contradicts the trace.
    """
    if snapshots.listed_before is not None:
        snapshots = replace(snapshots, listed_before=_at_start(snapshots.listed_before, staging))
    by_role = snapshots.by_role
    if not by_role:
        return snapshots, []
    traces = {
        dev: _trace(dev, snapshots, staging, all_events, requests, stated)
        for dev in {one.dev for one in by_role.values()}
    }
    standings = {}
    for role, one in by_role.items():
        trace = traces[one.dev]
        if "before" in role:
            counts = [*_general(one, trace, stated, is_after=False), *_before(one, trace)]
        else:
            counts = [*_general(one, trace, stated, is_after=True), *_after(one, trace)]
        is_lossy = staging.lost.touching("fs_events", dev=one.dev)
        standings[role] = Standing(role, tuple(count for count in counts if any(count[1:3])), is_lossy)
    for kind in ("image", "listing"):
        first, last, before = by_role.get(f"{kind}_before"), by_role.get(f"{kind}_after"), f"{kind}_before"
        if first is None:
            continue
        shared = [] if last is None else [*_pair(first, last)]
        others = (role for role in ("image_after", "listing_after", "listing_before") if role in standings)
        witness = next((role for role in others if role != before and standings[role].proves_content), None)
        if witness is not None:
            shared += _lineage(first, by_role[witness], traces[first.dev])
        counts = [*standings[before].counts, *(count for count in shared if any(count[1:3]))]
        standings[before] = replace(standings[before], counts=tuple(counts))
    for role, standing in standings.items():
        _refuse(standing, by_role[role], traces[by_role[role].dev], stated)
    proven = frozenset(role for role, standing in standings.items() if standing.proves_content)
    placed = frozenset(role for role, standing in standings.items() if standing.proves_layout)
    apart = [role for role in standings.keys() - proven if _has_numbers(by_role[role], traces)]
    weighed = replace(snapshots.numbered_apart(apart), proven=proven, placed=placed)
    # The journal's files have the numbers of the image's.
    return replace(weighed, journal=None if "image_after" in apart else snapshots.journal), list(standings.values())


def _at_start(one: Listing, staging: Staging) -> Listing:
    """The listing before without what was created, and without the blocks of what was changed, while it was made.

    iotrace lists when it records already, so that no change is missed; what was so when it began is told by the times
    of the files.
    """
    if staging.realtime_offset_ns is None or staging.first_ns is None:
        return one
    began = staging.first_ns + staging.realtime_offset_ns - incarnations.TICK_NS
    created = one.times.filter(pl.coalesce("created_epoch_ns", "changed_epoch_ns") >= began)["ino"]
    changed = one.times.filter(pl.col("changed_epoch_ns") >= began)["ino"]
    return replace(
        one,
        extents=one.extents.filter(~pl.col("ino").is_in(changed.implode())),
        files=one.files.filter(~pl.col("ino").is_in(created.implode())),
        times=one.times.filter(~pl.col("ino").is_in(created.implode())),
    )


def _has_numbers(one: Snapshot, traces: Mapping[int, _Trace]) -> bool:
    """Whether the trace speaks of inodes by the numbers that the snapshot gives them."""
    return is_numbered(one) and not traces[one.dev].lives.is_empty()


def table(standings: list[Standing]) -> pl.DataFrame:
    """A row per snapshot and kind of evidence: role, proven (content, layout or nothing), kind and the two counts."""
    return pl.DataFrame(
        [
            (
                standing.role,
                "content" if standing.proves_content else "layout" if standing.proves_layout else "nothing",
                *count[:3],
            )
            for standing in standings
            for count in standing.counts or (Count("none", 0, 0, ""),)
        ],
        schema={
            "role": pl.String,
            "proven": pl.String,
            "kind": pl.String,
            "agreements": pl.Int64,
            "contradictions": pl.Int64,
        },
        orient="row",
    )


def _refuse(standing: Standing, one: Snapshot, trace: _Trace, stated: Stated) -> None:
    count = standing.refuting
    if count is None:
        return
    name = one.image if isinstance(one, Filesystem) else f"the {standing.role.replace('_', ' ')}"
    fitting = [
        units.format_dev(dev)
        for dev, nr_sectors in stated.nr_sectors.items()
        if dev != trace.dev and 0 <= nr_sectors - (one.nr_sectors or -1) < one.block_bytes // units.SECTOR_BYTES
    ]
    hint = f", or name its device (its size is that of {', '.join(fitting)}) with --device" if fitting else ""
    of = count.agreements + count.contradictions
    share = "" if count.kind in STRICT else f" ({count.contradictions:,} of {of:,})"
    when = "before" if "before" in standing.role else "after"
    raise InputError(
        f"{name}: not what device {units.format_dev(trace.dev)} held {when} the recording: {count.statement}{share};"
        f" give what was taken of it right {when} this recording{hint}, or leave it out"
    )


def _trace(
    dev: int, snapshots: Images, staging: Staging, all_events: pl.LazyFrame, requests: pl.LazyFrame, stated: Stated
) -> _Trace:
    is_of_dev = (pl.col("dev") == dev) | (pl.col("bio_dev") == dev)
    events = staging.fs_events.filter(is_of_dev)
    dirtied = all_events.filter(pl.col("event").is_in(tracepoints.DIRTIED) & is_of_dev)
    lives = tracepoints.lives(events, stated.fs_types)
    moved = requests.filter(
        (pl.col("part_dev") == dev) & pl.col("op").is_in(["read", "write"]) & (pl.col("nr_sectors") > 0)
    ).select(
        "part_sector", "nr_sectors", "op", "meta", "sync", ts_ns=pl.coalesce("queue_ns", "issue_ns", "complete_ns")
    )
    offset = staging.realtime_offset_ns
    last_seen = snapshots.after or snapshots.listed_after
    if offset is None and last_seen is not None:
        offset = incarnations.realtime_offset_ns(last_seen, lives)
    slack_ns, clock_may_be_set = _clock(staging)
    of_dev = lives.filter(pl.col("dev") == dev)
    return _Trace(dev, events, dirtied, of_dev, moved, staging, offset, slack_ns, clock_may_be_set, stated.page_bytes)


def _clock(staging: Staging) -> tuple[int, bool]:
    """`_Trace.slack_ns` and `_Trace.clock_may_be_set`."""
    if staging.realtime_offset_ns is None or staging.first_ns is None or staging.last_ns is None:
        return incarnations.TICK_NS, False  # then the files themselves tell the offset
    slack = incarnations.LAG_NS + int(SLEW * (staging.last_ns - staging.first_ns))
    if staging.realtime_moved_ns is None:
        return slack, True
    return slack + abs(staging.realtime_moved_ns), False


def _general(one: Snapshot, trace: _Trace, stated: Stated, *, is_after: bool) -> Iterator[Count]:
    """What is asked of a snapshot whenever it was taken."""
    yield from _kind(one, trace, stated)
    if isinstance(one, Filesystem):
        yield _beyond(one, trace, stated.nr_sectors.get(trace.dev, 0))
        yield _metadata(one, trace, is_after=is_after)
    else:
        clock_offset = one.monotonic_offset_ns if trace.staging.clock == "mono" else 0
        if clock_offset is not None:
            yield _boot(one.realtime_offset_ns - clock_offset, trace)


def _before(one: Snapshot, trace: _Trace) -> Iterator[Count]:
    yield from _commits_before(one, trace)
    yield _births_before(one, trace)
    yield _extents(one, trace, is_after=False)
    if trace.span is not None and isinstance(one, Filesystem):
        newest = max(
            [*one.times.select(pl.max("changed_epoch_ns", "created_epoch_ns")).row(0), 0], key=lambda t: t or 0
        )
        yield Count("filesystem", 0, int((one.made_epoch_ns or 0) > trace.span[1] + CLOCK_NS), "it was made later")
        yield Count(
            "filesystem",
            0,
            int((newest or 0) > trace.span[1] + 60 * CLOCK_NS),
            "files in it were changed after the recording had ended (are before and after swapped?)",
        )


def _after(one: Snapshot, trace: _Trace) -> Iterator[Count]:
    committed, age = _commits_after(one, trace)
    yield committed
    yield age
    born, clock = _births_after(one, trace, is_later=committed.agreements > 0)
    yield born
    yield clock
    # ext4 writes in place: files that are still there as they were born cannot all have moved.
    stays = _family(one.fs_type or "") == "ext" and born.agreements > 0
    mapped = _extents(one, trace, is_after=True, stays=stays, is_later=committed.agreements > 0)
    yield mapped
    if isinstance(one, Filesystem) and one.fs_type.startswith("ext") and not mapped.agreements:
        yield from _written(one, trace)
    if trace.span is not None and isinstance(one, Filesystem):
        yield Count(
            "filesystem", 0, int((one.made_epoch_ns or 0) > trace.span[1] + CLOCK_NS), "it was made (mkfs) later"
        )


def _kind(one: Snapshot, trace: _Trace, stated: Stated) -> Iterator[Count]:
    family = _family(one.fs_type or "")
    own = trace.events.filter(pl.col("dev") == trace.dev).select(pl.col("event").unique().cast(pl.String)).collect()
    other = next((event for event in own["event"].sort() if _family(event) not in ("", family)), None)
    yield Count(
        "filesystem",
        0,
        int(other is not None and family != ""),
        f"it is {one.fs_type}, and the trace has events of another filesystem there ({other})",
    )
    mounted = stated.fs_types.get(trace.dev, "")
    yield Count(
        "filesystem",
        0,
        int("" not in (_family(mounted), family) and _family(mounted) != family),
        f"it is {one.fs_type}, and {mounted} was mounted",
    )
    size = stated.block_bytes.get(trace.dev)
    yield Count(
        "filesystem",
        0,
        int(size is not None and family not in ("fat", *tsk.FS_TYPES) and size != one.block_bytes),
        f"its blocks have {one.block_bytes} bytes, and those of the mounted filesystem {size}",
    )


def _family(name: str) -> str:
    """Which filesystems are one kind of events: of a filesystem's or an event's name; empty for others."""
    if name.startswith(("ext", "jbd2_")):
        return "ext"
    if name.startswith("f2fs"):
        return "f2fs"
    if name.startswith((*UNNUMBERED, "msdos")):
        return "fat"
    return next((fs_type for fs_type in tsk.FS_TYPES if name.startswith(fs_type)), "")


def _beyond(one: Filesystem, trace: _Trace, room: int) -> Count:
    """Writes behind the end, or to a device of `room` sectors (0: not known) that the filesystem does not fit into.

    Below one of a hundred they may be no filesystem's: partition tables have a copy at the end of a disk. And a
    filesystem whose content agrees was resized.
    """
    is_beyond = pl.col("part_sector") + pl.col("nr_sectors") > one.nr_sectors
    counted = trace.moved.filter(pl.col("op") == "write").select(pl.len(), beyond=is_beyond.sum())
    writes, beyond = counted.collect(engine="streaming").row(0)
    if 0 < room < one.nr_sectors:
        message = f"it has {one.nr_sectors:,} sectors, and the device that was written to {room:,}"
        return Count("size", 0, writes + CHANCE + 1, message)
    return Count("size", 0, beyond if beyond * 100 >= writes else 0, "writes of the recording lie behind its end")


def _metadata(one: Filesystem, trace: _Trace, *, is_after: bool) -> Count:
    """Reads and writes that certainly are of metadata, by what the image has there; each place counts once.

    REQ_META tells them, but on FAT the device's own pages: what is written of its tables became dirty as such before,
    and nothing else is written there. What moves (directories, extent trees, on F2FS all nodes) may have been something
    else before the recording and after it. But where no place at all agrees, the filesystem was laid out otherwise.
    """
    statement = "metadata were read and written where it has files or free space"
    carried = trace.events.filter((pl.col("event") == "bio_page") & (pl.col("dev") == pl.col("bio_dev")))
    if _family(one.fs_type) == "f2fs":
        carried = carried.filter(pl.col("ino") >= tracepoints_f2fs.ROOT_INODE)
    of_files = _held(one, _sectors(carried)).filter(images.is_fixed()).height
    is_fat = _family(one.fs_type) == "fat"
    places = _places(trace.moved.filter(pl.col("meta").fill_null(False)))
    contradictions = of_files
    if is_fat:
        contradictions += len(places)
        places, unlike = _of_device(one, trace)
        contradictions += unlike
    there = _held(one, places).with_columns(place=places)
    fixed = there.filter(images.is_fixed())
    # What is free on FAT became a directory later, or was one before.
    others = ["data"] if is_fat else ["data", "free"]
    odd = there.filter(pl.col("block_type").is_in(others), pl.col("subtype").is_null())
    if fixed.is_empty():
        return Count("metadata", 0, contradictions + odd.height, statement)
    unexplained = 0 if is_fat else _unexplained(odd, trace, is_after=is_after)
    # One area can be hit by chance: that of another filesystem begins at the same sector.
    agreeing = fixed.height if fixed.select("block_type", "subtype").n_unique() > 1 else 0
    return Count("metadata", agreeing, contradictions + unexplained, statement, odd.height - unexplained)


def _unexplained(odd: pl.DataFrame, trace: _Trace, *, is_after: bool) -> int:
    """How many places were metadata as near to the image's time as the recording shows, and are others in the image.

    Before: what was read as metadata and not written earlier. After: what was last read or written as metadata and is a
    file's; what is free then was freed since.
    """
    begin, end = pl.lit(odd["place"].min(), pl.Int64), pl.lit(odd["place"].max(), pl.Int64)
    is_near = (pl.col("part_sector") <= end) & (pl.col("part_sector") + pl.col("nr_sectors") > begin)
    accesses = trace.moved.drop_nulls("ts_ns").filter(is_near).collect(engine="streaming")
    nearest = _outermost(odd["place"], *accesses["part_sector", "nr_sectors", "ts_ns"], is_after=is_after)
    reached = nearest.row >= 0
    access, there = accesses[nearest.row[reached]], odd[nearest.query[reached]]
    shows = there["block_type"] == "data" if is_after else access["op"] == "read"
    return int((access["meta"].fill_null(False) & shows).sum())


def _of_device(one: Filesystem, trace: _Trace) -> tuple[pl.Series, int]:
    """The sectors of pages of the device itself, and how many fixed places were written of which none became dirty."""
    is_own = pl.col("ino") == trace.dev
    dirty = bio_pages.touched(trace.dirtied.filter(is_own)).select(pl.col("page").unique()).collect()["page"]
    carried = _sectors(trace.events.filter((pl.col("event") == "bio_page") & is_own))
    if dirty.is_empty() or trace.page_bytes is None:
        return carried, 0
    page = trace.page_bytes // units.SECTOR_BYTES
    written = _places(trace.moved.filter(pl.col("op") == "write"))
    fixed = written.filter(_held(one, written).select(images.is_fixed()).to_series())
    return pl.concat([dirty * page, carried]).unique(), int((~(fixed // page).is_in(dirty.implode())).sum())


def _sectors(events: pl.LazyFrame) -> pl.Series:
    """The sectors that the events name, each once."""
    return events.select(pl.col("sector").drop_nulls().unique()).collect()["sector"]


def _places(moved: pl.LazyFrame) -> pl.Series:
    """The sectors at which requests begin, each once."""
    return moved.select(pl.col("part_sector").unique()).collect(engine="streaming").to_series()


def _held(one: Snapshot, places: pl.Series) -> pl.DataFrame:
    """What the snapshot has at each sector: block_type, subtype, ino and start_of_file; null where it says nothing."""
    rows = images.identified_rows(one.extents)
    begin = rows["sector"].to_numpy()
    at = np.searchsorted(begin, places.to_numpy(), "right") - 1
    end = np.append(begin + rows["nr_sectors"].to_numpy(), 0)
    row = pl.Series(at, dtype=pl.Int64).set(pl.Series((at < 0) | (places.to_numpy() >= end[at])), None)
    return rows.select(pl.col("block_type", "subtype", "ino", "start_of_file").gather(row))


def _boot(offset: int, trace: _Trace) -> Count:
    """A listing's CLOCK_REALTIME minus the trace's clock: a device that was booted at another time has another."""
    trace_offset = trace.staging.realtime_offset_ns
    is_same = (
        trace_offset is not None and trace.staging.clock in ("mono", "boot") and abs(offset - trace_offset) <= CLOCK_NS
    )
    return Count("boot", int(is_same), 0, "")


def _commits(one: Snapshot, trace: _Trace) -> pl.DataFrame | None:
    """The traced transactions: `has` (the image's journal committed it), `agrees` on its time (null: not to be told).

    The offset of the clocks is that of the recording, else the one that most of the transactions agree on.
    """
    if not isinstance(one, Filesystem) or one.version is None or one.commits is None:
        return None
    told = trace.events.filter(pl.col("transaction").is_not_null(), pl.col("event").is_in(tracepoints.COMMITS))
    events = told.select("ts_ns", "event", "transaction").collect()
    ends = events.filter(pl.col("event") == "jbd2_end_commit").group_by("transaction").agg(end="ts_ns")
    starts = events.filter(pl.col("event") == "jbd2_start_commit").group_by("transaction").agg(start="ts_ns")
    rows = ends.with_columns(pl.col("end").list.last()).join(
        starts.with_columns(pl.col("start").list.first()), on="transaction", how="left"
    )
    committed = one.commits.unique("transaction", keep="last")
    rows = rows.join(committed, on="transaction", how="left").sort("transaction")
    difference = rows.select(pl.col("epoch_ns") - pl.col("end")).to_series()
    offset = trace.staging.realtime_offset_ns
    if offset is None:
        offset = _agreed(difference.drop_nulls())
    earliest, latest = pl.coalesce("start", "end") + (offset or 0), pl.col("end") + (offset or 0)
    within, near = (
        pl.col("epoch_ns").is_between(earliest - slack_ns, latest + slack_ns)
        for slack_ns in (trace.slack_ns, trace.limit_ns)
    )
    agrees = pl.when(within).then(True).when(~near).then(False) if offset is not None else pl.lit(None, pl.Boolean)
    return rows.with_columns(has=pl.col("transaction") <= one.version, agrees=agrees)


def _agreed(differences: pl.Series) -> int | None:
    """The greatest of the differences that most agree on within a tick; None where fewer than three do."""
    ordered = differences.sort().to_numpy()
    if len(ordered) < 3:
        return None
    count = np.searchsorted(ordered, ordered + incarnations.TICK_NS, "right") - np.arange(len(ordered))
    best = int(np.argmax(count))
    return int(ordered[best + count[best] - 1]) if count[best] >= 3 else None


_NO_AGE = Count("age", 0, 0, "")


def _commits_after(one: Snapshot, trace: _Trace) -> tuple[Count, Count]:
    """Return what the journal says: where some transactions are there at their times, others lack only for its age."""
    rows = _commits(one, trace)
    if rows is None:
        return Count("commits", 0, 0, ""), _NO_AGE
    lacking = rows.filter(~pl.col("has")).height
    agreeing, differing = (rows.filter("has", expr).height for expr in (pl.col("agrees"), ~pl.col("agrees")))
    if lacking > differing and agreeing > CHANCE and trace.staging.realtime_offset_ns is not None:
        return Count("commits", agreeing, differing, ""), Count("age", 0, lacking, "")
    if lacking > differing:
        statement = "its journal lacks transactions of the recording: it is older (are before and after swapped?)"
        return Count("commits", agreeing, lacking, statement), _NO_AGE
    statement = "its journal committed the recording's transactions at other times"
    return Count("commits", agreeing, differing, statement), _NO_AGE


def _commits_before(one: Snapshot, trace: _Trace) -> Iterator[Count]:
    rows = _commits(one, trace)
    if rows is None:
        return
    lacking = rows.filter(~pl.col("has")).height
    agreeing = rows.filter("has", "agrees").height
    if lacking and agreeing > CHANCE and trace.staging.realtime_offset_ns is not None:
        yield Count("age", 0, rows.height - lacking, "")
        return
    statement = "its journal has already the transactions of the recording (are before and after swapped?)"
    yield Count("commits", 0, max(rows.height - lacking - lacking, 0), statement)


def _births_after(one: Snapshot, trace: _Trace, *, is_later: bool) -> Iterator[Count]:
    """Files that were created in the trace and not deleted there, by the time of creation of those of their number.

    None that is there shows an older image, unless it is known that it `is_later` and only lacks what was not yet
    written out. A listing that was made while files came and went may have a file that had ended when it did.
    """
    lives = trace.lives.filter(pl.col("created_ns").is_not_null())
    is_last = pl.col("incarnation") == pl.col("incarnation").max().over("ino")
    listed_from = pl.lit(incarnations.listed_from(one, trace.staging), pl.Int64)
    lives = lives.with_columns(
        is_last=is_last & pl.col("deleted_ns").is_null(), is_of_listing=(pl.col("end_ns") >= listed_from)
    ).filter(pl.col("is_last") | pl.col("is_of_listing"))
    offset = pl.lit(trace.offset, pl.Int64)
    times = one.times.unique("ino").select("ino", created_ns=pl.col("created_epoch_ns") - offset, is_there=pl.lit(True))
    off = pl.col("created_ns") - pl.col("born_ns")
    rows = lives.select("ino", "is_last", born_ns="created_ns").join(times, on="ino", how="left")
    is_agreeing = (off.abs() <= trace.slack_ns).fill_null(False).any().over("ino")
    agreeing = rows.filter(is_agreeing)["ino"].n_unique()
    rows = rows.filter("is_last", ~is_agreeing)
    end = trace.staging.last_ns or 0
    # Younger than the recording's is what was created since; older, or of a time between, is another file.
    differs = (off < -trace.slack_ns) | ((off > trace.slack_ns) & (pl.col("created_ns") <= end))
    is_beyond = off.abs() > trace.limit_ns
    other = rows.filter(differs & is_beyond).height
    # That every file of the recording gave way to one that is hardly younger is no more likely than that.
    doubtful = rows.filter(~is_beyond & (differs if agreeing else off.abs() > trace.slack_ns)).height
    newest = one.times.select(pl.max("changed_epoch_ns")).item()
    if trace.offset is not None and newest is not None and not agreeing and not is_later:
        other += rows.filter(
            pl.col("is_there").is_null() & (pl.col("born_ns") + trace.offset - CLOCK_NS > newest)
        ).height
    yield Count("births", agreeing, other, "it lacks files that the recording created, or has others by their numbers")
    yield Count("clock", 0, doubtful, "")


def _births_before(one: Snapshot, trace: _Trace) -> Count:
    """Files that the trace created: none had the number before, but one that it deleted first."""
    first = trace.lives.filter(pl.col("incarnation") == 0, pl.col("deleted_ns").is_not_null())["ino"]
    statement = "it has files that the recording created (are before and after swapped?)"
    if trace.lives["deleted_ns"].null_count() == trace.lives.height:
        return Count("numbers", 0, 0, statement)
    born = trace.lives.filter(pl.col("created_ns").is_not_null())["ino"].unique()
    born = born.filter(~born.is_in(first.implode()))
    already = int(born.is_in(one.times["ino"].implode()).sum())
    # A deletion that was lost leaves a number that seems to be given twice.
    tolerated = TOLERATED if trace.staging.lost.first_ns("fs_events", dev=trace.dev) is None else 0.25
    return Count("numbers", 0 if already > tolerated * len(born) else len(born) - already, already, statement)


def _extents(one: Snapshot, trace: _Trace, *, is_after: bool, stays: bool = False, is_later: bool = False) -> Count:
    """What the trace states of places, the last or the first of each, by what the snapshot has there.

    Where a file `stays` where it is, later changes explain that some places differ, and not that all do. Where the
    snapshot `is_later`, of the same filesystem, files that it lacks were deleted since.
    """
    recorded = trace.staging.recorded or ()
    stated = tracepoints.statements(trace.events, trace.lives, {trace.dev: one.block_bytes}, recorded)
    stated = images.identified_rows(stated)
    points = _standing_alone(stated, is_after=is_after)
    f2fs = _family(one.fs_type or "") == "f2fs"
    # After the files of quotas, and after lost+found.
    first = tracepoints_f2fs.QUOTA_INODES[-1] + 1 if f2fs else tracepoints_ext4.FIRST_INODE + 1
    points = points.filter(pl.col("ino") >= first, pl.col("start_of_file").is_not_null())
    ends = trace.lives.select("ino", "incarnation", "end_ns")
    if is_after:
        points = points.join(ends, on=["ino", "incarnation"], how="left").filter(pl.col("end_ns").is_null())
        listed_from = incarnations.listed_from(one, trace.staging)
        if listed_from is not None:  # what changed while it was listed may be in it or not
            points = points.filter(pl.col("valid_from_ns") < listed_from)
    else:
        points = points.filter(pl.col("incarnation") == (points["incarnation"].min() if points.height else 0))
    statement = "blocks that the trace states to be of one file belong to another, or to no file, in it"
    if points.is_empty():
        return Count("extents", 0, 0, statement)
    stated = points.select(stated_ino="ino", stated_start="start_of_file")
    both = pl.concat([stated, _held(one, points["sector"])], how="horizontal")
    offset = pl.lit(trace.offset, pl.Int64)
    times = one.times.unique("ino").select(
        "ino", created_ns=pl.col("created_epoch_ns") - offset, changed_ns=pl.col("changed_epoch_ns") - offset
    )
    both = both.join(times, on="ino", how="left")
    end = pl.lit(trace.staging.last_ns)
    existing = times.filter((pl.col("created_ns") <= end).fill_null(True))["ino"]
    is_existing = pl.col("stated_ino").is_in(existing.implode())
    is_reborn = ((pl.col("created_ns") > end) & is_after).fill_null(False)
    if is_after:
        is_explained = is_reborn | (pl.col("changed_ns") >= end - incarnations.TICK_NS).fill_null(False)
        if is_later:
            is_explained |= ~is_existing
    else:
        gone = trace.lives.filter(pl.col("incarnation") == 0, pl.col("end_ns").is_not_null())
        is_explained = pl.col("ino").is_in(gone["ino"].implode())
    same = (pl.col("stated_ino") == pl.col("ino")) & (pl.col("stated_start") == pl.col("start_of_file"))
    same = same.fill_null(False)
    # What the trace did not create was there before.
    is_old = not is_after and points["incarnation"][0] == 0
    is_missing = ~pl.col("stated_ino").is_in(one.times["ino"].implode()) & is_old
    if isinstance(one, Listing) and not is_after:  # it may have been deleted before its turn came
        is_missing &= one.is_whole
        is_missing &= ~pl.col("stated_ino").is_in(gone["ino"].implode())
    odd = is_missing | images.is_fixed() | (~same & pl.col("ino").is_not_null() & ~is_explained)
    if not is_after and trace.lives["created_ns"].null_count() == trace.lives.height:
        odd = pl.lit(False)  # without births nothing tells a file of the recording from one that was there before
    agreeing = both.filter(same & ~is_reborn).height
    if stays and not agreeing:
        odd = ~same & is_existing if is_later else ~same
    # What was lost between the two times may explain the difference.
    ever = pl.Series([None] * points.height, dtype=pl.Int64)
    span = (points["valid_from_ns"], ever) if is_after else (ever, points["valid_from_ns"])
    is_lost = pl.lit(trace.staging.lost.between(*span, points["dev"], "fs_events"))
    return Count("extents", agreeing, both.filter(odd & ~is_lost).height, statement, both.filter(odd & is_lost).height)


def _standing_alone(stated: pl.DataFrame, *, is_after: bool) -> pl.DataFrame:
    """Of statements in order of time those whose first sector no later one speaks of otherwise (or no earlier one)."""
    own = stated.filter(pl.col("ino").is_not_null()).unique(
        "sector", keep="last" if is_after else "first", maintain_order=True
    )
    if own.is_empty():
        return own
    covering = _outermost(own["sector"], *stated["sector", "nr_sectors", "valid_from_ns"], is_after=is_after)
    last = stated.select("ino", "incarnation", "start_of_file")[covering.row]
    mine = own.select("ino", "incarnation", "start_of_file")[covering.query]
    holds = pl.select(
        pl.all_horizontal(last[name].eq_missing(mine[name]) for name in ("ino", "incarnation", "start_of_file"))
    ).to_series()
    return own[covering.query].filter(holds)


def _outermost(
    places: pl.Series, sector: pl.Series, nr_sectors: pl.Series, ts_ns: pl.Series, *, is_after: bool
) -> intervals.Pieces:
    """For each place the last of the rows that cover it, or the first where it is not `is_after`."""
    time = ts_ns.to_numpy()
    return intervals.stab(
        intervals.Queries(
            np.zeros(len(places), np.int64),
            places.to_numpy(),
            np.ones(len(places), np.int64),
            np.full(len(places), intervals.FOREVER - 1),
        ),
        intervals.Rows(
            np.zeros(len(time), np.int64),
            sector.to_numpy(),
            nr_sectors.to_numpy().astype(np.int64),
            time if is_after else -time,
            np.full(len(time), intervals.FOREVER),
        ),
    )


def _written(one: Filesystem, trace: _Trace) -> Iterator[Count]:
    """What was written, where no event says whose blocks they were: by pages made dirty, and by times of change."""
    of_data = trace.moved.filter(pl.col("op") == "write", ~pl.col("meta").fill_null(False)).drop_nulls("ts_ns")
    writes = of_data.collect().sort("ts_ns").unique("part_sector", keep="last", maintain_order=True)
    there = _held(one, writes["part_sector"])
    data = pl.concat([writes, there], how="horizontal").filter(pl.col("block_type") == "data", pl.col("ino") > 0)
    dirtied = bio_pages.touched(trace.dirtied).select("ino", "page").unique().collect(engine="streaming")
    if dirtied.height and trace.page_bytes is not None:
        start = (pl.col("part_sector") - pl.col("start_of_file")) * units.SECTOR_BYTES // trace.page_bytes
        pages = data.filter(~pl.col("sync")).select("ts_ns", "ino", page=start)
        other = pages.join(dirtied, on=["ino", "page"], how="anti")
        # What is written soon after the recording began was made dirty before.
        unexplained = other.filter(pl.col("ts_ns") > (trace.staging.first_ns or 0) + images.WRITTEN_OUT_NS).height
        # Small numbers and first pages are hit by chance, but not nearly all of them.
        hits = pages.height - other.height
        yield Count(
            "pages",
            hits if other.height <= LAYOUT_TOLERATED * hits else 0,
            unexplained,
            "pages were written that no event made dirty",
        )
    if trace.staging.realtime_offset_ns is None or trace.staging.last_ns is None:
        return
    changed = one.times.unique("ino").select("ino", changed_ns=pl.col("changed_epoch_ns") - trace.offset)
    timed = data.join(changed, on="ino", how="left").drop_nulls("changed_ns")
    late = pl.col("changed_ns") < pl.col("ts_ns") - images.WRITTEN_OUT_NS
    yield Count(
        "changes",
        timed.filter(~late & pl.col("changed_ns").is_between(trace.staging.first_ns, trace.staging.last_ns)).height,
        timed.filter(late).height,
        "files in it were last changed long before the recording wrote their blocks",
    )


def _pair(first: Snapshot, last: Snapshot) -> Iterator[Count]:
    """A snapshot before by that after: whether both are of one kind, and which of the two is older."""
    swapped = "it is younger than the one after (are before and after swapped?)"
    if isinstance(first, Filesystem) and isinstance(last, Filesystem):
        have_versions = first.version is not None and last.version is not None
        yield Count("filesystem", 0, int(have_versions and (first.version or 0) > (last.version or 0)), swapped)
        other = f"it is {first.fs_type} with blocks of {first.block_bytes} bytes, and the image after is not"
        is_other = (first.fs_type, first.block_bytes) != (last.fs_type, last.block_bytes)
        yield Count("filesystem", 0, int(is_other and _family(first.fs_type) != _family(last.fs_type)), other)
    elif not isinstance(first, Filesystem) and not isinstance(last, Filesystem):
        yield Count("filesystem", 0, int(first.first_ns > last.first_ns), swapped)


def _lineage(first: Snapshot, last: Snapshot, trace: _Trace) -> list[Count]:
    """A snapshot before by one that is proven: of the files that both must have.

    Those are the ones created before the recording; where its clock is not known, before the last change that the
    snapshot before has. An image of the same filesystem that lacks some is older.
    """
    statement = "it lacks files that were there when the recording began"
    keys = ["ino", "generation", "created_epoch_ns"]
    newest = first.times["changed_epoch_ns"].max()
    begin = newest if trace.span is None else trace.span[0] - incarnations.TICK_NS
    if begin is None:
        return []
    must = last.times.drop_nulls(keys).filter(pl.col("created_epoch_ns") < begin)
    both = must.join(first.times, on=keys, how="semi").height
    lacking = must.height - both
    if isinstance(first, Filesystem) and isinstance(last, Filesystem) and first.uuid and first.uuid == last.uuid:
        return [Count("lineage", both, 0, statement), Count("age", 0, lacking, "")]
    return [Count("lineage", both, lacking, statement)]
