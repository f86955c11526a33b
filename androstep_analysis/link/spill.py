"""Keep rows on disk between two passes over a recording, in numbered partitions."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import polars as pl

from androstep_analysis.common.scratch import Scratch


class PartitionSpill:
    """Frames with the same columns, by partition. The files are removed with the object."""

    def __init__(self) -> None:
        self._scratch = Scratch(Path(tempfile.gettempdir()), "spill")
        self._files: Counter[int] = Counter()

    def append(self, partition: int, rows: pl.DataFrame) -> None:
        """Append rows to a partition."""
        rows.write_ipc(self._path(partition, self._files[partition]), compression="uncompressed")
        self._files[partition] += 1

    def pop(self, partition: int) -> pl.DataFrame | None:
        """Remove a partition. Returns its rows, or None if it has none."""
        paths = [self._path(partition, index) for index in range(self._files.pop(partition, 0))]
        frames = [pl.read_ipc(path) for path in paths]
        for path in paths:
            path.unlink()
        return pl.concat(frames) if frames else None

    def _path(self, partition: int, index: int) -> Path:
        return self._scratch.path / f"{partition}-{index}.arrow"
