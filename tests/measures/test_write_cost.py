"""What written bytes cost: sums that are exact, shares beside plain Python, and every recording there is."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import cost_oracle
from support.in_parts import read_in_parts

import androstep_analysis as androstep
from androstep_analysis import measures, schema
from androstep_analysis.measures import write_causes, write_shares
from androstep_analysis.measures.write_cost import BY

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "datasets/kernels/tables/io"
DISK, EXT4, F2FS = 8 << 20, (8 << 20) + 1, (8 << 20) + 2
PAGE = 4096

Row = dict[str, Any]


def table(name: str, rows: list[Row]) -> pl.DataFrame:
    types = schema.table(name).polars
    return pl.DataFrame([{column: row.get(column) for column in types} for row in rows], types)


def thread(draw: random.Random) -> Row:
    tid = draw.choice([1, 2, 3, 9])
    return {"tid": tid, "pid": tid, "comm": cost_oracle.MOVER if tid == 9 else f"t{tid}"}


def events(draw: random.Random) -> list[Row]:
    """Writes, handles and commits of ext4, what it frees, and changes of F2FS, one after the other."""
    rows: list[Row] = []
    transaction, opened = 10, False
    for _ in range(draw.randrange(80)):
        name = draw.choice([
            *("ext4_da_write_begin", "ext4_unlink_enter", "jbd2_handle_stats", "jbd2_handle_stats", "commit", "commit"),
            *("ext4_free_blocks", *cost_oracle.F2FS),
        ])  # fmt: skip
        row = {"event": name, "dev": F2FS if name in cost_oracle.F2FS else EXT4, **thread(draw)}
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
    """Tables of some pieces and events, no two at one time."""
    draw = random.Random(seed)
    told = events(draw)
    pieces = [piece(draw) for _ in range(draw.randrange(1, 60))]
    times = sorted(draw.sample(range(1000), len(told) + len(pieces)))
    at = iter(times)
    order = [*((row, True) for row in told), *((row, False) for row in pieces)]
    kinds = [is_event for _, is_event in order]
    draw.shuffle(kinds)
    by_kind = {True: iter(told), False: iter(pieces)}
    for is_event in kinds:
        row, time = next(by_kind[is_event]), next(at)
        row["ts_ns"] = row["queue_ns"] = row["issue_ns"] = time
    for number, row in enumerate(pieces):
        row |= {"request_id": number, "piece": 0, "bytes": row["nr_sectors"] * 512, "nr_bios": 0, "matched": "full"}
    return {"requests": table("requests", pieces), "io": table("io", pieces), "fs_events": table("fs_events", told)}


def costs(result: pl.DataFrame) -> Counter[tuple[Any, ...]]:
    rows = result.filter(metric="cost").select(*result.columns[1:-4], "value").rows()
    return Counter({row[:-1]: int(row[-1]) for row in rows})


def written(tables: Mapping[str, Any], *ops: str) -> int:
    counted = measures.counted(tables["io"]).filter(pl.col("op").is_in(ops))
    return int(counted.select(pl.col("bytes").sum()).collect().item())


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("seeds", [range(at, at + 20) for at in range(0, 100, 20)], ids=str)
def test_costs_are_those_of_the_oracle(seeds: range, rows: int | None) -> None:
    for seed in seeds:
        tables = recording(seed)
        with read_in_parts(rows):
            found = measures.write_cost(tables, by=("owner_pid", "ino"), page_bytes=PAGE)
        expected = cost_oracle.cost(*(tables[name].rows(named=True) for name in ("requests", "io", "fs_events")))
        assert costs(found) == expected, seed


def test_every_rule_is_met() -> None:
    """Otherwise the test above would prove little: shares of several, by every rule."""
    shared: Counter[Any] = Counter()
    for seed in range(40):
        tables = recording(seed)
        known = write_shares.told(tables, PAGE, None)
        found = write_shares.shares(known, ("owner_pid", "ino"))
        several = found.filter(pl.len().over("at", "part") > 1, pl.col("owner_pid").is_not_null())
        shared.update(several.join(known.pieces.select("at", "part_dev"), on="at").select("part", "part_dev").rows())
    everywhere = {(part, EXT4) for part in ("journal", "metadata", "directory", "discard")}
    assert everywhere | {("node", F2FS), ("metadata", F2FS)} <= shared.keys()


@pytest.mark.parametrize("by", [(), ("owner_pid",), ("owner_comm", "path"), ("dev", "file_type"), BY])
def test_all_costs_together_are_what_was_written(by: tuple[str, ...]) -> None:
    for seed in range(60):
        tables = recording(seed)
        result = measures.write_cost(tables, by=by, page_bytes=PAGE).filter(metric="cost")
        is_discard = pl.col("part") == "discard"
        assert result.filter(~is_discard)["value"].sum() == written(tables, "write")
        assert result.filter(is_discard)["value"].sum() == written(tables, "discard")


@given(st.lists(st.integers(1, 1 << 31), min_size=1, max_size=8), st.integers(1, 1 << 31))
def test_shares_are_whole_bytes_by_weight(weights: list[int], sectors: int) -> None:
    period = {"dev": EXT4, "part_dev": EXT4, "period": 1, "first": 1, "last": 1}
    changes = pl.DataFrame([{**period, "owner_pid": pid, "weight": weight} for pid, weight in enumerate(weights)])
    shares = write_causes.shared(pl.DataFrame([period | {"bytes": sectors * 512}]), changes, ["owner_pid"])
    assert shares["bytes"].sum() == sectors * 512
    for pid, count in shares.select("owner_pid", "bytes").iter_rows():
        assert abs(count - sectors * 512 * Fraction(weights[pid], sum(weights))) < 1


def test_a_column_that_costs_are_not_told_by_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^queue_ns: costs are told by dev, owner_pid"):
        measures.write_cost(recording(1), by=("queue_ns",))


# -- recordings -------------------------------------------------------------------------------------------------------


def holds(tables: Mapping[str, Any]) -> None:
    """What holds of every recording: all is accounted for."""
    for by in ((), ("owner_comm",), ("path",)):
        result = measures.write_cost(tables, by=by).filter(metric="cost")
        is_discard = pl.col("part") == "discard"
        assert result.filter(~is_discard)["value"].sum() == written(tables, "write")
        assert result.filter(is_discard)["value"].sum() == written(tables, "discard", "secure_erase")


def test_the_demo() -> None:
    """Sums, and by hand: who discards is who deletes; the browser deletes what it has just written."""
    tables = androstep.open(ROOT / "datasets" / "demo").tables
    holds(tables)
    result = measures.write_cost(tables, by=("owner_comm",))
    value = {row[:3]: row[3] for row in result.select("metric", "owner_comm", "part", "value").iter_rows()}
    assert value["written", ".example.brows", "dropped"] == 468_840
    assert {key[1] for key in value if key[:1] + key[2:] == ("written", "dropped")} == {".example.brows"}
    discards = {key[1]: size for key, size in value.items() if key[::2] == ("cost", "discard")}
    assert max(discards, key=lambda name: discards[name]) == "installd"
    # A video and two photos a round, in new blocks, and nothing else: what it wrote is what went out, in whole blocks.
    camera = value["written", ".example.camera", "out"]
    assert 0 <= value["cost", ".example.camera", "data"] - camera < 8 * 2 * PAGE
    assert ("cost", ".example.camera", "rewritten") not in value


@pytest.mark.parametrize(
    "path", sorted((ROOT / "datasets/kernels/tables/io").glob("*.parquet")), ids=lambda path: path.stem
)
def test_five_kernels(path: Path) -> None:
    requests, io = (pl.read_parquet(path.parents[1] / name / path.name) for name in ("requests", "io"))
    for capture_id in io["capture_id"].unique().sort().head(3):
        holds({"io": io.filter(capture_id=capture_id), "requests": requests.filter(capture_id=capture_id)})
