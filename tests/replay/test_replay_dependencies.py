"""The orders that a replay keeps: by hand, against all pairs, and by what replays come to that have no other ones."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus
from support import mobigen_scripts as scripts
from support.oracles import dependencies as oracle
from support.replay_emulator import Emulator, random_operation
from support.replay_programs import program, replay
from support.tree import ROOT

from androstep_analysis import capture, schema
from androstep_analysis.replay import clean, overlaps
from androstep_analysis.replay.dependencies import DOES, Does, dependencies
from androstep_analysis.replay.program import Program

CALLS = list(schema.enum("operations", "call").categories)
PATHS = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", ".", "e/a"]


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    """Table `operations` of rows that name only what matters; one operation every 10 ns, each of 5 ns."""
    full = [
        {"operation": number, "ts_ns": 10 * number, "duration_ns": 5, "inserted": False, "failed": False} | row
        for number, row in enumerate(rows)
    ]
    return schema.complete(
        pl.DataFrame(full, {name: schema.table("operations").polars[name] for name in full[0].keys() | _keys(full)}),
        "operations",
    )


def _keys(rows: list[dict[str, Any]]) -> set[str]:
    return {name for row in rows for name in row}


def pairs(*rows: dict[str, Any]) -> list[tuple[int, int]]:
    return dependencies(table(*rows)).rows()


# -- by hand ----------------------------------------------------------------------------------------------------------


def test_no_operations() -> None:
    assert dependencies(schema.empty("operations")).equals(schema.empty("replay_dependencies"))


@pytest.mark.sanitized
def test_a_descriptor_is_made_used_and_closed() -> None:
    assert pairs(
        {"thread": 0, "call": "open", "descriptor": 0, "path": "a"},
        {"thread": 1, "call": "pread", "descriptor": 0, "offset_bytes": 0},
        {"thread": 2, "call": "pread", "descriptor": 0, "offset_bytes": 0},
        {"thread": 0, "call": "close", "descriptor": 0},
    ) == [(1, 0), (2, 0), (3, 1), (3, 2)]


@pytest.mark.sanitized
def test_times_that_overlap_do_not_free_a_descriptor() -> None:
    assert pairs(
        {"thread": 0, "call": "open", "descriptor": 0, "path": "a", "duration_ns": 1000},
        {"thread": 1, "call": "pread", "descriptor": 0, "offset_bytes": 0, "duration_ns": 1000},
        {"thread": 2, "call": "close", "descriptor": 0},
    ) == [(1, 0), (2, 1)]


def test_what_finds_a_file_comes_after_what_made_it_although_they_overlap() -> None:
    made = {"call": "open", "path": "a", "file": 0, "flags": 0o102, "duration_ns": 1000}
    found = {"call": "stat", "path": "a", "file": 0}
    assert pairs({"thread": 0, **made}, {"thread": 1, **found}) == [(1, 0)]
    assert pairs({"thread": 0, **made}, {"thread": 1, **found, "file": None, "failed": True}) == []
    before = {**found, "file": None, "failed": True, "result": -2, "duration_ns": 1000}
    assert pairs({"thread": 1, **before}, {"thread": 0, **made}) == [(1, 0)]
    was_there = {"thread": 2, **found, "duration_ns": 1000}
    assert pairs(was_there, {"thread": 0, **made}, {"thread": 1, **found}) == [(1, 0), (2, 1)]


def test_what_overlaps_is_free() -> None:
    row = {"call": "pwrite", "file": 0}
    assert pairs({"thread": 0, **row, "duration_ns": 11}, {"thread": 1, **row}) == []
    assert pairs({"thread": 0, **row, "duration_ns": 10}, {"thread": 1, **row}) == [(1, 0)]
    assert pairs({"thread": 0, **row, "duration_ns": None}, {"thread": 1, **row}) == [(1, 0)]


def test_behind_what_still_runs_counts_what_was_before() -> None:
    row = {"call": "pwrite", "file": 0}
    assert pairs({"thread": 0, **row}, {"thread": 0, **row, "duration_ns": 100}, {"thread": 1, **row}) == [(2, 0)]


def test_what_ran_beside_the_one_before_is_not_covered_by_it() -> None:
    row = {"call": "pwrite", "file": 0}
    assert pairs(
        {"thread": 0, **row, "duration_ns": 15},
        {"thread": 1, **row, "duration_ns": 15},
        {"thread": 0, **row, "duration_ns": 80},
        {"thread": 2, **row},
    ) == [(3, 0), (3, 1)]


def test_reads_are_free_and_fsync_covers_writes() -> None:
    assert pairs(
        {"thread": 0, "call": "pread", "file": 0},
        {"thread": 1, "call": "pread", "file": 0},
        {"thread": 0, "call": "pwrite", "file": 0},
        {"thread": 1, "call": "fsync", "file": 0},
        {"thread": 2, "call": "pwrite", "file": 0},
    ) == [(2, 1), (3, 2), (4, 3)]


def test_a_directory_is_there_before_what_is_in_it_and_gone_after() -> None:
    assert pairs(
        {"thread": 0, "call": "mkdir", "path": "d"},
        {"thread": 1, "call": "open", "path": "d/e/a", "flags": oracle.O_CREAT, "descriptor": 0},
        {"thread": 0, "call": "unlink", "path": "d/e/a"},
        {"thread": 2, "call": "rename", "path": "d", "path2": "e"},
        {"thread": 1, "call": "stat", "path": "e/e"},
    ) == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_what_failed_only_looked() -> None:
    assert (
        pairs(
            {"thread": 0, "call": "unlink", "path": "a", "failed": True},
            {"thread": 1, "call": "open", "path": "a", "flags": oracle.O_CREAT, "failed": True},
        )
        == []
    )


def test_sync_waits_for_all_changes_and_nobody_for_sync() -> None:
    assert pairs(
        {"thread": 0, "call": "pwrite", "file": 0},
        {"thread": 1, "call": "mkdir", "path": "d"},
        {"thread": 2, "call": "sync"},
        {"thread": 0, "call": "pwrite", "file": 1},
        {"thread": 2, "call": "sync"},
    ) == [(2, 0), (2, 1), (4, 3)]


def test_duplicates_share_a_position() -> None:
    assert pairs(
        {"thread": 0, "call": "open", "descriptor": 0, "path": "a"},
        {"thread": 0, "call": "dup", "descriptor": 0, "descriptor2": 1},
        {"thread": 0, "call": "read", "descriptor": 0},
        {"thread": 1, "call": "read", "descriptor": 1},
    ) == [(3, 2)]


# -- against all pairs ------------------------------------------------------------------------------------------------


def random_operations(choose: random.Random, count: int) -> list[dict[str, Any]]:
    """Draw random operations of some threads on few files and names."""
    threads, moment, rows = choose.randrange(1, 7), 0, []
    calls = choose.choice([CALLS, choose.sample(CALLS, 5), ["open", "dup", "close", "read", "sync", "rename"]])

    def maybe(value: Any, chance: float = 0.8) -> Any:
        return value if choose.random() < chance else None

    for number in range(count):
        moment += choose.choice([0, 0, 1, 5, 20])
        call = choose.choice(calls)
        rows.append(
            {
                "operation": number,
                "ts_ns": moment,
                "duration_ns": maybe(choose.choice([0, 1, 3, 30, 300])),
                "thread": choose.randrange(threads),
                "call": call,
                "inserted": False,
                "descriptor": maybe(choose.randrange(5)),
                "descriptor2": maybe(choose.randrange(5, 9)),
                "file": maybe(choose.randrange(3)),
                "file2": maybe(choose.randrange(3)),
                "path": maybe(choose.choice(PATHS)),
                "path2": maybe(choose.choice(PATHS)),
                "flags": maybe(choose.choice([0, oracle.O_CREAT, oracle.O_TRUNC])),
                "offset_bytes": maybe(0),
                "offset2_bytes": maybe(0),
                "failed": maybe(choose.random() < 0.3),
                "result": maybe(choose.choice([0, 0, -2, -17])),
            }
        )
    return rows


def check(rows: list[dict[str, Any]]) -> None:
    operations = schema.complete(pl.DataFrame(rows, _dtypes(rows)), "operations")
    found = dependencies(operations).rows()
    needed = oracle.required(rows, overlaps.tells(operations).to_list())
    assert len(set(found)) == len(found) and found == sorted(found)
    assert set(found) <= needed
    assert oracle.closure(rows, set(found)) == oracle.closure(rows, needed)


def _dtypes(rows: list[dict[str, Any]]) -> dict[str, pl.DataType]:
    return {name: schema.table("operations").polars[name] for name in rows[0]}


@pytest.mark.sanitized
@pytest.mark.prove
@settings(max_examples=80)
@given(st.integers(0, 1 << 32))
def test_as_all_pairs_say(seed: int) -> None:
    choose = random.Random(seed)
    check(random_operations(choose, choose.choice([3, 10, 40, 120])))


def test_few_rows_are_left() -> None:
    """All threads write to one file in turn: each waits only for the one before it."""
    rows = [{"thread": number % 40, "call": "pwrite", "file": 0} for number in range(4000)]
    assert pairs(*rows) == [(number, number - 1) for number in range(1, 4000)]


def test_what_overlaps_waits_for_the_one_before_where_results_tell() -> None:
    """All threads make the same name at the same time: each comes after the one before it, and so after all others."""
    rows = [
        {"thread": number, "call": "open", "path": "a", "flags": 0o100, "failed": False, "result": 3}
        | {"ts_ns": 0, "duration_ns": 1000 + number}
        for number in range(3000)
    ]
    assert pairs(*rows) == [(number, number - 1) for number in range(1, 3000)]


def test_thousands_of_threads() -> None:
    """Each looks up the same directory; then it goes away, and comes again."""
    threads = 5000
    rows = [{"thread": number % threads, "call": "stat", "path": "d/a"} for number in range(4 * threads)]
    rows += [{"thread": threads, "call": "rename", "path": "d", "path2": "e"}]
    rows += [{"thread": number, "call": "stat", "path": "e/a"} for number in range(threads)]
    found = dependencies(table(*rows))
    assert found.height == 2 * threads
    assert found.filter(operation=4 * threads).height == threads


def test_where_all_would_wait_for_all_some_wait_for_one_that_did() -> None:
    """Very many threads write at the same time, then as many others: all of those still come after all of these."""
    threads = 1500
    rows = [
        {"thread": number, "call": "pwrite", "file": 0, "ts_ns": 0 if number < threads else 1000, "duration_ns": 1000}
        for number in range(2 * threads)
    ]
    found = pairs(*rows)
    assert threads < len(found) < threads * threads
    first = (1 << threads) - 1
    before = oracle.closure(rows, set(found))
    assert before[:threads] == [0] * threads
    assert all(bits & first == first for bits in before[threads:])


def test_many_that_looked_and_many_that_changed_wait_for_one_each() -> None:
    """Some results show their order, although none had ended when the next one began."""
    looks = {"call": "stat", "path": "a", "failed": True, "result": -2}
    makes = {"call": "open", "path": "a", "flags": 0o100, "failed": False, "result": 3}
    denied = {"call": "stat", "path": "a", "failed": True, "result": -13}
    rows = [
        {"thread": number, "ts_ns": number, "duration_ns": 10000} | (looks if number < 2000 else makes)
        for number in range(4000)
    ]
    rows += [{"thread": 4000, "ts_ns": 13000, "duration_ns": 1} | denied]
    found = pairs(*rows)
    assert found[:2000] == [(2000, number) for number in range(2000)]
    assert found[2000:3999] == [(number, number - 1) for number in range(2001, 4000)]
    assert found[3999:] == [(4000, 3000)]


@pytest.mark.sanitized
def test_a_path_may_be_deep_and_anything() -> None:
    deep = "/".join(["x"] * 2000)
    assert pairs(
        {"thread": 0, "call": "mkdir", "path": "x"},
        {"thread": 1, "call": "stat", "path": deep},
        {"thread": 0, "call": "rmdir", "path": "\U0001f4a9\n"},
        {"thread": 1, "call": "stat", "path": "\U0001f4a9\n/.."},
    ) == [(1, 0), (3, 2)]


# -- what is written twice --------------------------------------------------------------------------------------------


def test_every_call_has_a_rule() -> None:
    assert sorted(DOES) == sorted(CALLS)


def test_the_bits_are_those_of_the_header() -> None:
    header = (ROOT / "androstep_analysis/native/calls/dependencies.h").read_text()
    assert {name: 1 << int(bit) for name, bit in re.findall(r"DOES_([A-Z_0-9]+) = 1 << (\d+)", header)} == {
        str(does.name): int(does) for does in Does
    }


# -- replayed ---------------------------------------------------------------------------------------------------------


class Numbering(Emulator):
    """Return also the files of each operation, as inode numbers."""

    def attempt(self, operation: dict[str, Any]) -> dict[str, Any]:
        file, file2 = self._inode(operation, "descriptor"), self._inode(operation, "descriptor2")
        done = super().attempt(operation)
        if done["call"] == "open":
            file = self._inode(done, "descriptor")
        return done | {"file": file, "file2": file2}

    def _inode(self, operation: dict[str, Any], descriptor: str) -> int | None:
        """Return the file of an operation's descriptor, else of its path."""
        if operation.get(descriptor) is not None:
            return os.fstat(self.descriptors[operation[descriptor]]).st_ino % (1 << 31)
        if descriptor == "descriptor" and operation.get("path"):
            with contextlib.suppress(OSError):
                return os.lstat(self.root / operation["path"]).st_ino % (1 << 31)
        return None


