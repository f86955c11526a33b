"""Extents from the probe on ``submit_bio`` (`bio_page` events): whose pages a bio carries.

Filesystems without events of their own (FAT, exFAT) are mapped by the pages of their bios. The probe reads inode, index
and name of the first page of a bio immediately before the bio is queued. A page of the filesystem's own device is
metadata or a directory. A bio of direct I/O carries other memory; if that is a mapped file, the probe has the wrong
file. Therefore a page counts only if it waited to be written (an event dirtied it since its last writeback) or to
be read (it has just been added to the cache).

The probe records only the first page. FAT and similar filesystems add pages of one file to a bio in ascending order as
long as they are contiguous on the device. So each following page that waits is the next one. It is inferred if no event
shows that it waits, and on F2FS, which also puts pages of several files into a bio. If the filesystem of the device is
unknown, everything is inferred.

A bio of one block may be any block of its page. Its offset is known from the probe, from a run of bios that together
are the page, or from an earlier bio of the same sector; otherwise it is inferred.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.fs import tracepoints
from androstep_analysis.link import intervals
from androstep_analysis.link.extents import pagesize, timeline
from androstep_analysis.link.intervals import Int64s

_LARGEST_BIO = 1 << 32
"""The size of a bio has 32 bits."""

_LARGEST_INDEX = 1 << 48
_LARGEST_SECTOR = 1 << 54
LARGEST_ORDER = 17
"""Folios are at most 512 MiB (arm64 with pages of 64 KiB)."""

_PAGE = ["dev", "ino", "page"]
_OF_BIOS = (
    *("ts_ns", "tid", *_PAGE, "incarnation", "bio_dev", "sector", "nr_bytes", "offset_bytes"),
    *("has_events", "fs_type"),
)
"""Columns from the probe, and the filesystem."""
_SHOWN = ["part_dev", "tid", "shown_ns"]


def extents(
    fs_events: pl.LazyFrame,
    lifetimes: pl.DataFrame,
    queued: pl.LazyFrame,
    fs_types: Mapping[int, str] | None = None,
    *,
    all_events: pl.LazyFrame,
    page_bytes: int | None,
) -> pl.DataFrame:
    """Return table `extents` of the pages of bios.

    Source `context` is proven: the row holds for its bio only, the first that its thread queues (`queued`: ts_ns, tid)
    afterwards. Source `inferred` is for all pages of files: the row holds until the next bio of its sectors. Rows of
    block_type `metadata` are pages of the device itself; only an image shows which metadata or directory it is.

    `lifetimes` (`tracepoints.lifetimes`) distinguishes directories from files, and `fs_types` is as for
    `tracepoints.filesystems`. `all_events` are those of which `fs_events` (`tracepoints.numbered`) may lack repetitions
    (`tracepoints.without_repetitions`). If the page size is unknown (`page_bytes`), the offsets of pages are unknown:
    only pages of devices have rows.
    """
    events = tracepoints.with_kinds(fs_events, fs_types or {})
    bios = events.filter((pl.col("event") == "bio_page") & _fits()).select(_OF_BIOS).collect().with_row_index("order")
    if page_bytes is None:
        bios, page_bytes = bios.filter(is_of_device()), pagesize.SIZES[0]
    bios = _placed(bios, page_bytes)
    if bios.is_empty():
        return schema.empty("extents")
    bios = _bound(bios, queued.collect())
    kinds = lifetimes.select("dev", "ino", "incarnation", "block_type", "subtype")
    own = _parts(_pages(bios.filter("is_own"), all_events, page_bytes), page_bytes).join(
        kinds, on=["dev", "ino", "incarnation"], how="left", maintain_order="left"
    )
    unknown, data, metadata = (
        pl.lit(name).cast(schema.enum("extents", "block_type")) for name in ("unknown", "data", "metadata")
    )
    device = bios.filter(pl.col("is_device") & ~pl.col("has_events")).with_columns(block_type=metadata)
    # If no event states the type of an inode with pages of its own, it is a file: FAT's directories are pages of the
    # device. Without a known filesystem this is not certain, nor how bios are filled, so that everything is inferred.
    is_identified = pl.col("fs_type").is_not_null()
    is_file = (pl.col("block_type").fill_null("unknown") == "unknown") & (
        tracepoints.pages_are_files() | ~is_identified
    )
    own = own.with_columns(block_type=pl.when(is_file).then(data).otherwise(pl.col("block_type").fill_null(unknown)))
    own = own.filter(pl.col("block_type") != "unknown")
    certain = own.filter("is_proven", is_identified)
    proven = pl.concat([certain, device.drop("ino", "incarnation")], how="diagonal")
    # The events of a filesystem of its own are always better evidence.
    likely = own.filter(~pl.col("has_events")).with_columns(valid_to_ns=pl.lit(None, pl.Int64))
    return pl.concat([_table(proven, "context"), timeline.succeeding(_table(likely, "inferred"))])


class Shown:
    """The pages that the probe on submit_bio recorded, and the pieces whose bio carries them.

    A piece carries the last page recorded of its thread if it lies within that bio and is the first piece since: a
    direct write follows the pages of its own range, which it first writes back. `devices` are those with the probe.
    """

    def __init__(self, fs_events: pl.LazyFrame) -> None:
        columns = ("ts_ns", "tid", "dev", "ino", "bio_dev", "sector", "nr_bytes")
        probed = fs_events.filter(pl.col("event") == "bio_page").select(columns).collect()
        self.devices = probed["bio_dev"].unique()
        is_own = (pl.col("dev") == pl.col("bio_dev")) | is_of_device()
        shown = probed.filter(is_own & _fits()).select(
            "tid", "ts_ns", "sector", part_dev="bio_dev", nr_bytes="nr_bytes", shown_ns="ts_ns"
        )
        self._shown = shown.sort("ts_ns")
        self._first: list[pl.DataFrame] = []
        self._inside: list[pl.DataFrame] = []

    def add(self, pieces: pl.DataFrame) -> None:
        """Add pieces: at (their index), part_dev, part_sector, submit_tid and time."""
        if self.devices.is_empty():
            return
        submitted = pieces.select("at", "part_dev", "part_sector", tid="submit_tid", ts_ns="time").drop_nulls("ts_ns")
        showing = submitted.sort("ts_ns", maintain_order=True).join_asof(
            self._shown, on="ts_ns", by=["part_dev", "tid"], check_sortedness=False
        )
        inside = (pl.col("part_sector") - pl.col("sector")) * units.SECTOR_BYTES
        self._first.append(showing.group_by(_SHOWN).agg(first_ns=pl.col("ts_ns").min()))
        is_inside = (inside >= 0) & (inside < pl.col("nr_bytes"))
        self._inside.append(showing.filter(is_inside).select(*_SHOWN, "at", "ts_ns"))

    def pageless(self, pieces: pl.DataFrame) -> pl.Series:
        """Return for each piece, after all were added, whether its bio carries no page; False without the probe."""
        if self.devices.is_empty():
            return pl.repeat(False, pieces.height, dtype=pl.Boolean, eager=True)
        return ~pieces["at"].is_in(self._carrying.implode()) & pieces["part_dev"].is_in(self.devices.implode())

    @functools.cached_property
    def _carrying(self) -> pl.Series:
        """Return the indexes of the pieces that carry pages."""
        first = pl.concat(self._first).group_by(_SHOWN).agg(pl.col("first_ns").min())
        both = pl.concat(self._inside).join(first, on=_SHOWN)
        return both.filter(pl.col("ts_ns") == pl.col("first_ns"))["at"]


def is_of_device(bio_dev: str = "bio_dev", dev: str = "dev") -> pl.Expr:
    """Return whether a page belongs to the device of its bio: its inode has the number of the device.

    A file of the filesystem on the device may have the same inode number, so that the page's device must differ.
    """
    return (pl.col("ino") == pl.col(bio_dev).cast(pl.Int64)) & pl.col(dev).ne_missing(pl.col(bio_dev))


def _fits() -> pl.Expr:
    """Return whether the bio has data, and its values are possible."""
    return (
        pl.col("nr_bytes").is_between(units.SECTOR_BYTES, _LARGEST_BIO)
        & pl.col("sector").is_between(0, _LARGEST_SECTOR)
        & pl.col("bio_dev").is_not_null()
    )


def _placed(bios: pl.DataFrame, page_bytes: int) -> pl.DataFrame:
    """Return the bios with the file and offset of their first page.

    Add is_own (a page of a file on the bio's device), is_device (a page of that device itself), begin (offset in the
    file in bytes) and is_exact (whether that is certain).
    """
    is_own = (pl.col("dev") == pl.col("bio_dev")) & pl.col("page").is_between(0, _LARGEST_INDEX)
    is_part = pl.col("nr_bytes") < page_bytes
    other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in ("tid", *_PAGE))
    bios = bios.sort("tid", "order").with_columns(run=(other | ~is_part | ~is_part.shift()).cum_sum())
    whole = pl.col("nr_bytes").sum().over("run") == page_bytes
    before = pl.col("nr_bytes").cum_sum().over("run") - pl.col("nr_bytes")
    # If the blocks of a page are in several bios, each bio has one block. A longer bio begins with the page. No block
    # is longer than the shortest bio.
    is_longer = (pl.col("nr_bytes") > pl.col("nr_bytes").min().over("bio_dev")) | ~is_part
    offset = pl.coalesce("offset_bytes", pl.when(whole).then(before), pl.when(is_longer).then(0))
    bios = bios.sort("order").with_columns(
        begin=pl.col("page") * page_bytes + offset,
        is_own=is_own.fill_null(False),
        is_device=is_of_device().fill_null(False),
    )
    begin = pl.coalesce("begin", _placed_before(bios, page_bytes))
    return bios.with_columns(begin=begin, is_exact=begin.is_not_null()).with_columns(
        page=pl.coalesce(pl.col("begin") // page_bytes, "page"),
        begin=pl.coalesce("begin", pl.col("page") * page_bytes),
    )


def _placed_before(bios: pl.DataFrame, page_bytes: int) -> pl.Series:
    """Return for each bio the file offset that an earlier bio of the same sector and page had, or null.

    `bios` are in order of time and have `begin` where it is known from the bio itself.
    """
    rows = bios.with_row_index("at").with_columns(nr_sectors=pl.col("nr_bytes") // units.SECTOR_BYTES)
    placed = rows.filter(pl.col("is_own") & pl.col("begin").is_not_null())
    unplaced = rows.filter(pl.col("is_own") & pl.col("begin").is_null())
    forever = np.full(placed.height, intervals.FOREVER)
    hits = intervals.stab(intervals.Queries(*_places(unplaced)), intervals.Rows(*_places(placed), valid_to=forever))
    is_first = pl.Series(hits.row >= 0) & (pl.Series(hits.start) == unplaced["sector"][hits.query])
    later, earlier = unplaced[hits.query].filter(is_first), placed[hits.row[is_first.to_numpy()]]
    begin = earlier["begin"] + (later["sector"] - earlier["sector"]) * units.SECTOR_BYTES
    same = begin // page_bytes == later["page"]
    for name in ("dev", "ino", "incarnation"):
        same &= later[name] == earlier[name]
    proven = pl.DataFrame({"at": later["at"], "proven": begin}).filter(same)
    return rows.select("at").join(proven, on="at", how="left", maintain_order="left")["proven"]


def _places(bios: pl.DataFrame) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Return device, first sector, length and time of each bio, for the interval join."""
    device, sector, length, time = (
        bios[name].cast(pl.Int64).to_numpy() for name in ("bio_dev", "sector", "nr_sectors", "ts_ns")
    )
    return device, sector, length, time


