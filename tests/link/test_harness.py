"""Compare the attribution of every block that a workload with known content wrote, on every filesystem.

tests/harness records on this machine (ext4, needs root) and in virtual machines without acceleration.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from harness import content, devlog, guest, judge, layout, matching, oplog, reads, recordings
from support import truth

RIGHT = {"ext4": 0.999, "f2fs": 0.999, "vfat": 0.99, "exfat": 0.99}
"""Share of the blocks that must be right with the events and the image before, without other evidence."""

INFERRED = ("vfat", "exfat")
"""Filesystems on which a page has several blocks and no event shows which of them changed. Most owners are inferred
correctly, so that only a share of `OWNED_FOR_CERTAIN` must be facts."""

OWNED_FOR_CERTAIN = 0.6

DROPPED = "dropped/"
"""Files with dropped pages (roles_drops.c)."""

OWNED_OF_DROPPED = 0.9
"""Share of their blocks with a correct owner. Without probes no event shows stores into a dirty large folio. After a
collapse on F2FS, the process that dirtied the moved blocks need not be their writer."""

NAMED = 0.99
"""Share of the blocks with a correct name in a guest, with the probes in its kernel and all evidence."""

NAMED_BY_IMAGES = 0.5
"""Share of the sectors with a file that FAT images must resolve without probes, at least as inferred."""

AMBIGUOUS = {"ext4": 0.01, "f2fs": 0.01, "vfat": 0.12, "exfat": 0.12}
"""Share that the harness itself may not know, because FAT zeroes clusters of directories and of files."""

JOURNAL_MODES = ("delete", "truncate", "persist", "memory", "off", "wal")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.root if recordings.ALL[name].on_host else pytest.mark.qemu, *also])
        for name in recordings.TESTED
        for also in [[pytest.mark.prove] if name == "ext4-android" else []]  # differs little from ext4
    ],
)
def test_every_block_on_the_disk_agrees_with_io(name, tmp_path):
    lacking = recordings.missing(name)
    if lacking is not None:
        pytest.skip(lacking)
    recording = recordings.make(name, tmp_path)
    problems = [*covered(recording), *by_another_tool(recording), *unsteady(recording)]
    problems += [*misjudged(recording), *misread(recording)]
    assert not problems, "\n".join(problems)


def covered(recording: judge.Recording) -> Iterator[str]:
    """Return the required cases that the recording lacks."""
    known = recording.truth
    rows = known.rows
    data, read = (one.filter(pl.col("kind") == "data") for one in (rows, recording.truth_of_reads.rows))
    for_others = data.filter(pl.col("writer_pids").list.len() > 0, ~pl.col("submit_pid").is_in("writer_pids"))
    least = {
        "data": (data.height, 1500),
        "deleted": (data.filter(~pl.col("in_final_image")).height, 200),
        "written for others": (for_others.height, 50),
        "metadata": (rows.filter(pl.col("kind") == "metadata").height, 10),
        "read": (read.height, 400),
        "read, deleted": (read.filter(~pl.col("in_final_image")).height, 20),
        "read ahead": (read.filter(~pl.col("asked")).height, 100),
    }
    pages = recording.page_bytes // 4096  # a block of the truth is at most a page
    yield from (
        f"{what}: {count} blocks, fewer than {enough // pages}"
        for what, (count, enough) in least.items()
        if count < enough // pages
    )
    names = set(data["names"].explode())
    yield from (f"no block of db/{mode}.db" for mode in JOURNAL_MODES if f"db/{mode}.db" not in names)
    if known.unmatched:
        yield f"{known.unmatched} sectors were written unequally often in the trace and on the disk"
    if recording.staging.lost_events:
        yield f"{recording.staging.lost_events} events lost"
    share = known.ambiguous.total() / (rows.height + known.ambiguous.total())
    if share > AMBIGUOUS[recording.fs_type]:
        yield f"{share:.1%} of the blocks ambiguous: {dict(known.ambiguous)}"


def by_another_tool(recording: judge.Recording) -> Iterator[str]:
    """Return pages of existing files that debugfs finds in another block than that of their last write."""
    if recording.fs_type != "ext4":
        return
    live = recording.truth.rows.filter(pl.col("kind") == "data", pl.col("in_final_image"))
    inside = pl.int_ranges(0, pl.col("sectors"), 8).alias("inside")  # a row may cover several pages of 4 KiB
    pages = live.with_columns(inside).explode("inside").with_columns(
        pl.col("sector") + pl.col("inside"), pl.col("lblk") + pl.col("inside") // 8
    )  # fmt: skip
    last = pages.group_by("ino", "lblk").agg(pl.col("sector").sort_by("ts").last()).sort("ino", "lblk")
    asked = "".join(f"bmap <{ino}> {page}\n" for ino, page, _ in last.iter_rows())
    command = ["debugfs", "-f", "-", recording.filesystem]
    answer = subprocess.run(command, check=True, input=asked, capture_output=True, text=True).stdout
    # Blocks that were allocated again but not written are "(uninit)"; holes are 0.
    blocks = [line for line in answer.splitlines() if not line.startswith("debugfs")]
    compared = [
        (row, int(block)) for row, block in zip(last.iter_rows(), blocks, strict=True) if block.isdigit() and int(block)
    ]
    if len(compared) < last.height // 2:
        yield f"debugfs maps {len(compared)} of {last.height} pages"
    for (ino, page, sector), block in compared:
        sector -= recording.first_byte // 512
        if sector // 8 != block:
            yield f"page {page} of inode {ino} was written to block {sector // 8}, debugfs has it in {block}"


def unsteady(recording: judge.Recording, share: float = 0.05) -> Iterator[str]:
    """Return blocks with another truth if bios are missing in the trace, except the missing bios' own."""
    choose = random.Random(1)
    bios = recording.bios
    is_kept = pl.Series([choose.random() >= share for _ in range(bios.height)])
    gone, place = bios.filter(~is_kept), ["ts", "sector"]
    every, less = (
        truth.rows.with_columns(inside=pl.int_ranges(0, "sectors"))
        .explode("inside")
        .with_columns(pl.col("sector") + pl.col("inside"), pl.col("offset_bytes") + pl.col("inside") * 512)
        for truth in (recording.truth, recording.truth_of(bios.filter(is_kept)))
    )
    both = less.join(every, on=place, how="left", suffix="_of_all")
    same = ("kind", "ino", "gen", "offset_bytes")
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_of_all")) for name in same)
    has_writers = pl.all_horizontal(pl.col("writer_pids", "writer_pids_of_all").list.len() > 0)
    differs |= (has_writers & (pl.col("writer_pids") != pl.col("writer_pids_of_all"))).fill_null(False)
    shown = both.filter(differs).select(*place, *(pl.col(f"^{name}(_of_all)?$") for name in (*same, "writer_pids")))
    yield from (f"differs where others are withheld: {row}" for row in shown.iter_rows(named=True))
    lost = every.filter(~pl.col("ts").is_in(gone["ts"].implode())).join(less, on=place, how="anti")
    if lost.height > every.height * share / 4:
        yield f"{lost.height} of {every.height} sectors lost with {gone.height} bios that are not theirs"


