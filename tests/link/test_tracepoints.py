"""Test filesystem events: parsing from text, statements about blocks, and owners."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import readers
from support.blocks import DEV
from support.owned import all_owned

from androstep_analysis import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import timeline
from androstep_analysis.link.owner import handles

# ------------------------------------------------------------------------------------------------------------ text

LINES = {
    # Linux 4.x: flags unknown to the kernel's own printing, "flags" behind a write, pages instead of folios
    "ext4_es_lookup_extent_exit: dev 259,0 ino 2 found 1 [0/1) 1549 W0x10": {
        "ino": 2, "file_block": 0, "nr_blocks": 1, "block": 1549, "status": "W0x10",
    },
    "ext4_da_write_begin: dev 8,13 ino 5898483 pos 4096 len 12 flags 0": {
        "ino": 5898483, "offset_bytes": 4096, "nr_bytes": 12,
    },
    "writeback_dirty_page: bdi 8:0: ino=5898483 index=7": {"ino": 5898483, "page": 7},
    "ext4_direct_IO_enter: dev 8,13 ino 12 pos 8192 len 4096 rw 1": {"ino": 12, "offset_bytes": 8192, "nr_bytes": 4096},
    # Linux 6.18
    "ext4_es_insert_extent: dev 7,0 ino 60 es [0/1) mapped 6155 status W": {
        "ino": 60, "file_block": 0, "nr_blocks": 1, "block": 6155, "status": "W",
    },
    "ext4_es_insert_extent: dev 7,0 ino 60 es [3/9) mapped 18446743803717991120 status H": {
        "ino": 60, "file_block": 3, "nr_blocks": 9, "block": None, "status": "H",
    },
    "ext4_es_lookup_extent_exit: dev 7,0 ino 2 found 0 [0/0) 0 ": {"ino": 2, "nr_blocks": 0, "status": ""},
    "ext4_free_blocks:     dev 7,0 ino 64 mode 0100644 block 9216 count 3 flags VALIDATED|1ST_CLUSTER": {
        "ino": 64, "mode": 0o100644, "block": 9216, "nr_blocks": 3,
    },
    "ext4_allocate_inode:  dev 7,0 ino 60 dir 2 mode 040777": {"ino": 60, "parent": 2, "mode": 0o40777},
    "ext4_free_inode:      dev 7,0 ino 64 mode 0100644 uid 0 gid 0 blocks 0": {"ino": 64, "mode": 0o100644},
    "ext4_evict_inode:     dev 7,0 ino 64 nlink 0": {"ino": 64, "nlink": 0},
    "ext4_unlink_enter:    dev 7,0 ino 64 size 512 parent 62": {"ino": 64, "parent": 62},
    "iomap_dio_rw_begin:   dev 7:0 ino 0x9c size 0x0 offset 0x10000 length 0x2000 done_before 0x0 flags DIRECT": {
        "ino": 156, "offset_bytes": 0x10000, "nr_bytes": 0x2000,
    },
    "iomap_dio_complete:   dev 7:0 ino 0x9c size 0x12000 offset 0x12000 flags DIRECT|WRITE aio 1 error 0 ret -5": {
        "ino": 156, "offset_bytes": 0x12000, "nr_bytes": -5,
    },
    "iomap_dio_rw_queued:  dev 7:0 ino 0x9c size 0x0 offset 0x10000 length 0x2000": {"ino": 156},
}  # fmt: skip


@pytest.mark.parametrize("head", [" app one-77 [001]  12.000000345: ", " app one-77   (   70) [001] d..1. 12.000000: "])
def test_fields_of_every_event(tmp_path, head):
    rows = readers.read_bytes(tmp_path, "".join(f"{head}{line}\n" for line in LINES).encode()).fs_events
    for line, row in zip(LINES, rows.iter_rows(named=True), strict=True):
        assert row["event"] == line.partition(":")[0]
        assert (row["tid"], row["comm"]) == (77, "app one")
        assert {name: row[name] for name in LINES[line]} == LINES[line]
        major, minor = row["dev"] >> 20, row["dev"] & 0xFFFFF
        assert any(f"{major}{sign}{minor}" in line for sign in ",:")


def test_what_cannot_be_read_is_counted(tmp_path):
    lines = (
        b" a-1 [000] 1.000000: ext4_free_blocks: dev 7,0 ino x\n"
        b" a-1 [000] 1.000000: ext4_evict_inode: dev 7,0 ino 99999999999999999999 nlink 0\n"
        b" ext4_free_inode-1 [000] 2.000000: ext4_evict_inode: dev 7,0 ino 3 nlink 1\n"
    )
    staging = readers.read_bytes(tmp_path, lines)
    assert staging.fs_events["ino"].to_list() == [3]
    assert readers.losses(staging) == {"unreadable": 2}


# --------------------------------------------------------------------------------------------------------- extents


def fs_events(*rows):
    """Return table fs_events from (event, columns): one event each microsecond, by default on 7:0 by thread 1."""
    table = schema.table("fs_events")
    full = [
        {"ts_ns": at * 1000, "tid": 1, "comm": f"app{row.get('tid', 1)}", "dev": DEV, "event": event, **row}
        for at, (event, row) in enumerate(rows)
    ]
    return schema.conform(pl.DataFrame(full, schema=table.polars), "fs_events")


def insert(ino, file_block, block, nr_blocks, status="W"):
    return "ext4_es_insert_extent", {
        "ino": ino, "file_block": file_block, "block": block, "nr_blocks": nr_blocks, "status": status,
    }  # fmt: skip


def lives(events):
    return tracepoints.lifetimes(tracepoints.numbered(events).lazy())


MAPS = frozenset(name for groups in tracepoints.COMPLETE.values() for group in groups for name in group)
"""Recorded events with which every change of a map is visible."""


def extents(events, block_bytes, recorded=MAPS):
    numbered = tracepoints.numbered(events).lazy()
    return tracepoints.extents(tracepoints.statements(numbered, lives(events), block_bytes, recorded))


def allocate(ino, mode=0o100644):
    return "ext4_allocate_inode", {"ino": ino, "parent": 2, "mode": mode}


def test_a_reused_number_is_another_file():
    table = lives(
        fs_events(
            insert(12, 0, 100, 1), ("ext4_evict_inode", {"ino": 12, "nlink": 0}), allocate(12),
            ("ext4_evict_inode", {"ino": 12, "nlink": 1}), allocate(13, 0o40755), allocate(12, 0o120777),
        )
    )  # fmt: skip
    columns = ["ino", "incarnation", "created_ns", "deleted_ns", "end_ns", "block_type", "subtype"]
    assert table.select(columns).rows() == [
        (12, 0, None, 1000, 1000, "unknown", None),
        (12, 1, 2000, None, 5000, "data", None),
        (12, 2, 5000, None, None, "data", "symlink"),
        (13, 1, 4000, None, None, "directory", None),
    ]


def test_blocks_belong_to_a_file_until_they_are_freed_or_reused():
    events = fs_events(
        allocate(12), insert(12, 0, 100, 4), insert(12, 4, 0, 9, "H"), insert(12, 4, 2**52, 9, "D"),
        ("ext4_free_blocks", {"ino": 12, "block": 102, "nr_blocks": 1}), allocate(13), insert(13, 5, 102, 2, "U"),
        ("ext4_evict_inode", {"ino": 12, "nlink": 0}), ("ext4_es_cache_extent", {"ino": 99}),
    )  # fmt: skip
    held = timeline.succeeding(extents(events, {DEV: 4096}))
    assert held.with_columns(pl.col("sector", "nr_sectors") // 8).select(
        "sector", "nr_sectors", "block_type", "ino", pl.col("file_offset_bytes") // 4096, "valid_from_ns", "valid_to_ns"
    ).rows() == [
        (100, 2, "data", 12, 0, 1000, 7000),
        (102, 1, "data", 12, 2, 1000, 4000),
        (102, 1, "free", None, None, 4000, 6000),
        (102, 2, "data", 13, 5, 6000, None),
        (103, 1, "data", 12, 3, 1000, 6000),
    ]


LOOKED_UP = "ext4_es_lookup_extent_exit"
MISS = (LOOKED_UP, {"ino": 12, "file_block": 0, "block": 0, "nr_blocks": 0, "status": ""})
READ = ("ext4_es_cache_extent", {"ino": 12, "file_block": 9, "block": 109, "nr_blocks": 1, "status": "W"})


@pytest.mark.parametrize(
    ("also", "recorded", "until_ns"),
    [
        ([], (), 1000),
        ([MISS], (), 2000),
        ([(LOOKED_UP, {**MISS[1], "ino": 99})], (), None),
        ([MISS, READ], (), None),
        ([], {"ext4_es_cache_extent"}, None),
        ([], {LOOKED_UP}, None),
        ([("ext4_free_blocks", {"ino": 12, "block": 900, "nr_blocks": 1})], (), 1000),
    ],
    ids=["insertions", "a miss", "a miss of another", "read anew", "reads recorded", "look-ups recorded", "frees"],
)
def test_a_mapping_is_a_fact_if_all_events_that_end_it_are_recorded(also, recorded, until_ns):
    events = fs_events(allocate(12), insert(12, 0, 100, 4), *also)
    table = extents(events, {DEV: 4096}, recorded).filter(pl.col("sector") == 800)
    assert table.select(
        pl.when(pl.col("valid_to_ns") > 1000).then("valid_to_ns").otherwise(
            pl.when(pl.col("valid_to_ns").is_not_null()).then(1000)
        )
    ).item() == until_ns  # fmt: skip
    numbered = tracepoints.numbered(events).lazy()
    guessed = tracepoints.likely(tracepoints.statements(numbered, lives(events), {DEV: 4096}, recorded))
    assert (guessed.filter(pl.col("sector") == 800).height == 1) == (until_ns is not None)


def test_blocks_of_unknown_size_lie_nowhere():
    events = fs_events(allocate(12), insert(12, 0, 100, 4))
    assert extents(events, {}).is_empty()


@pytest.mark.parametrize(
    ("ends", "incarnations"), [([], [1, 1]), ([("ext4_evict_inode", {"ino": 12, "nlink": 0})], [0, 1])]
)
def test_without_creations_a_number_may_be_reused_after_its_deletion(ends, incarnations):
    events = tracepoints.numbered(fs_events(insert(12, 0, 100, 1), *ends, insert(12, 0, 200, 1)))
    assert events.filter(pl.col("block").is_not_null())["incarnation"].to_list() == incarnations


def test_ext4_drops_the_pages_of_a_file_between_its_eviction_and_the_end_of_its_number():
    evicted = ("ext4_evict_inode", {"ino": 12, "nlink": 0}), ("mm_filemap_delete_from_page_cache", {"ino": 12})
    freed = "ext4_free_inode", {"ino": 12, "mode": 0o40755}
    table = lives(fs_events(insert(12, 0, 100, 1), *evicted, freed, insert(12, 0, 200, 1)))
    assert table.select("incarnation", "block_type", "deleted_ns").rows() == [
        (0, "directory", 1000),
        (1, "unknown", None),
    ]


def test_a_parent_is_a_directory_only_while_it_bears_its_number():
    unlinked = "ext4_unlink_enter", {"ino": 50, "parent": 12}
    wrote_as = wrote(12, 0, 5)
    gone = "ext4_evict_inode", {"ino": 12, "nlink": 0}
    other = "ext4_evict_inode", {"ino": 99, "nlink": 0}
    for rows, want in (
        ((unlinked, wrote_as, gone, wrote_as), ["directory", "data"]),
        ((wrote_as, gone, wrote_as, unlinked), ["data", "directory"]),
        # Occurs as a parent before it occurs itself, and later only as a parent.
        ((wrote_as, gone, unlinked, insert(12, 0, 100, 1)), ["data", "directory"]),
        ((wrote_as, gone, unlinked), ["data"]),
        ((wrote_as, gone, unlinked, gone, wrote_as), ["data", "data"]),
        # Creations are recorded.
        ((unlinked, gone, allocate(12), wrote_as), ["directory", "data"]),
        ((wrote_as, gone, allocate(12, 0o40755), unlinked), ["data", "directory"]),
        # Neither creations nor deletions: it may have been a file at another time.
        ((wrote_as, unlinked), ["data"]),
    ):
        events = fs_events(*rows, *([other] if gone in rows else []))
        table = lives(events).filter(pl.col("ino") == 12)
        assert table["block_type"].to_list() == want, rows


def test_with_creations_recorded_a_number_without_one_is_the_file_from_before():
    events = fs_events(insert(12, 0, 100, 1), insert(12, 0, 200, 1))
    for recorded, incarnation in (("ext4_allocate_inode", 0), ("ext4_free_inode", 0), ("f2fs_new_inode", 1)):
        assert set(tracepoints.numbered(events, {recorded})["incarnation"]) == {incarnation}
    born = fs_events(insert(12, 0, 100, 1), allocate(12), insert(12, 0, 200, 1))
    assert tracepoints.numbered(born, {"ext4_allocate_inode"})["incarnation"].to_list() == [0, 1, 1]


def numbers(rows, recorded):
    """Return column `incarnation` of `rows`, computed row by row with the rules of `tracepoints.numbered`."""

    def is_birth(row):
        made = row["event"] == "f2fs_new_inode" and not row["error"]
        return row["event"] == "ext4_allocate_inode" or made

    def is_end(row):
        evicted = row["event"] in ("ext4_evict_inode", "f2fs_evict_inode") and row["nlink"] == 0
        return row["event"] == "ext4_free_inode" or evicted

    def tells(dev, kinds):  # also events that are no deletion: a failed one, or one with a remaining link
        filesystems = {name[:5] for name in kinds if name in recorded}
        return any(row["dev"] == dev and (row["event"] in kinds or row["event"][:5] in filesystems) for row in rows)

    devices = {row["dev"] for row in rows}
    has_creations = {dev: tells(dev, ("ext4_allocate_inode", "f2fs_new_inode")) for dev in devices}
    ends = ("ext4_free_inode", "ext4_evict_inode", "f2fs_evict_inode")
    has_neither = {dev: not has_creations[dev] and not tells(dev, ends) for dev in devices}
    own = {row["dev"] for row in rows if row["event"].startswith(("ext4_", "f2fs_"))}
    count, is_over = dict.fromkeys(((row["dev"], row["ino"]) for row in rows), 0), set()
    told = []
    for at, row in enumerate(rows):
        inode = row["dev"], row["ino"]
        later = (other["event"] for other in rows[at + 1 :] if (other["dev"], other["ino"]) == inode and is_end(other))
        is_freed_later = row["event"] != "ext4_free_inode" and next(later, None) == "ext4_free_inode"
        if has_creations[row["dev"]]:
            count[inode] += is_birth(row)
        elif is_end(row) and not is_freed_later:
            is_over.add(inode)
        elif row["event"] != "ext4_free_blocks":
            count[inode] += inode in is_over
            is_over.discard(inode)
        told.append(count[inode] + (row["dev"] in own and has_neither[row["dev"]]))
    return told


NUMBERED = (
    *("ext4_allocate_inode", "ext4_free_inode", "ext4_evict_inode", "ext4_free_blocks", "ext4_da_write_begin"),
    *("f2fs_new_inode", "f2fs_evict_inode", "writeback_dirty_folio", "bio_page"),
)


@pytest.mark.sanitized
@settings(max_examples=40)
@given(st.integers(0, 1 << 32))
def test_every_event_has_the_incarnation_that_the_events_before_it_make(seed):
    pick = random.Random(seed)
    names = pick.sample(NUMBERED, pick.randint(1, len(NUMBERED)))
    recorded = set(pick.sample(NUMBERED, pick.randint(0, 3)))
    inodes = [None, *range(12, 13 + pick.randint(0, 9))]
    events = fs_events(
        *((pick.choice(names), {
            "dev": pick.choice((DEV, DEV, DEV + 1, None)), "ino": pick.choice(inodes),
            "nlink": pick.choice((0, 1, None)), "error": pick.choice((0, -5, None)),
        }) for _ in range(pick.randint(1, 120)))
    )  # fmt: skip
    table = tracepoints.numbered(events, recorded)
    assert table.drop("incarnation").equals(events)
    assert table["incarnation"].to_list() == numbers(events.rows(named=True), recorded)


def test_a_map_that_never_changed_is_complete_where_its_changes_were_recorded():
    events = fs_events(wrote(12, 0, 5))
    inserted, read, freed = "ext4_es_insert_extent", "ext4_es_cache_extent", "ext4_free_blocks"
    whole = {inserted, read, freed}
    assert not tracepoints.maps_completely(events.lazy(), DEV)
    assert tracepoints.maps_completely(events.lazy(), DEV, whole)
    assert tracepoints.maps_completely(events.lazy(), DEV, {inserted, LOOKED_UP, freed})
    for name in whole:
        assert not tracepoints.maps_completely(events.lazy(), DEV, whole - {name}, "ext4")
    assert not tracepoints.maps_completely(events.lazy(), DEV, {"f2fs_submit_page_write"})
    only_read = events.clear().lazy()
    assert tracepoints.maps_completely(only_read, DEV, whole, "ext4")
    assert not tracepoints.maps_completely(only_read, DEV, whole, "f2fs")
    assert not tracepoints.maps_completely(only_read, DEV, whole)
    of_f2fs = {"f2fs_submit_folio_write", "f2fs_submit_page_bio", "f2fs_map_blocks"}
    assert tracepoints.maps_completely(only_read, DEV, of_f2fs, "f2fs")
    for name in of_f2fs:
        assert not tracepoints.maps_completely(only_read, DEV, of_f2fs - {name}, "f2fs")


@settings(max_examples=20)
@given(st.integers(0, 1 << 32))
def test_at_each_place_and_time_the_latest_statement_holds(seed):
    """The result is compared with a table of every sector at every time."""
    choose = random.Random(seed)
    rows, want = [], {}
    for at in range(30):
        sector, length = choose.randrange(20), choose.randrange(1, 8)
        ino, end = choose.choice([5, 6, None]), choose.choice([None, None, at + choose.randrange(8)])
        offset = None if ino is None else choose.choice([0, 512]) + 512 * sector
        rows.append(
            {"dev": DEV, "sector": sector, "nr_sectors": length, "block_type": "data" if ino else "free", "ino": ino,
             "file_offset_bytes": offset, "valid_from_ns": at, "valid_to_ns": end, "source": "tracepoint"}
        )  # fmt: skip
        for place in range(sector, sector + length):
            same = None if offset is None else offset + 512 * (place - sector)
            for time in range(at, 40):
                want[place, time] = (ino, same) if end is None or time < end else None
    table = pl.DataFrame(rows, schema=schema.table("extents").polars)
    got = {}
    for row in timeline.succeeding(table).iter_rows(named=True):
        for inside in range(row["nr_sectors"]):
            offset = None if row["ino"] is None else row["file_offset_bytes"] + 512 * inside
            for time in range(row["valid_from_ns"], row["valid_to_ns"] or 40):
                key = row["sector"] + inside, time
                assert key not in got
                got[key] = row["ino"], offset
    assert got == {key: value for key, value in want.items() if value is not None}


DISK, FIRST_PART, SECOND_PART, MAPPED = 8 << 20, 8 << 20 | 2, 8 << 20 | 3, 253 << 20


@pytest.mark.parametrize(
    ("parts", "dirtied_on", "sharing"),
    [
        ([FIRST_PART], [FIRST_PART, MAPPED], set()),
        ([FIRST_PART, DISK], [FIRST_PART, MAPPED], set()),
        ([DISK], [DISK, MAPPED], set()),
        ([FIRST_PART, MAPPED], [FIRST_PART, MAPPED], set()),
        ([FIRST_PART, SECOND_PART], [MAPPED], {FIRST_PART, SECOND_PART}),
    ],
    ids=["one", "one, and the table of partitions", "the whole disk", "one, and one of device-mapper", "several"],
)
def test_writeback_events_of_a_disk_are_of_the_only_filesystem_on_it(parts, dirtied_on, sharing):
    dirtied = "writeback_dirty_folio", {"ino": 12, "page": 0, "dev": DISK}
    wrote = "ext4_da_write_begin", {"ino": 12, "dev": parts[0], "offset_bytes": 0, "nr_bytes": 4096}
    above = dirtied[0], dirtied[1] | {"dev": MAPPED}
    events = fs_events(wrote, dirtied, above)
    disks = tracepoints.on_disks(events.lazy(), requests_of(parts))
    told = tracepoints.on_filesystems(events.lazy(), disks).collect()
    assert told.filter(pl.col("event") == dirtied[0])["dev"].to_list() == dirtied_on
    assert told.filter(pl.col("event") == wrote[0])["dev"].to_list() == [parts[0]]
    assert tracepoints.sharing(disks) == sharing
    each = tracepoints.on_each_filesystem(events.lazy(), disks).collect()
    assert each.filter(pl.col("event") == dirtied[0])["dev"].to_list() == [*sorted(sharing), *dirtied_on]
    assert each.filter(pl.col("event") == wrote[0])["dev"].to_list() == [parts[0]]


def test_a_filesystem_that_has_events_and_no_requests_may_be_on_a_disk_of_partitions():
    events = fs_events(*[("ext4_da_write_begin", {"ino": 12, "dev": dev}) for dev in (FIRST_PART, SECOND_PART)]).lazy()
    assert tracepoints.sharing(tracepoints.on_disks(events, requests_of([FIRST_PART]))) == {FIRST_PART, SECOND_PART}
    assert tracepoints.sharing(tracepoints.on_disks(events, requests_of([DISK]))) == set()


def requests_of(parts):
    types = {"dev": pl.UInt32, "part_dev": pl.UInt32}
    return pl.LazyFrame({"dev": [DISK] * len(parts), "part_dev": parts}, schema=types)


# ------------------------------------------------------------------------------------------------------------ F2FS


def submit(ino, page, block, old=0, kind="DATA", event="f2fs_submit_page_write"):
    return event, {"ino": ino, "file_block": page, "block": block, "old_block": old, "status": kind, "nr_blocks": 1}


def mapped(ino, page, block, count, error=0):
    return "f2fs_map_blocks", {"ino": ino, "file_block": page, "block": block, "nr_blocks": count, "error": error}


def born(ino):
    return "f2fs_new_inode", {"ino": ino, "error": 0}


def held(events):
    rows = timeline.succeeding(extents(events, {DEV: 4096}))
    return rows.with_columns(pl.col("sector", "nr_sectors") // 8).select(
        "sector", "nr_sectors", "block_type", "subtype", "ino", pl.col("file_offset_bytes") // 4096, "valid_from_ns",
        "valid_to_ns",
    ).rows()  # fmt: skip


def test_a_block_of_f2fs_belongs_to_its_file_until_it_is_rewritten_or_left():
    events = fs_events(
        born(12), ("f2fs_write_begin", {"ino": 12}), submit(12, 3, 100), submit(12, 3, 101, old=100),
        born(13), ("f2fs_write_begin", {"ino": 13}), submit(13, 0, 100), submit(13, 7, 100, old=100),
    )  # fmt: skip
    assert held(events) == [
        (100, 1, "data", None, 12, 3, 2000, 3000), (100, 1, "free", None, None, None, 3000, 6000),
        (100, 1, "data", None, 13, 0, 6000, 7000), (100, 1, "data", None, 13, 7, 7000, None),
        (101, 1, "data", None, 12, 3, 3000, None),
    ]  # fmt: skip


def test_f2fs_distinguishes_nodes_and_static_areas_from_data():
    events = fs_events(
        submit(1, 12, 200, kind="NODE"), submit(2, 300, 300, kind="META"), submit(1, 12, 201, old=200, kind="NODE"),
        ("f2fs_evict_inode", {"ino": 12, "mode": 0o40755, "nlink": 1}),
        submit(12, 0, 400, event="f2fs_submit_folio_bio"),
    )  # fmt: skip
    assert held(events) == [
        (200, 1, "metadata", "node", None, None, 0, 2000), (200, 1, "free", None, None, None, 2000, None),
        (201, 1, "metadata", "node", None, None, 2000, None), (300, 1, "metadata", None, None, None, 1000, None),
        (400, 1, "directory", None, 12, 0, 4000, None),
    ]  # fmt: skip


def test_f2fs_maps_blocks_for_direct_and_read_but_no_holes_and_no_failures():
    hole, new, compressed = 0, 0xFFFFFFFF, 0xFFFFFFFE
    events = fs_events(
        ("f2fs_direct_IO_enter", {"ino": 12}), mapped(12, 5, 500, 3), mapped(12, 8, hole, 1), mapped(12, 9, new, 1),
        mapped(12, 9, compressed, 1), mapped(12, 10, 600, 1, error=-2), mapped(12, 11, 700, 0), mapped(12, -1, 800, 1),
    )  # fmt: skip
    assert held(events) == [(500, 3, "data", None, 12, 5, 1000, None)]


def test_the_block_count_of_a_direct_write_proves_only_its_first_block():
    """Another file's pages got the blocks between. The write then maps each contiguous run of blocks."""
    events = fs_events(
        born(12), born(13), ("f2fs_direct_IO_enter", {"ino": 12}), ("f2fs_write_begin", {"ino": 13}),
        submit(13, 0, 502), submit(13, 1, 503),
        mapped(12, 5, 500, 6), mapped(12, 5, 500, 2), mapped(12, 7, 504, 4),
    )  # fmt: skip
    said = [row[:6] for row in held(events) if row[-1] is None]
    assert said == [
        (500, 1, "data", None, 12, 5), (501, 1, "data", None, 12, 6), (502, 1, "data", None, 13, 0),
        (503, 1, "data", None, 13, 1), (504, 4, "data", None, 12, 7),
    ]  # fmt: skip
    whole = fs_events(born(12), ("f2fs_direct_IO_enter", {"ino": 12}), mapped(12, 5, 500, 6), mapped(12, 5, 500, 6))
    assert {row[:6] for row in held(whole)} == {(500, 6, "data", None, 12, 5)}


