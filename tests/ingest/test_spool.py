"""The spool, compared with a sort of all rows in memory."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from androstep_analysis import schema
from androstep_analysis.ingest import Spool, spool


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the limits so that a few rows cause files, merges and merges of merges."""
    monkeypatch.setattr(spool, "RUN_ROWS", 8)
    monkeypatch.setattr(spool, "_MERGE_ROWS", 3)
    monkeypatch.setattr(spool, "MERGED_FILES", 3)


def rows(times: Sequence[int | None], first: int = 0, name: str = "block_events") -> pl.DataFrame:
    """Return rows at these times. `sector` is their index in the order of appending."""
    numbers = range(first, first + len(times))
    types = schema.table(name).polars
    columns = {
        "ts_ns": times,
        "sector": numbers,
        "event": [f"e{n % 3}" for n in numbers],
        "action": [["queue", "issue", "complete"][n % 3] for n in numbers],
        "comm": [None if n % 5 == 0 else f"name {n}" for n in numbers],
        "path": [None] * len(times),
    }
    return schema.complete(pl.DataFrame(columns, schema={column: types[column] for column in columns}), name)


def appended(parts: Sequence[Sequence[int]], made: Spool) -> pl.DataFrame:
    """Append all parts in turn, and return their rows in the expected order."""
    frames, first = [rows([])], 0
    for part in parts:
        frames.append(rows(part, first))
        made.append("block_events", frames[-1])
        first += len(part)
    return pl.concat(frames).sort("ts_ns", maintain_order=True)


PARTS = st.lists(st.lists(st.integers(-3, 12), max_size=12), max_size=16)


@pytest.mark.prove
@given(PARTS)
@settings(max_examples=50)
def test_any_order_comes_out_sorted(parts: list[list[int]]) -> None:
    made = Spool()
    expected = appended(parts, made)
    assert made.rows("block_events") == expected.height
    assert_frame_equal(made.table("block_events").collect(), expected)


@pytest.mark.prove
@given(PARTS, st.data())
@settings(max_examples=50)
def test_settling_changes_nothing_even_if_it_is_not_true(parts: list[list[int]], data: st.DataObject) -> None:
    made = Spool()
    frames, first = [rows([])], 0
    for part in parts:
        frames.append(rows(part, first))
        made.append("block_events", frames[-1])
        made.settle("block_events", data.draw(st.integers(-5, 15)))
        first += len(part)
    expected = pl.concat(frames).sort("ts_ns", maintain_order=True)
    assert_frame_equal(made.table("block_events").collect(), expected)


@pytest.mark.prove
@given(parts=PARTS)
@settings(max_examples=25)
def test_a_directory_keeps_the_tables(tmp_path: Path, parts: list[list[int]]) -> None:
    made = Spool(tmp_path)
    expected = appended(parts, made)
    assert_frame_equal(made.table("block_events").collect(), expected)
    assert_frame_equal(pl.read_parquet(tmp_path / "block_events.parquet"), expected)
    del made
    assert [path.name for path in tmp_path.iterdir()] == ["block_events.parquet"]


def test_rows_without_a_time_come_first_in_their_order() -> None:
    frame = schema.complete(
        pl.DataFrame({"ts_ns": [5, None, 3, None], "call": ["a", "b", "c", "d"]}).with_columns(
            state=pl.lit("whole", schema.enum("syscalls", "state"))
        ),
        "syscalls",
    )
    made = Spool()
    for _ in range(4):
        made.append("syscalls", frame)
    assert made.table("syscalls").collect()["call"].to_list() == list("bd" * 4 + "c" * 4 + "a" * 4)


def test_tables_without_times_are_sorted_by_their_first_column() -> None:
    bios = schema.table("requests").polars
    assert next(iter(bios)) == "request_id"
    numbers = random.Random(1).sample(range(100), 100)
    frame = pl.DataFrame({name: [None] * 100 for name in bios}, schema=bios).with_columns(
        request_id=pl.Series(numbers, dtype=pl.Int64),
        **{
            column.name: pl.lit(column.values[0] if column.values else 0, column.polars)
            for column in schema.table("requests").columns[1:]
            if not column.nullable and column.dtype != "bool"
        },
        **{
            column.name: pl.lit(False)
            for column in schema.table("requests").columns
            if not column.nullable and column.dtype == "bool"
        },
    )
    made = Spool()
    for at in range(0, 100, 7):
        made.append("requests", frame[at : at + 7])
    assert_frame_equal(made.table("requests").collect(), frame.sort("request_id"))


def test_dictionaries_may_differ_and_be_larger_than_the_rows() -> None:
    texts = pa.array([f"text {number}" for number in range(1000)])
    expected = []
    made = Spool()
    for at in range(0, 40, 4):
        frame = rows(range(at, at + 4), at)
        numbers = pa.array([at, None, 999 - at, at], pa.int32())
        table = frame.to_arrow()
        place = table.column_names.index("comm")
        table = table.set_column(place, "comm", pa.DictionaryArray.from_arrays(numbers, texts))
        expected += [f"text {at}", None, f"text {999 - at}", f"text {at}"]
        made.append("block_events", table)
    assert made.table("block_events").collect()["comm"].to_list() == expected


