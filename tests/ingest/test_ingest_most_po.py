"""MOST's tables, compared with counts by independent code (oracle_most.json)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, readers

from androstep_analysis import ingest
from androstep_analysis.common.errors import InputError


@pytest.fixture(scope="module")
def oracle() -> dict[str, Any]:
    expected: dict[str, Any] = json.loads(corpus.path("androstep/oracle_most.json").read_text())
    return expected


def test_result_po(oracle: dict[str, Any]) -> None:
    staging = readers.read(corpus.path("androstep/result.po"))
    expected = oracle["result_po"]
    block = staging.block
    assert staging.format == "most_po"
    assert block.height == expected["lines"]
    assert staging.first_ns == readers.ns(expected["first_time"])
    assert staging.last_ns == readers.ns(expected["last_time"])
    assert staging.events == expected["by_action"]
    assert readers.tally(block, "event", "rwbs") == expected["by_action_rwbs"]
    letters = {"data": "D", "journal": "J", "metadata": "M"}
    types = readers.tally(block, "block_type")
    assert {letters[name]: n for name, n in types.items()} == expected["by_block_type"]
    groups = (
        block.with_columns(
            direction=pl.when(pl.col("rwbs").str.contains("R")).then(pl.lit("R")).otherwise(pl.lit("W")),
            letter=pl.col("block_type").cast(pl.String).replace_strict(letters),
        )
        .group_by(pl.concat_str("event", "direction", "letter", separator="/").alias("key"))
        .agg(count=pl.len(), sectors=pl.col("nr_sectors").sum(), zero_size=(pl.col("nr_sectors") == 0).sum())
    )
    assert {row["key"]: row for row in groups.to_dicts()} == {
        key: {"key": key, **{name: group[name] for name in ("count", "sectors", "zero_size")}}
        for key, group in expected["action_dir_block"].items()
    }
    assert block["path"].count() == expected["by_block_type"]["D"]
    assert block["path"].str.starts_with("/").all()
    assert staging.losses == ()


def test_class_of_the_name_is_taken_off_the_pid(oracle: dict[str, Any]) -> None:
    path = corpus.path("androstep/result.po")
    block = readers.read(path).block
    printed = [int(line.split("\t")[5]) for line in path.read_text().splitlines()]
    classes = {"none": 0, "-journal": 1, ".db": 5}
    assert {name: sum(pid // 100_000 == c for pid in printed) for name, c in classes.items()} == oracle["result_po"][
        "pid_class_prefix"
    ]
    assert block["tid"].to_list() == [pid % 100_000 for pid in printed]
    # Without its class, a thread is the same one in all its lines.
    assert block.filter(pl.col("comm") == "GCMReader")["tid"].n_unique() == 1


def test_pids_of_later_kernels_are_left_alone(tmp_path: Path) -> None:
    lines = "".join(f"    0.00000000{i}\tQ\tWS\t 8\t 8\t{pid}\t sh\tM\n" for i, pid in enumerate([7, 123_456, 140_000]))
    assert readers.read_bytes(tmp_path, lines.encode()).block["tid"].to_list() == [7, 123_456, 140_000]


def test_result3_po(oracle: dict[str, Any]) -> None:
    staging = readers.read(corpus.path("androstep/result3.po"))
    assert staging.events == {"C": oracle["result_po"]["by_action"]["C"]}
    # The Viewer writes "file-NONE" where there is no path.
    assert set(staging.block.filter(pl.col("path").is_null())["block_type"]) == {"journal", "metadata"}
    assert staging.block["path"].null_count() == staging.block.filter(pl.col("block_type") != "data").height


def test_cases_of_the_original_parser() -> None:
    cases = json.loads(corpus.path("androstep/most_cases.json").read_text())
    staging = readers.read(corpus.path("androstep/most_cases.out.txt"))
    # MOST itself wrote cases 38 and 39 into one line that is no table row.
    kept = [(n, case) for n, case in enumerate(cases, start=1) if n not in (38, 39)]
    assert readers.losses(staging) == {"unreadable": 1}
    plug = {"P", "U", "UT"}
    assert staging.block.select("ts_ns", "event", "rwbs", "sector", "nr_sectors", "tid", "comm").rows() == [
        (n * 10**9, action, rwbs, *((None, None) if action in plug else (sector, length)), tid, comm)
        for n, (action, rwbs, sector, length, tid, comm) in kept
    ]
    by_comm = {row["comm"]: row for row in staging.block.iter_rows(named=True)}
    assert by_comm["x.db"]["block_type"] == "data"
    assert by_comm["x.db"]["path"] == "/media/0/hard.db"
    assert by_comm["jbd2/loop0-8"]["block_type"] == "journal"
    assert by_comm["free space"]["block_type"] == "metadata"
    assert by_comm["resize inode"]["block_type"] is None
    assert by_comm["flush only"]["block_type"] is None


def test_input_of_most(tmp_path: Path) -> None:
    staging = readers.read_bytes(tmp_path, b"    0.000000001\tQ\tWS\t       8\t   8\t   7\t                  sh\n")
    assert staging.format == "most_blkparse"
    (row,) = staging.block.iter_rows(named=True)
    assert (row["dev"], row["block_type"], row["path"], row["comm"]) == (None, None, None, "sh")


def test_truncation(tmp_path: Path) -> None:
    data = corpus.path("androstep/result.po").read_bytes()
    pick = random.Random(3)
    path = tmp_path / "cut.po"
    for cut in [pick.randrange(1, len(data)) for _ in range(50)]:
        path.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        if not whole:
            with pytest.raises(InputError):
                ingest.read(path)
            continue
        staging = readers.read(path)
        assert staging.block.height == whole
        assert readers.losses(staging) == ({} if data[:cut].endswith(b"\n") else {"torn": 1})


NAME = st.text(st.characters(exclude_characters="\n\t\0", exclude_categories=["Cs"]), max_size=40)


@pytest.mark.prove
@given(
    st.lists(st.tuples(NAME, NAME.map("/{}".format), st.integers(1, 32_768), st.integers(0, 5)), min_size=1, max_size=8)
)
def test_names_may_hold_anything(tmp_path: Path, rows: list[tuple[str, str, int, int]]) -> None:
    text = "".join(
        f"{i:5d}.{0:09d}\tC\tWS\t{i:8d}\t{8:4d}\t{kind * 100_000 + tid:4d}\t{comm:>20}\tD\t{path}\n"
        for i, (comm, path, tid, kind) in enumerate(rows)
    )
    block = readers.read_bytes(tmp_path, text.encode()).block
    # Leading spaces of a name cannot be distinguished from the padding.
    expected = [(tid, comm.lstrip(" "), path) for comm, path, tid, _ in rows]
    assert block.select("tid", "comm", "path").rows() == expected