def test_a_number_of_f2fs_is_another_file_only_if_its_creation_succeeded():
    events = fs_events(born(12), ("f2fs_new_inode", {"ino": 12, "error": -28}), born(12))
    table = lives(events)
    assert table.select("ino", "incarnation", "created_ns").rows() == [(12, 1, 0), (12, 2, 2000)]


def test_inodes_that_may_be_quota_files_of_f2fs_are_not_data_without_further_evidence():
    """Quota files are written through the cache like other files. The inode number alone does not identify them."""
    wrote = [("f2fs_write_begin", {"ino": ino}) for ino in (4, 5, 6, 7)]
    events = fs_events(
        born(5), *wrote, ("f2fs_evict_inode", {"ino": 6, "mode": 0o40755, "nlink": 1}),
        *(submit(ino, 0, 100 * ino) for ino in (4, 5, 6, 7)),
    )  # fmt: skip
    said = [(block_type, ino) for _, _, block_type, _, ino, *_ in held(events)]
    assert said == [("unknown", 4), ("data", 5), ("directory", 6), ("data", 7)]
    looked = "f2fs_lookup_end", {"ino": 4, "parent": 3, "name": "file"}
    for opened in (looked, ("f2fs_direct_IO_enter", {"ino": 4}), ("f2fs_vm_page_mkwrite", {"ino": 4})):
        events = fs_events(opened, ("f2fs_write_begin", {"ino": 4}))
        assert lives(events).filter(pl.col("ino") == 4)["block_type"].to_list() == ["data"]
    on_ext4 = fs_events(("ext4_write_begin", {"ino": 12}), ("ext4_write_begin", {"ino": 4}))
    assert lives(on_ext4)["block_type"].to_list() == ["unknown", "data"]


