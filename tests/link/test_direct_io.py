"""Test the assignment of bios to direct reads and writes."""

from __future__ import annotations

import polars as pl
import pytest
from support.blocks import DEV, block_events

from androstep_analysis import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import direct_io

DISK = 8 << 20
PART = DISK + 1
KERNEL_DEV = 3
"""Device of the kernel's internal filesystem for pages of block devices."""

ASYNC = -529

LOST = [Loss("overwritten", 1, "one is lost")]


def told(*steps, lost=()):
    """Return (sector, nr_sectors, ino, file offset) of the mapping from the steps."""
    rows = direct_io.extents(*tables(*steps), Losses(lost))
    assert set(rows["block_type"]) <= {"data"} and set(rows["source"]) <= {"context"}
    return rows.select("sector", "nr_sectors", "ino", "file_offset_bytes").rows()


def tables(*steps):
    """Return tables fs_events and block_events from steps, one each microsecond, by default by thread 1 on 7:0.

    Steps are (event, columns): an action of the block layer or an event of the filesystem.
    """
    timed = [(kind, {"ts_ns": at * 1000, "tid": 1, "dev": DEV, **row}) for at, (kind, row) in enumerate(steps)]
    block = [{**row, "action": kind} for kind, row in timed if kind in ("queue", "remap", "complete")]
    events = [{**row, "event": kind} for kind, row in timed if kind not in ("queue", "remap", "complete")]
    frame = pl.DataFrame(events, schema=schema.table("fs_events").polars)
    return tracepoints.numbered(schema.conform(frame, "fs_events")).lazy(), block_events(block).lazy()


def begin(ino, offset, count, **more):
    return "direct_begin", {"ino": ino, "offset_bytes": offset, "nr_bytes": count, **more}


def end(moved, **more):
    return "direct_end", {"nr_bytes": moved, "dev": None, **more}


def iomap(ino, offset, count, **more):
    return "iomap_dio_rw_begin", {"ino": ino, "offset_bytes": offset, "nr_bytes": count, **more}


def complete(ino, offset, moved, **more):
    """Return iomap's event at the end of a call, with the position after the transferred bytes."""
    return "iomap_dio_complete", {"ino": ino, "offset_bytes": offset + max(moved, 0), "nr_bytes": moved, **more}


def queued(ino, **more):
    return "iomap_dio_rw_queued", {"ino": ino, **more}


def queue(sector, nr_sectors, rwbs="WS", **more):
    return "queue", {"sector": sector, "nr_sectors": nr_sectors, "rwbs": rwbs, **more}


def page(sector, nr_sectors, ino=99, dev=DEV, **more):
    """Return the event of a page's bio, by default of another file."""
    columns = {"bio_dev": DEV, "dev": dev, "ino": ino, "page": 0, "sector": sector, "nr_bytes": nr_sectors * 512}
    return "bio_page", columns | more


PROBED = page(1, 1), queue(1, 1)
"""Shows that the probe of pages was recorded."""


@pytest.mark.parametrize("moved", [12288, ASYNC])
@pytest.mark.parametrize("rwbs", ["WS", "R"])
def test_bios_of_a_call_follow_each_other_in_the_file(moved, rwbs):
    steps = begin(55, 4096, 12288), queue(800, 16, rwbs), queue(400, 8, rwbs), end(moved), queue(900, 8, rwbs)
    assert told(*PROBED, *steps) == [(800, 16, 55, 4096), (400, 8, 55, 12288)]


@pytest.mark.parametrize("last", [complete(55, 4096, 12288), queued(55)], ids=["complete", "queued"])
@pytest.mark.parametrize("rwbs", ["WS", "R"])
def test_so_do_those_of_a_call_of_iomap(last, rwbs):
    steps = iomap(55, 4096, 12288), queue(800, 16, rwbs), queue(400, 8, rwbs), last, queue(900, 8, rwbs)
    assert told(*PROBED, *steps) == [(800, 16, 55, 4096), (400, 8, 55, 12288)]


@pytest.mark.parametrize(
    "earlier",
    [complete(55, 8192, 4096), complete(56, 0, 4096), complete(55, 0, 4096, dev=DEV + 1), queued(56)],
    ids=["place", "file", "device", "queued"],
)
def test_a_call_of_iomap_does_not_end_where_an_asynchronous_one_is_complete(earlier):
    """Any thread may report the completion. After a hole, one block of the call is queued, as long as completed."""
    steps = iomap(55, 0, 8192), queue(800, 8, "R"), earlier, complete(55, 0, 8192)
    assert told(*PROBED, *steps) == []


def test_iomap_calls_prove_nothing_on_a_filesystem_with_extent_events():
    own = "ext4_evict_inode", {"ino": 9}
    assert told(*PROBED, own, iomap(55, 0, 4096), queue(800, 8), complete(55, 0, 4096)) == []


