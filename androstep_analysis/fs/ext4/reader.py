"""Read images of ext2, ext3 and ext4.

Names come from pytsk3 (`names`). It lacks other information or disagrees with debugfs on it, so that this is read
directly: static metadata and free space (`layout`), inodes (`inodes`), and the blocks that they claim (`blockmap`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs import jbd2, pieces, runs
from androstep_analysis.fs.ext4 import layout
from androstep_analysis.fs.ext4.blockmap import CONTENT, EXTENT_TREE, INDIRECT, XATTR, read_claims
from androstep_analysis.fs.ext4.inodes import (
    BLOCK_MAP_BYTE,
    BLOCK_MAP_BYTES,
    EA_INODE_FLAG,
    INLINE_DATA_FLAG,
    ROOT_INODE,
    read_inodes,
)
from androstep_analysis.fs.ext4.layout import Superblock
from androstep_analysis.fs.ext4.names import read_names
from androstep_analysis.fs.filesystem import Filesystem
from androstep_analysis.fs.image import Image, peek, reading
from androstep_analysis.fs.pieces import PIECE, has_type

RESIZE_INODE = 7

_CLASSES: tuple[tuple[str, str | None], ...] = (
    ("unknown", None),
    ("free", None),
    ("data", None),
    ("data", "symlink"),
    ("directory", None),
    ("journal", None),
    *(
        ("metadata", subtype)
        for subtype in (
            *("boot_record", "superblock", "group_descriptors", "reserved_gdt", "block_bitmap", "inode_bitmap"),
            *("inode_table", "mmp", "extent_tree", "indirect", "xattr", "quota", "resize_inode", "orphan_file"),
        )
    ),
)
"""All (block_type, subtype) pairs of an ext4 block, referred to by index."""

_KIND = {both: number for number, both in enumerate(_CLASSES)}


def sniff(path: str | Path, offset_bytes: int = 0) -> bool:
    """Return whether the image has a plausible ext2/3/4 superblock."""
    raw = peek(path, offset_bytes + layout.SUPERBLOCK_BYTE, layout.SUPERBLOCK_BYTES)
    return Superblock.parse(raw) is not None


def read(path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
    """Read the filesystem at `offset_bytes` of an uncompressed image.

    The owner of a block follows debugfs icheck:

    - A block that several inodes claim, or that is also static metadata, belongs to the first inode.
    - Inodes without links own no blocks.
    - Blocks that files share by design (feature shared_blocks, as in images of Android's system) have no inode.
    - Allocated blocks without an owner are `unknown`.

    Damaged parts are counted in `losses` and skipped. Raises `InputError` if there is no superblock.
    """
    with reading(path, offset_bytes) as image:
        return _read(image, dev, source)


def _read(image: Image, dev: int, source: str) -> Filesystem:
    superblock = layout.read_superblock(image)
    groups = layout.read_groups(image, superblock)
    inodes, block_maps = read_inodes(image, superblock, groups)
    all_claims, damaged = read_claims(image, superblock, inodes, block_maps)
    del block_maps
    files = inodes[_are_files(superblock, inodes)]
    claims = _first_claims(all_claims)
    shared = _shared(superblock, all_claims)
    names, unread = read_names(image, superblock, files, claims)

    mapped = _owned(image, superblock, inodes, claims)
    if shared[0].size:
        mapped = pieces.without_inode(mapped, *shared)
    for lower in (
        _static(superblock, groups),
        _unowned(*layout.free_space(image, superblock, groups), "free"),
        pieces.areas([(0, superblock.nr_blocks, _KIND["unknown", None])]),
    ):
        mapped = pieces.fill_gaps(mapped, lower, superblock.nr_blocks)
    extents = pieces.extents(pieces.joined(mapped), _CLASSES, superblock.block_bytes, inodes, dev=dev, source=source)
    version, commits = _committed(image, superblock, extents)
    return Filesystem(
        fs_type=_fs_type(superblock),
        image=image.path,
        block_bytes=superblock.block_bytes,
        nr_sectors=superblock.nr_blocks * (superblock.block_bytes // SECTOR_BYTES),
        uuid=superblock.uuid,
        extents=extents,
        files=pieces.files(files, names, dev=dev, source=source),
        times=pieces.times(files),
        first_bytes=_first_bytes(image, superblock, files, all_claims if shared[0].size else claims),
        losses=(
            *_image_losses(image, superblock),
            *_shared_losses(*shared),
            *layout.check_groups(superblock, groups),
            *damaged,
            *unread,
            *pieces.nameless(files, names),
        ),
        made_epoch_ns=superblock.made_epoch_s * 1_000_000_000 or None,
        version=version,
        commits=commits,
    )


def _committed(image: Image, superblock: Superblock, extents: pl.DataFrame) -> tuple[int | None, pl.DataFrame | None]:
    """Return `Filesystem.version` and `commits` from the journal."""
    parsed = jbd2.read_commits(image, jbd2.places(extents, superblock.block_bytes, image), superblock.block_bytes)
    if parsed is None:
        return None, None
    newest, commits = parsed
    times = pl.Series(commits[:, 1])
    return newest, pl.DataFrame({"transaction": commits[:, 0], "epoch_ns": times.set(times == 0, None)})


def _fs_type(superblock: Superblock) -> str:
    """Return ext4 if it has a feature that ext3 lacks, else ext3 with a journal or ext2 without one (as blkid)."""
    if superblock.incompat & ~layout.EXT3_INCOMPAT or superblock.ro_compat & ~layout.EXT3_RO_COMPAT:
        return "ext4"
    return "ext3" if superblock.compat & layout.COMPAT_HAS_JOURNAL else "ext2"


def _image_losses(image: Image, superblock: Superblock) -> Iterator[Loss]:
    yield from image.truncation(superblock.nr_blocks * superblock.block_bytes)
    if superblock.incompat & layout.INCOMPAT_RECOVER:
        yield Loss(
            "unsynced",
            1,
            "the image was taken while mounted or after a crash: changes that only its journal holds are not in the"
            " map (unmount or sync before copying)",
        )


def _system_inodes(superblock: Superblock) -> set[int]:
    """Return the inodes with metadata of the filesystem and without names, in addition to the reserved ones."""
    return {superblock.journal_inode, superblock.orphan_file_inode, *superblock.quota_inodes} - {0}


def _are_files(superblock: Superblock, inodes: np.ndarray) -> np.ndarray:
    """Return which inodes are user files: in use (or deleted and still open), and not the filesystem's own."""
    alive = (inodes["links"] == 0) | (inodes["deleted"] == 0)
    numbered = (inodes["ino"] == ROOT_INODE) | (inodes["ino"] >= superblock.first_inode)
    own = np.isin(inodes["ino"], list(_system_inodes(superblock))) | ((inodes["flags"] & EA_INODE_FLAG) != 0)
    is_file: np.ndarray = alive & numbered & ~own
    return is_file


def _first_claims(claims: np.ndarray) -> np.ndarray:
    """Split claims so that every block is claimed once, by the first claim; sorted by block."""
    start, end, index = runs.first_wins(claims["start"], claims["start"] + claims["length"])
    first: np.ndarray = claims[index]
    content = first["logical"] >= 0
    first["logical"][content] += (start - first["start"])[content]
    first["start"], first["length"] = start, end - start
    return first


def _shared(superblock: Superblock, claims: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the runs of blocks that several files share by design: (start, end), sorted and disjoint."""
    content = claims[(claims["use"] == CONTENT) & bool(superblock.ro_compat & layout.RO_COMPAT_SHARED_BLOCKS)]
    return runs.overlapping(content["start"], content["start"] + content["length"])


def _shared_losses(start: np.ndarray, end: np.ndarray) -> Iterator[Loss]:
    if count := int((end - start).sum()):
        yield Loss("shared", count, f"{count} blocks are shared by several files; requests to them have no file")


def _unowned(start: np.ndarray, end: np.ndarray, block_type: str, subtype: str | None = None) -> np.ndarray:
    return pieces.unowned(start, end, _KIND[block_type, subtype])


def _owned(image: Image, superblock: Superblock, inodes: np.ndarray, claims: np.ndarray) -> np.ndarray:
    """Convert claims to pieces; the kind of a block depends on its inode and on the use by the inode."""
    content_kind = np.full(len(inodes), _KIND["data", None], dtype=np.uint8)
    for selected, kind in (
        (has_type(inodes, stat.S_IFLNK), ("data", "symlink")),
        (has_type(inodes, stat.S_IFDIR), ("directory", None)),
        ((inodes["flags"] & EA_INODE_FLAG) != 0, ("metadata", "xattr")),
        (inodes["ino"] == superblock.journal_inode, ("journal", None)),
        (inodes["ino"] == superblock.orphan_file_inode, ("metadata", "orphan_file")),
        (np.isin(inodes["ino"], list(superblock.quota_inodes)), ("metadata", "quota")),
        (inodes["ino"] == RESIZE_INODE, ("metadata", "reserved_gdt")),
    ):
        content_kind[selected] = _KIND[kind]
    owned = np.empty(len(claims), dtype=PIECE)
    owned["start"], owned["end"] = claims["start"], claims["start"] + claims["length"]
    owned["ino"], owned["logical"] = claims["ino"], claims["logical"]
    owned["kind"] = content_kind[np.searchsorted(inodes["ino"], claims["ino"])]
    for use, subtype in ((EXTENT_TREE, "extent_tree"), (INDIRECT, "indirect"), (XATTR, "xattr")):
        owned["kind"][claims["use"] == use] = _KIND["metadata", subtype]
    _mark_resize_inode(image, inodes, owned)
    return owned


def _mark_resize_inode(image: Image, inodes: np.ndarray, owned: np.ndarray) -> None:
    """Mark the blocks of the resize inode, which maps the reserved descriptor blocks through a double indirect block.

    Only the double indirect block is its own. The reserved blocks after the primary superblock are its indirect blocks,
    and those after the backups are its content.
    """
    mine = owned["ino"] == RESIZE_INODE
    owned["kind"][mine] = _KIND["metadata", "reserved_gdt"]
    owned["logical"][mine] = -1
    for offset in inodes["offset_bytes"][inodes["ino"] == RESIZE_INODE].tolist():
        double = int.from_bytes(image.read(offset + BLOCK_MAP_BYTE + 13 * 4, 4), "little")
        owned["kind"][mine & (owned["start"] == double)] = _KIND["metadata", "resize_inode"]


def _static(superblock: Superblock, groups: layout.Groups) -> np.ndarray:
    """Return static metadata as pieces. If two kinds overlap on a damaged filesystem, the first one counts."""
    layers = [
        _unowned(first, np.minimum(first + length, superblock.nr_blocks), "metadata", subtype)
        for subtype, first, length in layout.static_metadata(superblock, groups)
    ]
    return pieces.first_wins(np.concatenate(layers))


def _first_bytes(image: Image, superblock: Superblock, files: np.ndarray, claims: np.ndarray) -> pl.DataFrame:
    """Return the locations at which regular files begin (`Filesystem.first_bytes`). Inline content is in the inode."""
    files = files[has_type(files, stat.S_IFREG) & (files["size_bytes"] > 0)]
    inline = files[(files["flags"] & INLINE_DATA_FLAG) != 0]
    mapped = files[(files["flags"] & INLINE_DATA_FLAG) == 0]
    offsets = inline["offset_bytes"] + BLOCK_MAP_BYTE
    begins = claims[(claims["use"] == CONTENT) & (claims["logical"] == 0)]
    parts = (
        pieces.inline_heads(inline, offsets, np.full(len(inline), BLOCK_MAP_BYTES)),
        pieces.mapped_heads(mapped, begins, superblock.block_bytes),
    )
    return pieces.first_bytes(parts, image.offset_bytes)