def test_paths_at_reads_and_writes_are_of_the_only_filesystem_they_can_be_of():
    write = ("f2fs_datawrite_start", {"ino": 12, "name": "/a", "dev": None})
    other = ("f2fs_write_begin", {"ino": 12, "dev": DEV + 1})
    assert tracepoints.on_filesystems(fs_events(born(12), write).lazy(), {}).collect()["dev"].to_list() == [DEV, DEV]
    assert tracepoints.on_filesystems(fs_events(born(12), write, other).lazy(), {}).collect()["dev"][1] is None


# ---------------------------------------------------------------------------------------------------------- owners


def pieces(*rows):
    """Return pieces of data writes (time, ino, first file block, blocks, submitting thread)."""
    types = {name: dtype for table in ("requests", "io") for name, dtype in schema.table(table).polars.items()}
    full = [
        {"request_id": at, "part_dev": DEV, "dev": DEV, "sector": 8 * block, "part_sector": 8 * block, "op": "write",
         "nr_sectors": 8 * count, "block_type": "data", "ino": ino, "file_offset_bytes": 4096 * block, "time": time,
         "queue_ns": time, "map_source": "tracepoint", "since_ns": 0, "meta": False, "submit_tid": tid,
         "submit_comm": f"app{tid}" if tid else "kworker/u8:1"}
        for at, (time, ino, block, count, tid) in enumerate(rows)
    ]  # fmt: skip
    schema_of = {name: types.get(name, pl.Int64) for name in full[0]} | {"submit_pid": pl.Int32}
    return pl.DataFrame(full, schema=schema_of)


