"""Table 3 of a recording and of its program, and all that the corpus counted in the two scripts of MobiGen."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from support import corpus, made
from support import mobigen_scripts as scripts

from androstep_analysis import capture, measures, schema
from androstep_analysis.datasets.export import mobigen
from androstep_analysis.replay.statistics import statistics

pytestmark = pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")


def script(name: str) -> pl.DataFrame:
    """Return a script of the corpus, with the open calls that it lacks, as table `syscalls`."""
    lines = mobigen.lines(capture.open(corpus.path(f"androstep/mobigen.out.{name}")))
    return schema.complete(
        lines.select(
            *("call", "fd", "path", "flags"),
            ts_ns=pl.col("us") * 1000,
            line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64),
            tid="thread",
            state=pl.lit("whole", schema.enum("syscalls", "state")),
            offset_bytes="offset",
            result=pl.when(pl.col("result") >= 0).then("result"),
            error=pl.when(pl.col("result") < 0).then(pl.lit("?")),
        ),
        "syscalls",
    )


def values(table: pl.DataFrame, stage: str = "recorded") -> dict[str, float]:
    return dict(table.filter(stage=stage).select("metric", "value").rows())


def sizes(calls: pl.DataFrame, *names: str) -> Counter[int]:
    """Count these calls by the bytes that they moved."""
    return Counter(calls.filter(pl.col("call").is_in(names) & (pl.col("result") > 0))["result"].to_list())


@pytest.mark.parametrize("name", scripts.NAMES)
def test_table_3_of_the_corpus(name: str) -> None:
    told, expected = statistics(script(name)), scripts.expected(name)
    assert values(told) == {
        "run_time": expected["end_us"] / 1e6,
        "lines": expected["lines"],
        "threads": expected["distinct_threads"],
        "written": expected["written_bytes"],
        "read": expected["read_bytes"],
    }
    assert dict(told.select("metric", "n").rows()) | {"run_time": 0, "lines": 0, "threads": 0} == {
        **{"run_time": 0, "lines": 0, "threads": 0},
        "written": expected["writes_ok"],
        "read": expected["reads_ok"],
    }


@pytest.mark.parametrize("name", scripts.NAMES)
def test_without_the_inserted_opens_only_their_lines_are_fewer(name: str) -> None:
    expected = scripts.expected(name)
    recorded = values(statistics(capture.open(corpus.path(f"androstep/mobigen.out.{name}")).syscalls))
    assert recorded == values(statistics(script(name))) | {"lines": expected["lines"] - expected["synthetic_opens"]}


@pytest.mark.parametrize("name", scripts.NAMES)
def test_every_count_of_the_corpus(name: str) -> None:
    calls, expected = script(name), scripts.expected(name)
    of_calls = measures.calls(calls)
    failed = of_calls.filter(pl.col("failed") > 0, pl.col("call") != "open")
    tids, opens = calls["tid"], calls.filter(call="open")
    moved = sizes(calls, "write", "pwrite"), sizes(calls, "read", "pread")
    arguments = [pl.coalesce(pl.col("fd").cast(pl.String), "path", "flags"), pl.col("flags"), pl.col("offset_bytes")]
    words = pl.sum_horizontal(*(argument.is_not_null().cast(pl.Int64) for argument in arguments)) + 1
    shapes = calls.select(pl.concat_str("call", words.cast(pl.String), separator="/")).to_series()
    removed = calls.filter(call="unlink").select(pl.format('"{}" {}', "path", pl.col("result").fill_null(-1)))
    found = {
        "lines": calls.height,
        "distinct_threads": tids.n_unique(),
        "min_tid": tids.min(),
        "max_tid": tids.max(),
        "missing_tids": sorted(set(range(int(tids.max()) + 1)) - set(tids)),
        "last_line_tid": tids[-1],
        "replay_table_size": tids[-1] + 1,
        "end_us": calls["ts_ns"].max() // 1000,
        "ops": dict(of_calls.select("call", "count").rows()),
        "negative_results": dict(failed.select("call", "failed").rows()),
        "open_failed": opens["error"].count(),
        "open_flags": dict(Counter(opens["flags"].to_list())),
        "nonmonotonic_within_thread": calls.filter(pl.col("ts_ns").diff().over("tid") < 0).height,
        "small_1_or_4_byte_writes": moved[0][1] + moved[0][4],
        "top_write_sizes": [[size, moved[0][size]] for size, _ in expected["top_write_sizes"]],
        "top_read_sizes": [[size, moved[1][size]] for size, _ in expected["top_read_sizes"]],
        "arg_shapes": dict(Counter(shapes.to_list())),
        "unlinks": sorted(set(removed.to_series())),
        "n_unlinks": removed.height,
        "busiest_threads": [list(row) for row in Counter(tids.to_list()).most_common(8)],
    }
    assert {what: expected[what] for what in found} == found
    for counts, top in zip(moved, ("top_write_sizes", "top_read_sizes"), strict=True):
        assert [count for _, count in counts.most_common(12)] == [count for _, count in expected[top]]


def test_a_program() -> None:
    rows = [
        {"call": "open", "descriptor": 0, "inserted": True},
        {"call": "pwrite", "result": 100, "bytes": 200},
        {"call": "write", "result": -28, "failed": True, "bytes": 200},
        {"call": "read", "bytes": 50},
        {"call": "sendfile", "descriptor2": 0, "result": 7},
        {"call": "copy_file_range", "descriptor": 0, "descriptor2": 1, "result": 9, "duration_ns": 3_000_000_000},
        {"call": "ftruncate", "bytes": 4096},
    ]
    full = [
        {"operation": at, "ts_ns": at * 1_000_000_000, "thread": at % 2, "inserted": False} | row
        for at, row in enumerate(rows)
    ]
    told = statistics(schema.empty("syscalls"), made.table("operations", full))
    assert values(told, "program") == {"run_time": 8, "lines": 7, "threads": 2, "written": 116, "read": 59}
    assert told.filter(stage="program", metric="written")["n"].item() == 3
    assert values(told)["run_time"] is None


def test_calls_on_two_lines_count_once() -> None:
    rows = [
        {"call": "read", "state": "unfinished", "tid": 1},
        {"call": "read", "state": "resumed", "tid": 1, "result": 5},
        {"call": "read", "state": "whole", "tid": 1, "result": None, "error": "?", "bytes": 100},
    ]
    told = values(statistics(made.table("syscalls", rows)))
    assert (told["lines"], told["read"]) == (2, 0)
