"""Read images of F2FS, the filesystem of most Android data partitions, which pytsk3 does not support.

The information comes from the checkpoint (`layout`), the tables of nodes and segments (`tables`), the nodes (`nodes`),
the nodes that fsync wrote after the checkpoint (`recovery`), and the directories (`names`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs import pieces, runs
from androstep_analysis.fs.f2fs import layout, recovery, tables
from androstep_analysis.fs.f2fs.layout import Checkpoint, Superblock
from androstep_analysis.fs.f2fs.names import paths, read_entries
from androstep_analysis.fs.f2fs.nodes import ADDRESSES_BYTE, CONTENT, INLINE_DATA, damage, read_nodes
from androstep_analysis.fs.filesystem import Filesystem
from androstep_analysis.fs.image import Image, peek, reading
from androstep_analysis.fs.pieces import has_type

_CLASSES: tuple[tuple[str, str | None], ...] = (
    ("unknown", None),
    ("free", None),
    ("data", None),
    ("data", "symlink"),
    ("directory", None),
    *(("metadata", subtype) for subtype in ("superblock", "checkpoint", "sit", "nat", "ssa", "node", "quota")),
)
"""All (block_type, subtype) pairs of an F2FS block, referred to by index."""

_KIND = {both: number for number, both in enumerate(_CLASSES)}


def sniff(path: str | Path, offset_bytes: int = 0) -> bool:
    """Return whether the image has a plausible F2FS superblock, or a copy of it."""
    offsets = (offset_bytes + offset + layout.SUPERBLOCK_BYTE for offset in (0, *layout.BLOCK_SIZES))
    return any(Superblock.parse(peek(path, offset, layout.SUPERBLOCK_BYTES)) is not None for offset in offsets)


def read(path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
    """Read the filesystem at `offset_bytes` of an uncompressed image, in the state that a mount would restore.

    This is the newest valid checkpoint, plus later writes by fsync (roll-forward recovery).

    - Blocks of nodes of all kinds are `node`, with their inode.
    - Inodes deleted while open (orphans) still own their blocks.
    - Blocks are `unknown` if several inodes claim them, if an inode claims them but the segment table has them as free,
      or if they are in use but no inode claims them.

    Damaged parts are counted in `losses` and skipped. Raises `InputError` if there is no superblock or no checkpoint,
    or if the filesystem spans several devices.
    """
    with reading(path, offset_bytes) as image:
        return _read(image, dev, source)


def _read(image: Image, dev: int, source: str) -> Filesystem:
    superblock, superblock_losses = layout.read_superblock(image)
    checkpoint, checkpoint_losses = layout.read_checkpoint(image, superblock)
    nat, nat_losses = tables.read_nat(image, superblock, checkpoint)
    segments, sit_losses = tables.read_sit(image, superblock, checkpoint)
    newer = recovery.read(image, superblock, checkpoint, nat)
    nodes = read_nodes(image, superblock, nat, newer.places)
    claims, disputed = _undisputed(nodes.claims)
    files = nodes.inodes[~np.isin(nodes.inodes["ino"], list(superblock.quota_inodes))]
    entries, unread = read_entries(image, superblock, files, claims)
    names, unnamed = paths(superblock, files, newer.named(entries), unread)

    free = segments.free_space(image)
    doubted = _doubted(claims, free, newer)
    mapped = pieces.unowned(*disputed, _KIND["unknown", None])
    for lower in (
        pieces.unowned(*doubted, _KIND["unknown", None]),
        _owned(superblock, nodes.inodes, claims),
        _static(superblock),
        pieces.unowned(*newer.released(image, superblock, nat), _KIND["free", None]),
        pieces.unowned(*free, _KIND["free", None]),
        pieces.areas([(0, superblock.nr_blocks, _KIND["unknown", None])]),
    ):
        mapped = pieces.fill_gaps(mapped, lower, superblock.nr_blocks)
    return Filesystem(
        fs_type="f2fs",
        image=image.path,
        block_bytes=superblock.block_bytes,
        nr_sectors=superblock.nr_blocks * (superblock.block_bytes // SECTOR_BYTES),
        uuid=superblock.uuid,
        extents=pieces.extents(
            pieces.joined(mapped), _CLASSES, superblock.block_bytes, nodes.inodes, dev=dev, source=source
        ),
        files=pieces.files(files, names, dev=dev, source=source),
        times=pieces.times(files),
        first_bytes=_first_bytes(image, superblock, files, claims),
        losses=(
            *_image_losses(image, superblock, checkpoint, newer),
            *superblock_losses,
            *checkpoint_losses,
            *nat_losses,
            *sit_losses,
            *damage(nodes.damaged),
            *_map_losses(mapped, disputed, doubted),
            *unnamed,
            *pieces.nameless(files, names),
        ),
        version=checkpoint.version,
    )


def _image_losses(
    image: Image, superblock: Superblock, checkpoint: Checkpoint, newer: recovery.Newer
) -> Iterator[Loss]:
    yield from image.truncation(superblock.nr_blocks * superblock.block_bytes)
    if not checkpoint.flags & layout.CP_UMOUNT or newer.places.size:
        yield Loss(
            "unsynced",
            1,
            "the image was taken while mounted or after a crash: changes since the last checkpoint are not in the map,"
            f" except {newer.nr_inodes} inodes that fsync wrote (unmount or sync before copying)",
        )
    if checkpoint.flags & layout.CP_ERROR:
        yield Loss("damaged", 1, "the kernel found this filesystem damaged (checkpoint flag `error`)")


def _map_losses(
    mapped: np.ndarray, disputed: tuple[np.ndarray, np.ndarray], doubted: tuple[np.ndarray, np.ndarray]
) -> Iterator[Loss]:
    nr_disputed, nr_doubted = (int((end - start).sum()) for start, end in (disputed, doubted))
    if nr_disputed:
        yield Loss("damaged", nr_disputed, f"{nr_disputed} blocks are claimed more than once; their owner is unknown")
    if nr_doubted:
        yield Loss(
            "damaged",
            nr_doubted,
            f"{nr_doubted} blocks that inodes claim are free by the segment table; they are unknown",
        )
    unknown = mapped[mapped["kind"] == _KIND["unknown", None]]
    orphaned = int((unknown["end"] - unknown["start"]).sum()) - nr_disputed - nr_doubted
    if orphaned > 0:
        yield Loss("unowned", orphaned, f"{orphaned} blocks are in use and no inode holds them; they are unknown")


def _doubted(
    claims: np.ndarray, free: tuple[np.ndarray, np.ndarray], newer: recovery.Newer
) -> tuple[np.ndarray, np.ndarray]:
    """Return the runs that inodes claim, but that are free in the segment table.

    Recovered inodes are excluded, because the segment table does not contain their changes yet.
    """
    settled = claims[~np.isin(claims["ino"], newer.places["ino"])]
    start, end, _ = runs.intersect(settled["start"], settled["end"], *free)
    return start, end


def _undisputed(claims: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return (claims on blocks claimed once, sorted by block; runs claimed more than once as start and end)."""
    disputed = runs.overlapping(claims["start"], claims["end"])
    if not disputed[0].size:
        return claims[np.argsort(claims["start"], kind="stable")], disputed
    both = np.concatenate([pieces.unowned(*disputed, 0), claims])
    first = pieces.first_wins(both)
    return first[first["ino"] > 0], disputed


