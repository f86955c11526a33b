"""Row groups that were encoded apart read as the same file by every reader there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from androstep_analysis.ingest.row_groups import RowGroups


def _rows(seed: int, count: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {f"n{number}": pa.array(rng.integers(-(1 << 60), 1 << 60, count)) for number in range(20)}
    words = [None if n % 3 == 0 else f"word {n}" for n in rng.integers(0, 50, count).tolist()]
    columns["words"] = pa.array(words, pa.string()).dictionary_encode()
    columns["lists"] = pa.array([[n] * (n % 4) for n in range(count)], pa.list_(pa.int64()))
    columns["flags"] = pa.array(rng.integers(0, 2, count).astype(bool))
    columns["none"] = pa.nulls(count, pa.int64())
    return pa.table(columns)


def _encoded(rows: pa.Table, *, index: bool) -> pa.Buffer:
    stream = pa.BufferOutputStream()
    pq.write_table(rows, stream, row_group_size=700, write_page_index=index, compression="zstd")
    return stream.getvalue()


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("lengths", [(0,), (1,), (1000, 1, 2000), tuple(range(1, 40))])
def test_reads_as_the_rows_one_after_the_other(tmp_path: Path, lengths: tuple[int, ...], index: bool) -> None:
    parts = [_rows(seed, count) for seed, count in enumerate(lengths)]
    path = tmp_path / "joined.parquet"
    joined = RowGroups(path)
    for part in parts:
        joined.append(_encoded(part, index=index))
    joined.close()
    want = pl.concat([pl.DataFrame(part).cast({"words": pl.String}) for part in parts])
    assert pl.DataFrame(pq.read_table(path)).cast({"words": pl.String}).equals(want)
    assert pl.read_parquet(path).cast({"words": pl.String}).equals(want)
    file = pq.ParquetFile(path)
    assert file.metadata.num_rows == sum(lengths)
    groups = [_rows_of(file, number) for number in range(file.num_row_groups)]
    assert [len(group) for group in groups] == [n for length in lengths for n in _groups(length)]


def test_statistics_are_those_of_each_group(tmp_path: Path) -> None:
    path = tmp_path / "joined.parquet"
    joined = RowGroups(path)
    for start in (0, 1000, 5000):
        joined.append(_encoded(pa.table({"ts_ns": pa.array(range(start, start + 10))}), index=False))
    joined.close()
    metadata = pq.ParquetFile(path).metadata
    spans = [metadata.row_group(number).column(0).statistics for number in range(3)]
    assert [(span.min, span.max) for span in spans] == [(0, 9), (1000, 1009), (5000, 5009)]
    assert pl.scan_parquet(path).filter(pl.col("ts_ns") >= 5003).collect().height == 7


def _groups(length: int) -> list[int]:
    return [min(700, length - start) for start in range(0, length, 700)] or [0]


def _rows_of(file: pq.ParquetFile, number: int) -> pa.Table:
    return file.read_row_group(number)