def test_few_rows_are_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Spool()
    expected = appended([[3, 1], [2]], made)
    assert_frame_equal(made.table("block_events").collect(), expected)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert made.rows("fs_events") == 0
    assert_frame_equal(made.table("fs_events").collect(), schema.empty("fs_events"))


def test_a_table_outlives_its_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file disappears with the table."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Spool()
    expected = appended([list(range(50, 0, -1)), list(range(50))], made)
    table = made.table("block_events").filter(pl.col("sector") >= 0)
    del made
    assert list(tmp_path.iterdir()) == []
    assert_frame_equal(table.collect(), expected)
    assert_frame_equal(table.collect(), expected)


def held(tmp_path: Path) -> list[str]:
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if str(tmp_path) in link]


def test_files_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Spool()
    appended([list(range(50, 0, -1)), list(range(50))], made)
    table = made.table("block_events")
    assert len([link for link in held(tmp_path) if ".parquet" in link]) == 1
    del made, table
    assert held(tmp_path) == []


def test_rows_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than two runs wait, regardless of `settle`."""
    made = Spool()
    most = 0
    for at in range(60):
        made.append("block_events", rows([at * 4 + n for n in range(4)], at * 4))
        made.settle("block_events", 0)
        most = max(most, made._tables["block_events"]._waiting_rows)
    assert most <= 3 * spool.RUN_ROWS
    assert made.table("block_events").collect()["sector"].to_list() == list(range(240))


def test_near_sorted_rows_make_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `settle`, no merge is needed."""
    merged: list[int] = []
    monkeypatch.setattr(spool._Table, "_merge", lambda table, paths: merged.append(len(paths)) or paths[0])
    choose = random.Random(5)
    times = sorted(range(400), key=lambda t: t + choose.randrange(5))
    made = Spool()
    for at in range(0, 400, 10):
        made.append("block_events", rows(times[at : at + 10], at))
        made.settle("block_events", min(times[at + 10 :], default=400))
    assert made.table("block_events").collect()["ts_ns"].to_list() == list(range(400))
    assert merged == []


def test_recordings_one_after_the_other_make_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of several sorted sequences is appended to one file, as the CPUs of a trace are."""
    made = Spool()
    parts = [[n * 4 + cpu for n in range(at, at + 8)] for cpu in range(4) for at in range(0, 80, 8)]
    expected = appended(parts, made)
    assert len(made._tables["block_events"]._files) == 4
    assert_frame_equal(made.table("block_events").collect(), expected)


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of open files is limited. Here every run overlaps the previous one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Spool()
    most = 0
    frames = [rows(range(at, at + 8), 8 * (20 - at)) for at in range(20, 0, -1)]
    for frame in frames:
        made.append("block_events", frame)
        most = max(most, sum(".parquet" in link for link in held(tmp_path)))
    assert len(made._tables["block_events"]._files) == 20
    assert 1 < most <= spool.MERGED_FILES
    assert_frame_equal(made.table("block_events").collect(), pl.concat(frames).sort("ts_ns", maintain_order=True))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda frame: frame.drop("path"), "has columns"),
        (lambda frame: frame.select(reversed(frame.columns)), "has columns"),
        (lambda frame: frame.with_columns(ts_ns=pl.lit(None, pl.Int64)), "ts_ns has 2 nulls"),
        (lambda frame: frame.with_columns(pl.col("cpu").cast(pl.Int64)), "cpu is int64, not int32"),
        (lambda frame: frame.with_columns(action=pl.lit("sing")), "action has 'sing'"),
    ],
)
def test_other_columns_are_refused(change, says) -> None:
    with pytest.raises(schema.SchemaError, match=says):
        Spool().append("block_events", change(rows([1, 2])))


def test_a_failing_medium_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a writing thread is raised in the reader's thread."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    made = Spool(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        for at in range(10):
            made.append("block_events", rows(range(at * 10, at * 10 + 10)))
    del made
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_appended_to_a_finished_table() -> None:
    made = Spool()
    made.table("block_events")
    with pytest.raises(ValueError, match="finished"):
        made.append("block_events", rows([1]))


def test_the_file_is_sorted_by_row_group(tmp_path: Path) -> None:
    """A time window therefore reads only a part of the file."""
    made = Spool(tmp_path)
    appended([list(range(100))], made)
    made.table("block_events")
    metadata = pq.read_metadata(tmp_path / "block_events.parquet")
    spans = [metadata.row_group(n).column(0).statistics for n in range(metadata.num_row_groups)]
    assert len(spans) > 1
    assert all(one.max < other.min for one, other in itertools.pairwise(spans))


@pytest.mark.unit
@given(times=st.lists(st.integers(0, 30), max_size=40).map(sorted), size=st.integers(1, 9))
@settings(max_examples=100)
def test_batches_are_the_rows_in_order_and_equal_times_together(times: list[int], size: int) -> None:
    table = rows(times).lazy().filter(pl.col("ts_ns") % 7 != 3)
    batches = [*spool.batches(table, size)]
    assert_frame_equal(pl.concat(batches), table.collect())
    of_times = [set(batch["ts_ns"]) for batch in batches]
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(of_times, 2))
    assert len(batches) == 1 or all(batch.height for batch in batches)
    assert all(batch.height < size + max(map(times.count, times), default=0) for batch in batches)
