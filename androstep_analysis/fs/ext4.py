"""Images of ext2, ext3 and ext4.

Names come from pytsk3 (`ext4_names`); what it does not tell, or tells otherwise than debugfs, is read directly: static
metadata and free space (`ext4_layout`), inodes (`ext4_inodes`), the blocks they claim (`ext4_blockmap`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis import schema
from androstep_analysis.errors import InputError, Loss
from androstep_analysis.fs import ext4_blockmap, ext4_inodes, ext4_layout, ext4_names, runs
from androstep_analysis.fs.ext4_blockmap import CONTENT, EXTENT_TREE, INDIRECT, XATTR
from androstep_analysis.fs.ext4_inodes import EA_INODE_FLAG, has_type
from androstep_analysis.fs.ext4_layout import Image, Superblock
from androstep_analysis.fs.filesystem import HEAD_BYTES, Filesystem
from androstep_analysis.units import SECTOR_BYTES

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

PIECE = np.dtype([("start", np.int64), ("end", np.int64), ("kind", np.uint8), ("ino", np.int64), ("logical", np.int64)])
"""A run of blocks with one use: `kind` indexes `_CLASSES`; `ino` is 0, `logical` -1 (see CLAIM) where there is none."""


def sniff(path: str | Path, offset_bytes: int = 0) -> bool:
    """Whether a plausible ext2/3/4 superblock lies where it should."""
    try:
        with Path(path).open("rb") as file:
            file.seek(offset_bytes + ext4_layout.SUPERBLOCK_BYTE)
            return Superblock.parse(file.read(ext4_layout.SUPERBLOCK_BYTES)) is not None
    except OSError:
        return False


def read(path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
    """The filesystem that begins at `offset_bytes` of the plain image `path`, read-only.

    Where inodes quarrel over a block, or one claims static metadata, the block is that of the first inode, as debugfs
    icheck has it; inodes without links own nothing. Allocated blocks that nothing owns are `unknown`. Damage is
    counted in `losses` and passed over. Raises `InputError` where there is no superblock.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{path}: the image cannot be opened ({error.strerror}); check path and rights") from error
    try:
        nr_bytes = max(os.fstat(file).st_size - offset_bytes, 0)
        return _read(Image(file, Path(path), offset_bytes, nr_bytes), dev, source)
    finally:
        os.close(file)


def _read(image: Image, dev: int, source: str) -> Filesystem:
    superblock = ext4_layout.read_superblock(image)
    groups = ext4_layout.read_groups(image, superblock)
    inodes, block_maps, pointed_bytes = ext4_inodes.read_inodes(image, superblock, groups)
    claims, damaged = ext4_blockmap.read_claims(image, superblock, inodes, block_maps)
    del block_maps
    files = inodes[_are_files(superblock, inodes)]
    claims = _first_claims(claims)
    names, unread = ext4_names.read_names(image, superblock, files, claims, pointed_bytes)

    pieces = _owned(image, superblock, inodes, claims)
    for lower in (
        _static(superblock, groups),
        _pieces(*ext4_layout.free_space(image, superblock, groups), "free"),
        _pieces(np.zeros(1, np.int64), np.array([superblock.nr_blocks]), "unknown"),
    ):
        pieces = _underlaid(pieces, lower, superblock.nr_blocks)
    return Filesystem(
        fs_type=_fs_type(superblock),
        image=image.path,
        block_bytes=superblock.block_bytes,
        nr_sectors=superblock.nr_blocks * _block_sectors(superblock),
        uuid=superblock.uuid,
        extents=_extents(superblock, _joined(pieces), inodes, dev, source),
        files=_files(files, names, dev, source),
        times=ext4_inodes.times(files),
        first_bytes=_first_bytes(image, superblock, files, claims),
        losses=(
            *_image_losses(image, superblock),
            *ext4_layout.check_groups(superblock, groups),
            *damaged,
            *unread,
            *_nameless(files, names),
        ),
    )


def _block_sectors(superblock: Superblock) -> int:
    return superblock.block_bytes // SECTOR_BYTES


def _fs_type(superblock: Superblock) -> str:
    """ext4 where it has a feature that ext3 does not know, else ext3 with a journal and ext2 without (as blkid)."""
    if superblock.incompat & ~ext4_layout.EXT3_INCOMPAT or superblock.ro_compat & ~ext4_layout.EXT3_RO_COMPAT:
        return "ext4"
    return "ext3" if superblock.compat & ext4_layout.COMPAT_HAS_JOURNAL else "ext2"