def test_bios_of_other_threads_and_devices_are_not_of_the_call():
    other = queue(500, 8, tid=2), queue(600, 8, dev=DEV + 1), ("complete", {"sector": 800, "nr_sectors": 8})
    steps = begin(55, 0, 4096), *other, begin(56, 0, 4096, tid=2), queue(800, 8), end(4096, tid=2), end(4096)
    assert told(*PROBED, *steps) == [(800, 8, 55, 0)]


def test_metadata_that_the_call_reads_and_pages_that_it_writes_out_first_are_not_its_own():
    table = page(40, 1, ino=DEV, dev=KERNEL_DEV), queue(40, 1, "R")
    dirty = page(800, 8, ino=55), queue(800, 8, "W")
    steps = begin(55, 0, 8192), *table, *dirty, queue(800, 8, "R"), *table, queue(900, 8, "R"), end(8192)
    assert told(*PROBED, *steps) == [(800, 8, 55, 0), (900, 8, 55, 4096)]


def test_only_the_probe_of_pages_shows_whose_pages_a_bio_has():
    other = "writeback_dirty_folio", page(800, 8, ino=DEV, dev=KERNEL_DEV)[1]
    assert told(*PROBED, begin(55, 0, 4096), other, queue(800, 8), end(4096)) == [(800, 8, 55, 0)]


def test_memory_may_be_pages_of_another_filesystem():
    steps = begin(55, 0, 4096), page(800, 8, dev=KERNEL_DEV), queue(800, 8), end(4096)
    assert told(*PROBED, *steps) == [(800, 8, 55, 0)]


def test_memory_may_be_a_mapped_file_of_the_same_filesystem():
    steps = begin(55, 0, 8192), page(800, 8), queue(800, 8), queue(900, 8), end(8192)
    assert told(*PROBED, *steps) == [(800, 8, 55, 0), (900, 8, 55, 4096)]


def test_what_is_read_into_such_memory_may_be_the_mapped_file_itself():
    steps = begin(55, 0, 8192), page(800, 8), queue(800, 8, "R"), queue(900, 8, "R"), end(8192)
    assert told(*PROBED, *steps) == []


def test_the_last_sector_of_a_file_is_read_as_a_whole():
    assert told(*PROBED, begin(55, 0, 8192), queue(800, 3, "R"), end(1100)) == [(800, 3, 55, 0)]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((begin(55, 0, 8192), queue(800, 8, "R"), end(8192)), id="a hole"),
        pytest.param((begin(55, 0, 8192), queue(800, 8, "R"), end(ASYNC)), id="a hole, or the end of the file"),
        pytest.param((begin(55, 0, 4096), queue(800, 8), queue(900, 8), end(4096)), id="too much"),
        pytest.param((begin(55, 0, 8192), queue(800, 8), queue(900, 8, "R"), end(8192)), id="two operations"),
        pytest.param((begin(55, 0, 4096), queue(800, 8, "D"), end(4096)), id="a discard"),
        pytest.param((begin(55, 0, 4096), queue(800, 8), end(-5)), id="an error"),
        pytest.param((begin(55, 0, 4096), queue(800, 8), end(0)), id="nothing"),
        pytest.param((begin(55, 0, 4096), queue(800, 8)), id="no end"),
        pytest.param((begin(55, 0, 4096), queue(800, 8), begin(56, 0, 4096), end(4096)), id="the end of another"),
        pytest.param((queue(800, 8), end(4096)), id="no begin"),
        pytest.param((iomap(55, 0, 4096), queue(800, 8), end(4096)), id="an end of another kind"),
        pytest.param((iomap(55, 0, 4096), queue(800, 8), complete(55, 0, -5)), id="an error of iomap"),
        pytest.param((begin(55, 100, 4096), queue(800, 8), end(4096)), id="no whole sectors"),
        pytest.param((begin(55, -512, 4096), queue(800, 8), end(4096)), id="before the file"),
        pytest.param((begin(55, 0, 4096, tid=None), queue(800, 8), end(4096)), id="no thread"),
    ],
)
def test_doubtful_events_prove_nothing(steps):
    assert told(*PROBED, *steps) == []


def test_without_the_probe_of_pages_or_with_events_lost_a_call_proves_nothing():
    steps = begin(55, 0, 4096), queue(800, 8), end(4096)
    assert told(*PROBED, *steps) == [(800, 8, 55, 0)]
    assert told(*steps) == []
    assert told(*PROBED, *steps, lost=LOST) == []


def test_bios_of_a_partition_are_placed_in_it():
    remap = {"dev": DISK, "sector": 2848, "nr_sectors": 8, "rwbs": "W", "old_dev": PART, "old_sector": 800}
    probed = page(1, 1, dev=PART, bio_dev=PART), queue(2049, 1, dev=DISK)
    steps = begin(55, 0, 4096, dev=PART), ("remap", remap), queue(2848, 8, dev=DISK), end(4096)
    assert told(*probed, *steps) == [(800, 8, 55, 0)]


def test_a_row_holds_for_its_bio_only():
    rows = direct_io.extents(*tables(*PROBED, begin(55, 0, 4096), queue(800, 8), end(4096)))
    assert rows.select("valid_from_ns", "valid_to_ns").rows() == [(3000, 3001)]
