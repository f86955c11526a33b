"""Read the journal of an ext3 or ext4 image: the uses of its blocks, and earlier states of files.

A journal holds copies of metadata blocks long after the blocks themselves have changed, such as inode tables and
directories of deleted files. Each copy is evidence for the time of its transaction's commit. The evidence reaches back
to the oldest commit that is not overwritten.

Measured with an SQLite workload of 2,000 transactions and a journal of 32 MiB, the journal still shows 36.7 % of the
blocks of deleted files, but only 0.5 % of those of SQLite's rollback journals.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs import jbd2, pieces
from androstep_analysis.fs.ext4 import journal_names, journal_states, layout
from androstep_analysis.fs.ext4.blockmap import EXTENT_TREE, INDIRECT, XATTR
from androstep_analysis.fs.ext4.inodes import EA_INODE_FLAG
from androstep_analysis.fs.ext4.journal_states import NEVER
from androstep_analysis.fs.ext4.layout import Superblock
from androstep_analysis.fs.filesystem import Filesystem
from androstep_analysis.fs.image import Image, reading
from androstep_analysis.fs.jbd2 import Log

ROLE = pl.Enum(jbd2.ROLES)

_TICK_NS = 10_000_000
"""Maximum delay of a commit after its recorded time, which is that of the last clock tick (HZ is 100 or more)."""


@dataclass(frozen=True)
class Journal:
    """The contents of a journal. Times are ns of CLOCK_REALTIME (Int64).

    Sectors count from the start of the filesystem. Those of an external journal count from the start of its device.

    Attributes
    ----------
    commits : DataFrame
        The commits, oldest first. `transaction` Int64 is the sequence number, as in jbd2's events. `epoch_ns` Int64 is
        null if no time was written. `is_live` Boolean is true if recovery would apply it. Within a `segment` (Int64) no
        transaction is missing.
    blocks : DataFrame
        The last use of each block of the journal: `sector`, `nr_sectors`, `position` Int64 (in the journal), `role`
        Enum (`jbd2.ROLES`), `transaction`, `commit_epoch_ns` Int64 (null: not committed, or incomplete). For data
        blocks also their target: `target_sector` Int64, `target_type`, `target_subtype` Enum (as in table `extents`)
        and `target_ino` Int64, its owner. For blocks of an inode table also the inodes in it, `target_first_ino` to
        `target_last_ino` (Int64).
    extents : DataFrame
        The blocks that files had from one commit to another, as table `extents` (source journal, incarnation 0, null
        times). `from_transaction`, `to_transaction`, `valid_from_epoch_ns` and `valid_to_epoch_ns` (Int64) are added;
        the ends are null if no end is known. A commit records the time of the previous clock tick. The span in times is
        therefore narrower than that in transactions, and may be empty for files that existed only some milliseconds.
        With jbd2's events the span is from the start of the commit of `from_transaction` to the end of the commit of
        `to_transaction`.
    files : DataFrame
        Table `files` (source journal, incarnation 0) with one row for each inode and generation, and the last known
        names.
    times : DataFrame
        For the same `ino` and `generation`, `created_epoch_ns` (null: unknown).
    losses : tuple of Loss
        The damage found.
    """

    commits: pl.DataFrame
    blocks: pl.DataFrame
    extents: pl.DataFrame
    files: pl.DataFrame
    times: pl.DataFrame
    losses: tuple[Loss, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Journal: {self.commits.height} commits in {self.blocks.height} blocks, {self.extents.height} extents,"
            f" {self.files.height} files, {sum(loss.count for loss in self.losses)} lost>"
        )


def read(
    path: str | Path, filesystem: Filesystem, *, offset_bytes: int = 0, external: str | Path | None = None
) -> Journal | None:
    """Read the journal of `filesystem`, the result of `fs.read` for the same `path` and `offset_bytes`.

    `external` is the image of a separate journal device. Returns None if there is no valid journal. Raises `InputError`
    if a file cannot be opened.
    """
    if not filesystem.fs_type.startswith("ext"):
        return None
    with reading(path, offset_bytes) as image:
        superblock = layout.read_superblock(image)
        if external is None:
            places = jbd2.places(filesystem.extents, superblock.block_bytes, image)
            log = jbd2.read(image, places, superblock.block_bytes)
            return None if log is None else _journal(log, image, superblock, filesystem)
        with reading(external, 0) as device:
            log = _external_log(device)
            return None if log is None else _journal(log, image, superblock, filesystem)


def _external_log(device: Image) -> Log | None:
    """Read the log on a journal device, which begins with an ext4 superblock, followed by the journal."""
    raw = device.read(layout.SUPERBLOCK_BYTE, layout.SUPERBLOCK_BYTES)
    log_block = int.from_bytes(raw[0x18:0x1C], "little")
    if int.from_bytes(raw[0x38:0x3A], "little") != layout.MAGIC or log_block > 6:
        return None
    block_bytes = 1024 << log_block
    nr_blocks = min(int.from_bytes(raw[0x4:0x8], "little"), device.nr_bytes // block_bytes)
    first = 2 if block_bytes == 1024 else 1
    # Positions of an external journal count from the start of the device.
    places = np.arange(nr_blocks, dtype=np.int64)
    return jbd2.read(device, places, block_bytes, superblock_at=first)


def _journal(log: Log, image: Image, superblock: Superblock, filesystem: Filesystem) -> Journal:
    groups = layout.read_groups(image, superblock)
    states, block_maps = journal_states.read_states(log, superblock, groups)
    states, claimed, stopped = journal_states.read_claimed(log, image, superblock, states, block_maps)
    owner, is_complete = journal_states.owners(claimed, log.copies)
    names = journal_names.read_names(log, states, claimed, owner, filesystem)
    dev = int(filesystem.extents["dev"][0])
    first_inos = journal_states.table_inos(superblock, groups, log.copies["target"])
    file_index = _file_indices(states)
    return Journal(
        commits=_commits(log),
        blocks=_blocks(log, superblock, filesystem, states, claimed, owner, first_inos),
        extents=_extents(log, superblock, states, claimed, dev),
        files=_files(states, file_index, names, dev),
        times=_times(states, file_index),
        losses=_losses(log, stopped or not is_complete),
    )


def _losses(log: Log, stopped: bool) -> tuple[Loss, ...]:
    losses = []
    if log.nr_damaged:
        message = f"{log.nr_damaged} blocks of the journal have a wrong checksum or are invalid; they were left out"
        losses.append(Loss("damaged", log.nr_damaged, message))
    if stopped:
        losses.append(Loss("unreadable", 1, "the journal is larger than any valid one and was read only in part"))
    return tuple(losses)


def _epochs(log: Log) -> np.ndarray:
    return np.append(log.committed["epoch_ns"], 0)


def _commits(log: Log) -> pl.DataFrame:
    committed = log.committed
    epoch = pl.col("epoch_ns")
    return pl.DataFrame(
        {
            "transaction": committed["sequence"],
            "epoch_ns": committed["epoch_ns"],
            "is_live": committed["is_live"],
            "segment": committed["segment"],
        }
    ).with_columns(pl.when(epoch > 0).then(epoch).alias("epoch_ns"))


_KINDS: tuple[tuple[str, str | None], ...] = (
    ("data", None),
    ("data", "symlink"),
    ("directory", None),
    ("metadata", "xattr"),
    ("metadata", "extent_tree"),
    ("metadata", "indirect"),
)
"""The (block_type, subtype) pairs of blocks that an inode can own, referred to by index."""


def _kinds(states: np.ndarray, claimed: np.ndarray) -> np.ndarray:
    """Return the index in `_KINDS` of each claimed run."""
    of_state = np.zeros(len(states), dtype=np.int64)
    of_state[pieces.has_type(states, stat.S_IFLNK)] = 1
    of_state[pieces.has_type(states, stat.S_IFDIR)] = 2
    of_state[(states["flags"] & EA_INODE_FLAG) != 0] = 3
    kind: np.ndarray = of_state[claimed["state"]]
    for use, number in ((XATTR, 3), (EXTENT_TREE, 4), (INDIRECT, 5)):
        kind[claimed["use"] == use] = number
    return kind


def _types(kinds: np.ndarray) -> tuple[pl.Series, pl.Series]:
    types = pl.Series([block_type for block_type, _ in _KINDS], dtype=schema.enum("extents", "block_type"))
    subtypes = pl.Series([subtype for _, subtype in _KINDS], dtype=schema.enum("extents", "subtype"))
    return types.gather(kinds), subtypes.gather(kinds)


def _extents(log: Log, superblock: Superblock, states: np.ndarray, claimed: np.ndarray, dev: int) -> pl.DataFrame:
    claimed = claimed[np.argsort(claimed["start"], kind="stable")]
    epoch, transaction = _epochs(log), np.append(log.committed["sequence"], 0)
    dated = (claimed["from_order"] < claimed["to_order"]) & (epoch[claimed["from_order"]] > 0)
    claimed = claimed[dated]
    block_type, subtype = _types(_kinds(states, claimed))
    sectors = superblock.block_bytes // SECTOR_BYTES
    ends = claimed["to_order"] != NEVER
    to = np.where(ends, claimed["to_order"], 0)
    own = states[claimed["state"]]
    frame = pl.DataFrame(
        {
            "sector": claimed["start"] * sectors,
            "nr_sectors": claimed["length"] * sectors,
            "block_type": block_type,
            "subtype": subtype,
            "ino": own["ino"],
            "generation": own["generation"].astype(np.int64),
            "logical": claimed["logical"],
            "from_transaction": transaction[claimed["from_order"]],
            "valid_from_epoch_ns": epoch[claimed["from_order"]] + _TICK_NS,
            "to_transaction": transaction[to],
            "valid_to_epoch_ns": epoch[to],
            "ends": ends,
        }
    )
    times = frame.select(
        *("from_transaction", "valid_from_epoch_ns"),
        *(pl.when("ends").then(name).alias(name) for name in ("to_transaction", "valid_to_epoch_ns")),
    )
    table = schema.complete(
        frame.select(
            pl.lit(dev, pl.UInt32).alias("dev"),
            *("sector", "nr_sectors", "block_type", "subtype", "ino"),
            pl.lit(0, pl.Int32).alias("incarnation"),
            "generation",
            pl.when(pl.col("logical") >= 0).then(pl.col("logical") * superblock.block_bytes).alias("file_offset_bytes"),
            pl.lit("journal", schema.enum("extents", "source")).alias("source"),
        ),
        "extents",
    )
    return table.hstack(times)


def _file_indices(states: np.ndarray) -> np.ndarray:
    """Return the index of the file of each state; files are distinct pairs of inode and generation."""
    pairs = np.stack([states["ino"], states["generation"].astype(np.int64)], axis=1)
    _, file_index = np.unique(pairs, axis=0, return_inverse=True)
    flat: np.ndarray = file_index.reshape(-1)
    return flat


def _last_states(states: np.ndarray, file_index: np.ndarray) -> np.ndarray:
    """Return for each file the last state with links, or else its last state."""
    order = np.lexsort((states["order"], states["links"] > 0, file_index))
    _, count = np.unique(file_index, return_counts=True)
    return np.array(states[order[np.cumsum(count) - 1]])


def _files(states: np.ndarray, file_index: np.ndarray, names: pl.DataFrame, dev: int) -> pl.DataFrame:
    """Build table `files`. For `pieces.files`, which joins names by inode number, the file's index replaces it."""
    last = _last_states(states, file_index)
    identity = pl.DataFrame({"ino": last["ino"], "generation": last["generation"].astype(np.int64)})
    numbered = identity.with_row_index("file").cast({"file": pl.Int64})
    by_file = names.join(numbered, on=["ino", "generation"]).select("path", "encrypted", ino="file")
    last["ino"] = np.arange(len(last))
    table = pieces.files(last, by_file, dev=dev, source="journal")
    return table.with_columns(identity["ino"]).sort("ino", "generation")


