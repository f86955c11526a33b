"""Where rows wait on disk between two passes over a recording: in numbered parts, or as one table."""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import polars as pl

from androstep_analysis.scratch import Scratch

_ROWS = 1 << 18
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
            if sum(rows.height for rows in waiting) >= _ROWS:
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


class Shelf:
    """Frames of equal columns by the number of their part; each part is taken once. Its files go away with it."""

    def __init__(self) -> None:
        scratch = Scratch(Path(tempfile.gettempdir()), "shelf")
        weakref.finalize(self, scratch.remove)
        self._directory = scratch.path
        self._files: Counter[int] = Counter()

    def put(self, part: int, rows: pl.DataFrame) -> None:
        """Put rows to those of the part, behind those that are there."""
        rows.write_ipc(self._path(part, self._files[part]), compression="uncompressed")
        self._files[part] += 1

    def take(self, part: int) -> pl.DataFrame | None:
        """All rows of the part; None where there are none."""
        paths = [self._path(part, number) for number in range(self._files.pop(part, 0))]
        frames = [pl.read_ipc(path) for path in paths]
        for path in paths:
            path.unlink()
        return pl.concat(frames) if frames else None

    def _path(self, part: int, number: int) -> Path:
        return self._directory / f"{part}-{number}.arrow"
