"""Synthetic tables of an ext4 and an F2FS on one disk, for tests of the cost of writing."""

from __future__ import annotations

import random
from typing import Any

import polars as pl

from androstep_analysis import schema
from support.cost import oracle

DISK, EXT4, F2FS = 8 << 20, (8 << 20) + 1, (8 << 20) + 2
PAGE = 4096

Row = dict[str, Any]


def table(name: str, rows: list[Row]) -> pl.DataFrame:
    types = schema.table(name).polars
    return pl.DataFrame([{column: row.get(column) for column in types} for row in rows], types)


def thread(draw: random.Random) -> Row:
    tid = draw.choice([1, 2, 3, 9])
    return {"tid": tid, "pid": tid, "comm": oracle.MOVER if tid == 9 else f"t{tid}"}


def events(draw: random.Random) -> list[Row]:
    """Draw a sequence of writes, handles, commits and frees of ext4, and changes of F2FS."""
    rows: list[Row] = []
    transaction, opened = 10, False
    for _ in range(draw.randrange(80)):
        name = draw.choice([
            *("ext4_da_write_begin", "ext4_unlink_enter", "jbd2_handle_stats", "jbd2_handle_stats", "commit", "commit"),
            *("ext4_free_blocks", *oracle.F2FS),
        ])  # fmt: skip
        row = {"event": name, "dev": F2FS if name in oracle.F2FS else EXT4, **thread(draw)}
        row |= {"ino": draw.randrange(11, 14), "nr_blocks": draw.randrange(1, 5)}
        if name.endswith("write_begin"):
            row |= {"offset_bytes": draw.randrange(2) * PAGE, "nr_bytes": draw.choice([10, PAGE])}
        if name == "commit":
            row |= {
                "event": "jbd2_end_commit" if opened else "jbd2_start_commit",
                "tid": 99,
                "pid": 99,
                "comm": "jbd2/a-8",
            }
            transaction += not opened
            opened = not opened
        if "jbd2" in row["event"]:
            row |= {"ino": None, "transaction": transaction + (row["event"] == "jbd2_handle_stats")}
        rows.append(row)
    return rows


def piece(draw: random.Random) -> Row:
    op = draw.choice(["write", "write", "write", "write", "discard"])
    kind = draw.choice(["data", "data", "directory", "journal", "metadata", "metadata", "unknown", "free"])
    own = draw.choice(["checkpoint", "node", "nat", "inode_table"]) if kind == "metadata" else None
    owner = draw.choice([None, 1, 2, 3])
    via = "unknown" if owner is None else draw.choice(["submitter", "write_begin", "dirty_folio", "inferred"])
    if kind == "journal" and draw.random() < 0.7:
        owner, via = 1, "handle"
    if draw.random() < 0.1:
        owner, via = None, "filesystem"
    is_file = kind == "data" and draw.random() < 0.8
    return {
        "dev": DISK, "part_dev": draw.choice([EXT4, F2FS]), "op": op, "block_type": kind, "subtype": own,
        "sector": 8 * draw.randrange(6), "nr_sectors": draw.choice([2, 8, 16]), "owner_pid": owner, "owner_via": via,
        "owner_count": draw.choice([None, 1, 3]) if owner else 0,
        "ino": draw.randrange(11, 14) if is_file else None,
        "file_offset_bytes": draw.randrange(3) * PAGE if is_file else None,
    }  # fmt: skip


def recording(seed: int) -> dict[str, pl.DataFrame]:
    """Draw tables of pieces and events with distinct times."""
    draw = random.Random(seed)
    fs_events = events(draw)
    pieces = [piece(draw) for _ in range(draw.randrange(1, 60))]
    times = sorted(draw.sample(range(1000), len(fs_events) + len(pieces)))
    at = iter(times)
    order = [*((row, True) for row in fs_events), *((row, False) for row in pieces)]
    kinds = [is_event for _, is_event in order]
    draw.shuffle(kinds)
    by_kind = {True: iter(fs_events), False: iter(pieces)}
    for is_event in kinds:
        row, time = next(by_kind[is_event]), next(at)
        row["ts_ns"] = row["queue_ns"] = row["issue_ns"] = time
    for number, row in enumerate(pieces):
        row |= {"request_id": number, "piece": 0, "bytes": row["nr_sectors"] * 512, "nr_bios": 0, "matched": "full"}
    return {
        "requests": table("requests", pieces),
        "io": table("io", pieces),
        "fs_events": table("fs_events", fs_events),
    }
