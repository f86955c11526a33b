"""Build the tables `extents` and `files` from pieces, runs of an image's blocks with one use each.

A filesystem reader lists the pieces that inodes own, then those of static metadata and free space below them. Each
piece refers to a (block_type, subtype) pair by its index in a list of the reader.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs import runs
from androstep_analysis.fs.filesystem import HEAD_BYTES

PIECE = np.dtype([("start", np.int64), ("end", np.int64), ("kind", np.uint8), ("ino", np.int64), ("logical", np.int64)])
"""A run of blocks with one use. `kind` is the index of a (block_type, subtype) pair of the reader. `ino` is 0 if no
inode owns the blocks. `logical` is the file block of the first block, or -1 if it has none."""


MAX_PATH_LENGTH = 1 << 15
"""Maximum length of a directory's path (eight times PATH_MAX). A malicious image could nest directories endlessly."""


def max_characters(nr_inodes: int) -> int:
    """Return the maximum length of all paths together: 256 characters for each inode, but at least 64 Mi.

    A malicious image could have a million names, each with a few bytes in the image, below a very long path.
    """
    return max(1 << 26, 256 * nr_inodes)


def unowned(start: np.ndarray, end: np.ndarray, kind: int) -> np.ndarray:
    """Return pieces of one kind that no inode owns."""
    pieces = np.zeros(len(start), dtype=PIECE)
    pieces["start"], pieces["end"], pieces["kind"], pieces["logical"] = start, end, kind, -1
    return pieces


def areas(rows: Iterable[tuple[int, int, int]]) -> np.ndarray:
    """Return pieces that no inode owns from rows (start, end, kind), without empty ones."""
    table = np.array([row for row in rows if row[1] > row[0]], dtype=np.int64).reshape(-1, 3)
    pieces = unowned(table[:, 0], table[:, 1], 0)
    pieces["kind"] = table[:, 2]
    return pieces


def first_wins(pieces: np.ndarray) -> np.ndarray:
    """Split pieces so that none overlap, sorted by block; every block goes to the first piece that contains it."""
    start, end, index = runs.first_wins(pieces["start"], pieces["end"])
    first: np.ndarray = pieces[index]
    content = first["logical"] >= 0
    first["logical"][content] += (start - first["start"])[content]
    first["start"], first["end"] = start, end
    return first


