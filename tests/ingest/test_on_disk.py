"""Rows stored on disk are read back unchanged."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from androstep_analysis import schema
from androstep_analysis.ingest import spool

pytestmark = pytest.mark.unit


def frame(times: range) -> pl.DataFrame:
    events = pl.Series(["bio_page", "name_open"] * 50, dtype=schema.enum("fs_events", "event"))
    return pl.DataFrame({"ts_ns": times}).with_columns(event=events[: len(times)], name=pl.lit("x"))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_rows_come_back_in_order_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spool, "ON_DISK_ROWS", size)
    parts = [frame(range(first, first + length)) for first, length in ((0, 5), (5, 0), (5, 20), (25, 1))]
    table = spool.on_disk(iter(parts))
    for _ in range(2):
        assert_frame_equal(table.collect(), pl.concat(parts))
        assert_frame_equal(
            table.filter(pl.col("event") == "bio_page").collect(),
            pl.concat(parts).filter(pl.col("event") == "bio_page"),
        )
    assert not [*tmp_path.iterdir()]