def answer(table):
    return table.sort("time", "sector").select(
        "time", pl.col("sector") // 8, pl.col("nr_sectors") // 8, "owner_comm", "owner_count", "owner_via"
    ).rows()  # fmt: skip


def wrote(ino, block, tid, blocks=1):
    return "ext4_da_write_begin", {
        "ino": ino, "offset_bytes": block * 4096, "nr_bytes": blocks * 4096, "tid": tid,
    }  # fmt: skip


EVENTS = frozenset({
    *tracepoints.WRITES, *tracepoints.DIRTIED, *tracepoints.STORES, *tracepoints.DIRECT, *tracepoints.INVALIDATED,
    tracepoints.CACHED, *tracepoints.CREATIONS, *tracepoints.EVICTIONS,
})  # fmt: skip
"""The events that a recorder enables on a kernel with all events about owners."""


def owned(written, events, lost_events=0, recorded=EVENTS):
    lost = Losses(lost_events=lost_events)
    return all_owned(written, events, schema.empty("tasks"), {DEV: 4096}, lost, recorded, page_bytes=4096)


def test_a_piece_is_split_where_its_owner_changes():
    events = fs_events(
        wrote(12, 0, 1), dirty(0, 1), wrote(12, 1, 1), dirty(1, 1), wrote(12, 1, 2), dirty(2, 3), direct(0, 5)
    )  # fmt: skip
    got = owned(pieces((9000, 12, 0, 4, 0), (9999, 12, 0, 1, 5)), events)
    assert answer(got) == [
        (9000, 0, 1, "app1", 1, "write_begin"), (9000, 1, 1, "app2", 2, "write_begin"),
        (9000, 2, 1, "app3", None, "dirty_folio"), (9000, 3, 1, None, 0, "unknown"),
        (9999, 0, 1, "app5", 1, "submitter"),
    ]  # fmt: skip