def without_inode(pieces: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Clear the inode, but not the kind, of the parts of pieces within the runs; both must be sorted and disjoint."""
    first, last, index = runs.intersect(pieces["start"], pieces["end"], start, end)
    parts = pieces[index]
    parts["start"], parts["end"], parts["ino"], parts["logical"] = first, last, 0, -1
    return first_wins(np.concatenate([parts, pieces]))


def fill_gaps(upper: np.ndarray, lower: np.ndarray, total: int) -> np.ndarray:
    """Fill the gaps of `upper` with `lower`; both and the result are sorted and disjoint."""
    start, end, index = runs.intersect(lower["start"], lower["end"], *runs.gaps(upper["start"], upper["end"], total))
    visible = lower[index]
    visible["start"], visible["end"] = start, end
    both = np.concatenate([upper, visible])
    ordered: np.ndarray = both[np.argsort(both["start"], kind="stable")]
    return ordered


def joined(pieces: np.ndarray) -> np.ndarray:
    """Merge adjacent pieces of one kind and inode if they are also adjacent in the file."""
    before, after = pieces[:-1], pieces[1:]
    continues = np.where(
        before["logical"] >= 0,
        after["logical"] == before["logical"] + (before["end"] - before["start"]),
        after["logical"] < 0,
    )
    adjoin = before["end"] == after["start"]
    same = adjoin & (before["kind"] == after["kind"]) & (before["ino"] == after["ino"]) & continues
    first = np.flatnonzero(np.concatenate([np.ones(min(len(pieces), 1), dtype=bool), ~same]))
    whole: np.ndarray = pieces[first]
    whole["end"] = pieces["end"][np.append(first[1:], len(pieces)) - 1] if len(pieces) else whole["end"]
    return whole


def extents(
    pieces: np.ndarray,
    classes: Sequence[tuple[str, str | None]],
    block_bytes: int,
    inodes: np.ndarray,
    *,
    dev: int,
    source: str,
) -> pl.DataFrame:
    """Build table `extents` from pieces; `classes[kind]` is the (block_type, subtype) pair of a kind.

    `inodes`, sorted by `ino`, holds the `generation` of each owner.
    """
    sectors = block_bytes // SECTOR_BYTES
    types = pl.Series([block_type for block_type, _ in classes], dtype=schema.enum("extents", "block_type"))
    subtypes = pl.Series([subtype for _, subtype in classes], dtype=schema.enum("extents", "subtype"))
    row = np.searchsorted(inodes["ino"], pieces["ino"])
    generations = np.append(inodes["generation"], np.uint32(0))[row].astype(np.int64)
    owned, content = pl.col("ino") > 0, pl.col("logical") >= 0
    frame = pl.DataFrame(
        {
            "sector": pieces["start"] * sectors,
            "nr_sectors": (pieces["end"] - pieces["start"]) * sectors,
            "block_type": types.gather(pieces["kind"]),
            "subtype": subtypes.gather(pieces["kind"]),
            "ino": pieces["ino"],
            "generation": generations,
            "logical": pieces["logical"],
        }
    )
    return schema.complete(
        frame.select(
            pl.lit(dev, pl.UInt32).alias("dev"),
            *("sector", "nr_sectors", "block_type", "subtype"),
            pl.when(owned).then("ino").alias("ino"),
            pl.when(owned).then(pl.lit(0, pl.Int32)).alias("incarnation"),
            pl.when(owned).then("generation").alias("generation"),
            pl.when(content).then(pl.col("logical") * block_bytes).alias("file_offset_bytes"),
            pl.lit(source, schema.enum("extents", "source")).alias("source"),
        ),
        "extents",
    )


def files(inodes: np.ndarray, names: pl.DataFrame, *, dev: int, source: str) -> pl.DataFrame:
    """Build table `files` with one row for each of `inodes` (fields ino, generation, mode, size_bytes), in their order.

    `names` is a DataFrame(ino Int64, path String, encrypted Boolean) with one row for each hard link.
    """
    by_inode = names.group_by("ino").agg(
        names=pl.col("path").sort(), name_encrypted=pl.col("encrypted").get(pl.col("path").arg_min())
    )
    file_type = schema.enum("files", "file_type")
    kinds = pl.Series(["unknown", "directory", "symlink"], dtype=file_type)
    kind = has_type(inodes, stat.S_IFDIR) + 2 * has_type(inodes, stat.S_IFLNK)
    frame = pl.DataFrame(
        {
            "ino": inodes["ino"],
            "generation": inodes["generation"].astype(np.int64),
            "file_type": kinds.gather(kind),
            "size_bytes": inodes["size_bytes"],
        }
    ).join(by_inode, on="ino", how="left", maintain_order="left")
    return schema.complete(
        frame.select(
            pl.lit(dev, pl.UInt32).alias("dev"),
            "ino",
            pl.lit(0, pl.Int32).alias("incarnation"),
            "generation",
            pl.col("names").list.first().alias("path"),
            pl.col("names").fill_null(pl.lit([], pl.List(pl.String))),
            pl.col("name_encrypted").fill_null(False),
            "file_type",
            pl.when(pl.col("size_bytes") >= 0).then("size_bytes").alias("size_bytes"),  # A negative size is invalid.
            pl.lit(source, schema.enum("files", "source")).alias("source"),
        ),
        "files",
    )


def times(inodes: np.ndarray) -> pl.DataFrame:
    """Build `Filesystem.times`; inodes of the old, small format have no creation time."""
    return pl.DataFrame(
        {
            "ino": inodes["ino"],
            "generation": inodes["generation"].astype(np.int64),
            "created_epoch_ns": pl.Series(inodes["created_ns"]).set(pl.Series(~inodes["has_created"]), None),
            "changed_epoch_ns": inodes["changed_ns"],
        }
    )


HEAD = np.dtype([("ino", np.int64), ("offset_bytes", np.int64), ("nr_bytes", np.int64)])
"""The location in a filesystem at which the content of a file begins, and the bytes to read there."""


def first_bytes(heads: Iterable[np.ndarray], offset_bytes: int) -> pl.DataFrame:
    """Build `Filesystem.first_bytes` from arrays `HEAD`; the filesystem begins at `offset_bytes` of the image."""
    table = np.concatenate([*heads])
    columns = {"ino": table["ino"], "offset_bytes": table["offset_bytes"] + offset_bytes, "nr_bytes": table["nr_bytes"]}
    return pl.DataFrame(columns)


def inline_heads(inodes: np.ndarray, offsets: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Return the heads of files with inline content: up to `capacity` bytes at each of `offsets`."""
    return _heads(inodes["ino"], offsets, np.minimum(inodes["size_bytes"], capacity))


def mapped_heads(inodes: np.ndarray, begins: np.ndarray, block_bytes: int) -> np.ndarray:
    """Return the heads of files with a first block; `begins` has the fields `ino` and `start` (in blocks)."""
    inos, first = np.unique(begins["ino"], return_index=True)
    inodes = inodes[np.isin(inodes["ino"], inos)]
    starts = begins["start"][first[np.searchsorted(inos, inodes["ino"])]]
    return _heads(inodes["ino"], starts * block_bytes, inodes["size_bytes"])


def _heads(ino: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    heads = np.empty(len(ino), HEAD)
    heads["ino"], heads["offset_bytes"], heads["nr_bytes"] = ino, offsets, np.minimum(lengths, HEAD_BYTES)
    return heads


def dangling(count: int) -> Iterator[Loss]:
    """Yield a loss for directory entries that name inodes not in use."""
    if count:
        yield Loss("damaged", count, f"{count} directory entries name inodes that are not in use")


def nameless(files: np.ndarray, names: pl.DataFrame) -> Iterator[Loss]:
    """Yield a loss for files with links but no path. Their directory is damaged, even if its reader found no damage."""
    nameless = files["ino"][(files["links"] > 0) & ~np.isin(files["ino"], names["ino"].to_numpy())]
    if nameless.size:
        yield Loss(
            "nameless",
            int(nameless.size),
            f"{nameless.size} files (first: inode {nameless[0]}) have no name in any directory that can be read",
        )


def has_type(inodes: np.ndarray, kind: int) -> np.ndarray:
    """Return a bool array of the inodes (field `mode`) with this file type (`stat.S_IFREG`, …)."""
    mask: np.ndarray = (inodes["mode"] & stat.S_IFMT(0o177777)) == kind
    return mask