def _times(states: np.ndarray, file_index: np.ndarray) -> pl.DataFrame:
    created = pl.Series(states["created_ns"]).set(pl.Series(~states["has_created"]), None)
    generation = states["generation"].astype(np.int64)
    rows = pl.DataFrame(
        {"file": file_index, "ino": states["ino"], "generation": generation, "created_epoch_ns": created}
    )
    return rows.unique("file", keep="first", maintain_order=True).drop("file").sort("ino", "generation")


def _blocks(
    log: Log,
    superblock: Superblock,
    filesystem: Filesystem,
    states: np.ndarray,
    claimed: np.ndarray,
    owner: np.ndarray,
    first_inos: np.ndarray,
) -> pl.DataFrame:
    """Build table `Journal.blocks`."""
    sectors = superblock.block_bytes // SECTOR_BYTES
    has_owner = owner >= 0
    rows = claimed[owner[has_owner]]
    types = pl.Series([None] * len(owner), dtype=schema.enum("extents", "block_type"))
    subtypes = pl.Series([None] * len(owner), dtype=schema.enum("extents", "subtype"))
    block_type, subtype = _types(_kinds(states, rows))
    where = np.flatnonzero(has_owner)
    types, subtypes = types.scatter(where, block_type), subtypes.scatter(where, subtype)
    inos = np.zeros(len(owner), dtype=np.int64)
    inos[has_owner] = states["ino"][rows["state"]]
    per_block = superblock.block_bytes // superblock.inode_bytes
    copies = pl.DataFrame(
        {
            "position": log.copies["position"],
            "target_sector": log.copies["target"] * sectors,
            "type": types,
            "subtype": subtypes,
            "ino": inos,
            "first": first_inos,
        }
    )
    targets = copies.hstack(_static_targets(filesystem, copies["target_sector"])).select(
        *("position", "target_sector"),
        pl.coalesce("type", "static_type").alias("target_type"),
        pl.when(pl.col("type").is_null()).then("static_subtype").otherwise("subtype").alias("target_subtype"),
        pl.when(pl.col("ino") > 0).then("ino").alias("target_ino"),
        pl.when(pl.col("first") > 0).then("first").alias("target_first_ino"),
        pl.when(pl.col("first") > 0).then(pl.col("first") + per_block - 1).alias("target_last_ino"),
    )
    commits = _commits(log).select("transaction", commit_epoch_ns="epoch_ns").unique("transaction", keep="last")
    roles = pl.Series(jbd2.ROLES, dtype=ROLE)
    return (
        pl.DataFrame(
            {
                "sector": log.places * sectors,
                "nr_sectors": np.full(len(log.places), sectors),
                "position": np.arange(len(log.places)),
                "role": roles.gather(log.role),
                "sequence": log.sequence,
            }
        )
        .with_columns(pl.when(pl.col("sequence") >= 0).then("sequence").alias("transaction"))
        .drop("sequence")
        .join(commits, on="transaction", how="left", maintain_order="left")
        .join(targets, on="position", how="left", maintain_order="left")
    )


def _static_targets(filesystem: Filesystem, sectors: pl.Series) -> pl.DataFrame:
    """Return DataFrame(static_type, static_subtype) of metadata without an inode, from the image: it does not move."""
    extents = filesystem.extents
    row = np.searchsorted(extents["sector"].to_numpy(), sectors.to_numpy(), side="right") - 1
    covering = extents.select("block_type", "subtype", "ino")[np.maximum(row, 0)]
    is_static = pl.col("ino").is_null() & (pl.col("block_type") == "metadata")
    return covering.select(
        pl.when(is_static).then("block_type").alias("static_type"),
        pl.when(is_static).then("subtype").alias("static_subtype"),
    )
