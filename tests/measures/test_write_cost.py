"""Costs of written bytes: exact sums, shares compared with plain Python, and all stored recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus
from support.cost import oracle
from support.cost.tables import EXT4, F2FS, PAGE, recording
from support.in_parts import read_in_parts
from support.needs import left_to_prove

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.fs import tracepoints
from androstep_analysis.measures import write_causes, write_shares
from androstep_analysis.measures.write_cost import BY

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "datasets/kernels/tables/io"


def costs(result: pl.DataFrame) -> Counter[tuple[Any, ...]]:
    rows = result.filter(metric="cost").select(*result.columns[1:-5], "value").rows()
    return Counter({row[:-1]: int(row[-1]) for row in rows})


def written(tables: Mapping[str, Any], *ops: str) -> int:
    counted = measures.counted(tables["io"]).filter(pl.col("op").is_in(ops))
    return int(counted.select(pl.col("bytes").sum()).collect().item())


@pytest.mark.parametrize("rows", left_to_prove([None, 3], {3}.__contains__))
def test_costs_are_those_of_the_oracle(rows: int | None) -> None:
    for seed in range(20 if rows is None else 5):
        tables = recording(seed)
        with read_in_parts(rows):
            found = measures.write_cost(
                tables, by=("owner_pid", "ino"), page_bytes=PAGE, recorded=tracepoints.CREATIONS
            )
        expected = oracle.cost(*(tables[name].rows(named=True) for name in ("requests", "io", "fs_events")))
        assert costs(found) == expected, seed


def test_every_rule_is_met() -> None:
    """Otherwise the test above would prove little: shares of several, by every rule."""
    shared: Counter[Any] = Counter()
    for seed in range(20):
        tables = recording(seed)
        known = write_shares.write_data(tables, PAGE, None, None)
        found = pl.concat(write_shares.shares(known, ("owner_pid", "ino")))
        several = found.filter(pl.len().over("at", "part") > 1, pl.col("owner_pid").is_not_null())
        shared.update(several.join(known.pieces.select("at", "part_dev"), on="at").select("part", "part_dev").rows())
    everywhere = {(part, EXT4) for part in ("journal", "metadata", "directory", "discard")}
    assert everywhere | {("node", F2FS), ("metadata", F2FS)} <= shared.keys()


@pytest.mark.parametrize("by", [(), ("owner_pid",), ("owner_comm", "path"), ("dev", "file_type"), BY])
def test_all_costs_together_are_what_was_written(by: tuple[str, ...]) -> None:
    for seed in range(5):
        tables = recording(seed)
        result = measures.write_cost(tables, by=by, page_bytes=PAGE).filter(metric="cost")
        is_discard = pl.col("part") == "discard"
        assert result.filter(~is_discard)["value"].sum() == written(tables, "write")
        assert result.filter(is_discard)["value"].sum() == written(tables, "discard")
        unresolved = sum(row["value"] for row in result.iter_rows(named=True) if None in by_values(row, by))
        assert result["coverage"].to_list() == pytest.approx([1 - unresolved / result["value"].sum()] * result.height)


def by_values(row: Mapping[str, Any], by: tuple[str, ...]) -> list[Any]:
    """Return the values of `by` in a row, and its part; None if unknown."""
    return [*(row[name] for name in by), None if row["part"] == "unknown" else row["part"]]


@given(st.lists(st.integers(1, 1 << 31), min_size=1, max_size=8), st.integers(1, 1 << 31))
def test_shares_are_whole_bytes_by_weight(weights: list[int], sectors: int) -> None:
    period = {"dev": EXT4, "part_dev": EXT4, "period": 1, "first": 1, "last": 1}
    changes = pl.DataFrame([{**period, "owner_pid": pid, "weight": weight} for pid, weight in enumerate(weights)])
    weighed = write_causes.weights(changes, ["owner_pid"])
    shares = write_causes.shared(pl.DataFrame([period | {"bytes": sectors * 512}]), weighed, ["owner_pid"])
    assert shares["bytes"].sum() == sectors * 512
    for pid, count in shares.select("owner_pid", "bytes").iter_rows():
        assert abs(count - sectors * 512 * Fraction(weights[pid], sum(weights))) < 1


@pytest.mark.parametrize(
    ("by", "inferred"),
    [
        ((), [False] * 4),
        (("owner_pid",), [False, True, False, True]),
        (("ino",), [False, False, True, True]),
        (("owner_pid", "ino"), [False, True, True, True]),
    ],
)
def test_a_cost_is_inferred_where_what_it_is_told_by_is(by: tuple[str, ...], inferred: list[bool]) -> None:
    both = {"owner_inferred": [False, True] * 2, "file_inferred": [False, False, True, True]}
    changes = pl.DataFrame({"owner_pid": [7] * 4, "ino": [12] * 4} | both)
    assert write_shares._with_certainty(changes, by)["inferred"].to_list() == inferred


def test_a_column_that_costs_are_not_told_by_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^queue_ns: costs can be grouped by dev, owner_pid"):
        measures.write_cost(recording(1), by=("queue_ns",))


# -- recordings -------------------------------------------------------------------------------------------------------


def holds(tables: Mapping[str, Any]) -> None:
    """Check that every recording accounts for all bytes."""
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
    # A video and two photos a round, in new blocks, and nothing else: all that it wrote was written back, in whole
    # blocks.
    camera = value["written", ".example.camera", "out"]
    assert 0 <= value["cost", ".example.camera", "data"] - camera < 8 * 2 * PAGE
    assert ("cost", ".example.camera", "rewritten") not in value
    # What went out again, by plain counting, also of inodes that the kernel let go in between.
    data = tables["io"].collect().filter(op="write", block_type="data").sort("queue_ns", maintain_order=True)
    at = pl.int_ranges("file_offset_bytes", pl.col("file_offset_bytes") + pl.col("bytes"), 512)
    places = data.select("dev", "ino", "incarnation", at=at).explode("at")
    again = 512 * (places.height - places.n_unique())
    assert sum(size for key, size in value.items() if key[::2] == ("cost", "rewritten")) == again


@pytest.mark.prove
@pytest.mark.parametrize(
    "path", sorted((ROOT / "datasets/kernels/tables/io").glob("*.parquet")), ids=lambda path: path.stem
)
def test_five_kernels(path: Path) -> None:
    requests, io = (pl.read_parquet(path.parents[1] / name / path.name) for name in ("requests", "io"))
    capture_id = io["capture_id"].min()
    holds({"io": io.filter(capture_id=capture_id), "requests": requests.filter(capture_id=capture_id)})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        *(
            f"kernel/{one}/trace.dat.zst"
            for one in ("ext4_guest_6.1", "ext4_host_6.18", "f2fs_guest_6.1", "vfat_guest_6.1")
        ),
        "blkparse_text/android_blktrace.flash.facebook.txt",
        "perfetto/difftest_block_io_slice.pb",
    ],
)
def test_foreign_recordings(name: str) -> None:
    """With the filesystem's events, with those of another filesystem, and with none: results never exceed the
    events."""
    found = androstep.open(corpus.path(name))
    holds(found.tables)
    write_data = measures.write_cost(found.tables)
    has_writes = bool(sum(count for event, count in found.events.items() if event.endswith("write_begin")))
    assert has_writes == (not write_data.filter(metric="written").is_empty())
    assert has_writes == (not write_data.filter(metric="cost_per_byte").is_empty())
