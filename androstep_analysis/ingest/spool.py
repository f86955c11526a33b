"""The tables of a recording while it is read: rows come in pieces and go to Parquet, sorted, in bounded memory.

A reader appends pieces as it decodes them. Rows wait until there are `RUN_ROWS`; then they are sorted by time (by the
first column of their table) and become a run. A run that begins where a file ends is appended to that file; one that
overlaps all files begins another file, and the files of a table are merged at the end. `settle` tells that no earlier
row will come, which keeps rows back that would overlap. Threads sort and encode runs beside the reader, each to a row
group; the runs of one file are encoded one after the other.
Tables that begin with another number than a time, as requests do, are made in the same way.
"""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from androstep_analysis.common import schema
from androstep_analysis.common.scratch import Scratch

RUN_ROWS = 1 << 18
"""Rows that are sorted and written at once: a row group of the file."""

_ENCODERS = 2
"""Threads that sort and encode; more need more memory."""

MERGED_FILES = 32
"""Files of a table that are open at once, to be appended to or to be merged; more are merged in several rounds."""

_MERGE_ROWS = 1 << 14
"""Rows of each file that are in memory at once while files are merged."""

_FEW_BREAKS = 64
"""Where fewer rows than these follow another row than before, rows are not copied to be sorted."""

_TEXT = pa.dictionary(pa.int32(), pa.string())
_UNTIMED = -(1 << 63)
"""Stands for the time of a row without one, which sorts before all others, as polars does it."""


class Spool:
    """Tables under construction, each sorted by its first column, mostly ``ts_ns``; equal times as they were appended.

    With a `directory`, `table` leaves each table there as ``<name>.parquet``. Without one, small tables stay in memory,
    and the files of others have no name and go away with the last LazyFrame that reads them. One thread at a time may
    use a spool.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        scratch = Scratch(directory or Path(tempfile.gettempdir()), "spool")
        weakref.finalize(self, scratch.remove)
        self._scratch = scratch.path
        self._writer = _Writer()
        self._tables: dict[str, _Table] = {}
        self._finished: dict[str, pl.LazyFrame] = {}

    def append(self, name: str, rows: pa.Table | pl.DataFrame) -> None:
        """Take in rows of table `name` in any order; strings and enums may be dictionary-encoded.

        Raises `schema.SchemaError` where the columns are not those of ``schemas/<name>.json``, in its order.
        """
        table = rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows
        if table.num_rows:
            self._table(name).append(table)

    def settle(self, name: str, ts_ns: int) -> None:
        """No row of table `name` that is appended from now on is of before `ts_ns`; one that is costs another file."""
        self._table(name).settle(ts_ns)

    def rows(self, name: str) -> int:
        """Rows of table `name` so far."""
        return self._tables[name].rows if name in self._tables else 0

    def table(self, name: str) -> pl.LazyFrame:
        """Table `name` with all its rows, sorted; nothing may be appended to it afterwards."""
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
    """Conditions that cut a table in parts of some `rows`, in order; rows of equal `order` are in one part.

    The table is sorted by column `order`, which has no null, or is made row by row of one that is, so that of its file
    only the row groups of a part are read. (`collect_batches` of polars reads far ahead of who takes the batches.)
    """
    value = pl.col(order)
    edges = table.select(value).gather_every(rows).collect(engine="streaming")[order].unique(maintain_order=True)[1:]
    since = [pl.lit(True), *(value >= edge for edge in edges)]
    until = [*(value < edge for edge in edges), pl.lit(True)]
    return [begin & end for begin, end in zip(since, until, strict=True)]


def batches(table: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """The rows of a table that is in order of `ts_ns`, in order, some `rows` at once (`spans`); one batch at least."""
    return (table.filter(part).collect() for part in spans(table, rows))


ON_DISK_ROWS = 1 << 18
"""Rows of a file of `on_disk` at least, but for the last one."""


def on_disk(parts: Iterable[pl.DataFrame]) -> pl.LazyFrame:
    """The rows of the parts (one at least), in order, in files that go away with the last LazyFrame that reads them.

    Few rows stay in memory.
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
        return pl.scan_parquet(files)  # has them open for itself