def _image_losses(image: Image, superblock: Superblock) -> Iterator[Loss]:
    missing = superblock.nr_blocks * superblock.block_bytes - image.nr_bytes
    if missing > 0:
        yield Loss("torn", missing, f"the image ends {missing} bytes before its filesystem; they were read as zeros")
    if superblock.incompat & ext4_layout.INCOMPAT_RECOVER:
        yield Loss(
            "unsynced",
            1,
            "the image was taken while mounted or after a crash: changes that only its journal holds are not in the"
            " map (unmount or sync before copying)",
        )


def _nameless(files: np.ndarray, names: pl.DataFrame) -> Iterator[Loss]:
    """Files that have links but no path: their directory is damaged, more than its reader may have noticed."""
    nameless = files["ino"][(files["links"] > 0) & ~np.isin(files["ino"], names["ino"].to_numpy())]
    if nameless.size:
        yield Loss(
            "nameless",
            int(nameless.size),
            f"{nameless.size} files (first: inode {nameless[0]}) have no name in any directory that can be read",
        )


def _system_inodes(superblock: Superblock) -> set[int]:
    """Inodes that hold metadata of the filesystem and have no name, beside the reserved ones."""
    return {superblock.journal_inode, superblock.orphan_file_inode, *superblock.quota_inodes} - {0}


def _are_files(superblock: Superblock, inodes: np.ndarray) -> np.ndarray:
    """Which inodes are files of the user: in use (or deleted and still open), and not the filesystem's own."""
    alive = (inodes["links"] == 0) | (inodes["deleted"] == 0)
    numbered = (inodes["ino"] == ext4_inodes.ROOT_INODE) | (inodes["ino"] >= superblock.first_inode)
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


def _pieces(start: np.ndarray, end: np.ndarray, block_type: str, subtype: str | None = None) -> np.ndarray:
    """Pieces that no inode owns."""
    pieces = np.zeros(len(start), dtype=PIECE)
    pieces["start"], pieces["end"], pieces["kind"], pieces["logical"] = start, end, _KIND[block_type, subtype], -1
    return pieces


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
    pieces = np.empty(len(claims), dtype=PIECE)
    pieces["start"], pieces["end"] = claims["start"], claims["start"] + claims["length"]
    pieces["ino"], pieces["logical"] = claims["ino"], claims["logical"]
    pieces["kind"] = content_kind[np.searchsorted(inodes["ino"], claims["ino"])]
    for use, subtype in ((EXTENT_TREE, "extent_tree"), (INDIRECT, "indirect"), (XATTR, "xattr")):
        pieces["kind"][claims["use"] == use] = _KIND["metadata", subtype]
    _mark_resize_inode(image, inodes, pieces)
    return pieces


def _mark_resize_inode(image: Image, inodes: np.ndarray, pieces: np.ndarray) -> None:
    """The resize inode reaches the reserved descriptor blocks through one double indirect block, its only own one.

    The reserved blocks behind the primary superblock serve as its indirect blocks, those of the backups as content.
    """
    mine = pieces["ino"] == RESIZE_INODE
    pieces["kind"][mine] = _KIND["metadata", "reserved_gdt"]
    pieces["logical"][mine] = -1
    for place in inodes["offset_bytes"][inodes["ino"] == RESIZE_INODE].tolist():
        double = int.from_bytes(image.read(place + ext4_inodes.BLOCK_MAP_BYTE + 13 * 4, 4), "little")
        pieces["kind"][mine & (pieces["start"] == double)] = _KIND["metadata", "resize_inode"]


def _static(superblock: Superblock, groups: ext4_layout.Groups) -> np.ndarray:
    """Static metadata as pieces; where a damaged filesystem has two kinds in one place, the first named counts."""
    layers = [
        _pieces(first, np.minimum(first + length, superblock.nr_blocks), "metadata", subtype)
        for subtype, first, length in ext4_layout.static_metadata(superblock, groups)
    ]
    pieces = np.concatenate(layers)
    start, end, index = runs.first_wins(pieces["start"], pieces["end"])
    first: np.ndarray = pieces[index]
    first["start"], first["end"] = start, end
    return first


def _underlaid(upper: np.ndarray, lower: np.ndarray, total: int) -> np.ndarray:
    """`upper`, and `lower` where `upper` leaves a gap; both and the result sorted and without overlap."""
    start, end, index = runs.intersect(lower["start"], lower["end"], *runs.gaps(upper["start"], upper["end"], total))
    shown = lower[index]
    shown["start"], shown["end"] = start, end
    both = np.concatenate([upper, shown])
    ordered: np.ndarray = both[np.argsort(both["start"], kind="stable")]
    return ordered


