"""What is measured of replays: sums and quantiles against a brute-force oracle, comparisons, damaged files."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import replayed

import androstep_analysis as androstep
from androstep_analysis import replay, schema
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.replay.metrics import DIMENSIONS
from androstep_analysis.replay.tables import DIVERGED, READS, WRITES

CALLS = ("pread", "pwrite", "fsync", "open", "sendfile", "mapped_write")
DIVERGENCES = ("none", "none", "none", "unknown", "failed", "succeeded", "error", "bytes")


def rows(seed: int, count: int = 300, threads: int = 4) -> list[dict[str, Any]]:
    """Draw operations of several threads, in order, some inserted, some without a due time."""
    dice = random.Random(seed)
    free = dict.fromkeys(range(threads), 0)
    made = []
    for number in range(count):
        thread = dice.randrange(threads)
        due = None if dice.random() < 0.1 else number * 500
        waited = dice.choice([0, 0, dice.randrange(2000)])
        start = max(free[thread], due or 0) + waited + dice.randrange(200)
        latency = dice.randrange(1, 3000)
        free[thread] = start + latency
        call = dice.choice(CALLS)
        row = {
            **{"thread": thread, "call": call, "inserted": dice.random() < 0.2, "due_ns": due, "start_ns": start},
            **{"waited_ns": waited, "latency_ns": latency, "divergence": dice.choice(DIVERGENCES)},
            "bytes": dice.randrange(9000) if call in (*READS, *WRITES, "sendfile") else None,
        }
        made.append(replayed.operation(number, **row))
    return made


def value(table: pl.DataFrame, metric: str, **dims: str) -> float:
    """Return the only value of a metric with these dimensions, with all others null."""
    names = [name for name in DIMENSIONS if name not in ("run_id", "fs_type")]
    chosen = table.filter(
        pl.col("metric") == metric,
        *(pl.col(name).is_null() if name not in dims else pl.col(name).cast(pl.String) == dims[name] for name in names),
    )
    assert chosen.height == 1, (metric, dims, chosen)
    return float(chosen["value"][0])


def nearest_rank(values: list[int], share: float) -> int:
    """Return the least value that at least this share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@pytest.mark.parametrize("seed", range(5))
def test_sums_and_quantiles(seed: int) -> None:
    operations = rows(seed)
    asked = [row for row in operations if not row["inserted"]]
    found = replay.metrics(replayed.tables(operations))
    groups: list[tuple[dict[str, str], Callable[[dict[str, Any]], bool]]] = [({}, lambda row: True)]
    groups += [({"call": call}, lambda row, call=call: row["call"] == call) for call in {row["call"] for row in asked}]
    for dims, is_in in groups:
        mine = [row for row in asked if is_in(row)]
        assert value(found, "operations", **dims) == len(mine)
        assert value(found, "io_time", **dims) == sum(row["latency_ns"] for row in mine)
        read = sum(row["bytes"] or 0 for row in mine if row["call"] not in WRITES)
        written = sum(row["bytes"] or 0 for row in mine if row["call"] not in READS)
        assert (value(found, "bytes_read", **dims), value(found, "bytes_written", **dims)) == (read, written)
        for name, share in {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}.items():
            expected = nearest_rank([row["latency_ns"] for row in mine], share)
            assert value(found, "latency", quantile=name, **dims) == expected
        for kind in ("failed", "succeeded", "error", "bytes"):
            count = sum(row["divergence"] == kind for row in mine)
            assert value(found, "divergences", divergence=kind, **dims) == count
        assert value(found, "divergences_unknown", **dims) == sum(row["divergence"] == "unknown" for row in mine)