def _bound(bios: pl.DataFrame, queued: pl.DataFrame) -> pl.DataFrame:
    """Return the bios with the time at which they were queued, without those that were not."""
    ends = queued.select("tid", ts_ns="ts_ns", at="ts_ns").sort("ts_ns")
    bound = bios.sort("ts_ns", maintain_order=True).join_asof(
        ends, on="ts_ns", by="tid", strategy="forward", check_sortedness=False
    )
    return bound.with_columns(valid_to_ns=pl.col("at") + 1).drop_nulls("at").drop("at").sort("order")


def _pages(bios: pl.DataFrame, events: pl.LazyFrame, page_bytes: int) -> pl.DataFrame:
    """Return a row for each page that a bio may carry, with `is_proven`: whether it certainly does."""
    count = (pl.col("begin") % page_bytes + pl.col("nr_bytes") + page_bytes - 1) // page_bytes
    nth = pl.int_ranges(0, count).alias("nth")
    rows = bios.with_columns(nth).explode("nth").with_columns(page=pl.col("page") + pl.col("nth"))
    # Bios of the blocks of one page are one writeback.
    rows = rows.with_columns(writeback_ns=pl.col("ts_ns").shift().over(_PAGE))
    rows = rows.with_columns(pl.col("writeback_ns").first().over(*_PAGE, "run"))
    of_bios = touched(events).join(rows.lazy().select(_PAGE).unique(), on=_PAGE, how="semi")
    waiting = of_bios.collect(engine="streaming")
    rows = rows.sort("ts_ns", maintain_order=True).join_asof(
        waiting.sort("ts_ns"), left_on="ts_ns", right_on="ts_ns", by=_PAGE, check_sortedness=False
    )
    waits = pl.col("touched_ns") > pl.col("writeback_ns").fill_null(pl.col("touched_ns") - 1)
    is_next = waits.fill_null(False) & ((pl.col("nth") == 0) | tracepoints.pages_are_files())
    return rows.sort("order", "nth").with_columns(is_proven=(is_next & pl.col("is_exact")).cum_min().over("order"))