def misjudged(recording: judge.Recording) -> Iterator[str]:
    """Return descriptions of wrong or too few results."""
    is_guest = recording.mark_byte == guest.MARK_BYTE
    for run, (events, before, after) in judge.RUNS.items():
        answers = recording.answers(run)
        asked = {"file": truth.file(answers), "block type": truth.block_type(answers)}
        if events:
            asked["owner"] = truth.owner(answers)
        if events and is_guest:
            asked["name"] = truth.name(answers)
        for question, outcomes in asked.items():
            if wrong := judge.wrong(outcomes):
                yield f"{run}: {question} wrong: {dict(wrong)}"
        if run == judge.ALONE and right_of(asked["file"], may_infer=True) < RIGHT[recording.fs_type]:
            yield f"{run}: file right for {truth.shares(asked['file'])}"
        if run == judge.WITHOUT_PROBES:
            if recording.fs_type in ("vfat", "exfat"):
                yield from unnamed_without_probes(asked["file"])
            continue
        if events and before:
            asked["file, deleted"] = truth.file(answers.filter(~pl.col("in_final_image")))
            is_dropped = pl.col("names").list.eval(pl.element().str.starts_with(DROPPED)).list.any().fill_null(False)
            owned, of_dropped = (asked["owner"].filter(which) for which in (~is_dropped, is_dropped))
            shared = {name: asked[name] for name in ("file", "file, deleted")} | {"owner": owned}
            # No event shows which of several blocks of a page a store modified.
            may_infer = recording.fs_type in INFERRED or recording.page_bytes > recording.after.block_bytes
            for question, outcomes in shared.items():
                if right_of(outcomes, question == "owner" and may_infer) < RIGHT[recording.fs_type]:
                    yield f"{run}: {question} right for {truth.shares(outcomes)}"
            if (certain := right_of(owned)) < OWNED_FOR_CERTAIN:
                yield f"{run}: owner certain for {certain:.2%}"
            if (
                of_dropped.height < 100 * 4096 // recording.page_bytes
                or right_of(of_dropped, may_infer) < OWNED_OF_DROPPED
            ):
                yield f"{run}: owner of {of_dropped.height} dropped blocks right for {truth.shares(of_dropped)}"
        if is_guest and events and before and after:
            named = truth.shares(asked["name"])["right"]
            if named < NAMED:
                yield f"{run}: name right for {named:.2%}"