def direct(block, tid, ino=12):
    return "iomap_dio_rw_begin", {"ino": ino, "offset_bytes": block * 4096, "nr_bytes": 4096, "tid": tid}


def dirty(page, tid, ino=12):
    return "writeback_dirty_folio", {"ino": ino, "page": page, "tid": tid}


def test_a_store_to_an_equal_inode_number_on_another_filesystem_is_not_a_write():
    """A thread alternately writes on one filesystem and stores on the other; another thread stored on the first.

    Stores through a memory map have no events here. Writeback records only the disk and the inode number. Page 0 was
    written and dirtied by one process alone.
    """
    there = {"dev": SECOND_PART}
    on_first = [(name, row | {"dev": FIRST_PART}) for name, row in (wrote(12, 0, 7), wrote(12, 0, 7))]
    by_other, first, of_second = ((name, row | {"dev": DISK}) for name, row in (dirty(7, 8), dirty(0, 7), dirty(7, 7)))
    events = fs_events(by_other, on_first[0], first, on_first[1], of_second, ("jbd2_start_commit", there))
    disks = tracepoints.on_disks(events.lazy(), requests_of([FIRST_PART, SECOND_PART]))
    placed = tracepoints.on_filesystems(events.lazy(), disks).collect()
    out = pieces((8000, 12, 0, 1, 0), (9000, 12, 7, 1, 0)).with_columns(part_dev=pl.lit(FIRST_PART, pl.UInt32))
    recorded = EVENTS.difference(tracepoints.STORES)
    got = all_owned(
        out, placed, schema.empty("tasks"), {FIRST_PART: 4096, SECOND_PART: 4096}, None, recorded,
        page_bytes=4096, sharing=tracepoints.sharing(disks),
        page_events=tracepoints.on_each_filesystem(events.lazy(), disks).collect(),
    )  # fmt: skip
    assert answer(got) == [(8000, 0, 1, "app7", None, "write_begin"), (9000, 7, 1, None, 0, "unknown")]


def test_what_was_written_before_a_page_became_dirty_may_be_out_where_a_write_has_no_place():
    events = fs_events(wrote(12, 0, 1), wrote(12, 0, 2), dirty(0, 2), ("ext4_evict_inode", {"ino": 9}))
    out = pieces((9000, 12, 0, 1, 5))
    lost = pieces((1500, 12, 7, 1, 5)).with_columns(
        block_type=pl.lit("unknown").cast(schema.enum("io", "block_type")), ino=pl.lit(None, pl.Int64)
    )
    got = owned(out, events)
    assert answer(got) == [(9000, 0, 1, "app2", None, "write_begin")]
    got = owned(pl.concat([lost, out]), events)
    assert answer(got) == [(1500, 7, 1, "app5", 1, "inferred"), (9000, 0, 1, "app2", None, "inferred")]
    of_inode = lost.with_columns(ino=pl.lit(4, pl.Int64))
    assert answer(owned(pl.concat([of_inode, out]), events))[1] == (9000, 0, 1, "app2", None, "write_begin")


