"""`androstep.show`: a table as people read it."""

from __future__ import annotations

from typing import Any, cast

import polars as pl
import pytest
from support import made

import androstep_analysis as androstep
from androstep_analysis import plot

MIX = pl.DataFrame(
    {
        "metric": ["count", "count", "bytes", "bytes", "count_ratio", "count_ratio"],
        "op": ["read", "write", "read", "write", "read", "write"],
        "value": [1000.0, 3000.0, 12897484.0, 512.0, 0.25, 0.75],
        "unit": ["requests", "requests", "B", "B", "1", "1"],
        "n": [1000, 3000] * 3,
        "coverage": [1.0] * 6,
    }
)


def test_a_tidy_result_is_wide_and_has_units() -> None:
    shown = androstep.show(MIX)
    assert shown.header == ("op", "requests", "of requests", "bytes")
    assert shown.rows == (("read", "1,000", "25.0 %", "12.3 MiB"), ("write", "3,000", "75.0 %", "512 B"))


def test_a_value_that_another_row_has_is_a_dash() -> None:
    assert androstep.show(MIX.head(3)).rows == (("read", "1,000", "12.3 MiB"), ("write", "3,000", "–"))


def test_an_interval_stands_behind_its_value() -> None:
    table = pl.DataFrame(
        {"metric": ["latency"], "value": [1.5e6], "lo": [1e6], "hi": [2e6], "unit": ["ns"], "n": [6], "coverage": [0.5]}
    )
    shown = androstep.show(table)
    assert shown.header == ("latency", "n", "known")
    assert shown.rows == (("1.5 ms (1 ms to 2 ms)", "6", "50.0 %"),)


def test_quantiles_are_columns() -> None:
    values = {"quantile": ["p50", "p99"], "value": [1e3, 1e9]}
    shown = androstep.show(pl.DataFrame({"metric": "latency", "op": "read", **values, "unit": "ns"}))
    assert (shown.header, shown.rows) == (("op", "p50", "p99"), (("read", "1 µs", "1 s"),))


def test_many_metrics_of_one_thing_are_rows() -> None:
    table = pl.DataFrame({"metric": [f"m{i}" for i in range(20)], "value": [1.0 * i for i in range(20)], "unit": "s"})
    shown = androstep.show(table)
    assert shown.header == ("metric", "value")
    assert shown.rows[:2] == (("m0", "0 ns"), ("m1", "1 s"))


@pytest.mark.parametrize(("values", "texts"), [([0.5, 1.0], ["50.0 %", "100.0 %"]), ([0.5, 1697.0], ["0.5", "1,697"])])
def test_what_is_no_share_is_not_per_cent(values: list[float], texts: list[str]) -> None:
    table = pl.DataFrame({"metric": "lines", "stage": ["a", "b"], "value": values, "unit": "1"})
    assert [row[-1] for row in androstep.show(table).rows] == texts


def test_rows_that_no_dimension_tells_apart_stay_rows() -> None:
    shown = androstep.show(pl.DataFrame({"metric": ["bytes", "bytes"], "value": [1024.0, -2048.0], "unit": ["B", "B"]}))
    assert shown.header == ("metric", "value")
    assert shown.rows == (("bytes", "1 KiB"), ("bytes", "-2 KiB"))


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("bytes", 4096, "4 KiB"),
        ("file_offset_bytes", 0, "0 B"),
        ("duration_ns", 1500, "1.5 µs"),
        ("issue_ns", 1_500_000_000, "1.500000000 s"),
        ("dev", 7 << 20, "7:0"),
        ("sector", 28800, "28800"),
        ("requests", 28800, "28,800"),
        ("ratio", 1.23456789, "1.23457"),
        ("valid", True, "yes"),
    ],
)
def test_columns_of_other_tables_have_units(column: str, value: Any, text: str) -> None:
    assert androstep.show(pl.DataFrame({column: [value]})).rows == ((text,),)


