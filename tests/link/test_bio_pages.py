"""Test the mapping of blocks from the pages in bios."""

from __future__ import annotations

import polars as pl
import pytest
from support.blocks import DEV

from androstep_analysis import schema
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import bio_pages

KERNEL_DEV = 3
"""Device of the kernel's internal filesystem for pages of block devices."""


def fs_events(*rows):
    """Return table fs_events from (event, columns): one event each microsecond, by default on 7:0 by thread 1."""
    full = [{"ts_ns": at * 1000, "tid": 1, "dev": DEV, "event": event, **row} for at, (event, row) in enumerate(rows)]
    return schema.conform(pl.DataFrame(full, schema=schema.table("fs_events").polars), "fs_events")


def bio(sector, nr_bytes, ino, page, **more):
    return "bio_page", {"bio_dev": DEV, "sector": sector, "nr_bytes": nr_bytes, "ino": ino, "page": page, **more}


def dirty(ino, page):
    return "writeback_dirty_folio", {"ino": ino, "page": page}


def cached(ino, page):
    return "mm_filemap_add_to_page_cache", {"ino": ino, "page": page, "page_order": 0}


def told(events, queued=None, fs_type="vfat", page_bytes=4096):
    """Return the mapping by bios, each queued 0.5 µs after its submission unless (ts_ns, tid) is given."""
    fs_types = {DEV: fs_type} if fs_type else {}
    bios = events.filter(pl.col("event") == "bio_page")
    rows = [(ts + 500, tid) for ts, tid in bios.select("ts_ns", "tid").rows()] if queued is None else queued
    queue = pl.DataFrame(rows, schema={"ts_ns": pl.Int64, "tid": pl.Int32}, orient="row")
    numbered = tracepoints.numbered(events).lazy()
    return bio_pages.extents(
        numbered, tracepoints.lifetimes(numbered, fs_types), queue.lazy(), fs_types,
        all_events=events.lazy(), page_bytes=page_bytes,
    ).select(
        "sector", "nr_sectors", "block_type", "ino", "file_offset_bytes", "valid_from_ns", "valid_to_ns",
        pl.col("source").cast(pl.String),
    ).sort("source", "valid_from_ns", "sector")  # fmt: skip


def facts(table):
    return table.filter(pl.col("source") == "context").drop("source").rows()


def inferred(table):
    return table.filter(pl.col("source") == "inferred").select("sector", "nr_sectors", "ino", "valid_to_ns").rows()


def test_pages_that_wait_to_be_written_follow_each_other_others_are_inferred():
    events = fs_events(dirty(55, 1), dirty(55, 2), bio(800, 16384, 55, 1))
    assert facts(told(events)) == [(800, 16, "data", 55, 4096, 2000, 2501)]
    assert inferred(told(events)) == [(800, 16, 55, None), (816, 16, 55, None)]


def test_a_page_that_was_written_out_waits_no_longer():
    events = fs_events(dirty(55, 0), dirty(55, 1), bio(800, 8192, 55, 0), dirty(55, 0), bio(900, 8192, 55, 0))
    assert facts(told(events)) == [(800, 16, "data", 55, 0, 2000, 2501), (900, 8, "data", 55, 0, 4000, 4501)]


def test_memory_of_a_mapped_file_is_not_the_file_that_is_written():
    assert facts(told(fs_events(bio(800, 8192, 55, 0)))) == []
    assert facts(told(fs_events(cached(55, 0), bio(800, 4096, 55, 0), bio(900, 4096, 55, 0))))[1:] == []


def test_pages_of_a_large_folio_wait_together():
    folio = ("writeback_dirty_folio", {"ino": 55, "page": 0, "page_order": 2})
    assert facts(told(fs_events(folio, bio(800, 16384, 55, 0)))) == [(800, 32, "data", 55, 0, 1000, 1501)]


def test_on_f2fs_only_the_first_page_is_certain_and_dirty_pages_may_be_of_a_directory():
    waiting = dirty(55, 0), dirty(55, 1)
    assert facts(told(fs_events(*waiting, bio(800, 8192, 55, 0)), fs_type="f2fs")) == []
    kind = ("f2fs_write_begin", {"ino": 55, "offset_bytes": 0, "nr_bytes": 1})
    events = fs_events(kind, *waiting, bio(800, 8192, 55, 0))
    assert facts(told(events)) == [(800, 8, "data", 55, 0, 3000, 3501)]
    assert inferred(told(events)) == []


