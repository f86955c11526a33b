"""Files as a tree. Files are numbered so that the files below a directory have consecutive numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common.markup import visible

_INODE = ("dev", "ino", "incarnation")

NO_FILE = 0
"""Number of all pieces without a known file."""


class Entry(NamedTuple):
    """A file, or a directory of the files with numbers ``[first, last)``, with its name and its depth in the tree."""

    first: int
    last: int
    name: str
    depth: int
    is_directory: bool


class Files:
    """The numbered files of table io: 0 is no file, then come inodes without a known path, then paths in order.

    `numbers` has the file number of each row of the table.
    """

    def __init__(self, io: pl.LazyFrame) -> None:
        known = io.select(*_INODE, "path")
        paths = known.select(pl.col("path").drop_nulls().unique()).collect()["path"]
        # Sort "/" before all other characters. Otherwise "a-b" would sort between "a" and "a/c".
        self._paths = paths.gather(paths.str.replace_all("/", "\0", literal=True).arg_sort())
        is_unnamed = pl.col("path").is_null() & pl.col("ino").is_not_null()
        unnamed = known.filter(is_unnamed).select(_INODE).unique().sort(_INODE).collect()
        self._unnamed = unnamed.with_row_index("number", offset=1).with_columns(path=pl.lit(None, pl.String))
        later = pl.when(pl.col("incarnation") > 0).then(
            pl.format(", file {} with that number", pl.col("incarnation") + 1)
        )
        self._inodes = unnamed.select(pl.format("inode {}", "ino") + later.fill_null("")).to_series()
        path_number = pl.col("path").cast(pl.Enum(self._paths)).to_physical() + 1 + unnamed.height
        numbers = known.select(
            "dev", "incarnation", pl.when(is_unnamed).then("ino").alias("ino"), path=path_number
        )  # fmt: skip
        if unnamed.height:
            numbers = numbers.join(
                self._unnamed.lazy().select(*_INODE, "number"), on=_INODE, how="left", nulls_equal=True,
                maintain_order="left",
            )  # fmt: skip
            numbers = numbers.select(path=pl.coalesce("path", "number"))
        self.numbers: npt.NDArray[np.uint32] = (
            numbers.select(pl.col("path").fill_null(NO_FILE).cast(pl.UInt32)).collect()["path"].to_numpy()
        )

    def __len__(self) -> int:
        return self._first_path + len(self._paths)

    @property
    def _first_path(self) -> int:
        return 1 + self._unnamed.height

    def name(self, number: int) -> str:
        """Return the path of a file, or a description if it is unknown."""
        if number == NO_FILE:
            return "no file known"
        if number < self._first_path:
            return str(self._inodes[number - 1])
        return visible(self._paths[number - self._first_path])

    def holding(self, text: str) -> npt.NDArray[np.bool_]:
        """Return for each number whether the name of its file contains the text. Case is ignored."""
        names = pl.concat([pl.Series(["", *self._inodes]), self._paths])
        return names.str.to_lowercase().str.contains(text.lower(), literal=True).to_numpy()

    def top(self, weights: npt.NDArray[np.uint32], most: int) -> tuple[list[Entry], int]:
        """Return the entries at the root of the tree, like `children`."""
        entries = [Entry(NO_FILE, NO_FILE + 1, self.name(NO_FILE), 0, False)]
        if self._unnamed.height:
            entries.append(Entry(1, self._first_path, "inodes without a known path", 0, True))
        below, more = self._below(self._first_path, len(self), [], 0, weights, most)
        return [*entries, *below], more

    def children(self, directory: Entry, weights: npt.NDArray[np.uint32], most: int) -> tuple[list[Entry], int]:
        """Return the `most` heaviest entries of a directory, and the number of omitted entries.

        `weights` has one value for each file number.
        """
        first, last, depth = directory.first, directory.last, directory.depth + 1
        if last > self._first_path:
            return self._below(first, last, self._common(first, last), depth, weights, most)
        heaviest = np.sort(first + np.argsort(-weights[first:last].astype(np.int64), kind="stable")[:most])
        return [Entry(at, at + 1, self.name(at), depth, False) for at in heaviest.tolist()], max(last - first - most, 0)

    def _parts(self, number: int) -> list[str]:
        return str(self._paths[number - self._first_path]).split("/")

    def _common(self, first: int, last: int) -> list[str]:
        """Return the parts of the path that these files share.

        Paths are sorted, so it is enough to compare the first and the last one.
        """
        one, other = self._parts(first), self._parts(last - 1)
        same = next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
        )
        return one[:same]

    def _below(
        self, first: int, last: int, above: list[str], depth: int, weights: npt.NDArray[np.uint32], most: int
    ) -> tuple[list[Entry], int]:
        """Return the entries of a directory with the path `above`.

        A directory with a single subdirectory is merged with it.
        """
        if first == last:
            return [], 0
        paths = self._paths.slice(first - self._first_path, last - first)
        runs = paths.str.split("/").list.get(len(above), null_on_oob=True).rle()
        lengths = runs.struct.field("len").to_numpy().astype(np.int64)
        begins = first + np.cumsum(lengths) - lengths
        weight = np.add.reduceat(weights[first:last].astype(np.int64), begins - first)
        entries = []
        for at in np.sort(np.argsort(-weight, kind="stable")[:most]):
            begin, end = int(begins[at]), int(begins[at] + lengths[at])
            name, is_directory = visible("/".join(self._common(begin, end)[len(above) :])), end > begin + 1
            shown = f"{name}/" if is_directory else name or "(the directory itself)"
            entries.append(Entry(begin, end, shown, depth, is_directory))
        return entries, len(lengths) - len(entries)
