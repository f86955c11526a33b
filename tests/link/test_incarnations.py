"""Test the assignment of an image's files to the incarnations in the trace."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.blocks import DEV

from androstep_analysis import schema
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.fs.ext4.journal import Journal
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import incarnations, journals

OFFSET = 10**18
SECOND = 10**9
FIRST, LAST = 100 * SECOND, 200 * SECOND


def image(*files):
    """Return an image with files (ino, generation, creation in the trace's clock)."""
    rows = [
        {"dev": DEV, "ino": ino, "incarnation": 0, "generation": generation, "names": [], "name_encrypted": False,
         "file_type": "unknown", "source": "image_after"}
        for ino, generation, _ in files
    ]  # fmt: skip
    times = [
        {"ino": ino, "generation": generation, "created_epoch_ns": None if born is None else born + OFFSET,
         "changed_epoch_ns": None}
        for ino, generation, born in files
    ]  # fmt: skip
    types = {"ino": pl.Int64, "generation": pl.Int64, "created_epoch_ns": pl.Int64, "changed_epoch_ns": pl.Int64}
    return Filesystem(
        fs_type="ext4", image=Path(), block_bytes=4096, nr_sectors=8, uuid=None, extents=schema.empty("extents"),
        files=pl.DataFrame(rows, schema=schema.table("files").polars), times=pl.DataFrame(times, schema=types),
        first_bytes=pl.DataFrame(),
    )  # fmt: skip


def listing(first_ns, last_ns, *files):
    """Return a listing of such files from `first_ns` to `last_ns` of the trace's clock, which is a second behind."""
    of_image = image(*files)
    return Listing(
        dev=DEV, fs_type="ext4", block_bytes=4096, nr_sectors=8, roots=("/",),
        first_ns=first_ns + SECOND, last_ns=last_ns + SECOND, realtime_offset_ns=OFFSET - SECOND,
        monotonic_offset_ns=-SECOND, extents=of_image.extents, files=of_image.files, times=of_image.times,
    )  # fmt: skip


def lives(*rows):
    """Return rows (ino, incarnation, created_ns, deleted_ns) in the form of `tracepoints.lifetimes`."""
    names = ("ino", "incarnation", "created_ns", "deleted_ns")
    types = {"ino": pl.Int64, "incarnation": pl.Int32, "created_ns": pl.Int64, "deleted_ns": pl.Int64}
    return pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows], schema=types).with_columns(
        dev=pl.lit(DEV, pl.UInt32)
    )


def told(after, traced, before=None, offset=OFFSET, lost_events=0, clock="mono", events=None):
    staging = Staging("test", {}, FIRST, LAST, clock=clock, realtime_offset_ns=offset, lost_events=lost_events)
    if events is not None:
        staging = staging.with_tables(fs_events=events.lazy())
    staging = replace(staging, realtime_offset_ns=incarnations.realtime_offset_ns(staging, after, traced))
    table = incarnations.numbered(before, after, traced, staging, tracepoints.kinds(staging.fs_events))
    return {(ino, generation): number for _, ino, generation, number in table.iter_rows()}


MADE = 150 * SECOND
TRACED = lives((12, 0, None, 140 * SECOND), (12, 1, MADE, None), (13, 0, None, None), (14, 1, 160 * SECOND, None))


@pytest.mark.parametrize("offset", [OFFSET, None])
def test_a_file_is_the_one_whose_creation_is_of_that_time(offset):
    after = image((12, 7, MADE - 4_000_000), (13, 8, FIRST - SECOND), (14, 9, 160 * SECOND), (15, 1, LAST + SECOND))
    assert told(after, TRACED, offset=offset) == {(12, 7): 1, (13, 8): 0, (14, 9): 1, (15, 1): 0}


@pytest.mark.parametrize("born", [LAST + SECOND, MADE + SECOND, LAST - 1, None])
def test_a_reused_inode_number_is_another_file(born):
    assert told(image((12, 7, born)), TRACED) == {(12, 7): 2}


LISTED = LAST - 2_000_000
LATE = lives((12, 1, LISTED - 1_000_000, None))
"""A file created in the last clock tick of the trace."""


def test_a_file_listed_while_events_were_recorded_is_the_last_of_its_number_however_young():
    files = (12, 7, LISTED - 3_000_000)
    assert told(listing(LISTED, LAST, files), LATE) == {(12, 7): 1}
    assert told(image(files), LATE) == {(12, 7): 2}


@pytest.mark.parametrize(
    ("first_ns", "last_ns", "clock"),
    [
        (LISTED, LAST + 1, "mono"),
        (FIRST - 1, LAST, "mono"),
        (LISTED - 2_000_000, LAST, "mono"),
        (LISTED, LAST, "local"),
    ],
    ids=["events end before", "events begin after", "made while listed", "another clock"],
)
def test_a_young_file_is_another_where_it_may_have_followed(first_ns, last_ns, clock):
    assert told(listing(first_ns, last_ns, (12, 7, LISTED - 3_000_000)), LATE, clock=clock) == {(12, 7): 2}


def test_what_a_listing_proves_holds_for_the_image_of_later():
    staging = Staging("test", {}, FIRST, LAST, clock="mono", realtime_offset_ns=OFFSET)
    file = (12, 7, LISTED - 3_000_000)
    by_image, by_listing = incarnations.combined(
        incarnations.numbered(None, image(file, (13, None, LAST)), LATE, staging, tracepoints.kinds(staging.fs_events)),
        incarnations.numbered(None, listing(LISTED, LAST, file), LATE, staging, tracepoints.kinds(staging.fs_events)),
    )
    assert by_image.rows() == [(DEV, 12, 7, 1), (DEV, 13, None, 0)]
    assert by_listing.rows() == [(DEV, 12, 7, 1)]