def misread(recording: judge.Recording) -> Iterator[str]:
    """Return descriptions of wrong or too few results about reads."""
    for run, (events, before, _) in judge.RUNS.items():
        answers = recording.answers(run, "read")
        asked = {"file": truth.file(answers), "owner": truth.owner(answers), "block type": truth.block_type(answers)}
        if run == judge.ALONE or (events and before):
            asked["name"] = truth.name(answers)
        for question, outcomes in asked.items():
            if wrong := judge.wrong(outcomes):
                yield f"{run}: {question} of reads wrong: {dict(wrong)}"
        if run == judge.ALONE or (events and before and run != judge.WITHOUT_PROBES):
            for question in ("file", "owner", "name"):
                if right_of(asked[question], recording.fs_type in INFERRED) < RIGHT[recording.fs_type]:
                    yield f"{run}: {question} of reads right for {truth.shares(asked[question])}"


def right_of(outcomes: pl.DataFrame, may_infer: bool = False) -> float:
    """Return the share of correct results, including inferred ones if allowed."""
    shares = truth.shares(outcomes)
    return shares["right"] + (shares["inferred right"] if may_infer else 0)


def unnamed_without_probes(files: pl.DataFrame) -> Iterator[str]:
    """Return the failures of FAT images, which must resolve files because the trace does not identify them."""
    shares = truth.shares(files)
    if shares["right"] + shares["inferred right"] < NAMED_BY_IMAGES:
        yield f"without probes {shares} of the sectors have their file"


KEY = oplog.Key(12, 345)


