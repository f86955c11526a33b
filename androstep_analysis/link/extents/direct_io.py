"""Extents of direct reads and writes on filesystems without own events: the bios that one call submitted.

The bios of direct I/O carry the caller's memory, so that no page identifies the file (`bio_pages`). The call does:
between its begin and its end the thread submits the bios of that call, in the order of the file. It submits no others
except bios of pages: reads of the filesystem's own blocks, and the first writeback of the file's pages. The begin and
end are recorded by probes on ``__blockdev_direct_IO`` (FAT, and exFAT before it changed to iomap in Linux 7.2) or by
events of iomap. An asynchronous call of iomap ends for its thread when it is queued. Any thread may record its
completion, so that an end must have the file and offset of the thread's call.

A call proves the file of its bios if those that the page probe does not know have one operation, and are together as
long as what was read or written: then there was no hole and no error. The caller's memory may be a mapped file of the
same filesystem, so that its pages seem to be written. These bios belong to the call if the sum is right only with them.
(Nothing else can be missing: a write leaves no holes.)
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import bio_pages, timeline
from androstep_analysis.link.requests import rwbs

BEGINS = ("direct_begin", "iomap_dio_rw_begin")
ENDS = ("direct_end", "iomap_dio_complete", "iomap_dio_rw_queued")

QUEUED_ASYNC = -529
"""Result of a call that does not wait for its bios (EIOCBQUEUED, include/linux/errno.h)."""

_LARGEST_OFFSET = 1 << 62


def extents(fs_events: pl.LazyFrame, block: pl.LazyFrame, lost: Losses | None = None) -> pl.DataFrame:
    """Return table `extents` of the bios of direct calls: source `context`, each row for one bio.

    `fs_events` (`tracepoints.numbered`) and `block` (table `block_events`) are in order of time. Devices without
    `bio_page` events are excluded, and so are calls during which events may be `lost`.
    """
    calls = _calls(fs_events)
    if lost is not None:
        tables = ("fs_events", "block_events")
        calls = calls.filter(~lost.between(calls["begin_ns"], calls["end_ns"], calls["dev"], *tables))
    if calls.is_empty():
        return schema.empty("extents")
    during = _of_calls(_without_metadata(bios(block.collect(), calls["dev"].unique()), fs_events), calls)
    own = during.filter(~pl.col("is_page") | _is_memory())
    offset = pl.col("nr_sectors").cum_sum().over("call") - pl.col("nr_sectors")
    proven = own.filter(_is_proven())
    return timeline.completed(
        proven.with_columns(
            file_offset_bytes=pl.col("offset_bytes") + offset * units.SECTOR_BYTES,
            block_type=pl.lit("data"),
            source=pl.lit("context"),
            valid_from_ns=pl.col("ts_ns"),
            valid_to_ns=pl.col("queue_ns") + 1,
        )
    )


def _calls(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the calls whose end is the next event of their thread after the begin.

    Columns tid, begin_ns, end_ns, call, dev, ino, incarnation, offset_bytes, and total_bytes, the expected length of
    all bios.
    """
    event = pl.col("event")
    probed = fs_events.filter(event == "bio_page").select(pl.col("bio_dev").unique()).collect()["bio_dev"]
    columns = ("ts_ns", "event", "tid", "dev", "ino", "incarnation", "offset_bytes", "nr_bytes")
    of_own = fs_events.filter(tracepoints.is_own()).select(pl.col("dev").unique()).collect()["dev"]
    events = fs_events.filter(event.is_in([*BEGINS, *ENDS])).select(columns).collect()
    following = {
        name: pl.col(column).shift(-1).over("tid")
        for name, column in {
            **{"next": "event", "end_ns": "ts_ns", "moved": "nr_bytes"},
            **{"end_dev": "dev", "end_ino": "ino", "end_offset": "offset_bytes"},
        }.items()
    }
    moved = pl.when(pl.col("next") == "iomap_dio_rw_queued").then(QUEUED_ASYNC).otherwise("moved")
    whole_sectors = -(-moved // units.SECTOR_BYTES) * units.SECTOR_BYTES
    total = pl.when(moved > 0).then(whole_sectors).when(moved == QUEUED_ASYNC).then("nr_bytes")
    is_of_probes = (event == "direct_begin") & (pl.col("next") == "direct_end")
    is_of_iomap = (event == "iomap_dio_rw_begin") & ~pl.col("dev").is_in(of_own.implode())
    is_of_iomap &= (pl.col("end_dev") == pl.col("dev")) & (pl.col("end_ino") == pl.col("ino"))
    is_whole = pl.col("end_offset") == pl.col("offset_bytes") + pl.col("moved")
    is_of_iomap &= (pl.col("next") == "iomap_dio_rw_queued") | ((pl.col("next") == "iomap_dio_complete") & is_whole)
    calls = events.with_columns(**following).filter(
        (is_of_probes | is_of_iomap)
        & pl.col("dev").is_in(probed.implode())
        & pl.col("offset_bytes").is_between(0, _LARGEST_OFFSET)
        & (pl.col("offset_bytes") % units.SECTOR_BYTES == 0)
    )
    return calls.select(
        "tid",
        "dev",
        "ino",
        "incarnation",
        "offset_bytes",
        "end_ns",
        begin_ns="ts_ns",
        call=pl.int_range(pl.len()),
        total_bytes=total,
    )


def bios(block: pl.DataFrame, devices: pl.Series) -> pl.DataFrame:
    """Return every bio with data as the filesystem on one of the devices submitted it, in order of time.

    Columns bio, ts_ns, tid, dev, sector, nr_sectors, op, meta, queue_ns (when the thread next queued a bio). Bios of a
    partition are queued to the disk below; the remap before has their own device and sector.
    """
    queued = block.filter(pl.col("action") == "queue")
    remapped = block.filter((pl.col("action") == "remap") & ~pl.col("old_dev").is_in(queued["dev"].unique().implode()))
    bios = pl.concat([queued, remapped.with_columns(dev="old_dev", sector="old_sector")])
    bios = bios.filter(pl.col("dev").is_in(devices.implode()) & (pl.col("nr_sectors") > 0))
    bios = pl.concat([bios, rwbs.decode(bios["rwbs"]).select("op", "meta")], how="horizontal")
    ends = queued.select("ts_ns", "tid", queue_ns="ts_ns").sort("ts_ns")
    return (
        bios.select("ts_ns", "tid", "dev", "sector", "nr_sectors", "op", "meta")
        .sort("ts_ns", maintain_order=True)
        .join_asof(ends, on="ts_ns", by="tid", strategy="forward", check_sortedness=False)
        .drop_nulls("queue_ns")
        .with_row_index("bio")
    )


def _without_metadata(bios: pl.DataFrame, fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the bios except those of pages of the device, with is_page: whether they carry pages of a file.

    The probe fires immediately before the bio is queued, with the same place and length.
    """
    is_page = (pl.col("event") == "bio_page") & (pl.col("nr_bytes") > 0)
    pages = (
        fs_events.filter(is_page)
        .select("ts_ns", "tid", "sector", "ino", page_dev="dev", nr_sectors=pl.col("nr_bytes") // units.SECTOR_BYTES)
        .collect()
    )
    key = ["tid", "sector", "nr_sectors"]
    following = bios.select("ts_ns", *key, "bio", "dev")
    carried = pages.sort("ts_ns", maintain_order=True).join_asof(
        following, on="ts_ns", by=key, strategy="forward", check_sortedness=False
    )
    of_device = carried.filter(bio_pages.is_of_device("dev", "page_dev"))
    of_files = carried.filter(pl.col("page_dev") == pl.col("dev"))
    bios = bios.with_columns(is_page=pl.col("bio").is_in(of_files["bio"].implode()))
    return bios.join(of_device, on="bio", how="anti", maintain_order="left")


def _of_calls(bios: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the bios submitted between begin and end of a call of their thread, with the columns of the call."""
    during = bios.join_asof(
        calls.sort("begin_ns"), left_on="ts_ns", right_on="begin_ns", by=["tid", "dev"], check_sortedness=False
    )
    return during.filter(pl.col("ts_ns") <= pl.col("end_ns"))


def _is_memory() -> pl.Expr:
    """Return whether a call's bios with pages of files are its own, and these pages the memory that it writes."""
    return _is_proven() & (pl.col("op") == "write")


def _is_proven() -> pl.Expr:
    """Return whether the bios of a call have one operation and together the length that it read or wrote."""
    op, length = pl.col("op"), pl.col("nr_sectors") * units.SECTOR_BYTES
    is_one = op.is_in(["read", "write"]) & (op.n_unique().over("call") == 1)
    return is_one & (length.sum().over("call") == pl.col("total_bytes")).fill_null(False)