@pytest.mark.parametrize("seed", range(5))
def test_lateness_and_its_parts(seed: int) -> None:
    operations = rows(seed)
    parts: dict[str, list[int]] = {"lateness": [], "lateness_busy": [], "lateness_waited": [], "lateness_own": []}
    free: dict[int, int] = {}
    for row in operations:
        if row["due_ns"] is not None and not row["inserted"]:
            late = max(0, row["start_ns"] - row["due_ns"])
            busy = min(late, max(0, free.get(row["thread"], 0) - row["due_ns"]))
            waited = min(row["waited_ns"], late - busy)
            for name, part in zip(parts, (late, busy, waited, late - busy - waited), strict=True):
                parts[name].append(part)
        free[row["thread"]] = row["start_ns"] + row["latency_ns"]
    tables = replayed.tables(operations)
    found = replay.metrics(tables)
    for name, values in parts.items():
        for quantile, share in {"p50": 0.5, "p99": 0.99, "max": 1.0}.items():
            assert value(found, name, quantile=quantile) == nearest_rank(values, share)
    curve = replay.lateness_distribution(tables)
    for name, values in parts.items():
        line = dict(curve.filter(pl.col("part") == name).select("lateness_ns", "value").iter_rows())
        assert line == pytest.approx({at: sum(other <= at for other in values) / len(values) for at in values})


def test_what_is_measured_of_the_whole() -> None:
    operations = [replayed.operation(number, latency_ns=1000, inserted=number == 0) for number in range(4)]
    known = {"duration_ns": 2_000_000, "recorded_ns": 1_000_000, "cpu_user_ns": 5000, "cpu_system_ns": 9000}
    found = replay.metrics(replayed.tables(operations, **known))
    assert value(found, "elapsed_ratio") == 2
    assert value(found, "cpu_ratio") == 14_000 / 2_000_000
    assert value(found, "cpu_beyond_ratio") == (5000 + 9000 - 4000) / 2_000_000
    assert set(found.schema) == {"metric", *DIMENSIONS, "value", "unit", "n"}


def test_a_replay_without_times_has_no_lateness() -> None:
    operations = [replayed.operation(number, due_ns=None) for number in range(4)]
    tables = replayed.tables(operations, mode="as_fast")
    assert not any(name.startswith("lateness") for name in replay.metrics(tables)["metric"])
    assert replay.lateness_distribution(tables).is_empty()


def test_with_its_program(tmp_path: Path) -> None:
    program = replayed.program(tmp_path / "app.rec", writes=3)
    # The inserted open is left out; all else took 100 ns in the replay and 1000 ns in the recording.
    of_program = program.operations.select("operation", "call", "thread", "inserted").iter_rows(named=True)
    operations = [replayed.operation(row["operation"], **row) for row in of_program]
    tables = replayed.tables(operations)
    found = replay.metrics(tables, program)
    assert value(found, "recorded_io_time") == 1000 * (len(operations) - 1)
    assert value(found, "operations", file_type="sqlite_db") == len(operations) - 2
    assert value(found, "operations", file_type="unknown") == 1
    timeline = replay.timeline(tables, program)
    assert timeline.filter(source="replayed").height == timeline.filter(source="recorded").height == len(operations) - 1
    other = replayed.tables([replayed.operation(0, call="fsync")])
    with pytest.raises(ValueError, match="other operations than this program"):
        replay.metrics(other, program)
    with pytest.raises(ValueError, match="these are 2 replays"):
        second = replayed.tables(operations, run_id="b")
        replay.timeline({name: pl.concat([tables[name], second[name]]) for name in tables}, program)


# -- comparisons ------------------------------------------------------------------------------------------------------


def sides(directory: Path, repeats: int, factor: float) -> dict[str, list[Path]]:
    """Return replays on two filesystems. Calls on the second take `factor` times as long."""
    made: dict[str, list[Path]] = {}
    for place, times in (("ext4", 1.0), ("f2fs", factor)):
        made[place] = []
        for repeat in range(repeats):
            operations = rows(0)
            for row in operations:
                row["latency_ns"] = int((row["latency_ns"] + repeat) * times)
            path = directory / f"{place}{repeat}.rec"
            made[place].append(replayed.write(path, operations, run_id=path.name, fs_type=place))
    return made


def test_sides_are_compared_over_their_repetitions(tmp_path: Path) -> None:
    found = replay.compare(sides(tmp_path, 5, 3.0)).filter(metric="io_time")
    assert set(found["place"]) == {"f2fs"} and set(found["verdict"]) == {"slower"}
    assert found["value"].to_list() == pytest.approx([3.0] * found.height, rel=0.01)
    assert set(found["n"]) == {10}
    faster = replay.compare(sides(tmp_path, 5, 0.5)).filter(metric="io_time")
    assert set(faster["verdict"]) == {"faster"}
    same = replay.compare(sides(tmp_path, 5, 1.0)).filter(metric="io_time")
    assert set(same["verdict"]) == {"no difference shown"}
    summary = replay.summarise(sides(tmp_path, 5, 3.0)).filter(pl.col("call").is_null(), metric="io_time")
    assert summary["place"].to_list() == ["ext4", "f2fs"] and (summary["lo"] < summary["hi"]).all()