APP1, APP2 = ("app1", 1, "write_begin"), ("app2", 1, "write_begin")
LIKELY_2, LIKELY_3 = ("app2", None, "inferred"), ("app3", None, "inferred")


@pytest.mark.parametrize(
    ("steps", "owners"),
    [
        ([wrote(12, 0, 1), dirty(0, 1), wrote(12, 0, 2)], [("app2", 2, "write_begin")]),
        ([wrote(12, 0, 1), dirty(0, 1), wrote(12, 0, 2), dirty(0, 2)], [LIKELY_2]),
        ([wrote(12, 0, 1), dirty(0, 1), wrote(12, 0, 1), dirty(0, 1)], [APP1]),
        ([wrote(12, 0, 1), dirty(0, 1), dirty(0, 2)], [("app1", None, "write_begin")]),
        (
            [wrote(12, 0, 1), dirty(0, 1), wrote(12, 0, 2), dirty(0, 2), None, wrote(12, 0, 3), dirty(0, 3)],
            [LIKELY_2, LIKELY_3],
        ),
        ([wrote(12, 0, 1), dirty(0, 1), None, wrote(12, 0, 2), dirty(0, 2)], [APP1, APP2]),
    ],
    ids=["dirty once", "dirty again", "by one", "not written out", "dirty at the end of the turn before", "in turns"],
)
def test_the_version_of_a_page_redirtied_in_flight_is_unclear(steps, owners):
    """If the filesystem encrypts in memory, the bio carries the earlier version, else the current page."""
    evicted = "ext4_evict_inode", {"ino": 12}
    events = fs_events(evicted, *(("ext4_evict_inode", {"ino": 9}) if step is None else step for step in steps))
    times = [events["ts_ns"][1 + at] for at, step in enumerate(steps) if step is None]
    got = owned(pieces(*((time, 12, 0, 1, 5) for time in (*times, 99_000))), events)
    assert [row[3:] for row in answer(got)] == owners


@pytest.mark.parametrize(
    ("disk", "handed_ns", "via"),
    [((8 << 20), None, "inferred"), ((8 << 20), 9500, "write_begin"), (DEV + 1, None, "write_begin")],
    ids=["from device-mapper", "and seen there", "from a partition"],
)
def test_the_thread_that_passes_a_bio_on_does_not_show_a_direct_write(disk, handed_ns, via):
    events = fs_events(wrote(12, 0, 1), dirty(0, 1), direct(0, 2))
    out = pieces((9000, 12, 0, 1, 0)).with_columns(dev=pl.lit(disk, pl.UInt32), submit_tid=pl.lit(90, pl.Int32))
    out = out.with_columns(queue_ns=pl.lit(handed_ns or 9000, pl.Int64))
    got = owned(out, events, recorded=EVENTS.difference(tracepoints.INVALIDATED))
    assert [(row[3], row[5]) for row in answer(got)] == [("app1", via)]


@pytest.mark.parametrize(
    ("tid", "queue_ns", "owner"),
    [(2, 9000, ("app1", None, "inferred")), (1, 9000, APP1), (2, 2500, APP1)],
    ids=["another", "the same", "after the device below got it"],
)
def test_what_is_changed_on_its_way_through_a_device_above_is_only_inferred(tid, queue_ns, owner):
    evicted = "ext4_evict_inode", {"ino": 12}
    events = fs_events(evicted, wrote(12, 0, 1), dirty(0, 1), wrote(12, 0, tid), dirty(0, tid))
    out = pieces((events["ts_ns"][2] + 1, 12, 0, 1, 1)).with_columns(queue_ns=pl.lit(queue_ns, pl.Int64))
    assert [row[3:] for row in answer(owned(out, events))] == [owner]


LEFT_DIRTY = "writeback_dirty_folio", {"ino": 12, "page": 0, "tid": 90, "comm": "kworker/u4:1"}


@pytest.mark.parametrize(
    ("touches", "said"),
    [
        ([dirty(0, 3), LEFT_DIRTY], ("app3", None, "dirty_folio")),
        ([wrote(12, 0, 1), dirty(0, 1), LEFT_DIRTY], ("app1", 1, "write_begin")),
        ([LEFT_DIRTY], (None, 0, "unknown")),
        ([dirty(0, 3), dirty(0, 4)], ("app4", None, "inferred")),
    ],
    ids=["a store", "a write", "nobody", "one of two"],
)
def test_who_leaves_a_page_dirty_did_not_make_it(touches, said):
    events = fs_events(*touches, ("ext4_evict_inode", {"ino": 9}))
    got = owned(pieces((9000, 12, 0, 1, 5)), events)
    assert answer(got) == [(9000, 0, 1, *said)]


def test_what_is_written_out_is_not_made_again_by_who_leaves_it_dirty():
    events = fs_events(dirty(0, 3), LEFT_DIRTY, ("ext4_evict_inode", {"ino": 9}))
    early, out = pieces((500, 12, 0, 1, 5)), pieces((9000, 12, 0, 1, 5))
    got = owned(pl.concat([early, out]), events)
    assert answer(got) == [(500, 0, 1, "app3", None, "dirty_folio"), (9000, 0, 1, None, 0, "unknown")]
    nowhere = pl.lit("unknown").cast(schema.enum("io", "block_type"))
    lost = early.with_columns(block_type=nowhere, ino=pl.lit(None, pl.Int64))
    got = owned(pl.concat([lost, out]), events)
    assert answer(got) == [(500, 0, 1, "app5", 1, "inferred"), (9000, 0, 1, "app3", None, "inferred")]


def test_a_block_of_no_recorded_writer_is_certainly_its_submitters_only_by_a_direct_write():
    """The page may have been dirty before the recording, and an fsync also writes back pages of other processes."""
    out = pieces((5500, 12, 4, 1, 5))
    wrote_other, evicted = (wrote(12, 0, 1), dirty(0, 1)), ("ext4_evict_inode", {"ino": 12})
    assert answer(owned(out, fs_events(*wrote_other))) == [(5500, 4, 1, "app5", 1, "inferred")]
    mine, other, later = direct(4, 5), direct(4, 6), [*[wrote(13, 0, 1)] * 4, direct(4, 5)]
    assert answer(owned(out, fs_events(*wrote_other, mine))) == [(5500, 4, 1, "app5", 1, "submitter")]
    assert answer(owned(out, fs_events(*wrote_other, other))) == [(5500, 4, 1, "app5", 1, "inferred")]
    assert answer(owned(out, fs_events(*wrote_other, *later))) == [(5500, 4, 1, "app5", 1, "inferred")]
    no_direct = EVENTS.difference(tracepoints.DIRECT)
    got = owned(out, fs_events(evicted, *wrote_other), recorded=no_direct)
    assert answer(got) == [(5500, 4, 1, "app5", 1, "submitter")]
    got = owned(out, fs_events(*wrote_other), recorded=no_direct)
    assert answer(got) == [(5500, 4, 1, "app5", 1, "inferred")]