def emulated(top: Path, seed: int) -> Program:
    """Return a random program of many threads, run by one, with the dependencies of its operations."""
    choose, emulator = random.Random(seed), Numbering(top)
    rows = [emulator.attempt(random_operation(choose, list(emulator.descriptors), 20)) for _ in range(600)]
    emulator.end()
    made = program([row | {"ts_ns": 10 * number} for number, row in enumerate(rows)])
    return dataclasses.replace(made, dependencies=dependencies(made.operations))


def differing(top: Path, made: Program) -> int:
    """Return operations with other results when all threads run as fast as the dependencies allow."""
    results = replay(top, made, "--mode", "as-fast", variant="native").results
    return sum(mine != theirs for mine, theirs in zip(results, made.operations["result"], strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_threads_come_to_what_one_comes_to(tmp_path: Path, seed: int) -> None:
    (tmp_path / "naive").mkdir()
    assert differing(tmp_path, emulated(tmp_path / "naive", seed)) == 0


def test_without_the_orders_they_do_not(tmp_path: Path) -> None:
    """The orders on descriptors alone are not enough."""
    (tmp_path / "naive").mkdir()
    made = emulated(tmp_path / "naive", 0)
    none = {"file": pl.Int32, "path": pl.String, "path2": pl.String}
    bare = made.operations.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in none.items())
    assert differing(tmp_path, dataclasses.replace(made, dependencies=dependencies(bare))) > 0


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize("name", scripts.NAMES)
def test_a_script_comes_to_what_one_thread_comes_to(name: str, tmp_path: Path) -> None:
    recording = capture.open(corpus.path(f"androstep/mobigen.out.{name}"))
    made = clean(recording.syscalls, recording.tables["tasks"]).program
    alone = made.operations.with_columns(thread=pl.lit(0, pl.Int32))
    one = dataclasses.replace(
        made, operations=alone, threads=made.threads[:1], dependencies=schema.empty("replay_dependencies")
    )
    found = []
    for number, threads in enumerate((made, one)):
        (tmp_path / str(number)).mkdir()
        found.append(replay(tmp_path / str(number), threads, "--mode", "as-fast", variant="native").results)
    assert found[0] == found[1]