class _File:
    """A Parquet file of table `name` that grows by sorted runs; `last` is the time of its last row."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.last = _UNTIMED
        self.is_complete = False
        self.written: threading.Event | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, run: _Run, earlier: threading.Event | None, written: threading.Event) -> None:
        """Append a row group, as soon as the earlier one is written, and tell so."""
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
        """Complete the file; everything must have been written."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self.is_complete = True


class _Writer:
    """Threads that write runs; what fails is raised by the next call.

    There are never more runs in memory than there are threads, and the one that is being submitted.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_ENCODERS, "spool")
        self._jobs: deque[Future[None]] = deque()

    def submit(self, file: _File, run: _Run) -> None:
        """Append `run` to `file`."""
        while len(self._jobs) >= _ENCODERS or (self._jobs and self._jobs[0].done()):
            self._jobs.popleft().result()
        earlier, file.written = file.written, threading.Event()
        self._jobs.append(self._pool.submit(file.write, run, earlier, file.written))

    def wait(self) -> None:
        """Until everything is done."""
        while self._jobs:
            self._jobs.popleft().result()


@dataclass(frozen=True)
class _Run:
    """Sorted rows of a table, of one dictionary for each column: `rows` in this `order`, if they need one."""

    rows: pa.Table
    order: npt.NDArray[np.int64] | None
    times: npt.NDArray[np.int64]

    def slice(self, start: int, stop: int | None = None) -> _Run:
        """Rows `start` to before `stop`."""
        if self.order is None:
            return _Run(self.rows[start:stop], None, self.times[start:stop])
        return _Run(self.rows, self.order[start:stop], self.times[start:stop])

    def sorted(self) -> pa.Table:
        """The rows in their order."""
        return self.rows if self.order is None else _taken(self.rows, self.order)


def _parquet_writer(name: str, path: Path) -> pq.ParquetWriter:
    """Begin a file of table `name`."""
    encoding, metadata = _encoding(name)
    writer = pq.ParquetWriter(path, _arrow_schema(name), store_schema=False, **encoding)
    writer.add_key_value_metadata(metadata)
    return writer


@functools.cache
def _encoding(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """How table `name` is written, and what is written beside it."""
    types = schema.table(name).columns
    # Measured (benchmarks/README.md): with these, 25 to 61 % of the size that pyarrow gives by its defaults.
    encoding = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [column.name for column in types if column.dtype != "int64"],
        "column_encoding": {column.name: "DELTA_BINARY_PACKED" for column in types if column.dtype == "int64"},
        "write_statistics": [_key(name)],
    }
    return encoding, {"ARROW:schema": _polars_schema(name)}


class _Table:
    """One table of a spool: rows that wait, and files of those that do not."""

    def __init__(self, name: str, directory: Path, writer: _Writer) -> None:
        self.rows = 0
        self._name = name
        self._directory = directory
        self._writer = writer
        self._settled: int | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._enough_rows = RUN_ROWS
        self._files: list[_File] = []
        self._open: list[_File] = []  # by when they were appended to
        self._made = 0

    def append(self, rows: pa.Table) -> None:
        self._waiting.append(_conformed(rows, self._name))
        self._waiting_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._waiting_rows >= self._enough_rows:
            self._write_settled()

    def settle(self, ts_ns: int) -> None:
        self._settled = ts_ns if self._settled is None else max(self._settled, ts_ns)

    def finished(self, directory: Path | None) -> pl.LazyFrame:
        """The table, as ``<name>.parquet`` in `directory`, if there is one."""
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
            frame = pl.scan_parquet(opened)  # has the file open for itself
        path.unlink()
        return frame

    def _write_settled(self) -> None:
        """Write what waits, as far as it is settled; all of it where too much would go on waiting."""
        run = self._sorted()
        times = run.times
        ready = len(times) if self._settled is None else int(np.searchsorted(times, self._settled, "right"))
        if len(times) - ready >= 2 * RUN_ROWS:
            ready = len(times)  # it is long that anything was settled
        elif 2 * ready < RUN_ROWS:
            ready = 0  # short runs make small row groups
        self._waiting = [run.slice(ready).sorted()] if ready < len(times) else []
        self._waiting_rows = len(times) - ready
        self._enough_rows = max(RUN_ROWS, self._waiting_rows + RUN_ROWS // 2)
        for start in range(0, ready, RUN_ROWS):
            self._write(run.slice(start, min(start + RUN_ROWS, ready)))

    def _sorted(self) -> _Run:
        """The rows that wait, sorted."""
        run = pa.concat_tables([_empty(self._name), *self._waiting]).unify_dictionaries()
        self._waiting, self._waiting_rows = [], 0
        return _by_time(run)

    def _write(self, run: _Run) -> None:
        """Have a run written to the file where it belongs."""
        first, last = (int(run.times[0]), int(run.times[-1])) if len(run.times) else (_UNTIMED, _UNTIMED)
        file = self._file_that_ends_before(first)
        if file is not None:
            self._open.remove(file)
        else:
            if len(self._open) == MERGED_FILES:  # a process may have some hundred files open
                self._writer.wait()
                self._open.pop(0).close()
            file = _File(self._name, self._new_path())
            self._files.append(file)
        self._open.append(file)
        file.last = last
        self._writer.submit(file, run)

    def _file_that_ends_before(self, first: int) -> _File | None:
        """Of the files to which a run that begins at `first` can be appended the one that ends last.

        Merging takes equal times from the older file first. So no file that is younger than the one appended to may
        have the time `first`.
        """
        latest: _File | None = None
        for file in reversed(self._files):
            if file.last <= first and not file.is_complete and (latest is None or file.last > latest.last):
                latest = file
            if file.last >= first:
                break
        return latest

    def _new_path(self) -> Path:
        self._made += 1
        return self._directory / f"{self._name}-{self._made}.parquet"

    def _merged(self, paths: list[Path]) -> Path:
        """One file of the rows of all, which are in order of age."""
        while len(paths) > 1:
            paths = [self._merge(paths[at : at + MERGED_FILES]) for at in range(0, len(paths), MERGED_FILES)]
        return paths[0]

    def _merge(self, paths: Sequence[Path]) -> Path:
        if len(paths) == 1:
            return paths[0]
        merged = _File(self._name, self._new_path())
        waiting: list[_Run] = []
        rows = 0
        for step in _merge_steps(self._name, paths):
            waiting.append(step)
            rows += len(step.times)
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
    """The rows of a file that are next in a merge."""

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
        """The rows before `until`, and for side ``right`` those at it; goes on where there are no others."""
        end = int(np.searchsorted(self.times, until, "right" if side == "right" else "left"))
        taken = self.rows.slice(0, end)
        self.rows, self.times = self.rows.slice(end), self.times[end:]
        if not len(self.times) and not self.is_last:
            self._next()
        return taken


def _joined(runs: Sequence[_Run]) -> _Run:
    """Runs that follow each other as one."""
    rows = pa.concat_tables([run.sorted() for run in runs]).unify_dictionaries()
    return _Run(rows, None, np.concatenate([run.times for run in runs]))


def _merge_steps(name: str, paths: Sequence[Path]) -> Iterator[_Run]:
    """The rows of sorted files, sorted; of equal times those of an earlier file first.

    Each step takes what is before the least of the times at which the files' heads end: nothing earlier can follow.
    """
    heads = [_Head(name, path) for path in paths]
    while heads := [head for head in heads if len(head.times)]:
        until = min(int(head.times[-1]) for head in heads)
        ends = next(number for number, head in enumerate(heads) if head.times[-1] == until)
        taken = [head.take(until, "right" if number <= ends else "left") for number, head in enumerate(heads)]
        yield _by_time(pa.concat_tables([rows for rows in taken if rows.num_rows]).unify_dictionaries())


def _by_time(rows: pa.Table) -> _Run:
    """The rows in the order of their times, equal times as they were."""
    times = _times(rows)
    if np.all(times[1:] >= times[:-1]):
        return _Run(rows, None, times)
    order = np.argsort(times, kind="stable")
    return _Run(rows, order, times[order])


def _taken(rows: pa.Table, order: npt.NDArray[np.int64]) -> pa.Table:
    """The rows of these numbers. What stays together is not copied, and columns without any value cost nothing."""
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
            columns.append(pc.take(values, numbers, boundscheck=False))
    return pa.table(columns, schema=rows.schema)


def _times(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The numbers by which the rows are sorted."""
    column: Any = rows.columns[0]
    untimed = _array(np.array([_UNTIMED]))[0]
    chunks = [pc.fill_null(chunk, untimed) if chunk.null_count else chunk for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.int64), *map(_numbers, chunks)])