def test_a_direct_write_follows_what_its_thread_first_writes_out():
    events = fs_events(wrote(13, 0, 1), direct(0, 5))
    flushed, written, read = (pieces((time, 12, 0, 1, 5)) for time in (2500, 3500, 3500))
    read = read.with_columns(op=pl.lit("read").cast(read["op"].dtype))
    assert [row[3:] for row in answer(owned(pl.concat([flushed, written]), events))] == [
        ("app5", 1, "inferred"), ("app5", 1, "submitter"),
    ]  # fmt: skip
    assert answer(owned(pl.concat([flushed, read]), events))[0][3:] == ("app5", 1, "inferred")


ADDED = ("mm_filemap_add_to_page_cache", {"ino": 12, "page": 0, "tid": 2})
CUT = ("ext4_invalidate_folio", {"ino": 12, "page": 0, "offset_bytes": 0, "nr_bytes": 4096, "tid": 2})
STORED = ("page_mkwrite", {"ino": 12, "page": 0, "tid": 2})


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ([wrote(12, 0, 2)], ("app2", 2, "write_begin")),
        ([STORED], ("app1", 2, "write_begin")),
        ([CUT, wrote(12, 0, 2), ADDED, dirty(0, 2)], ("app2", 1, "write_begin")),
        ([CUT, ADDED, STORED, dirty(0, 2)], ("app2", None, "dirty_folio")),
        ([ADDED, dirty(0, 2)], ("app2", None, "dirty_folio")),
        ([CUT, STORED], ("app2", None, "dirty_folio")),
        ([CUT, direct(0, 5)], ("app5", 1, "submitter")),
        ([ADDED], ("app5", 1, "inferred")),
    ],
    ids=["write", "store", "dropped, write", "dropped, store", "added, store", "cut, store", "dropped, direct", "read"],
)
def test_what_was_dropped_is_not_written_out(then, said):
    events = fs_events(wrote(12, 0, 1), dirty(0, 1), *then)
    assert answer(owned(pieces((9000, 12, 0, 1, 5)), events)) == [(9000, 0, 1, *said)]


@pytest.mark.parametrize(
    ("address", "vias"),
    [(None, [(0, 8, "inferred")]), (7 * 4096 + 2050, [(0, 4, "inferred"), (4, 2, "dirty_folio"), (6, 2, "inferred")])],
    ids=["not told", "told"],
)
def test_where_a_page_has_several_blocks_the_address_tells_the_one_that_was_stored_to(address, vias):
    stored = STORED[0], STORED[1] | {"offset_bytes": address}
    events = fs_events(wrote(12, 0, 1), dirty(0, 1), CUT, ADDED, stored, dirty(0, 2))
    no_tasks = schema.empty("tasks")
    got = all_owned(pieces((9000, 12, 0, 1, 5)), events, no_tasks, {DEV: 1024}, None, EVENTS, page_bytes=4096)
    assert got.sort("sector").select("sector", "nr_sectors", "owner_via").rows() == vias
    assert set(got["owner_comm"]) == {"app2"}


def test_owner_count_is_null_if_stores_are_not_recorded():
    events = fs_events(wrote(12, 0, 1), dirty(0, 1))
    got = owned(pieces((9000, 12, 0, 1, 5)), events, recorded=EVENTS.difference(tracepoints.STORES))
    assert answer(got) == [(9000, 0, 1, "app1", None, "write_begin")]


def test_data_that_carries_a_page_is_not_its_submitters():
    page = ("bio_page", {"ino": 12, "page": 0, "sector": 0, "nr_bytes": 4096, "bio_dev": DEV, "tid": 5})
    events = fs_events(page, dirty(9, 1))
    got = all_owned(
        pieces((1500, 12, 0, 1, 5), (2500, 12, 4, 1, 5)), events, schema.empty("tasks"), {DEV: 4096}, page_bytes=4096
    )
    assert answer(got) == [(1500, 0, 1, "app5", 1, "inferred"), (2500, 4, 1, "app5", 1, "submitter")]


def test_without_events_about_writers_the_submitter_is_inferred():
    got = all_owned(pieces((1500, 12, 0, 1, 5)), fs_events(), schema.empty("tasks"), {DEV: 4096}, page_bytes=4096)
    assert answer(got) == [(1500, 0, 1, "app5", 1, "inferred")]


@pytest.mark.parametrize("map_source", ["tracepoint", "image", "inferred"])
@pytest.mark.parametrize("block_type", ["metadata", "directory"])
def test_metadata_may_be_of_others_than_the_process_that_writes_it_back(block_type, map_source):
    """Of three processes, only the last two change metadata; sync writes back what they changed."""
    events = fs_events(wrote(13, 0, 7), handle(6, 1, 2), handle(6, 2, 1), handle(6, 5, 0))
    kind = pl.lit(block_type).cast(schema.enum("io", "block_type"))
    written = pieces((1500, 12, 0, 1, 5), (1600, 12, 1, 1, 2), (1700, 12, 2, 1, 7)).with_columns(
        block_type=kind, map_source=pl.lit(map_source), meta=pl.lit(True)
    )
    assert answer(owned(written, events)) == [
        (1500, 0, 1, None, 0, "unknown"), (1600, 1, 1, "app2", 1, "inferred"), (1700, 2, 1, None, 0, "unknown"),
    ]  # fmt: skip
    names = {row[3:] for row in answer(owned(written, events, lost_events=1))}
    assert names == {("app5", 1, "inferred"), ("app2", 1, "inferred"), ("app7", 1, "inferred")}
    without_flag = owned(written.with_columns(meta=pl.lit(False)), events)  # as mkfs writes
    assert {row[3:] for row in answer(without_flag)} == names
    read = written.with_columns(op=pl.lit("read").cast(schema.enum("io", "op")))
    assert set(owned(read, events)["owner_via"]) == {"submitter"}