def touched(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the pages that were dirtied or added to the cache: dev, ino, page, ts_ns, and touched_ns, the same."""
    is_touch = pl.col("event").is_in([*tracepoints.DIRTIED, tracepoints.CACHED])
    is_touch &= pl.col("page").is_between(0, _LARGEST_INDEX)
    order = pl.col("page_order").fill_null(0).clip(0, LARGEST_ORDER)
    pages = pl.int_ranges("page", pl.col("page") + pl.lit(2, pl.Int64).pow(order))
    rows = events.filter(is_touch).select("dev", "ino", "ts_ns", touched_ns="ts_ns", page=pages)
    return rows.explode("page")


def _parts(pages: pl.DataFrame, page_bytes: int) -> pl.DataFrame:
    """Return the bios, split into what is proven and what is not, from the rows of their pages."""
    first = pl.col("page").first() * page_bytes
    begin = pl.max_horizontal(pl.col("begin").first(), first)
    end = pl.min_horizontal(pl.col("begin") + pl.col("nr_bytes"), (pl.col("page") + 1) * page_bytes).last()
    shared = ("ts_ns", "bio_dev", "dev", "ino", "incarnation", "valid_to_ns", "fs_type", "has_events")
    return (
        pages.group_by("order", "is_proven", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in shared),
            sector=pl.col("sector").first() + (begin - pl.col("begin").first()) // units.SECTOR_BYTES,
            file_offset_bytes=begin,
            nr_bytes=end - begin,
        )
        .filter(pl.col("nr_bytes") > 0)
    )


def _table(rows: pl.DataFrame, source: str) -> pl.DataFrame:
    """Return table `extents` of the rows, in their order."""
    nr_sectors = pl.col("nr_bytes") // units.SECTOR_BYTES
    return timeline.completed(
        rows.with_columns(dev="bio_dev", nr_sectors=nr_sectors, valid_from_ns="ts_ns", source=pl.lit(source))
    )
