"""Write the tables of a recording to sorted Parquet files while it is read, in bounded memory.

A reader appends batches of rows as it decodes them. Rows wait in memory until there are `RUN_ROWS` of them. They are
then sorted by time (by the first column of their table) and become a *run*, a row group of a file:

- A run that begins after the end of an existing file is appended to that file.
- A run that overlaps the ends of all files begins a new file.
- The files of a table are merged at the end.

`Spool.settle` states that no earlier row will follow. It keeps rows in memory that would overlap with later ones.

Threads sort and encode runs while the reader continues. The runs of one file are encoded one after the other.

Tables whose first column is not a time, such as requests, are written in the same way.
"""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from androstep_analysis.common import schema
from androstep_analysis.common.scratch import Scratch

RUN_ROWS = 1 << 18
"""The number of rows that are sorted and written at once: a row group of the file."""

MOST_SECTORS = (1 << 32) - 1
"""The longest request: Linux counts its sectors in 32 bits. The bytes of longer ones would overflow."""

_ENCODERS = 2
"""The number of threads that sort and encode. More threads need more memory."""

MERGED_FILES = 32
"""The number of files of a table that are open at once, for appending or merging. More files are merged in several
rounds.
"""

_MERGE_ROWS = 1 << 14
"""The number of rows of each file that are in memory while files are merged."""

_FEW_BREAKS = 64
"""With fewer breaks than these in the order of rows, slices are concatenated instead of copying every row."""

_TEXT = pa.dictionary(pa.int32(), pa.string())
_UNTIMED = -(1 << 63)
"""Sort key of a row without a time. It sorts before all others, as nulls do in polars."""


class Spool:
    """Tables under construction, each sorted by its first column, which is mostly ``ts_ns``.

    Rows with equal keys stay in the order in which they were appended.

    With a `directory`, `table` writes each table to ``<name>.parquet`` there. Without one, small tables stay in memory.
    Larger ones are files without a name, which disappear with the last LazyFrame that reads them.

    Only one thread at a time may use a spool.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        # Small tables need no files.
        self._scratch = functools.cache(lambda: Scratch(directory or Path(tempfile.gettempdir()), "spool"))
        self._writer = _Writer()
        self._tables: dict[str, _Table] = {}
        self._finished: dict[str, pl.LazyFrame] = {}
        self.nr_oversized = 0
        """The number of block events that were longer than `MOST_SECTORS`. Their length is null in the table."""

    def append(self, name: str, rows: pa.Table | pl.DataFrame) -> None:
        """Append rows to table `name`, in any order. Strings and enums may be dictionary-encoded.

        Raises
        ------
        schema.SchemaError
            If the columns are not those of ``schemas/<name>.json``, in the same order.
        """
        table = rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows
        if table.num_rows and name == "block_events":
            table = self._without_oversized(table)
        if table.num_rows:
            self._table(name).append(table)

    def _without_oversized(self, table: pa.Table) -> pa.Table:
        lengths = pl.Series("nr_sectors", table["nr_sectors"], pl.Int64)
        if not (lengths > MOST_SECTORS).any():
            return table
        is_oversized = (lengths > MOST_SECTORS).fill_null(False)
        self.nr_oversized += int(is_oversized.sum())
        index = table.column_names.index("nr_sectors")
        return table.set_column(index, table.schema.field(index), lengths.set(is_oversized, None).to_arrow())

    def settle(self, name: str, ts_ns: int) -> None:
        """State that no row before `ts_ns` will be appended to table `name`.

        A row that is earlier costs another file.
        """
        self._table(name).settle(ts_ns)

    def rows(self, name: str) -> int:
        """Return the number of rows of table `name` so far."""
        return self._tables[name].rows if name in self._tables else 0

    def table(self, name: str) -> pl.LazyFrame:
        """Return table `name` with all its rows, sorted. No row can be appended afterwards."""
        if name not in self._finished:
            self._finished[name] = self._table(name).finished(self._directory)
        return self._finished[name]

    def _table(self, name: str) -> _Table:
        if name in self._finished:
            raise ValueError(f"table {name} is finished")
        if name not in self._tables:
            self._tables[name] = _Table(name, self._scratch, self._writer)
        return self._tables[name]


def spans(table: pl.LazyFrame, rows: int, order: str = "ts_ns") -> list[pl.Expr]:
    """Return conditions that split a table into parts of about `rows` rows, in order.

    Rows with equal `order` are in one part. The table must be sorted by column `order`, without nulls. A table that is
    computed row by row from a sorted file works, too: only the row groups of the part are read from the file.

    (`collect_batches` of polars reads far ahead of its consumer.)
    """
    value = pl.col(order)
    edges = table.select(value.gather_every(rows)).collect(engine="streaming")[order].unique(maintain_order=True)[1:]
    since = [pl.lit(True), *(value >= edge for edge in edges)]
    until = [*(value < edge for edge in edges), pl.lit(True)]
    return [begin & end for begin, end in zip(since, until, strict=True)]


def batches(table: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table that is sorted by `ts_ns`, about `rows` at once (`spans`).

    There is at least one batch.
    """
    return (table.filter(part).collect() for part in spans(table, rows))