def _owned(superblock: Superblock, inodes: np.ndarray, claims: np.ndarray) -> np.ndarray:
    """Convert claims to pieces; the kind of content depends on the inode."""
    content = np.full(len(inodes), _KIND["data", None], dtype=np.uint8)
    for selected, kind in (
        (has_type(inodes, stat.S_IFLNK), ("data", "symlink")),
        (has_type(inodes, stat.S_IFDIR), ("directory", None)),
        (np.isin(inodes["ino"], list(superblock.quota_inodes)), ("metadata", "quota")),
    ):
        content[selected] = _KIND[kind]
    owned = claims.copy()
    of_content = content[np.searchsorted(inodes["ino"], claims["ino"])]
    owned["kind"] = np.where(claims["kind"] == CONTENT, of_content, _KIND["metadata", "node"])
    return owned


def _static(superblock: Superblock) -> np.ndarray:
    """Return the areas before the main area as pieces. Blocks between and after the areas are never written."""
    return pieces.areas(
        [
            (0, 2, _KIND["metadata", "superblock"]),
            (2, superblock.checkpoint, _KIND["free", None]),
            (superblock.checkpoint, superblock.sit, _KIND["metadata", "checkpoint"]),
            (superblock.sit, superblock.nat, _KIND["metadata", "sit"]),
            (superblock.nat, superblock.ssa, _KIND["metadata", "nat"]),
            (superblock.ssa, superblock.main, _KIND["metadata", "ssa"]),
            (superblock.main_end, superblock.nr_blocks, _KIND["free", None]),
        ]
    )


def _first_bytes(image: Image, superblock: Superblock, files: np.ndarray, claims: np.ndarray) -> pl.DataFrame:
    """Return the locations at which regular files begin (`Filesystem.first_bytes`). Inline content is in the inode.

    Compressed files are left out, because their first block does not contain the file's bytes unchanged.
    """
    files = files[has_type(files, stat.S_IFREG) & (files["size_bytes"] > 0) & (files["cluster"] == 1)]
    inline = files[((files["inline"] & INLINE_DATA) != 0) & (files["nr_slots"] > 1)]
    # The first slot is reserved (DEF_INLINE_RESERVED_SIZE).
    offsets = inline["block"] * superblock.block_bytes + ADDRESSES_BYTE + 4 * (inline["first_slot"] + 1)
    begins = claims[(claims["kind"] == CONTENT) & (claims["logical"] == 0)]
    parts = (
        pieces.inline_heads(inline, offsets, 4 * (inline["nr_slots"] - 1)),
        pieces.mapped_heads(files, begins, superblock.block_bytes),
    )
    return pieces.first_bytes(parts, image.offset_bytes)
