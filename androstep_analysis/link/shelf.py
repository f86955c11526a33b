"""Where rows wait on disk between two passes over a recording, in numbered parts."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import polars as pl

from androstep_analysis.common.scratch import Scratch


class Shelf:
    """Frames of equal columns by the number of their part; each part is taken once. Its files go away with it."""

    def __init__(self) -> None:
        self._scratch = Scratch(Path(tempfile.gettempdir()), "shelf")
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
        return self._scratch.path / f"{part}-{number}.arrow"
