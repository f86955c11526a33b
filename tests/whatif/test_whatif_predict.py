"""The device model and the queue before it: known costs are found again, and times are those of the plainest queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.made import table
from support.whatif_oracles import Operation, queue

from androstep_analysis import schema, whatif
from androstep_analysis.common.errors import InputError
from androstep_analysis.replay import device
from androstep_analysis.replay.program import Program
from androstep_analysis.whatif.model import FUA

SIZES = (4096, 16384, 65536)
BASE = {"seq_read": 100, "rand_read": 700, "seq_write": 300, "rand_write": 9000}
"""Microseconds that an access of the made device takes before the first byte; each KiB takes one more."""


DURABLE = 40_000
"""Nanoseconds that a write takes longer where it is durable at its end."""


def flush_cost(written: int) -> int:
    """Return the cost of a flush: two milliseconds, and one microsecond for each KiB that was written before."""
    return 2_000_000 + written * 1000 // 1024


def cost(access: str, size: int) -> int:
    return (BASE[access] + size // 1024) * 1000


def bench_tables(noise: int = 0) -> dict[str, pl.DataFrame]:
    """Return results of a device with exactly these costs, four requests at a time for reads and one for writes."""
    runs: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []

    def add(access: str, size: int, threads: int, mode: str, parts: dict[str, int], elapsed: int, repeat: int) -> None:
        known = {
            "run_id": f"{access}-{size}-{threads}-{mode}",
            "repeat": repeat,
            "test": access,
            "sync_mode": mode,
            "block_bytes": size,
            "threads": threads,
            "duration_ns": elapsed,
        }
        runs.append({**known, "workload": "file", "valid": True, "depth": 1, "interrupted": False})
        for part, mean in parts.items():
            histogram = {"hist_bucket_ns": [mean], "hist_width_ns": [1], "hist_count": [100]}
            results.append(
                {**known, **histogram, "thread": -1, "part": part, "ops": 100, "latency_sum_ns": 100 * mean}
                | {"latency_max_ns": mean}
            )

    for repeat in range(3):
        shift = noise * (repeat - 1)
        for access in BASE:
            for size in SIZES:
                mean = cost(access, size) + shift
                add(access, size, 1, "direct", {"op": mean}, 100 * mean, repeat)
        for access, served in (("rand_read", 4), ("rand_write", 1)):
            for threads in (2, 4, 8):
                mean = cost(access, 4096)
                add(access, 4096, threads, "direct", {"op": mean}, 100 * mean // min(threads, served), repeat)
        for size in SIZES:
            add("seq_write", size, 1, "direct+fdatasync", {"op": 1, "write": 1, "sync": flush_cost(size)}, 1, repeat)
            for access in ("seq_write", "rand_write"):
                mean = cost(access, size) + DURABLE
                add(access, size, 1, "direct+odsync", {"op": mean}, 100 * mean, repeat)
    return {"bench_runs": whole(runs, "bench_runs"), "bench": whole(results, "bench")}


def whole(rows: list[dict[str, Any]], name: str) -> pl.DataFrame:
    """Return rows in the columns of the table, with nulls for data of real runs only."""
    types = schema.table(name).polars
    columns = {column: [row.get(column) for row in rows] for column in types}
    return pl.DataFrame(columns, schema=types)


def test_a_device_of_known_costs_is_found_again() -> None:
    model = whatif.fit(bench_tables(noise=50))
    times = {(row["access"], row["block_bytes"]): row for row in model.iter_rows(named=True)}
    assert len(times) == (len(BASE) + len(FUA) + 1) * len(SIZES)
    for access in BASE:
        for size in SIZES:
            row = times[access, size]
            exact = cost(access, size)
            assert (row["service_ns"], row["lo_ns"], row["hi_ns"]) == (exact, exact - 50, exact + 50)
            assert row["depth"] == (4 if access.endswith("read") else 1)
    for size in SIZES:
        assert times["flush", size]["service_ns"] == flush_cost(size)
        for access, durable in FUA.items():
            assert times[durable, size]["service_ns"] == cost(access, size) + DURABLE
            assert times[durable, size]["depth"] == 1
    assert schema.conform(model, "device_model").equals(model)


def test_between_sizes_time_is_on_a_line_and_outside_extrapolated() -> None:
    model = whatif.fit(bench_tables())
    wanted = pl.DataFrame(
        {
            "access": ["seq_read", "seq_read", "rand_write", "rand_write", "flush", "flush", "flush", None],
            "block_bytes": [4096, 8192, 2048, 131072, 0, 8192, 131072, 4096],
        }
    )
    found = whatif.service(model, wanted)
    assert found["service_ns"].to_list() == [
        cost("seq_read", 4096),
        cost("seq_read", 8192),
        cost("rand_write", SIZES[0]),
        cost("rand_write", SIZES[-1]) * 131072 // SIZES[-1],
        flush_cost(SIZES[0]),
        flush_cost(8192),
        flush_cost(SIZES[-1]) * 2,
        None,
    ]
    assert found["is_extrapolated"].to_list() == [False, False, True, True, False, False, True, False]
    assert (found["lo_ns"] <= found["service_ns"]).all() and (found["service_ns"] <= found["hi_ns"]).all()


@pytest.mark.prove
@settings(max_examples=60)
@given(st.lists(st.integers(1, 400), min_size=2, max_size=30))
def test_a_longer_request_never_takes_less_of_whatever_size(blocks: list[int]) -> None:
    model = whatif.fit(bench_tables())
    wanted = pl.DataFrame({"access": "rand_read", "block_bytes": [512 * one for one in sorted(blocks)]})
    found = whatif.service(model, wanted)
    for name in ("service_ns", "lo_ns", "hi_ns"):
        assert found[name].is_sorted() and (found[name] > 0).all()
    assert (found["lo_ns"] <= found["service_ns"]).all() and (found["service_ns"] <= found["hi_ns"]).all()


def test_a_longer_request_never_takes_less() -> None:
    model = whatif.fit(bench_tables()).with_columns(
        service_ns=pl.when(pl.col("access") == "seq_read", pl.col("block_bytes") == 4096)
        .then(10_000_000)
        .otherwise("service_ns")
    )
    sizes = pl.DataFrame({"access": ["seq_read"] * 62, "block_bytes": range(4096, 4096 * 63, 4096)})[:16]
    times = whatif.service(model, sizes)["service_ns"].to_list()
    assert times == sorted(times)


def test_results_without_direct_runs_are_refused() -> None:
    tables = bench_tables()
    tables["bench_runs"] = tables["bench_runs"].with_columns(sync_mode=pl.lit("buffered"))
    with pytest.raises(InputError, match="androstep model build"):
        whatif.fit(tables)


def test_invalid_runs_do_not_count() -> None:
    tables = bench_tables()
    tables["bench_runs"] = tables["bench_runs"].with_columns(valid=pl.col("repeat") == 0)
    model = whatif.fit(tables)
    assert model["repeats"].unique().to_list() == [1]
    assert model["lo_ns"].null_count() == model.height


def test_a_saved_model_is_read_and_anything_else_refused(tmp_path: Path) -> None:
    model = whatif.fit(bench_tables())
    model.write_parquet(tmp_path / "model.parquet")
    assert whatif.read_model(tmp_path / "model.parquet").equals(model)
    model.drop("access").write_parquet(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    for name, problem in (("other", "no table device_model"), ("text", "no Parquet file")):
        with pytest.raises(InputError, match=problem):
            whatif.read_model(tmp_path / f"{name}.parquet")


# -- the queue --------------------------------------------------------------------------------------------------------

LIMITS = {"seq_read": 1, "rand_read": 2, "seq_write": 1, "rand_write": 3, "flush": 1}


def small_model() -> pl.DataFrame:
    """Return a model of a few nanoseconds: 512 B and 64 KiB of each kind, as many at a time as in `LIMITS`."""
    rows = [
        {
            "access": access,
            "block_bytes": size,
            "service_ns": time,
            "depth": LIMITS[access],
            "repeats": 1,
            "operations": 1,
        }
        for access, times in {
            "seq_read": (2, 5),
            "rand_read": (3, 7),
            "seq_write": (1, 9),
            "rand_write": (4, 11),
        }.items()
        for size, time in zip((512, 65536), times, strict=True)
    ]
    for size, time in ((512, 6), (512 + 64 * 16384, 6 + 16384)):  # one nanosecond for every 64 bytes
        rows.append({"access": "flush", "block_bytes": size, "service_ns": time, "repeats": 1, "operations": 1})
    return table("device_model", rows)


@st.composite
def trace(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for number in range(draw(st.integers(1, 14))):
        begun = draw(st.integers(0, 30))
        op = draw(st.sampled_from(["read", "write", "flush"]))
        place = (
            {"sector": None, "nr_sectors": 0} if op == "flush" else {"sector": draw(st.sampled_from([0, 128, 256, 9]))}
        )
        length = {} if op == "flush" else {"nr_sectors": draw(st.sampled_from([1, 128]))}
        rows.append(
            {"request_id": number, "op": op, "queue_ns": begun, "complete_ns": begun + draw(st.integers(0, 20))}
            | place
            | length
            | {"error": 0, "fua": op == "write" and draw(st.booleans())}
        )
    return rows


def small_flush(written: int) -> int:
    """Return the time of a flush on the device of `small_model`."""
    return 6 + max(0, written - 512) // 64


def expected(program: Program, model: pl.DataFrame, mode: str) -> list[tuple[int, int, int]]:
    """Return the times of the oracle, with a look-up of its own."""
    ends: dict[str, int] = {}
    operations, written = [], 0
    times = {(row["access"], row["block_bytes"]): row["service_ns"] for row in model.iter_rows(named=True)}
    for row in program.operations.iter_rows(named=True):
        after = program.dependencies.filter(operation=row["operation"])["after"].to_list()
        due = row["ts_ns"] if mode == "as_recorded" else 0
        if row["call"] == "open":
            operations.append(Operation(row["thread"], due, 0, 0, tuple(after)))
            continue
        if row["call"] == "fdatasync":
            operations.append(Operation(row["thread"], due, small_flush(written), 1, tuple(after)))
            written = 0
            continue
        direction = {"pread": "read", "pwrite": "write", "pwritev": "write"}[row["call"]]
        access = ("seq_" if ends.get(direction, row["offset_bytes"]) == row["offset_bytes"] else "rand_") + direction
        ends[direction] = row["offset_bytes"] + row["bytes"]
        time = times[access, row["bytes"]]
        if row["call"] == "pwritev":  # durable at its end: it waits in no cache for a flush, and needs one of its own
            time += small_flush(written + row["bytes"])
        elif direction == "write":
            written += row["bytes"]
        operations.append(Operation(row["thread"], due, time, LIMITS[access], tuple(after)))
    return queue(operations)


@pytest.mark.sanitized
@pytest.mark.prove
@settings(max_examples=120)
@given(trace(), st.sampled_from(["as_fast", "as_recorded"]))
def test_times_are_those_of_the_plainest_queue(rows: list[dict[str, Any]], mode: Any) -> None:
    program, model = device.program(table("requests", rows).lazy()), small_model()
    found = whatif.predict(program, model, mode)
    times = expected(program, model, mode)
    asked = [times[number] for number in found.operations["operation"]]
    assert found.operations.select("ready_ns", "start_ns", "end_ns").rows() == asked
    values = {(row["metric"], row["quantile"]): row["value"] for row in found.totals.iter_rows(named=True)}
    own = program.operations.filter(~pl.col("inserted"))["operation"]
    assert values["elapsed", None] == max(end for _, _, end in times)
    assert values["io_time", None] == sum(times[number][2] - times[number][0] for number in own)


def test_what_the_model_does_not_know_is_counted() -> None:
    """Kinds that were not measured take no time, sizes that were not what is extrapolated."""
    rows = [
        {"request_id": 0, "op": "read", "sector": 0, "nr_sectors": 256, "queue_ns": 0, "complete_ns": 1, "error": 0},
        {"request_id": 1, "op": "discard", "sector": 0, "nr_sectors": 8, "queue_ns": 2, "complete_ns": 3, "error": 0},
        {"request_id": 2, "op": "read", "sector": 0, "nr_sectors": 1, "queue_ns": 4, "complete_ns": 5, "error": 0},
    ]
    found = whatif.predict(device.program(table("requests", rows).lazy()), small_model())
    assert whatif.unknown(found).rows() == [("fallocate", None, 1, 4096)]
    assert whatif.extrapolated(found).rows() == [("pread", "seq_read", 1, 131072)]
    largest = small_model().filter(access="seq_read", block_bytes=65536)["service_ns"].item()
    assert found.totals.filter(metric="busy").select("value", "n").row(0) == (3.0 + 2 * largest, 2)


def test_a_write_with_fua_takes_what_was_measured_or_a_flush_as_well() -> None:
    row = {"op": "write", "sector": 0, "nr_sectors": 1, "queue_ns": 0, "complete_ns": 1, "error": 0, "fua": True}
    program, model = device.program(table("requests", [row]).lazy()), small_model()
    assert whatif.predict(program, model).operations["service_ns"].to_list() == [1 + 6]
    durable = {"access": "seq_fua_write", "block_bytes": 512, "service_ns": 5, "repeats": 1, "operations": 1}
    found = whatif.predict(program, pl.concat([model, table("device_model", [durable])])).operations
    assert found.select("access", "service_ns").rows() == [("seq_fua_write", 5)]


def test_a_program_of_files_is_refused() -> None:
    program = device.program(table("requests", [{"sector": 0, "queue_ns": 0, "complete_ns": 1}]).lazy())
    files = Program(program.operations, program.files, program.threads, program.dependencies, 1)
    with pytest.raises(ValueError, match="of files"):
        whatif.predict(files, small_model())


@pytest.mark.parametrize(
    "broken",
    [
        lambda p: replace(p, operations=p.operations.with_columns(thread=pl.lit(77, pl.Int32))),
        lambda p: replace(p, operations=p.operations.with_columns(thread=pl.lit(-1, pl.Int32))),
        lambda p: replace(p, dependencies=_waits(p, 0, 0)),
        lambda p: replace(p, dependencies=_waits(p, 1, -1)),
        lambda p: replace(p, dependencies=_waits(p, 1_000_000, 0)),
    ],
)
def test_a_program_that_contradicts_itself_is_refused(broken: Callable[[Program], Program]) -> None:
    rows = [{"request_id": n, "op": "read", "sector": 8 * n, "queue_ns": n, "complete_ns": n + 1} for n in range(3)]
    program = device.program(table("requests", [row | {"nr_sectors": 1, "error": 0} for row in rows]).lazy())
    whatif.predict(program, small_model())
    with pytest.raises(InputError, match="make it again"):
        whatif.predict(broken(program), small_model())


def _waits(program: Program, operation: int, after: int) -> pl.DataFrame:
    """Return the dependencies of a program with one of these numbers, in the same columns."""
    row = dict.fromkeys(program.dependencies.columns) | {"operation": operation, "after": after}
    return pl.DataFrame([row], schema=program.dependencies.schema)