def block(*cells: tuple[int, int, int], key: oplog.Key = KEY) -> bytes:
    """Return 4 KiB with cells (file offset, process, sequence) at their offsets in the page."""
    page = np.zeros(64, content.CELL)
    for offset, pid, sequence in cells:
        check = (key.ino * 3 + offset * 5 + sequence * 7 + pid * 11 + key.generation) & 0xFFFFFFFF
        filling = (0, 0, 0)
        cell = (content.CELL_MAGIC, pid, key.ino, key.generation, check, offset, sequence, filling)
        page[offset % 4096 // 64] = cell
    return page.tobytes()


def known(
    written: list[bytes], operations: list[oplog.Op], block_sectors: int = 8, lost: int | None = None
) -> list[dict[str, object]]:
    """Return the truth of a disk after writes to block 1, one every 100 ns, each followed by a write to a new block.

    The trace lacks the bio of write number `lost` to block 1.
    """
    every, place = range(len(written)), {"nr_sectors": 8, "flags": 0}
    rows = [{"sector": sector, **place} for number in every for sector in (8, 800 + 8 * number)]
    entries = pl.DataFrame(rows).with_row_index("entry").with_columns(pl.all().cast(pl.Int64))
    whole = b"".join(page + bytes(4096) for page in written)
    log = devlog.DevLog(entries.with_columns(position=pl.col("entry") * 4096), np.frombuffer(whole, np.uint8))
    ts = [100 * (number + 1) + later for number in every for later in (0, 60)]
    bios = entries.select(pl.Series("ts", ts), "sector", "nr_sectors", pid=1).with_columns(done=pl.col("ts") + 30)
    if lost is not None:
        bios = bios.filter(pl.col("ts") != 100 * (lost + 1))
    run = oplog.Op(0, 0, 1, oplog.Key(0, 0), 0, 0, 1, oplog.RUN, b"")
    nowhere = layout.Layout(block_sectors, lambda sector: ("journal", "") if sector >= 800 else None, lambda _: None)
    found = content.truth(log, 0, entries.height, bios, [run, *operations], nowhere)
    assert lost is not None or found.unmatched == 0
    assert lost is not None or found.rows.height + found.ambiguous.total() >= entries.height
    return found.rows.filter(pl.col("sector") < 800).to_dicts()


def write(sequence: int, pid: int, ts: int, done: int, op: int = oplog.STAMP, payload: bytes = b"") -> oplog.Op:
    """Return a write of page 3 of the file."""
    return oplog.Op(ts, done, sequence, KEY, 3 * 4096, 4096, pid, op, payload)


def test_cells_show_page_and_writers():
    first, second = write(5, 70, 10, 20), write(6, 71, 110, 120)
    page = [(3 * 4096, 70, 5), (3 * 4096 + 64, 70, 5)]
    rows = known([block(*page), block(*page, (3 * 4096 + 640, 71, 6)), block(*page)], [first, second])
    assert [(row["ino"], row["gen"], row["lblk"], row["writer_pids"]) for row in rows] == [
        (12, 345, 3, [70]),
        (12, 345, 3, [71]),
        (12, 345, 3, []),
    ]


def test_writers_of_different_blocks_of_a_page_are_left_open():
    half = write(5, 70, 10, 20)._replace(length=2048)
    other = write(6, 71, 30, 40)._replace(offset=3 * 4096 + 2048, length=2048)
    page = block((3 * 4096, 70, 5), (3 * 4096 + 2048, 71, 6))
    assert [row["writer_pids"] for row in known([page], [half, other])] == [[70, 71]]
    assert [row["writer_pids"] for row in known([page], [half, other], block_sectors=2)] == [[]]


def test_a_write_under_way_at_the_time_of_the_bio_leaves_the_writers_open():
    page = block((3 * 4096, 70, 5), (3 * 4096 + 640, 71, 6))
    (row,) = known([page], [write(5, 70, 10, 20), write(6, 71, 90, 110)])
    assert (row["lblk"], row["writer_pids"]) == (3, [])


def test_cells_of_two_places_and_damaged_ones_are_no_truth():
    apart = block((3 * 4096, 70, 5), (4 * 4096 + 64, 70, 5))
    damaged = bytearray(block((3 * 4096, 70, 5)))
    damaged[16] ^= 1
    cut = block((3 * 4096, 70, 5))[:4] + bytes(4092)
    assert known([apart, bytes(damaged), cut, bytes(4096)], [write(5, 70, 10, 20)]) == []


def test_content_without_cells_is_the_page_that_had_it_before():
    payload = bytes(range(256)) * 16
    rows = known([payload, payload], [write(5, 70, 150, 160, oplog.DATA, payload)])
    assert [(row["ts"], row["lblk"], row["writer_pids"]) for row in rows] == [(200, 3, [70])]


def test_what_a_page_held_once_may_lie_across_two_later():
    """For example, SQLite's vacuum moves its pages, which are smaller than the kernel's."""
    payload = b"".join(bytes([number]) * 512 for number in range(1, 9))
    first = write(5, 70, 10, 20, oplog.DATA, payload)
    moved = write(6, 71, 110, 120, oplog.DATA, payload)._replace(offset=3 * 4096 - 2048)
    rows = known([payload, payload], [first, moved])
    assert [(row["ts"], row["offset_bytes"], row["writer_pids"]) for row in rows] == [
        (100, 3 * 4096, [70]),
        (200, 3 * 4096 - 2048, [71]),
    ]


def test_of_two_equal_writes_it_is_unknown_which_a_lost_bio_carried():
    """In truth the disk got the first at 100, and the second and third with the last write."""
    same, other = bytes(range(256)) * 16, bytes(range(255, -1, -1)) * 16
    writes = [
        write(sequence, pid, ts, ts + 10, oplog.DATA, payload)
        for sequence, pid, ts, payload in ((5, 70, 10, same), (6, 71, 110, same), (7, 72, 120, other))
    ]
    for lost, said in ((None, [[70], [71, 72]]), (0, [[]])):
        assert [row["writer_pids"] for row in known([same, other], writes, lost=lost)] == said
    assert [row["writer_pids"] for row in known([same, other], [writes[0], writes[2]], lost=0)] == [[72]]


def sectors(**columns: list[int]) -> pl.DataFrame:
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))


