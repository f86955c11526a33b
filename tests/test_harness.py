"""Every block that a workload of known content wrote, on every filesystem, against what the package says of it.

tests/harness records on this machine (ext4, needs root) and in virtual machines without acceleration.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
import truth
from harness import content, devlog, guest, judge, oplog, recordings

RIGHT = {"ext4": 0.999, "f2fs": 0.999, "vfat": 0.99, "exfat": 0.99}
"""Share of the blocks that must be right with the events and the image before; whatever else is unknown."""

OWNED = RIGHT | {"ext4": 0.995}
"""The same of owners. Where the kernel has no probes, no event tells who stores into a large folio that is dirty."""

NAMED = 0.99
"""Share of the blocks whose name must be right in a guest, whose kernel has the probes, with all evidence."""

AMBIGUOUS = {"ext4": 0.01, "f2fs": 0.01, "vfat": 0.12, "exfat": 0.12}
"""Share that the harness itself may not know: FAT zeroes clusters of directories and of files alike."""

JOURNAL_MODES = ("delete", "truncate", "persist", "memory", "off", "wal")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.root] if kind.flavour else [])
        for name, kind in recordings.RECORDINGS.items()
    ],
)
def test_every_block_on_the_disk_is_what_io_says(name, tmp_path):
    lacking = recordings.missing(name)
    if lacking is not None:
        pytest.skip(lacking)
    recording = recordings.make(name, tmp_path)
    problems = [*covered(recording), *by_another_tool(recording), *misjudged(recording)]
    assert not problems, "\n".join(problems)


def covered(recording: judge.Recording) -> Iterator[str]:
    """What the recording lacks of what it is made for."""
    known = recording.truth
    rows = known.rows
    data = rows.filter(pl.col("kind") == "data")
    for_others = data.filter(pl.col("writer_pids").list.len() > 0, ~pl.col("submit_pid").is_in("writer_pids"))
    least = {
        "data": (data.height, 1500),
        "deleted": (data.filter(~pl.col("in_final_image")).height, 200),
        "written for others": (for_others.height, 50),
        "metadata": (rows.filter(pl.col("kind") == "metadata").height, 10),
    }
    yield from (
        f"{what}: {count} blocks, fewer than {enough}" for what, (count, enough) in least.items() if count < enough
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
    """Where debugfs has a page of a file that still exists in another block than the one it was last written to."""
    if recording.fs_type != "ext4":
        return
    live = recording.truth.rows.filter(pl.col("kind") == "data", pl.col("in_final_image"))
    last = live.group_by("ino", "lblk").agg(pl.col("sector").sort_by("ts").last()).sort("ino", "lblk")
    asked = "".join(f"bmap <{ino}> {page}\n" for ino, page, _ in last.iter_rows())
    command = ["debugfs", "-f", "-", recording.directory / "disk.img"]
    answer = subprocess.run(command, check=True, input=asked, capture_output=True, text=True).stdout
    # Blocks that were allocated again and not written since are "(uninit)"; holes are 0.
    blocks = [line for line in answer.splitlines() if not line.startswith("debugfs")]
    compared = [
        (row, int(block)) for row, block in zip(last.iter_rows(), blocks, strict=True) if block.isdigit() and int(block)
    ]
    if len(compared) < last.height // 2:
        yield f"debugfs maps {len(compared)} of {last.height} pages"
    for (ino, page, sector), block in compared:
        if sector // 8 != block:
            yield f"page {page} of inode {ino} was written to block {sector // 8}, debugfs has it in {block}"


def misjudged(recording: judge.Recording) -> Iterator[str]:
    """Where what the package says is wrong, or too little."""
    is_guest = recording.mark_byte == guest.MARK_BYTE
    for run, (events, before, after) in truth.RUNS.items():
        answers = recording.answers(run)
        asked = {"file": truth.file(answers), "block type": truth.block_type(answers)}
        if events:
            asked["owner"] = truth.owner(answers)
        if events and is_guest:
            asked["name"] = truth.name(answers)
        for question, outcomes in asked.items():
            if wrong := judge.wrong(outcomes):
                yield f"{run}: {question} wrong: {dict(wrong)}"
        if events and before:
            asked["file, deleted"] = truth.file(answers.filter(~pl.col("in_final_image")))
            for question in ("file", "file, deleted", "owner"):
                right = truth.shares(asked[question])["right"]
                if right < (OWNED if question == "owner" else RIGHT)[recording.fs_type]:
                    yield f"{run}: {question} right for {right:.2%}"
        if is_guest and events and before and after:
            named = truth.shares(asked["name"])["right"]
            if named < NAMED:
                yield f"{run}: name right for {named:.2%}"


KEY = oplog.Key(12, 345)


def block(*cells: tuple[int, int, int], key: oplog.Key = KEY) -> bytes:
    """4 KiB with cells (offset in the file, process, sequence) at their places in the page."""
    page = np.zeros(64, content.CELL)
    for offset, pid, sequence in cells:
        check = (key.ino * 3 + offset * 5 + sequence * 7 + pid * 11 + key.generation) & 0xFFFFFFFF
        filling = (0, 0, 0)
        cell = (content.CELL_MAGIC, pid, key.ino, key.generation, check, offset, sequence, filling)
        page[offset % 4096 // 64] = cell
    return page.tobytes()


def known(written: list[bytes], operations: list[oplog.Op]) -> list[dict[str, object]]:
    """The truth of a disk to block 1 of which these were written, one every 100 ns."""
    at = [(entry, 8, 8, 0, 4096 * entry) for entry in range(len(written))]
    entries = pl.DataFrame(at, schema=["entry", "sector", "nr_sectors", "flags", "position"], orient="row")
    log = devlog.DevLog(entries, np.frombuffer(b"".join(written), np.uint8))
    ts = [100 * (entry + 1) for entry in range(len(written))]
    bios = pl.DataFrame({"ts": ts, "sector": 8, "nr_sectors": 8, "pid": 1})
    run = oplog.Op(0, 0, 1, oplog.Key(0, 0), 0, 0, 1, oplog.RUN, b"")
    found = content.truth(log, 0, len(written), bios, [run, *operations], lambda _sector, _content: None)
    assert found.unmatched == 0
    assert found.rows.height + found.ambiguous.total() == len(written)
    return found.rows.to_dicts()


def write(sequence: int, pid: int, ts: int, done: int, op: int = oplog.STAMP, payload: bytes = b"") -> oplog.Op:
    """A write of page 3 of the file."""
    return oplog.Op(ts, done, sequence, KEY, 3 * 4096, 4096, pid, op, payload)


def test_cells_tell_page_and_writers():
    first, second = write(5, 70, 10, 20), write(6, 71, 110, 120)
    page = [(3 * 4096, 70, 5), (3 * 4096 + 64, 70, 5)]
    rows = known([block(*page), block(*page, (3 * 4096 + 640, 71, 6)), block(*page)], [first, second])
    assert [(row["ino"], row["gen"], row["lblk"], row["writer_pids"]) for row in rows] == [
        (12, 345, 3, [70]),
        (12, 345, 3, [71]),
        (12, 345, 3, []),
    ]


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


def test_content_that_two_pages_had_is_ambiguous():
    payload = bytes(range(256)) * 16
    twice = [write(5, 70, 10, 20, oplog.DATA, payload), write(6, 70, 30, 40, oplog.DATA, payload)._replace(offset=0)]
    assert known([payload], twice) == []


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
def test_what_was_dropped_before_it_was_written_out_was_written_by_nobody(op, offset, length, writers):
    drop = oplog.Op(30, 30, 6, KEY, offset, length, 71, op, b"")
    (row,) = known([block((3 * 4096, 71, 7))], [write(5, 70, 10, 20), drop, write(7, 71, 40, 50)])
    assert row["writer_pids"] == writers


def test_a_collapsed_range_moves_what_was_written_before():
    collapse = oplog.Op(150, 150, 6, KEY, 4096, 4096, 70, oplog.COLLAPSE, b"")
    done = oplog.Op(160, 160, 7, KEY, 0, 1, 70, oplog.DONE, b"")
    page = block((3 * 4096, 70, 5))
    assert [row["lblk"] for row in known([page, page], [write(5, 70, 10, 20), collapse, done])] == [3, 2]
