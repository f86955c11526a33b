"""Images of ext2, ext3 and ext4.

Names come from pytsk3 (`names`); what it does not tell, or tells otherwise than debugfs, is read directly: static
metadata and free space (`layout`), inodes (`inodes`), the blocks they claim (`blockmap`).
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
"""(block_type, subtype) of everything an ext4 block can be; elsewhere by number."""

_KIND = {both: number for number, both in enumerate(_CLASSES)}


def sniff(path: str | Path, offset_bytes: int = 0) -> bool:
    """Whether a plausible ext2/3/4 superblock lies where it should."""
    raw = peek(path, offset_bytes + layout.SUPERBLOCK_BYTE, layout.SUPERBLOCK_BYTES)
    return Superblock.parse(raw) is not None


def read(path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
    """The filesystem that begins at `offset_bytes` of the plain image `path`, read-only.

    Where inodes quarrel over a block, or one claims static metadata, the block is that of the first inode, as debugfs
    icheck has it; inodes without links own nothing. Where files share equal blocks (feature shared_blocks, as in
    images of Android's system), those are of no inode. Allocated blocks that nothing owns are `unknown`. Damage is
    counted in `losses` and passed over. Raises `InputError` where there is no superblock.
    """
    with reading(path, offset_bytes) as image:
        return _read(image, dev, source)


def _read(image: Image, dev: int, source: str) -> Filesystem:
    superblock = layout.read_superblock(image)
    groups = layout.read_groups(image, superblock)
    inodes, block_maps, pointed_bytes = read_inodes(image, superblock, groups)
    all_claims, damaged = read_claims(image, superblock, inodes, block_maps)
    del block_maps
    files = inodes[_are_files(superblock, inodes)]
    claims = _first_claims(all_claims)
    shared = _shared(superblock, all_claims)
    names, unread = read_names(image, superblock, files, claims, pointed_bytes)

    mapped = _owned(image, superblock, inodes, claims)
    if shared[0].size:
        mapped = pieces.of_nobody(mapped, *shared)
    for lower in (
        _static(superblock, groups),
        _unowned(*layout.free_space(image, superblock, groups), "free"),
        pieces.areas([(0, superblock.nr_blocks, _KIND["unknown", None])]),
    ):
        mapped = pieces.underlaid(mapped, lower, superblock.nr_blocks)
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
    """`Filesystem.version` and `commits`, as the journal tells them."""
    parsed = jbd2.read_commits(image, jbd2.places(extents, superblock.block_bytes, image), superblock.block_bytes)
    if parsed is None:
        return None, None
    newest, commits = parsed
    times = pl.Series(commits[:, 1])
    return newest, pl.DataFrame({"transaction": commits[:, 0], "epoch_ns": times.set(times == 0, None)})


def _fs_type(superblock: Superblock) -> str:
    """ext4 where it has a feature that ext3 does not know, else ext3 with a journal and ext2 without (as blkid)."""
    if superblock.incompat & ~layout.EXT3_INCOMPAT or superblock.ro_compat & ~layout.EXT3_RO_COMPAT:
        return "ext4"
    return "ext3" if superblock.compat & layout.COMPAT_HAS_JOURNAL else "ext2"


def _image_losses(image: Image, superblock: Superblock) -> Iterator[Loss]:
    yield from image.cut(superblock.nr_blocks * superblock.block_bytes)
    if superblock.incompat & layout.INCOMPAT_RECOVER:
        yield Loss(
            "unsynced",
            1,
            "the image was taken while mounted or after a crash: changes that only its journal holds are not in the"
            " map (unmount or sync before copying)",
        )


def _system_inodes(superblock: Superblock) -> set[int]:
    """Inodes that hold metadata of the filesystem and have no name, beside the reserved ones."""
    return {superblock.journal_inode, superblock.orphan_file_inode, *superblock.quota_inodes} - {0}


def _are_files(superblock: Superblock, inodes: np.ndarray) -> np.ndarray:
    """Which inodes are files of the user: in use (or deleted and still open), and not the filesystem's own."""
    alive = (inodes["links"] == 0) | (inodes["deleted"] == 0)
    numbered = (inodes["ino"] == ROOT_INODE) | (inodes["ino"] >= superblock.first_inode)
    own = np.isin(inodes["ino"], list(_system_inodes(superblock))) | ((inodes["flags"] & EA_INODE_FLAG) != 0)
    answer: np.ndarray = alive & numbered & ~own
    return answer


def _first_claims(claims: np.ndarray) -> np.ndarray:
    """`claims` cut so that every block is claimed once, by the first; sorted by block."""
    start, end, index = runs.first_wins(claims["start"], claims["start"] + claims["length"])
    first: np.ndarray = claims[index]
    content = first["logical"] >= 0
    first["logical"][content] += (start - first["start"])[content]
    first["start"], first["length"] = start, end - start
    return first


def _shared(superblock: Superblock, claims: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The runs of blocks that the content of several files shares by design: (start, end), sorted and disjoint."""
    content = claims[(claims["use"] == CONTENT) & bool(superblock.ro_compat & layout.RO_COMPAT_SHARED_BLOCKS)]
    return runs.overlapping(content["start"], content["start"] + content["length"])


def _shared_losses(start: np.ndarray, end: np.ndarray) -> Iterator[Loss]:
    if count := int((end - start).sum()):
        yield Loss("shared", count, f"{count} blocks are of several files each: which of them is read there is unknown")


def _unowned(start: np.ndarray, end: np.ndarray, block_type: str, subtype: str | None = None) -> np.ndarray:
    return pieces.unowned(start, end, _KIND[block_type, subtype])


def _owned(image: Image, superblock: Superblock, inodes: np.ndarray, claims: np.ndarray) -> np.ndarray:
    """Claims as pieces: what an inode's block is, follows from the inode and from its use of the block."""
    content_kind = np.full(len(inodes), _KIND["data", None], dtype=np.uint8)
    for which, kind in (
        (has_type(inodes, stat.S_IFLNK), ("data", "symlink")),
        (has_type(inodes, stat.S_IFDIR), ("directory", None)),
        ((inodes["flags"] & EA_INODE_FLAG) != 0, ("metadata", "xattr")),
        (inodes["ino"] == superblock.journal_inode, ("journal", None)),
        (inodes["ino"] == superblock.orphan_file_inode, ("metadata", "orphan_file")),
        (np.isin(inodes["ino"], list(superblock.quota_inodes)), ("metadata", "quota")),
        (inodes["ino"] == RESIZE_INODE, ("metadata", "reserved_gdt")),
    ):
        content_kind[which] = _KIND[kind]
    owned = np.empty(len(claims), dtype=PIECE)
    owned["start"], owned["end"] = claims["start"], claims["start"] + claims["length"]
    owned["ino"], owned["logical"] = claims["ino"], claims["logical"]
    owned["kind"] = content_kind[np.searchsorted(inodes["ino"], claims["ino"])]
    for use, subtype in ((EXTENT_TREE, "extent_tree"), (INDIRECT, "indirect"), (XATTR, "xattr")):
        owned["kind"][claims["use"] == use] = _KIND["metadata", subtype]
    _mark_resize_inode(image, inodes, owned)
    return owned


def _mark_resize_inode(image: Image, inodes: np.ndarray, owned: np.ndarray) -> None:
    """The resize inode reaches the reserved descriptor blocks through one double indirect block, its only own one.

    The reserved blocks behind the primary superblock serve as its indirect blocks, those of the backups as content.
    """
    mine = owned["ino"] == RESIZE_INODE
    owned["kind"][mine] = _KIND["metadata", "reserved_gdt"]
    owned["logical"][mine] = -1
    for place in inodes["offset_bytes"][inodes["ino"] == RESIZE_INODE].tolist():
        double = int.from_bytes(image.read(place + BLOCK_MAP_BYTE + 13 * 4, 4), "little")
        owned["kind"][mine & (owned["start"] == double)] = _KIND["metadata", "resize_inode"]


def _static(superblock: Superblock, groups: layout.Groups) -> np.ndarray:
    """Static metadata as pieces; where a damaged filesystem has two kinds in one place, the first named counts."""
    layers = [
        _unowned(first, np.minimum(first + length, superblock.nr_blocks), "metadata", subtype)
        for subtype, first, length in layout.static_metadata(superblock, groups)
    ]
    return pieces.first_wins(np.concatenate(layers))


def _first_bytes(image: Image, superblock: Superblock, files: np.ndarray, claims: np.ndarray) -> pl.DataFrame:
    """Where regular files begin in the image (see `Filesystem.first_bytes`); inline content lies in the inode."""
    files = files[has_type(files, stat.S_IFREG) & (files["size_bytes"] > 0)]
    inline = files[(files["flags"] & INLINE_DATA_FLAG) != 0]
    mapped = files[(files["flags"] & INLINE_DATA_FLAG) == 0]
    places = inline["offset_bytes"] + BLOCK_MAP_BYTE
    begins = claims[(claims["use"] == CONTENT) & (claims["logical"] == 0)]
    parts = (
        pieces.inline_heads(inline, places, np.full(len(inline), BLOCK_MAP_BYTES)),
        pieces.mapped_heads(mapped, begins, superblock.block_bytes),
    )
    return pieces.first_bytes(parts, image.offset_bytes)