def test_a_gap_in_trace_or_log_affects_nothing_else():
    """Sector 1 is written at 100, 300 and 500. The trace lacks the write at 300, or the log its second entry."""
    around = {"bio": [0, 2, 4], "sector": [2, 4, 6], "ts_ns": [90, 290, 490], "done_ns": [95, 295, 495]}
    written = sectors(entry=[0, 1, 2, 3, 4, 5], sector=[2, 1, 4, 1, 6, 1])
    queued = sectors(
        bio=[*around["bio"], 1, 3, 5],
        sector=[*around["sector"], 1, 1, 1],
        ts_ns=[*around["ts_ns"], 100, 300, 500],
        done_ns=[*around["done_ns"], 110, 310, 510],
    )
    every = {entry: entry for entry in range(6)}
    for lacking in (None, 1, 3, 5):
        traced, _ = matching.matched(written, queued.filter(pl.col("bio").ne_missing(lacking)))
        assert dict(traced.select("entry", "bio").iter_rows()) == every | ({} if lacking is None else {lacking: None})
        logged, _ = matching.matched(written.filter(pl.col("entry").ne_missing(lacking)), queued)
        assert dict(logged.select("entry", "bio").iter_rows()) == {e: e for e in every if e != lacking}


def test_content_that_two_pages_had_is_ambiguous():
    payload = bytes(range(256)) * 16
    twice = [write(5, 70, 10, 20, oplog.DATA, payload), write(6, 70, 30, 40, oplog.DATA, payload)._replace(offset=0)]
    assert known([payload], twice) == []


def test_a_page_of_two_files_is_judged_block_by_block():
    other = oplog.Key(13, 345)
    page = block((3 * 4096, 70, 5))[:1024] + block((0, 71, 6), key=other)[:1024] + bytes(1024)
    page += block((4 * 4096 + 3072, 72, 7))[3072:]
    (row, *rest) = known([page], [write(5, 70, 10, 20)], block_sectors=2)
    assert (row["ino"], row["offset_bytes"], row["sectors"], row["writer_pids"]) == (12, 3 * 4096, 2, [70])
    said = [(row["ino"], row["sector"], row["sectors"], row["offset_bytes"], row["lblk"]) for row in rest]
    assert said == [(13, 10, 2, 0, 0), (12, 14, 2, 4 * 4096 + 3072, 4)]


def test_a_bio_that_begins_within_a_page_is_split_at_page_ends():
    page = bytearray(block((3 * 4096 + 3072, 70, 5), (4 * 4096, 70, 5)))
    turned = bytes(page[3072:] + page[:3072])
    said = [(row["sector"], row["sectors"], row["offset_bytes"]) for row in known([turned], [write(5, 70, 10, 20)])]
    assert said == [(8, 2, 3 * 4096 + 3072), (10, 6, 4 * 4096)]


@pytest.mark.parametrize(
    ("op", "offset", "length", "writers"),
    [
        (oplog.TRUNCATE, 3 * 4096, 0, [71]),
        (oplog.TRUNCATE, 3 * 4096 + 100, 0, [70, 71]),
        (oplog.DROP, 2 * 4096, 2 * 4096, [71]),
        (oplog.DROP, 3 * 4096 + 1, 4096, [70, 71]),
    ],
    ids=["truncated", "cut", "punched", "punched in part"],
)
def test_pages_dropped_before_writeback_have_no_writer(op, offset, length, writers):
    drop = oplog.Op(30, 30, 6, KEY, offset, length, 71, op, b"")
    (row,) = known([block((3 * 4096, 71, 7))], [write(5, 70, 10, 20), drop, write(7, 71, 40, 50)])
    assert row["writer_pids"] == writers