def test_what_is_only_guessed_to_be_metadata_is_not_its_submitters():
    metadata = pl.lit("metadata").cast(schema.enum("io", "block_type"))
    guess = pieces((1500, 12, 0, 1, 5)).with_columns(block_type=metadata, map_source=pl.lit("inferred"))
    assert answer(owned(guess, fs_events())) == [(1500, 0, 1, "app5", 1, "inferred")]
    assert answer(owned(guess, fs_events(), recorded=())) == [(1500, 0, 1, "app5", 1, "inferred")]
    marked = guess.with_columns(meta=pl.lit(True))
    assert answer(owned(marked, fs_events())) == [(1500, 0, 1, "app5", 1, "inferred")]
    certain = marked.with_columns(map_source=pl.lit("tracepoint"))
    assert answer(owned(certain, fs_events())) == [(1500, 0, 1, "app5", 1, "inferred")]


def test_what_the_journal_thread_writes_as_metadata_while_it_commits_is_the_journal():
    unknown = pl.lit("unknown").cast(schema.enum("io", "block_type"))
    own = ("subtype", "incarnation", "path", "file_type", "package")
    written = journal_pieces(1500, 9000).with_columns(
        *(pl.lit(None).alias(name) for name in own), block_type=unknown, meta=pl.lit(True), map_source=pl.lit(None)
    )
    types = {name: dtype for name, dtype in schema.table("io").polars.items() if name in written.columns}
    events = fs_events(handle(7, 1, 2), commit("start", 7), commit("end", 7))
    got = handles.mark_journal_blocks(written.cast(types), handles.commits(events.lazy())).sort("time")
    assert got.select("block_type", "map_source").rows() == [("journal", "context"), ("unknown", None)]


def test_after_a_loss_what_one_event_says_alone_is_inferred():
    events = fs_events(wrote(12, 0, 1), dirty(0, 1))
    got = owned(pieces((9000, 12, 0, 2, 0), (9500, 12, 0, 1, 5)), events, lost_events=1)
    assert answer(got)[:2] == [(9000, 0, 1, "app1", None, "inferred"), (9000, 1, 1, None, 0, "unknown")]
    assert got.sort("time", "sector")["map_source"].to_list()[:2] == ["tracepoint", "inferred"]
    for_others = owned(pieces((9000, 12, 0, 1, 5)), events, lost_events=1)
    assert answer(for_others) == [(9000, 0, 1, "app1", None, "inferred")]  # it may have been dropped and written again


def test_one_event_dirties_all_pages_of_a_folio():
    cached = ("mm_filemap_add_to_page_cache", {"ino": 12, "page": 4, "page_order": 2, "tid": 8})
    smaller = ("mm_filemap_add_to_page_cache", {"ino": 12, "page": 4, "page_order": 0, "tid": 8})
    got = owned(pieces((1500, 12, 3, 6, 5)), fs_events(cached, dirty(4, 3), smaller))
    assert answer(got) == [
        (1500, 3, 1, "app5", 1, "inferred"), (1500, 4, 4, "app3", None, "inferred"),
        (1500, 8, 1, "app5", 1, "inferred"),
    ]  # fmt: skip
    again = owned(pieces((9000, 12, 4, 2, 5)), fs_events(wrote(11, 0, 9), cached, smaller, dirty(4, 3)))
    # The event may have been about a larger folio from before the recording.
    assert answer(again) == [(9000, 4, 1, "app3", None, "dirty_folio"), (9000, 5, 1, "app5", 1, "inferred")]
    # Without an own write_begin event the filesystem may be FAT, on which a page has several blocks.
    of_fat = owned(pieces((9000, 12, 4, 2, 5)), fs_events(cached, smaller, dirty(4, 3)))
    assert answer(of_fat)[0] == (9000, 4, 1, "app3", None, "inferred")
    written = owned(pieces((9000, 12, 4, 2, 5)), fs_events(cached, wrote(12, 4, 3), dirty(4, 3)))
    assert answer(written) == [(9000, 4, 1, "app3", 1, "write_begin"), (9000, 5, 1, "app5", 1, "inferred")]


def test_an_evicted_inode_of_f2fs_leaves_no_writers():
    events = fs_events(
        ("f2fs_write_begin", {"ino": 12, "offset_bytes": 0, "nr_bytes": 9000, "tid": 1}),
        ("f2fs_evict_inode", {"ino": 12, "nlink": 0}), born(12),
        ("f2fs_write_begin", {"ino": 12, "offset_bytes": 4096, "nr_bytes": 1, "tid": 2}), dirty(1, 2),
    )  # fmt: skip
    got = owned(pieces((9000, 12, 0, 2, 0)), events)
    assert answer(got) == [(9000, 0, 1, None, 0, "unknown"), (9000, 1, 1, "app2", 1, "write_begin")]


@pytest.mark.parametrize("comm", ["f2fs_ckpt-254:0", "f2fs_gc-8:3", "jbd2/sda1-8"])
def test_filesystem_threads_own_pages_that_no_process_dirtied(comm):
    got = all_owned(
        pieces((9000, 12, 0, 1, 5)).with_columns(submit_comm=pl.lit(comm)),
        fs_events(),
        schema.empty("tasks"),
        {DEV: 4096},
        page_bytes=4096,
    )
    assert got.select("owner_pid", "owner_comm", "owner_via").row(0) == (None, comm, "filesystem")


def journal_pieces(*times):
    return pieces(*((time, 8, 0, 1, 99) for time in times)).with_columns(
        block_type=pl.lit("journal").cast(schema.enum("extents", "block_type")), submit_comm=pl.lit("jbd2/vda-8")
    )


def handle(transaction, tid, dirtied):
    return "jbd2_handle_stats", {"transaction": transaction, "tid": tid, "nr_blocks": dirtied}


def commit(event, transaction, tid=99):
    return f"jbd2_{event}_commit", {"transaction": transaction, "tid": tid, "comm": "jbd2/vda-8"}


def test_a_journal_block_belongs_to_the_handles_of_the_transaction_that_is_committed():
    events = fs_events(
        handle(6, 1, 9), handle(7, 1, 2), handle(7, 2, 1), handle(7, 3, 0), commit("start", 7), handle(8, 3, 1),
        commit("end", 7), commit("start", 8), commit("end", 8), commit("start", 6), commit("end", 6),
    )  # fmt: skip
    got = all_owned(
        journal_pieces(4500, 5500, 6500, 7500, 9500), events, schema.empty("tasks"), {DEV: 4096}, page_bytes=4096
    )
    assert answer(got) == [
        (4500, 0, 1, "app2", 2, "handle"), (5500, 0, 1, "app2", 2, "handle"),
        (6500, 0, 1, "jbd2/vda-8", 0, "filesystem"),  # between two commits
        (7500, 0, 1, "app3", 1, "handle"),
        (9500, 0, 1, "jbd2/vda-8", 0, "filesystem"),  # the first transaction may have begun before the trace
    ]  # fmt: skip


def test_after_a_loss_no_handle_is_counted():
    events = fs_events(handle(6, 1, 9), handle(7, 1, 2), commit("start", 7), commit("end", 7))
    got = owned(journal_pieces(2500), events, lost_events=1)
    assert got["owner_via"].to_list() == ["filesystem"]
