"""Read the paths of files on ext2/3/4 by walking the directories with pytsk3.

Some directories are read directly instead:

- Encrypted ones: names are ciphertext, and pytsk3 returns them as C strings, truncated at the first zero byte.
- Hash trees (the INDEX flag): pytsk3 mistakes parts of the index for entries (`e2fs_f_h_normal` of the corpus has one).
- Large ones: pytsk3 compares every entry with all earlier ones. 80,000 files took 3 s in one directory, but 0.2 s in
  many directories.
- All, if pytsk3 refuses the filesystem or would take too long. It maps the blocks of every file that it lists. Without
  extents (ext2, ext3) it does so block by block, including holes.
"""

from __future__ import annotations

import stat
import struct
from array import array
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytsk3

from androstep_analysis.common.errors import Loss
from androstep_analysis.fs import pieces
from androstep_analysis.fs.ext4.blockmap import CONTENT
from androstep_analysis.fs.ext4.inodes import ENCRYPTED_FLAG, INDEX_FLAG, INLINE_DATA_FLAG, ROOT_INODE
from androstep_analysis.fs.ext4.layout import RO_COMPAT_BIGALLOC, SUPERBLOCK_BYTE, Superblock
from androstep_analysis.fs.image import Image
from androstep_analysis.fs.pieces import MAX_PATH_LENGTH, has_type

_LARGE_DIRECTORY_BYTES = 1 << 18
"""Directories above this size are read directly."""

_MAX_LAID_OUT_BLOCKS = 1 << 12
"""Limit of blocks and holes in files without extents, including deleted ones. pytsk3 may take 1 ms for each."""

NAMES = pl.Schema({"ino": pl.Int64, "path": pl.String, "encrypted": pl.Boolean})


class _WithoutBigalloc(pytsk3.Img_Info):  # type: ignore[misc]  # pytsk3 has no types
    """An image without the feature bigalloc, which The Sleuth Kit does not support.

    Only the allocation bitmaps count clusters. Extents and directories count blocks, so that names can still be read.
    The superblock passed to The Sleuth Kit has no bigalloc flag, and clusters as large as blocks. The file itself is
    not changed.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        superblock = bytearray(image.read(SUPERBLOCK_BYTE, 1024))
        superblock[0x1C:0x20] = superblock[0x18:0x1C]  # s_log_cluster_size = s_log_block_size
        superblock[0x24:0x28] = superblock[0x20:0x24]  # s_clusters_per_group = s_blocks_per_group
        ro_compat = int.from_bytes(superblock[0x64:0x68], "little") & ~RO_COMPAT_BIGALLOC
        superblock[0x64:0x68] = ro_compat.to_bytes(4, "little")
        self._superblock = bytes(superblock)
        super().__init__(url="", type=pytsk3.TSK_IMG_TYPE_EXTERNAL)

    def get_size(self) -> int:
        """Return the size of the image in bytes."""
        return self._image.nr_bytes

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at `offset`, with the changed superblock."""
        data = bytearray(self._image.read(offset, length))
        first, end = max(offset, SUPERBLOCK_BYTE), min(offset + length, SUPERBLOCK_BYTE + len(self._superblock))
        if first < end:
            data[first - offset : end - offset] = self._superblock[first - SUPERBLOCK_BYTE : end - SUPERBLOCK_BYTE]
        return bytes(data)


def read_names(
    image: Image, superblock: Superblock, inodes: np.ndarray, claims: np.ndarray, pointed_bytes: float
) -> tuple[pl.DataFrame, list[Loss]]:
    """Return all paths, as DataFrame(ino Int64, path String, encrypted Boolean), and the losses.

    There is one row for each hard link. Bytes that are not UTF-8 become ``\\xNN``.

    Parameters
    ----------
    image : Image
        The image.
    superblock : Superblock
        Its superblock.
    inodes : ndarray
        The inodes in use (dtype `inodes.INODE`).
    claims : ndarray
        The blocks of directories (dtype `blockmap.CLAIM`).
    pointed_bytes : float
        The size of all inodes without extents, from `inodes.read_inodes`.
    """
    walk = _Walk(image, superblock, inodes, claims)
    walk.run(_open(image, superblock, pointed_bytes))
    directories = pl.DataFrame(
        {"prefix": walk.prefixes, "encrypted": walk.encrypted}, schema={"prefix": pl.String, "encrypted": pl.Boolean}
    )
    entries = directories[np.asarray(walk.entry_directory)].select(
        ino=np.asarray(walk.entry_inode),
        path=pl.col("prefix") + pl.Series(walk.entry_name, dtype=pl.String),
        encrypted="encrypted",
    )
    has_inode = entries["ino"].is_in(inodes["ino"])
    root = pl.DataFrame({"ino": [ROOT_INODE], "path": ["/"], "encrypted": [False]}, schema=NAMES)
    return pl.concat([root, entries.filter(has_inode)]), list(_losses(walk.damaged, int((~has_inode).sum())))


def _open(image: Image, superblock: Superblock, pointed_bytes: float) -> pytsk3.FS_Info | None:
    """Open the filesystem with pytsk3; None if pytsk3 refuses it or would take too long."""
    if pointed_bytes > _MAX_LAID_OUT_BLOCKS * superblock.block_bytes:
        return None
    try:
        if superblock.ro_compat & RO_COMPAT_BIGALLOC:
            return pytsk3.FS_Info(_WithoutBigalloc(image))
        return pytsk3.FS_Info(pytsk3.Img_Info(str(image.path)), offset=image.offset_bytes)
    except OSError:
        return None