def test_a_collapsed_range_moves_what_was_written_before():
    collapse = oplog.Op(150, 150, 6, KEY, 4096, 4096, 70, oplog.COLLAPSE, b"")
    done = oplog.Op(160, 160, 7, KEY, 0, 1, 70, oplog.DONE, b"")
    page = block((3 * 4096, 70, 5))
    assert [row["lblk"] for row in known([page, page], [write(5, 70, 10, 20), collapse, done])] == [3, 2]


def test_where_files_have_no_holes_a_write_behind_the_end_fills_what_lies_between() -> None:
    """FAT zeroes the gap in the cache, so that this write also creates these pages on the disk."""
    key = oplog.Key(7, 0)
    writes = [(oplog.RUN, 0, 0, 1), (oplog.STAMP, 0, 2048, 1), (oplog.STAMP, 9000, 100, 2), (oplog.STAMP, 5000, 100, 3)]
    operations = [
        oplog.Op(sequence, sequence, sequence, key, offset, length, pid, op, b"")
        for sequence, (op, offset, length, pid) in enumerate(writes)
    ]
    found = oplog.block_writes(operations, 4096, has_holes=False)
    assert {page: [write.pid for write in done] for (_, page), done in found.items()} == {0: [1, 2], 1: [2, 3], 2: [2]}
    found = oplog.block_writes(operations, 4096)
    assert {page: [write.pid for write in done] for (_, page), done in found.items()} == {0: [1], 1: [3], 2: [2]}


def test_a_sector_that_was_read_held_what_was_written_last_before(tmp_path):
    """Sector 1 is written at 100-130 and 300-330, another one between. A concurrent read may return either version."""
    before, first, second = (bytes([letter]) * 512 for letter in b"bfs")
    image = tmp_path / "image"
    image.write_bytes(before * 3)
    places = {"sector": [1, 5, 1], "nr_sectors": [1] * 3}
    entries = sectors(entry=[0, 1, 2], **places, flags=[0] * 3, position=[0, 512, 1024])
    log = devlog.DevLog(entries, np.frombuffer(first + bytes(512) + second, np.uint8))
    writes = sectors(ts=[100, 200, 300], done=[130, 230, 330], **places, pid=[7] * 3)
    ts = [50, 95, 110, 140, 290, 320, 340]
    reads_of = sectors(ts=ts, done=[one + 20 for one in ts], sector=[1] * 7, nr_sectors=[2] * 7, pid=[8] * 7)
    asked, held = reads.held(log, 0, 3, image, writes, reads_of)
    said = {
        (at, sector): bytes(content[:1])
        for (at, sector), content in zip(asked.select("ts", "sector").iter_rows(), held, strict=True)
    }
    assert said == {(at, 2): b"b" for at in ts} | {(50, 1): b"b", (140, 1): b"f", (340, 1): b"s"}


def test_who_asked_is_known_where_one_process_was_at_the_file():
    page = block((3 * 4096, 70, 5))
    once = {"bio": 0, "bio_sector": 8, "ts": 200, "pid": 71}
    read = [{**once, "sector": 8 + number} for number in range(8)]
    held = np.frombuffer(page, np.uint8).reshape(8, 512)
    nowhere = layout.Layout(8, lambda _: None, lambda _: None)
    run = oplog.Op(0, 0, 1, oplog.Key(0, 0), 0, 0, 1, oplog.RUN, b"")

    def known_of(*operations: oplog.Op) -> list[tuple[object, ...]]:
        answer = content.truth_of_reads(pl.DataFrame(read), held, [run, write(5, 70, 10, 20), *operations], nowhere)
        return answer.rows.select("lblk", "sectors", "writer_pids", "asked").rows()

    asking = write(6, 71, 190, 210, oplog.READ)
    assert known_of(asking) == [(3, 8, [71], True)]
    assert known_of(asking._replace(offset=2 * 4096)) == [(3, 8, [71], False)]
    assert known_of(asking._replace(done_ns=199)) == [(3, 8, None, None)]
    assert known_of(asking, asking._replace(sequence=7, pid=72)) == [(3, 8, None, None)]
    moving = write(6, 71, 190, 190, oplog.COLLAPSE)._replace(offset=0)
    assert known_of(moving, write(7, 71, 210, 210, oplog.DONE)._replace(length=1)) == []