def _joined(pieces: np.ndarray) -> np.ndarray:
    """Neighbours of one kind and inode as one piece, where the file goes on as the disk does."""
    before, after = pieces[:-1], pieces[1:]
    goes_on = np.where(
        before["logical"] >= 0,
        after["logical"] == before["logical"] + (before["end"] - before["start"]),
        after["logical"] < 0,
    )
    same = (before["kind"] == after["kind"]) & (before["ino"] == after["ino"]) & goes_on
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    joined = pieces[first]
    joined["end"] = pieces["end"][np.append(first[1:], len(pieces)) - 1]
    return joined


def _extents(superblock: Superblock, pieces: np.ndarray, inodes: np.ndarray, dev: int, source: str) -> pl.DataFrame:
    """Table `extents`."""
    sectors = _block_sectors(superblock)
    types = pl.Series([block_type for block_type, _ in _CLASSES], dtype=schema.enum("extents", "block_type"))
    subtypes = pl.Series([subtype for _, subtype in _CLASSES], dtype=schema.enum("extents", "subtype"))
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
    return schema.conform(
        frame.select(
            pl.lit(dev, pl.UInt32).alias("dev"),
            *("sector", "nr_sectors", "block_type", "subtype"),
            pl.when(owned).then("ino").alias("ino"),
            pl.when(owned).then(pl.lit(0, pl.Int32)).alias("incarnation"),
            pl.when(owned).then("generation").alias("generation"),
            pl.when(content).then(pl.col("logical") * superblock.block_bytes).alias("file_offset_bytes"),
            pl.lit(None, pl.Int64).alias("valid_from_ns"),
            pl.lit(None, pl.Int64).alias("valid_to_ns"),
            pl.lit(source, schema.enum("extents", "source")).alias("source"),
        ),
        "extents",
    )


def _files(inodes: np.ndarray, names: pl.DataFrame, dev: int, source: str) -> pl.DataFrame:
    """Table `files`, a row per inode, in inode order."""
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
    return schema.conform(
        frame.select(
            pl.lit(dev, pl.UInt32).alias("dev"),
            "ino",
            pl.lit(0, pl.Int32).alias("incarnation"),
            "generation",
            pl.col("names").list.first().alias("path"),
            pl.col("names").fill_null(pl.lit([], pl.List(pl.String))),
            pl.col("name_encrypted").fill_null(False),
            "file_type",
            pl.lit(None, pl.String).alias("file_type_rule"),
            pl.lit(None, pl.String).alias("package"),
            pl.when(pl.col("size_bytes") >= 0).then("size_bytes").alias("size_bytes"),  # negative: no file is so large
            *(
                pl.lit(None, pl.Int64).alias(name)
                for name in ("created_ns", "deleted_ns", "valid_from_ns", "valid_to_ns")
            ),
            pl.lit(source, schema.enum("files", "source")).alias("source"),
        ),
        "files",
    )


def _first_bytes(image: Image, superblock: Superblock, files: np.ndarray, claims: np.ndarray) -> pl.DataFrame:
    """Where regular files begin in the image (see `Filesystem.first_bytes`); inline content lies in the inode."""
    regular = has_type(files, stat.S_IFREG) & (files["size_bytes"] > 0)
    inline = regular & ((files["flags"] & ext4_inodes.INLINE_DATA_FLAG) != 0)
    begins = claims[(claims["use"] == CONTENT) & (claims["logical"] == 0)]
    inos, first = np.unique(begins["ino"], return_index=True)
    mapped = regular & ~inline & np.isin(files["ino"], inos)
    starts = begins["start"][first[np.searchsorted(inos, files["ino"][mapped])]]
    places = [files["offset_bytes"][inline] + ext4_inodes.BLOCK_MAP_BYTE, starts * superblock.block_bytes]
    lengths = [
        np.minimum(files["size_bytes"][inline], ext4_inodes.BLOCK_MAP_BYTES),
        np.minimum(files["size_bytes"][mapped], HEAD_BYTES),
    ]
    return pl.DataFrame(
        {
            "ino": np.concatenate([files["ino"][inline], files["ino"][mapped]]),
            "offset_bytes": np.concatenate(places) + image.offset_bytes,
            "nr_bytes": np.concatenate(lengths),
        }
    )