def test_null_is_unknown_in_columns_of_io() -> None:
    table = pl.DataFrame({"path": [None, "/a"], "journal_mode": [None, "WAL"], "nothing": [None, None]})
    shown = androstep.show(table)
    assert (shown.header, shown.rows) == (("path", "journal mode"), (("unknown", "–"), ("/a", "WAL")))


def test_hostile_text_stays_text() -> None:
    shown = androstep.show(pl.DataFrame({"path": ["<script>alert(1)</script>\x1b[31m\u202e"], "<b>": ["<i>"]}))
    html = shown._repr_html_()
    assert "<script" not in html and "<b>" not in html and "<i>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e" in html
    assert "\x1b" not in repr(shown)


def test_numbers_stand_to_the_right() -> None:
    html = androstep.show(pl.DataFrame({"kernel": ["6.1.0-32-arm64"], "bytes": [1]}))._repr_html_()
    assert '<td style="text-align: left">6.1.0-32-arm64</td><td style="text-align: right">1 B</td>' in html


@pytest.mark.parametrize("many", [pl.DataFrame({"n": range(51)}), pl.LazyFrame({"n": range(51)})])
def test_of_many_rows_the_first_are_shown(many: pl.DataFrame | pl.LazyFrame) -> None:
    shown = androstep.show(many)
    assert (len(shown.rows), shown.more) == (50, 1)
    assert repr(shown).endswith("… and 1 more rows")
    assert "<p>… and 1 more rows</p>" in shown._repr_html_()


def test_an_empty_table_says_so() -> None:
    shown = androstep.show(MIX.clear())
    assert (repr(shown), shown._repr_html_()) == ("No rows.", "<p>No rows.</p>")


def test_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="int is not a table"):
        androstep.show(cast(pl.DataFrame, 3))


def test_values_of_a_dimension_are_columns() -> None:
    table = pl.DataFrame({"metric": "bytes", "fs": ["ext4", "f2fs"] * 2, "kernel": ["a", "a", "b", "b"], "unit": "B"})
    shown = androstep.show(table.with_columns(value=pl.Series([1024.0, 2048.0, 3072.0, 512.0])), across="kernel")
    assert (shown.header, shown.rows) == (("fs", "a", "b"), (("ext4", "1 KiB", "3 KiB"), ("f2fs", "2 KiB", "512 B")))


@pytest.mark.parametrize(
    ("needs", "known", "why"),
    [
        ("path", {"path": "/a"}, "unknown: files (no filesystem events)"),
        ("block_type", {"block_type": "data"}, "unknown: files (no filesystem events)"),
        ("owner_comm", {"owner_comm": "app"}, "unknown: processes (none recorded)"),
        ("complete_ns", {"complete_ns": 9}, "unknown: times (no completion)"),
    ],
)
def test_a_result_without_data_says_what_the_recording_lacks(needs: str, known: dict[str, Any], why: str) -> None:
    request = {"op": "write", "sector": 0, "queue_ns": 5}
    without = made.capture([request], [request | {"block_type": "unknown"}])
    assert repr(androstep.show(MIX, of=without, needs=needs)).startswith(why)
    recorded = made.capture([request | known], [request | {"block_type": "unknown"} | known])
    assert androstep.show(MIX, of=recorded, needs=needs) == androstep.show(MIX)
    figure = plot.mix(MIX.filter(pl.col("metric") == "count"))
    assert androstep.show(figure, of=recorded, needs=needs) is figure
    assert why.split(" (")[0] in cast(Any, androstep.show(figure, of=without, needs=needs))._repr_html_()


def test_a_recording_without_requests_says_so() -> None:
    assert repr(androstep.show(MIX, of=made.capture(), needs="op")).startswith("No request is recorded")
    assert repr(androstep.show(MIX, of=made.capture(), needs="samples")) == "The recording has no counters."