# pyarrow imports pandas, a second's work, when it is given a number or a numpy array, or asked for one: buffers pass
# without.


def _numbers(array: Any) -> npt.NDArray[np.int64]:
    return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)


def _array(numbers: npt.NDArray[np.int64]) -> Any:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers.data)])


def _key(name: str) -> str:
    """The column by which table `name` is sorted."""
    return schema.table(name).columns[0].name


# --- types -----------------------------------------------------------------------------------------------------------


@functools.cache
def _arrow_schema(name: str) -> pa.Schema:
    """The columns of table `name` as they wait and are written: strings and enums dictionary-encoded."""
    columns = schema.table(name).columns
    return pa.schema([pa.field(c.name, _TEXT if c.dtype in ("string", "enum") else c.arrow) for c in columns])


def _empty(name: str) -> pa.Table:
    """Table `name` without rows. (`empty_table` of the schema would import pandas.)"""
    return pa.Table.from_batches([], _arrow_schema(name))


@functools.cache
def _polars_schema(name: str) -> str:
    """What polars writes into a Parquet file so that it finds its own types again, enums above all."""
    file = io.BytesIO()
    schema.empty(name).write_parquet(file)
    file.seek(0)
    return pl.read_parquet_metadata(file)["ARROW:schema"]


def _conformed(rows: pa.Table, name: str) -> pa.Table:
    """`rows` in the types of `_arrow_schema`; `SchemaError` where they are not those of table `name`."""
    want = schema.table(name)
    if rows.column_names != [column.name for column in want.columns]:
        raise schema.SchemaError(f"table {name} has columns {', '.join(rows.column_names)}; see schemas/{name}.json")
    columns = []
    for column in want.columns:
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
    """Strings as a dictionary of no more strings than there are rows: all strings of a recording may stand in it."""
    if not pa.types.is_dictionary(array.type):
        return array.cast(pa.string()).dictionary_encode()
    texts, numbers = array.dictionary.cast(pa.string()), array.indices.cast(pa.int32())
    if len(texts) > len(numbers):
        used = numbers.drop_null().unique()
        numbers, texts = pc.index_in(numbers, value_set=used), texts.take(used)
    return pa.DictionaryArray.from_arrays(numbers, texts)


def _in_memory(rows: pa.Table, name: str) -> pl.DataFrame:
    plain = [values.cast(pa.string()) if values.type == _TEXT else values for values in rows.columns]
    frame = pl.from_arrow(pa.table(plain, names=rows.column_names))
    assert isinstance(frame, pl.DataFrame)
    return schema.conform(frame.cast(schema.table(name).polars), name)