def test_on_an_unknown_filesystem_inode_numbers_have_no_meaning_and_all_is_inferred():
    waiting = [dirty(ino, page) for ino in (1, 2, 3, 8) for page in (0, 1)]
    events = fs_events(*waiting, *(bio(1000 + 16 * ino, 8192, ino, 0) for ino in (1, 2, 3, 8)))
    assert facts(told(events, fs_type=None)) == []
    assert facts(told(events, fs_type="btrfs")) == []
    assert {kind for *_, kind, _ in told(events, fs_type=None).select("source", "block_type", "ino").rows()} == {"data"}
    assert [row[3] for row in facts(told(events))] == [1, 2, 3, 8]


def test_a_file_may_have_the_number_of_its_device():
    events = fs_events(dirty(DEV, 3), bio(800, 4096, DEV, 3))
    assert facts(told(events, fs_type="xfs")) == [(800, 8, "data", DEV, 12288, 1000, 1501)]


def test_the_page_size_is_that_of_the_recording():
    events = fs_events(dirty(55, 1), dirty(55, 2), bio(800, 32768, 55, 1))
    assert facts(told(events, page_bytes=16384)) == [(800, 64, "data", 55, 16384, 2000, 2501)]
    assert told(events, page_bytes=None).is_empty()
    page = bio(900, 4096, DEV, 112, dev=KERNEL_DEV)
    assert facts(told(fs_events(page), page_bytes=None)) == [(900, 8, "metadata", None, None, 0, 501)]


def test_a_block_of_a_page_may_be_longer_than_a_sector():
    blocks = fs_events(dirty(55, 1), dirty(55, 1), bio(800, 4096, 55, 1), bio(900, 16384, 56, 0))
    assert facts(told(blocks, page_bytes=16384)) == []
    assert inferred(told(blocks, page_bytes=16384))[0] == (800, 8, 55, None)


def test_where_in_its_page_a_bio_of_one_block_lies():
    waiting = [dirty(ino, page) for ino, page in ((57, 0), (58, 3), (59, 2), (60, 1), (61, 6))]
    whole = [bio(1000 + 8 * n, 512, 57, 0) for n in range(8)]
    again = [bio(3000, 1024, 59, 2), dirty(59, 2), bio(3000, 512, 59, 2)]
    exact = [bio(4000, 512, 60, 1, offset_bytes=1536), bio(5000, 4096, 61, 4, offset_bytes=8192)]
    table = told(fs_events(*waiting, *whole, bio(2000, 512, 58, 3), *again, *exact))
    got = [(sector, offset) for sector, _, _, _, offset, *_ in facts(table)]
    assert got == [
        *((1000 + 8 * n, 512 * n) for n in range(8)), (3000, 8192), (3000, 8192), (4000, 5632), (5000, 24576),
    ]  # fmt: skip
    assert inferred(table.filter(pl.col("ino") == 58)) == [(2000, 1, 58, None)]


def test_a_fact_is_over_with_its_bio_and_a_guess_with_the_next_bio_of_the_place():
    events = fs_events(
        dirty(55, 0), dirty(56, 0), bio(800, 4096, 55, 0), bio(804, 4096, 56, 0, tid=2), bio(816, 512, DEV, 9, dev=3)
    )
    table = told(events, queued=[(500, 1), (2700, 1), (2800, 1), (3100, 2)])
    assert facts(table) == [(800, 8, "data", 55, 0, 2000, 2701), (804, 8, "data", 56, 0, 3000, 3101)]
    assert inferred(table) == [(800, 4, 55, None), (804, 4, 55, 3000), (804, 8, 56, None)]


def test_pages_of_the_device_are_metadata_unless_the_filesystem_tells_itself():
    page = bio(900, 4096, DEV, 112, dev=KERNEL_DEV)
    assert facts(told(fs_events(page))) == [(900, 8, "metadata", None, None, 0, 501)]
    assert told(fs_events(("ext4_allocate_inode", {"ino": 12}), page)).is_empty()


@pytest.mark.parametrize(
    "hostile",
    [bio(-1, 4096, 55, 0), bio(8, 0, 55, 0), bio(8, 2**40, 55, 0), bio(2**60, 4096, 55, 0), bio(8, 4096, 55, 2**60),
     bio(8, 4096, 55, -1), bio(None, 4096, 55, 0), bio(8, 4096, None, None), bio(8, 4096, 55, 0, bio_dev=None)],
)  # fmt: skip
def test_numbers_that_no_bio_can_have_are_no_facts(hostile):
    assert facts(told(fs_events(hostile))) == []