ON_DISK_ROWS = 1 << 18
"""The smallest number of rows in a file of `on_disk`, except for the last file."""


def on_disk(parts: Iterable[pl.DataFrame]) -> pl.LazyFrame:
    """Return the rows of the parts in order, from temporary files.

    The files disappear with the last LazyFrame that reads them. There must be at least one part. Few rows stay in
    memory.
    """
    files: list[IO[bytes]] = []
    with contextlib.ExitStack() as stack:
        waiting: list[pl.DataFrame] = []
        for part in parts:
            waiting.append(part)
            if sum(rows.height for rows in waiting) >= ON_DISK_ROWS:
                files.append(stack.enter_context(tempfile.TemporaryFile()))
                pl.concat(waiting).write_parquet(files[-1], compression="zstd", compression_level=1)
                waiting = [part.clear()]
        rest = pl.concat(waiting)
        if not files:
            return rest.lazy()
        files.append(stack.enter_context(tempfile.TemporaryFile()))
        rest.write_parquet(files[-1])
        for file in files:
            file.seek(0)
        return pl.scan_parquet(files)  # polars duplicates the open files


class _File:
    """A Parquet file of table `name` that grows by sorted runs. `last` is the time of its last row."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.last = _UNTIMED
        self.is_complete = False
        self.written: threading.Event | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, run: _Run, earlier: threading.Event | None, written: threading.Event) -> None:
        """Append a row group when the `earlier` one is written, then set `written`."""
        try:
            rows = run.sorted()
            if earlier is not None:
                earlier.wait()
            if self._writer is None:
                self._writer = _parquet_writer(self.name, self.path)
            self._writer.write_table(rows, row_group_size=max(len(run.times), 1))
        finally:
            written.set()

    def close(self) -> None:
        """Complete the file. All runs must have been written."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self.is_complete = True


class _Writer:
    """Threads that write runs. An error is raised by the next call.

    There are never more runs in memory than threads, plus the one that is being submitted.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_ENCODERS, "spool")
        self._jobs: deque[Future[None]] = deque()

    def submit(self, file: _File, run: _Run) -> None:
        while len(self._jobs) >= _ENCODERS or (self._jobs and self._jobs[0].done()):
            self._jobs.popleft().result()
        earlier, file.written = file.written, threading.Event()
        self._jobs.append(self._pool.submit(file.write, run, earlier, file.written))

    def wait(self) -> None:
        """Wait until all runs are written."""
        while self._jobs:
            self._jobs.popleft().result()


@dataclass(frozen=True)
class _Run:
    """Rows of a table with one dictionary for each column. `order` sorts the rows; None if they are sorted."""

    rows: pa.Table
    order: npt.NDArray[np.int64] | None
    times: npt.NDArray[np.int64]

    def slice(self, start: int, stop: int | None = None) -> _Run:
        """Return rows `start` to before `stop`."""
        if self.order is None:
            return _Run(self.rows[start:stop], None, self.times[start:stop])
        return _Run(self.rows, self.order[start:stop], self.times[start:stop])

    def sorted(self) -> pa.Table:
        return self.rows if self.order is None else _reordered(self.rows, self.order)


def _parquet_writer(name: str, path: Path) -> pq.ParquetWriter:
    """Create a file of table `name`."""
    encoding, metadata = _encoding(name)
    writer = pq.ParquetWriter(path, _arrow_schema(name), store_schema=False, **encoding)
    writer.add_key_value_metadata(metadata)
    return writer


@functools.cache
def _encoding(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the options of the Parquet writer for table `name`, and the metadata of the file."""
    types = schema.table(name).columns
    # Measured in benchmarks/README.md: files have 25 to 61 % of the size with pyarrow's defaults.
    encoding = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [column.name for column in types if column.dtype != "int64"],
        "column_encoding": {column.name: "DELTA_BINARY_PACKED" for column in types if column.dtype == "int64"},
        "write_statistics": [_key(name)],
    }
    return encoding, {"ARROW:schema": _polars_schema(name)}