def _losses(damaged: list[int], dangling: int) -> Iterator[Loss]:
    if damaged:
        yield Loss(
            "unreadable",
            len(damaged),
            f"{len(damaged)} directories (first: inode {damaged[0]}) are damaged or nested too deeply;"
            " files in them may have no path",
        )
    yield from pieces.dangling(dangling)


class _Walk:
    """A walk of the directory tree from the root. It visits each directory once and collects entries as columns."""

    def __init__(self, image: Image, superblock: Superblock, inodes: np.ndarray, claims: np.ndarray) -> None:
        self._image = image
        self._superblock = superblock
        directories = inodes[has_type(inodes, stat.S_IFDIR) & (inodes["links"] > 0)]
        encrypted = (directories["flags"] & ENCRYPTED_FLAG) != 0
        indexed = (directories["flags"] & INDEX_FLAG) != 0
        direct = encrypted | indexed | (directories["size_bytes"] > _LARGE_DIRECTORY_BYTES)
        self._direct = set(directories["ino"][direct].tolist())
        self._encrypted = set(directories["ino"][encrypted].tolist())
        self._inline = set(directories["ino"][(directories["flags"] & INLINE_DATA_FLAG) != 0].tolist())
        self._blocks = _content_blocks(claims, directories["ino"])
        self.prefixes: list[str] = []
        self.encrypted: list[bool] = []
        self.entry_directory = array("q")
        self.entry_inode = array("q")
        self.entry_name: list[str] = []
        self.damaged: list[int] = []

    def run(self, filesystem: pytsk3.FS_Info | None) -> None:
        """Walk the tree; without a pytsk3 `filesystem`, read all directories directly."""
        pending = [(ROOT_INODE, "/", False)]
        seen = {ROOT_INODE}
        while pending:
            ino, prefix, encrypted = pending.pop()
            if len(prefix) > MAX_PATH_LENGTH:
                self.damaged.append(ino)
                continue
            encrypted = encrypted or ino in self._encrypted
            index = len(self.prefixes)
            self.prefixes.append(prefix)
            self.encrypted.append(encrypted)
            if filesystem is None or ino in self._direct:
                entries = self._read_directly(ino)
            else:
                entries = self._read_with_pytsk3(filesystem, ino)
            for child, raw_name in entries:
                if raw_name in (b".", b".."):
                    continue
                name = raw_name.decode("utf-8", "backslashreplace")
                self.entry_directory.append(index)
                self.entry_inode.append(child)
                self.entry_name.append(name)
                if child in self._blocks and child not in seen:
                    seen.add(child)
                    pending.append((child, f"{prefix}{name}/", encrypted))

    def _read_with_pytsk3(self, filesystem: pytsk3.FS_Info, ino: int) -> Iterator[tuple[int, bytes]]:
        """Yield (inode, name) of every entry in use."""
        try:
            for entry in filesystem.open_dir(inode=ino):
                name = entry.info.name
                child = name.meta_addr
                in_use = name.flags == pytsk3.TSK_FS_NAME_FLAG_ALLOC
                if in_use and child <= self._superblock.nr_inodes:  # pytsk3's $OrphanFiles is after the last inode
                    yield child, name.name
        except OSError:
            self.damaged.append(ino)

    def _read_directly(self, ino: int) -> Iterator[tuple[int, bytes]]:
        """Yield (inode, name) from the directory's blocks. The blocks of a hash tree are also lists of entries."""
        size = self._superblock.block_bytes
        if ino in self._inline or ino not in self._blocks:
            self.damaged.append(ino)
            return
        for block in self._blocks[ino]:
            entries, is_whole = block_entries(self._image.read(block * size, size))
            if not is_whole:
                self.damaged.append(ino)
            yield from entries


def block_entries(raw: bytes) -> tuple[list[tuple[int, bytes]], bool]:
    """Return (inode, name) of the entries in use in a directory block, and whether the whole block is valid."""
    size = len(raw)
    entries: list[tuple[int, bytes]] = []
    at = 0
    while at < size - 8:
        child, length, name_length, _ = _ENTRY.unpack_from(raw, at)
        if size == 1 << 16:  # lengths up to 64 KiB in 16 bits (ext4_rec_len_from_disk)
            length = size if length in (0, 0xFFFF) else length & 0xFFFC | (length & 3) << 16
        if length % 4 or not 8 + name_length <= length <= size - at:
            return entries, False
        if child:
            entries.append((child, raw[at + 8 : at + 8 + name_length]))
        at += length
    return entries, True


_ENTRY = struct.Struct("<IHBB")
"""struct ext4_dir_entry_2 without the name: inode, length of the entry, length of the name, file type."""


def _content_blocks(claims: np.ndarray, inos: np.ndarray) -> dict[int, list[int]]:
    """Return the content blocks of some inodes, in the order of the file."""
    content = claims[(claims["use"] == CONTENT) & np.isin(claims["ino"], inos)]
    content = content[np.lexsort((content["logical"], content["ino"]))]
    blocks: dict[int, list[int]] = {ino: [] for ino in inos.tolist()}
    for ino, start, length in zip(*(content[name].tolist() for name in ("ino", "start", "length")), strict=True):
        blocks[ino].extend(range(start, start + length))
    return blocks
