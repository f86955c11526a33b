"""Read file names from old copies of directory blocks in a journal, and resolve their inode numbers to files."""

from __future__ import annotations

import stat

import numpy as np
import polars as pl

from androstep_analysis.fs.ext4.blockmap import CONTENT
from androstep_analysis.fs.ext4.inodes import ENCRYPTED_FLAG, ROOT_INODE
from androstep_analysis.fs.ext4.names import block_entries
from androstep_analysis.fs.filesystem import Filesystem
from androstep_analysis.fs.jbd2 import Log
from androstep_analysis.fs.pieces import has_type

_MAX_DEPTH = 64
_MAX_PATH_BYTES = 1 << 28
"""Maximum length of all paths together. Only a malicious journal has more."""

_MAX_ENTRIES = 1 << 22
"""Maximum number of directory entries. Only a malicious journal has more."""

NAMES = pl.Schema({"ino": pl.Int64, "generation": pl.Int64, "path": pl.String, "encrypted": pl.Boolean})


def read_names(
    log: Log, states: np.ndarray, claimed: np.ndarray, owner: np.ndarray, filesystem: Filesystem
) -> pl.DataFrame:
    """Return the last known paths of every file: `NAMES`, with one row for each hard link.

    `owner` is the row of `claimed` that owns the target of each copy in the log. A directory without a name in the log
    gets its path in the image.
    """
    entries = _entries(log, states, claimed, owner)
    entries = entries.with_columns(generation=pl.Series(_generations(log, states, filesystem, entries)))
    entries = entries.filter(pl.col("generation") >= 0)
    last = pl.col("order").max().over("ino", "generation")
    entries = entries.filter(pl.col("order") == last).unique(
        ["ino", "generation", "directory", "directory_generation", "name"], maintain_order=True
    )
    return _paths(entries, filesystem)


def _entries(log: Log, states: np.ndarray, claimed: np.ndarray, owner: np.ndarray) -> pl.DataFrame:
    """Return DataFrame(order, directory, directory_generation, encrypted, ino, name), a row for each entry and copy."""
    rows = np.maximum(owner, 0)
    is_content = (owner >= 0) & (claimed["use"][rows] == CONTENT) if len(claimed) else np.zeros(len(owner), bool)
    state = claimed["state"][rows] if len(claimed) else rows
    copies = np.flatnonzero(is_content & (has_type(states, stat.S_IFDIR)[state] if len(states) else False))
    columns: dict[str, list[int]] = {"copy": [], "ino": []}
    names: list[str] = []
    for copy in copies.tolist():
        raw = log.block(int(log.copies["position"][copy]), bool(log.copies["escaped"][copy]))
        for ino, name in block_entries(raw)[0]:
            if name not in (b".", b".."):
                columns["copy"].append(copy)
                columns["ino"].append(ino)
                names.append(name.decode("utf-8", "backslashreplace"))
        if len(names) > _MAX_ENTRIES:
            break
    of_copy = np.array(columns["copy"], dtype=np.int64)
    directory = states[state[of_copy]] if len(states) else states
    return pl.DataFrame(
        {
            "order": log.copies["order"][of_copy],
            "directory": directory["ino"].astype(np.int64),
            "directory_generation": directory["generation"].astype(np.int64),
            "encrypted": (directory["flags"] & ENCRYPTED_FLAG) != 0,
            "ino": np.array(columns["ino"], dtype=np.int64),
            "name": pl.Series(names, dtype=pl.String),
        }
    )


def _generations(log: Log, states: np.ndarray, filesystem: Filesystem, entries: pl.DataFrame) -> np.ndarray:
    """Return the generation of each entry's inode at the time of the entry; -1 if unknown.

    It is taken from the inode's last copy before that time. Otherwise it is taken from the next copy or from the image,
    if that file was created before that time.
    """
    ino, order = entries["ino"].to_numpy(), entries["order"].to_numpy()
    generations = np.full(len(ino), -1, dtype=np.int64)
    if not len(states):
        return generations
    step = len(log.committed) + 1
    after = np.searchsorted(states["ino"] * step + states["order"], ino * step + order, side="right")

    def alive(row: np.ndarray) -> np.ndarray:
        same = (states["ino"][row] == ino) & (states["segment"][row] == log.committed["segment"][order])
        is_alive: np.ndarray = same & (states["links"][row] > 0)
        return is_alive

    following = np.minimum(after, len(states) - 1)
    was_there = states["has_created"][following] & _created_before(states["created_ns"][following], log, order)
    is_next = (after < len(states)) & alive(following) & was_there
    generations[is_next] = states["generation"][following][is_next]
    latest = np.maximum(after - 1, 0)
    is_latest = (after > 0) & alive(latest)
    generations[is_latest] = states["generation"][latest][is_latest]

    times = filesystem.times.sort("ino")
    unlogged = ~np.isin(ino, states["ino"])
    if times.height and unlogged.any():
        inos = times["ino"].to_numpy()
        at = np.minimum(np.searchsorted(inos, ino), times.height - 1)
        created = times["created_epoch_ns"].fill_null(np.iinfo(np.int64).max).to_numpy()[at]
        in_image = unlogged & (inos[at] == ino) & _created_before(created, log, order)
        generations[in_image] = times["generation"].to_numpy()[at][in_image]
    return generations


def _created_before(created_ns: np.ndarray, log: Log, order: np.ndarray) -> np.ndarray:
    """Return whether a file was created before the transaction began, that is, by the commit of the previous one."""
    answer: np.ndarray = created_ns <= log.committed["epoch_ns"][np.maximum(order - 1, 0)]
    return answer & (order > 0)


def _paths(entries: pl.DataFrame, filesystem: Filesystem) -> pl.DataFrame:
    image_directories = (
        filesystem.files.filter(file_type="directory").select("ino", "generation", "path").drop_nulls("path")
    )
    prefixes = {(ino, generation): path for ino, generation, path in image_directories.iter_rows()}
    logged = {
        (ino, generation): (directory, directory_generation, name)
        for ino, generation, directory, directory_generation, name in entries.select(
            "ino", "generation", "directory", "directory_generation", "name"
        ).iter_rows()
    }
    resolved: dict[tuple[int, int], str | None] = {}

    def prefix(directory: tuple[int, int], depth: int = 0) -> str | None:
        if directory[0] == ROOT_INODE:
            return ""
        if directory not in resolved:
            resolved[directory] = prefixes.get(directory)
            if (entry := logged.get(directory)) is not None and depth < _MAX_DEPTH:
                above = prefix(entry[:2], depth + 1)
                if above is not None:
                    resolved[directory] = f"{above}/{entry[2]}"
        return resolved[directory]

    directories = entries.select("directory", "directory_generation").unique(maintain_order=True)
    table = directories.with_columns(
        prefix=pl.Series([prefix((ino, generation)) for ino, generation in directories.iter_rows()], dtype=pl.String)
    )
    joined = entries.join(table, on=["directory", "directory_generation"], how="left", maintain_order="left")
    length = pl.col("prefix").str.len_bytes() + pl.col("name").str.len_bytes()
    named = joined.filter(pl.col("prefix").is_not_null()).filter(length.cast(pl.Int64).cum_sum() <= _MAX_PATH_BYTES)
    return named.select("ino", "generation", path=pl.col("prefix") + "/" + pl.col("name"), encrypted="encrypted")