def test_after_a_loss_only_what_is_older_is_known():
    after = image((12, 7, MADE), (13, 8, FIRST - SECOND))
    assert told(after, TRACED, lost_events=1) == {(12, 7): 2, (13, 8): 0}


def test_the_same_generation_is_the_same_file_whatever_the_clock():
    after = image((13, 8, None), (12, 7, None))
    assert told(after, TRACED, before=image((13, 8, None), (12, 6, None)), offset=None) == {
        (13, 8): 0, (12, 6): 0, (12, 7): 2,
    }  # fmt: skip


def test_one_creation_alone_proves_no_clock():
    assert told(image((12, 7, MADE)), TRACED, offset=None) == {(12, 7): 2}
    two = image((12, 7, MADE), (14, 9, 161 * SECOND))  # they disagree: one of them, or both, are later files
    assert told(two, TRACED, offset=None) == {(12, 7): 2, (14, 9): 2}


MAPPED, FREED = {"event": "ext4_es_insert_extent"}, {"event": "ext4_free_blocks"}
EVICTED, MADE_FILE = {"event": "ext4_evict_inode", "nlink": 0}, {"event": "ext4_allocate_inode"}
ONE = lives((12, 1, None, None))
"""Without creations and deletions, all events of a number are of one incarnation."""
DURING, BEFORE, AFTER = 150 * SECOND, FIRST - SECOND, LAST + SECOND


@pytest.mark.parametrize(
    ("events", "traced", "born", "before", "number"),
    [
        ([], ONE, BEFORE, (), 1),
        ([], ONE, DURING, (), 2),
        ([], ONE, None, ((12, 7, None),), 1),
        ([], ONE, None, ((12, 6, None),), 2),
        ([(13, FREED)], ONE, DURING, (), 2),
        ([(13, EVICTED)], lives((12, 0, None, None)), DURING, (), 0),
        ([(13, EVICTED)], lives((12, 0, None, 120 * SECOND), (12, 1, None, None)), DURING, (), 1),
        ([(13, EVICTED)], lives((12, 0, None, 120 * SECOND), (12, 1, None, None)), AFTER, (), 2),
        ([(13, EVICTED)], lives((12, 0, None, 120 * SECOND)), DURING, (), 1),
        ([(13, EVICTED), (13, MADE_FILE)], lives((12, 0, None, None)), DURING, (), 1),
    ],
)
def test_the_only_file_of_a_number_is_known_without_its_creation(events, traced, born, before, number):
    """Deletions of other files show that the last file of number 12 lives on; freed blocks of others do not."""
    rows = [{"dev": DEV, "ino": ino, "ts_ns": DURING, **columns} for ino, columns in [(12, MAPPED), *events]]
    types = schema.table("fs_events").polars
    names = ("dev", "ino", "ts_ns", "event", "nlink")
    table = schema.complete(pl.DataFrame(rows, schema={name: types[name] for name in names}), "fs_events")
    found = told(image((12, 7, born)), traced, before=image(*before) if before else None, events=table)
    assert found[12, 7] == number


@settings(max_examples=200)
@given(st.integers(0, 1 << 32))
def test_a_file_in_the_journal_is_never_confused_with_another_of_its_number(seed):
    """One inode number is reused many times. The journal may have the generation and creation time of each file.

    That time is the previous clock tick, or an earlier one if a CPU was busy. Some files are older than the trace, some
    newer. The journal's files may also be in the image.
    """
    draw = random.Random(seed)
    tick = draw.choice([1_000_000, 4_000_000, 10_000_000])
    born, rows, files = FIRST - draw.randrange(SECOND), [], []
    for generation in range(draw.randrange(2, 30)):
        created = born // tick * tick - tick * draw.choice([0, 0, 0, 1])
        ended = born + int(10 ** draw.uniform(4, 9))
        is_traced = ended >= FIRST and born <= LAST
        if is_traced:
            rows.append((12, len(rows), born if born >= FIRST else None, ended if ended <= LAST else None))
        files.append((generation, created, len(rows) - 1 if is_traced else None))
        born = ended + int(10 ** draw.uniform(3, 7))
    traced = lives(*rows).with_columns(end_ns="deleted_ns")
    seen = image(*((12, generation, created) for generation, created, _ in files if draw.random() < 0.7))
    journal = Journal(
        commits=pl.DataFrame(), blocks=pl.DataFrame(), extents=schema.empty("extents"), files=seen.files,
        times=seen.times,
    )  # fmt: skip
    staging = Staging("test", {}, FIRST, LAST, clock="mono", realtime_offset_ns=OFFSET)
    imaged = schema.empty("files").select("dev", "ino", "generation", "incarnation")
    answer = journals.incarnations(journal, imaged, traced, staging, 0)
    true = {generation: number for generation, _, number in files}
    proven = answer.filter(pl.col("incarnation") < len(rows)).select("generation", "incarnation").rows()
    assert [(generation, number) for generation, number in proven if true[generation] != number] == []
    creations = [created for _, created, _ in files]
    alone = {
        generation
        for generation, created, number in files
        if number is not None
        and rows[number][2] is not None
        and generation in seen.files["generation"]
        and sum(abs(other - created) <= 2 * incarnations.LAG_NS for other in creations) == 1
    }
    assert alone <= {generation for generation, _ in proven}