class _Table:
    """One table of a spool: rows that wait in memory, and the files of those that were written."""

    def __init__(self, name: str, scratch: Callable[[], Scratch], writer: _Writer) -> None:
        self.rows = 0
        self._name = name
        self._scratch = scratch
        self._writer = writer
        self._settled: int | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._enough_rows = RUN_ROWS
        self._files: list[_File] = []
        self._open: list[_File] = []  # least recently appended first
        self._nr_paths = 0

    def append(self, rows: pa.Table) -> None:
        self._waiting.append(_conformed(rows, self._name))
        self._waiting_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._waiting_rows >= self._enough_rows:
            self._write_settled()

    def settle(self, ts_ns: int) -> None:
        self._settled = ts_ns if self._settled is None else max(self._settled, ts_ns)

    def finished(self, directory: Path | None) -> pl.LazyFrame:
        """Return the table. With a `directory`, store it there as ``<name>.parquet``."""
        run = self._sorted()
        if not self._files and directory is None:
            return _in_memory(run.sorted(), self._name).lazy()
        if len(run.times) or not self._files:
            self._write(run)
        self._writer.wait()
        for file in self._files:
            file.close()
        path = self._merged([file.path for file in self._files])
        if directory is not None:
            return pl.scan_parquet(path.replace(directory / f"{self._name}.parquet"), glob=False)
        with path.open("rb") as opened:
            frame = pl.scan_parquet(opened)  # polars duplicates the open file
        path.unlink()
        return frame

    def _write_settled(self) -> None:
        """Write the waiting rows that are settled, or all of them if too many would remain."""
        run = self._sorted()
        times = run.times
        ready = len(times) if self._settled is None else int(np.searchsorted(times, self._settled, "right"))
        if len(times) - ready >= 2 * RUN_ROWS:
            ready = len(times)  # nothing was settled for long
        elif 2 * ready < RUN_ROWS:
            ready = 0  # short runs make small row groups
        self._waiting = [run.slice(ready).sorted()] if ready < len(times) else []
        self._waiting_rows = len(times) - ready
        self._enough_rows = max(RUN_ROWS, self._waiting_rows + RUN_ROWS // 2)
        for start in range(0, ready, RUN_ROWS):
            self._write(run.slice(start, min(start + RUN_ROWS, ready)))

    def _sorted(self) -> _Run:
        """Return the waiting rows, sorted, and empty the queue."""
        run = pa.concat_tables([_empty(self._name), *self._waiting]).unify_dictionaries()
        self._waiting, self._waiting_rows = [], 0
        return _by_time(run)

    def _write(self, run: _Run) -> None:
        """Submit a run to the file that it can be appended to, or to a new file."""
        first, last = (int(run.times[0]), int(run.times[-1])) if len(run.times) else (_UNTIMED, _UNTIMED)
        file = self._file_that_ends_before(first)
        if file is not None:
            self._open.remove(file)
        else:
            if len(self._open) == MERGED_FILES:  # a process may open only some hundred files
                self._writer.wait()
                self._open.pop(0).close()
            file = _File(self._name, self._new_path())
            self._files.append(file)
        self._open.append(file)
        file.last = last
        self._writer.submit(file, run)

    def _file_that_ends_before(self, first: int) -> _File | None:
        """Return the file that ends last among those to which a run beginning at `first` can be appended.

        Merging takes equal times from the older file first. Therefore no file that is younger than the returned one may
        contain the time `first`.
        """
        latest: _File | None = None
        for file in reversed(self._files):
            if file.last <= first and not file.is_complete and (latest is None or file.last > latest.last):
                latest = file
            if file.last >= first:
                break
        return latest

    def _new_path(self) -> Path:
        self._nr_paths += 1
        return self._scratch().path / f"{self._name}-{self._nr_paths}.parquet"

    def _merged(self, paths: list[Path]) -> Path:
        """Return one file with the rows of all files. The files are in order of age."""
        while len(paths) > 1:
            paths = [self._merge(paths[at : at + MERGED_FILES]) for at in range(0, len(paths), MERGED_FILES)]
        return paths[0]

    def _merge(self, paths: Sequence[Path]) -> Path:
        if len(paths) == 1:
            return paths[0]
        merged = _File(self._name, self._new_path())
        waiting: list[_Run] = []
        rows = 0
        for merged_run in _merged_runs(self._name, paths):
            waiting.append(merged_run)
            rows += len(merged_run.times)
            if rows >= RUN_ROWS:
                self._writer.submit(merged, _joined(waiting))
                waiting, rows = [], 0
        if waiting:
            self._writer.submit(merged, _joined(waiting))
        self._writer.wait()
        merged.close()
        for path in paths:
            path.unlink()
        return merged.path


class _Head:
    """The next rows of a file in a merge."""

    def __init__(self, name: str, path: Path) -> None:
        texts = [field.name for field in _arrow_schema(name) if field.type == _TEXT]
        self._file = pq.ParquetFile(path, read_dictionary=texts, buffer_size=1 << 16, pre_buffer=False)
        self._batches = self._file.iter_batches(_MERGE_ROWS, use_threads=False)
        self._schema = _arrow_schema(name)
        self.is_last = False
        self.rows, self.times = _empty(name), np.empty(0, np.int64)
        self._next()

    def _next(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            self.is_last = True
            self.rows, self.times = self.rows.slice(0, 0), self.times[:0]
            self._file.close()
        else:
            self.rows = pa.Table.from_batches([batch]).cast(self._schema)
            self.times = _times(self.rows)

    def take(self, until: int, side: str) -> pa.Table:
        """Remove and return the rows before `until`; with `side` ``right`` also those at `until`."""
        end = int(np.searchsorted(self.times, until, "right" if side == "right" else "left"))
        taken = self.rows.slice(0, end)
        self.rows, self.times = self.rows.slice(end), self.times[end:]
        if not len(self.times) and not self.is_last:
            self._next()
        return taken


def _joined(runs: Sequence[_Run]) -> _Run:
    """Return consecutive runs as one."""
    rows = pa.concat_tables([run.sorted() for run in runs]).unify_dictionaries()
    return _Run(rows, None, np.concatenate([run.times for run in runs]))


def _merged_runs(name: str, paths: Sequence[Path]) -> Iterator[_Run]:
    """Yield the rows of sorted files in order. Of equal times, rows of an earlier file come first.

    Each step takes the rows before the earliest time at which a loaded batch ends. No earlier row can follow.
    """
    heads = [_Head(name, path) for path in paths]
    while heads := [head for head in heads if len(head.times)]:
        until = min(int(head.times[-1]) for head in heads)
        ends = next(number for number, head in enumerate(heads) if head.times[-1] == until)
        taken = [head.take(until, "right" if number <= ends else "left") for number, head in enumerate(heads)]
        yield _by_time(pa.concat_tables([rows for rows in taken if rows.num_rows]).unify_dictionaries())


def _by_time(rows: pa.Table) -> _Run:
    """Return the rows as a run, sorted by time. The sort is stable."""
    times = _times(rows)
    if np.all(times[1:] >= times[:-1]):
        return _Run(rows, None, times)
    order = np.argsort(times, kind="stable")
    return _Run(rows, order, times[order])


def _reordered(rows: pa.Table, order: npt.NDArray[np.int64]) -> pa.Table:
    """Return the rows in this order. Consecutive rows are not copied, and columns with only nulls cost nothing."""
    breaks = np.flatnonzero(np.diff(order) != 1) + 1
    if len(breaks) < _FEW_BREAKS:
        starts, stops = [0, *breaks.tolist()], [*breaks.tolist(), len(order)]
        together = zip(starts, stops, strict=True)
        return pa.concat_tables([rows.slice(int(order[start]), stop - start) for start, stop in together])
    numbers = _array(order)
    columns = []
    for column in rows.columns:
        values: Any = column.combine_chunks()
        if values.null_count == len(values):
            columns.append(values.slice(0, len(order)))
        else:
            columns.append(values.take(numbers))
    return pa.table(columns, schema=rows.schema)


def _times(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the sort keys of the rows."""
    column: Any = rows.columns[0]
    untimed = _array(np.array([_UNTIMED]))[0]
    chunks = [chunk.fill_null(untimed) if chunk.null_count else chunk for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.int64), *map(_numbers, chunks)])


# Converting between pyarrow and numpy or Python numbers imports pandas, which takes about a second. Buffers avoid it.


def _numbers(array: Any) -> npt.NDArray[np.int64]:
    return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)


def _array(numbers: npt.NDArray[np.int64]) -> Any:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers.data)])


def _key(name: str) -> str:
    """Return the column by which table `name` is sorted."""
    return schema.table(name).columns[0].name


# --- types -----------------------------------------------------------------------------------------------------------


@functools.cache
def _arrow_schema(name: str) -> pa.Schema:
    """Return the Arrow types of table `name` in memory and in files. Strings and enums are dictionary-encoded."""
    columns = schema.table(name).columns
    return pa.schema([pa.field(c.name, _TEXT if c.dtype in ("string", "enum") else c.arrow) for c in columns])


def _empty(name: str) -> pa.Table:
    """Return table `name` without rows.

    (`empty_table` of the schema would import pandas.)
    """
    return pa.Table.from_batches([], _arrow_schema(name))


@functools.cache
def _polars_schema(name: str) -> str:
    """Return the metadata with which polars restores its own types from a Parquet file, enums above all."""
    file = io.BytesIO()
    schema.empty(name).write_parquet(file)
    file.seek(0)
    return pl.read_parquet_metadata(file)["ARROW:schema"]


def _conformed(rows: pa.Table, name: str) -> pa.Table:
    """Return `rows` in the types of `_arrow_schema`.

    Raises
    ------
    SchemaError
        If the columns are not those of table `name`.
    """
    expected = schema.table(name)
    if rows.column_names != [column.name for column in expected.columns]:
        raise schema.SchemaError(f"table {name} has columns {', '.join(rows.column_names)}; see schemas/{name}.json")
    columns = []
    for column in expected.columns:
        values: Any = rows[column.name]
        if values.null_count and not column.nullable:
            raise schema.SchemaError(f"table {name}: {column.name} has {values.null_count} nulls")
        if column.dtype in ("string", "enum"):
            values = pa.chunked_array([_text(chunk) for chunk in values.chunks])
        elif pa.types.is_nested(column.arrow):
            values = values.cast(column.arrow)
        elif values.type != column.arrow:
            raise schema.SchemaError(f"table {name}: {column.name} is {values.type}, not {column.arrow}")
        if column.dtype == "enum":
            unknown = {text for chunk in values.chunks for text in chunk.dictionary.to_pylist()} - {*column.values}
            if unknown:
                raise schema.SchemaError(f"table {name}: {column.name} has {', '.join(map(repr, sorted(unknown)))}")
        columns.append(values)
    return pa.table(columns, schema=_arrow_schema(name))


def _text(array: Any) -> Any:
    """Return strings as a dictionary with at most as many entries as rows.

    The given dictionary may hold all strings of a recording.
    """
    if not pa.types.is_dictionary(array.type):
        return array.cast(pa.string()).dictionary_encode()
    texts, numbers = array.dictionary.cast(pa.string()), array.indices.cast(pa.int32())
    if len(texts) > len(numbers):
        used = numbers.dictionary_encode()
        numbers, texts = used.indices, texts.take(used.dictionary)
    return pa.DictionaryArray.from_arrays(numbers, texts)


def _in_memory(rows: pa.Table, name: str) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return schema.conform(frame.cast(schema.table(name).polars), name)