def test_one_replay_is_no_evidence(tmp_path: Path) -> None:
    made = sides(tmp_path, 1, 3.0)
    found = replay.compare(made)
    assert set(found["verdict"]) == {"insufficient data"} and found["lo"].is_null().all()
    assert replay.summarise(made)["lo"].is_null().all()


def test_other_programs_and_modes_are_not_compared(tmp_path: Path) -> None:
    a = replayed.write(tmp_path / "a.rec", rows(0), run_id="a")
    b = replayed.write(tmp_path / "b.rec", rows(0), run_id="b", program="1" * 64)
    c = replayed.write(tmp_path / "c.rec", rows(0), run_id="c", mode="as_fast")
    with pytest.raises(ValueError, match="differ in program"):
        replay.compare({"a": [a], "b": [b]})
    with pytest.raises(ValueError, match="differ in mode"):
        replay.summarise({"a": [a], "c": [c]})


# -- files ------------------------------------------------------------------------------------------------------------


def test_several_replays_open_together(tmp_path: Path) -> None:
    paths = [replayed.write(tmp_path / f"{name}.rec", rows(0), run_id=name) for name in "ab"]
    both = androstep.create(paths, tmp_path / "capture")
    assert "replays 2 on ext4" in repr(both)
    assert both.replay["replay_runs"]["run_id"].to_list() == ["a", "b"]
    assert replay.read(tmp_path / "capture").tables["replay_ops"].equals(both.replay["replay_ops"])
    again = androstep.open(tmp_path / "capture")
    assert set(replay.TABLES) < set(again.tables)
    with pytest.raises(InputError, match="run a is in two files"):
        replay.read(paths[0], paths[0])


@pytest.mark.prove
def test_a_report_does_not_mix_replays_that_are_no_repetitions(tmp_path: Path) -> None:
    for modes, places in ((("as_fast", "as_fast"), {"ext4"}), (("as_recorded", "as_fast"), {"a", "b"})):
        top = tmp_path / modes[0]
        top.mkdir()
        paths = [
            replayed.write(top / f"{name}.rec", rows(0), run_id=name, mode=mode)
            for name, mode in zip("ab", modes, strict=True)
        ]
        opened = androstep.create(paths, top / "capture")
        androstep.report.write(opened, top / "page.html", figures=top / "figures")
        assert set(pl.read_csv(top / "figures" / "replay_io_time.csv")["place"]) == places


def test_files_that_hold_no_replay(tmp_path: Path) -> None:
    program = tmp_path / "app.rec"
    replayed.program(program)
    with pytest.raises(InputError, match="no header of a record stream"):
        replay.read(program)
    with pytest.raises(InputError, match="a replay program; replay it with `androstep replay`"):
        androstep.open(program)
    with pytest.raises(
        InputError, match="no file with results was given; name one, or a capture of `androstep replay`"
    ):
        replay.read()
    (tmp_path / "trace.txt").write_text("  8,0 0 1 0.000000001 1 Q W 8 + 8 [a]\n")
    traced = androstep.create([tmp_path / "trace.txt"], tmp_path / "traced")
    with pytest.raises(InputError, match="a capture without results of a replay"):
        _ = traced.replay


def test_a_cut_file_tells_nothing_of_its_replay(tmp_path: Path) -> None:
    path = replayed.write(tmp_path / "a.rec", rows(0, 3000))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.warns(LossWarning, match="completed operations are missing from the file"):
        found = replay.read(path)
    assert found.tables["replay_ops"].height < 3000
    path.write_bytes(data[:2000])
    with pytest.raises(InputError, match=r"a\.rec"):
        replay.read(path)


def test_the_calls_have_the_names_of_the_schema() -> None:
    known = set(schema.table("replay_ops").column("call").values)
    assert {*READS, *WRITES} < known
    assert set(schema.table("replay_ops").column("divergence").values) == {
        *("none", "unknown"),
        *DIVERGED,
    }
