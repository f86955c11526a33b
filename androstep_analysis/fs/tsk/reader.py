"""Read images with The Sleuth Kit (`kinds`) into extents and files.

The attributes of files and their runs are used as The Sleuth Kit reports them. Used blocks that no file owns are
`unknown`. On ISO 9660, which has no bitmap, free blocks are `unknown` as well.

Inode numbers are the record number in the MFT on NTFS, the catalog node id on HFS+, and numbers assigned by The Sleuth
Kit on ISO 9660. `generation` is the sequence number on NTFS and null elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytsk3

from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs import pieces
from androstep_analysis.fs.filesystem import Filesystem
from androstep_analysis.fs.image import Image, peek, reading
from androstep_analysis.fs.tsk.kinds import CLASS, CLASSES, DATA, KINDS, Kind
from androstep_analysis.fs.tsk.tree import Tree


def sniff(path: str | Path, offset_bytes: int = 0) -> bool:
    """Return whether the image has the signature of one of these filesystems."""
    return _kind(path, offset_bytes) is not None


def _kind(path: str | Path, offset_bytes: int) -> Kind | None:
    def has(offset: int, signature: bytes) -> bool:
        return peek(path, offset_bytes + offset, len(signature)) == signature

    return next((kind for kind in KINDS if any(has(*one) for one in kind.signatures)), None)


def read(path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
    """Read the filesystem at `offset_bytes` of an uncompressed image.

    A block that several files claim is assigned to the first in the directory tree, parents before children. Damaged
    parts are counted in `losses` and skipped. Raises `InputError` if The Sleuth Kit cannot open the filesystem.
    """
    kind = _kind(path, offset_bytes)
    try:
        if kind is None:
            raise OSError("no signature")
        volume = pytsk3.Img_Info(str(path), type=pytsk3.TSK_IMG_TYPE_RAW_SING)
        filesystem = pytsk3.FS_Info(volume, offset=offset_bytes, type=kind.tsk_type)
        tree = Tree(filesystem, kind)
    except OSError as error:
        name = "a filesystem" if kind is None else kind.fs_type
        raise InputError(
            f"{path}: byte {offset_bytes} begins {name} that The Sleuth Kit cannot open ({_reason(error)}); give an"
            " image of a whole, decrypted filesystem"
        ) from error
    with reading(path, offset_bytes) as image:
        if kind.fs_type == "ntfs":  # The Sleuth Kit visits every record of a file, also in holes of the image.
            image.check_runs(int(filesystem.info.last_inum), "files")
        tree.walk()
        return _filesystem(image, filesystem, kind, tree, dev, source)


def _reason(error: OSError) -> str:
    return str(error).rpartition(" with error: ")[2].rpartition("Unable to open file: ")[2].strip()


def _filesystem(image: Image, volume: pytsk3.FS_Info, kind: Kind, tree: Tree, dev: int, source: str) -> Filesystem:
    block_bytes, nr_blocks = volume.info.block_size, volume.info.block_count
    nr_sectors = nr_blocks * block_bytes // SECTOR_BYTES
    inodes = tree.inodes()
    files = inodes[~inodes["is_own"]]
    runs = tree.runs()
    map_ = pieces.first_wins(runs)
    fixed = pieces.areas((begin % nr_sectors, end % nr_sectors, fixed_class) for begin, end, fixed_class in kind.fixed)
    all_ = pieces.areas([(0, nr_sectors, CLASS["unknown", None])])
    for lower in (fixed, _free(image, volume, kind), all_):
        map_ = pieces.fill_gaps(map_, lower, nr_sectors)
    names = tree.names()
    first_runs = runs[(runs["logical"] == 0) & (runs["kind"] == DATA)]
    has_sequence = bool(volume.info.flags & pytsk3.TSK_FS_INFO_FLAG_HAVE_SEQ)
    numbering = (pl.col("generation") if has_sequence else pl.lit(None, pl.Int64)).alias("generation")
    return Filesystem(
        fs_type=kind.fs_type,
        image=image.path,
        block_bytes=block_bytes,
        nr_sectors=nr_sectors,
        uuid=f"{int.from_bytes(image.read(0x48, 8), 'little'):016X}" if kind.fs_type == "ntfs" else None,
        extents=pieces.extents(pieces.joined(map_), CLASSES, SECTOR_BYTES, inodes, dev=dev, source=source).with_columns(
            numbering
        ),
        files=pieces.files(files, names, dev=dev, source=source).with_columns(numbering),
        times=_times(files).with_columns(numbering),
        first_bytes=pieces.first_bytes([pieces.mapped_heads(files, first_runs, SECTOR_BYTES)], image.offset_bytes),
        losses=(*image.truncation(nr_sectors * SECTOR_BYTES), *_losses(tree)),
    )


def _times(files: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame(
        {"ino": files["ino"], "generation": files["generation"].astype(np.int64)}
        | {name: pl.Series(files[name]).replace(0, None) for name in ("created_epoch_ns", "changed_epoch_ns")}
    )


def _free(image: Image, volume: pytsk3.FS_Info, kind: Kind) -> np.ndarray:
    """Return the blocks that are free in the filesystem's bitmap; none if it has no readable bitmap."""
    block_bytes = volume.info.block_size
    nr_blocks = min(volume.info.block_count, image.nr_bytes // block_bytes)
    if kind.bitmap is None:
        return pieces.areas([])
    try:
        raw = volume.open_meta(inode=kind.bitmap).read_random(0, -(-nr_blocks // 8))
    except OSError:
        return pieces.areas([])
    is_used = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder=kind.bits)[:nr_blocks]
    edges = np.flatnonzero(np.diff(is_used, prepend=1, append=1)) * (block_bytes // SECTOR_BYTES)
    return pieces.unowned(edges[0::2], edges[1::2], CLASS["free", None])


def _losses(tree: Tree) -> Iterator[Loss]:
    if tree.unread:
        yield Loss(
            "unreadable",
            len(tree.unread),
            f"{len(tree.unread)} directories (first: {tree.unread[0]}) are damaged or nested too deeply; files in them"
            " may have no path",
        )
    if tree.incomplete:
        yield Loss(
            "damaged",
            len(tree.incomplete),
            f"some blocks of {len(tree.incomplete)} files (first: {tree.incomplete[0]}) are unknown, or outside of the"
            " filesystem",
        )
    yield from pieces.dangling(tree.nr_dangling)
