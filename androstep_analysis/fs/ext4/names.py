"""Read the paths of files on ext2/3/4 by walking the directories.

The Sleuth Kit (pytsk3) is not used for them: it truncates encrypted names at the first zero byte, mistakes parts of
hash trees for entries, refuses bigalloc, and maps all blocks of every file that it lists. A forged file of 100,000
extents takes it minutes.
"""

from __future__ import annotations

import stat
import struct
from array import array
from collections.abc import Iterator

import numpy as np
import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.fs import pieces
from androstep_analysis.fs.ext4.blockmap import CONTENT
from androstep_analysis.fs.ext4.inodes import (
    BLOCK_MAP_BYTE,
    BLOCK_MAP_BYTES,
    ENCRYPTED_FLAG,
    INLINE_DATA_FLAG,
    ROOT_INODE,
)
from androstep_analysis.fs.ext4.layout import Superblock
from androstep_analysis.fs.image import Image
from androstep_analysis.fs.pieces import MAX_PATH_LENGTH, has_type, max_characters

_ENTRY = struct.Struct("<IHBB")
"""struct ext4_dir_entry_2 without the name: inode, length of the entry, length of the name, file type."""

_ATTRIBUTE = struct.Struct("<BBHIII")
"""struct ext4_xattr_entry without the name: length and prefix of the name; place, size and hash of the value."""

_ATTRIBUTES_MAGIC = 0xEA020000
_INLINE_PARENT_BYTES = 4

NAMES = pl.Schema({"ino": pl.Int64, "path": pl.String, "encrypted": pl.Boolean})


def read_names(
    image: Image, superblock: Superblock, inodes: np.ndarray, claims: np.ndarray
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
    """
    walk = _Walk(image, superblock, inodes, claims)
    walk.run()
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


def _losses(damaged: set[int], dangling: int) -> Iterator[Loss]:
    if damaged:
        yield Loss(
            "unreadable",
            len(damaged),
            f"{len(damaged)} directories (first: inode {min(damaged)}) are damaged or nested too deeply;"
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
        self._encrypted = set(directories["ino"][encrypted].tolist())
        inline = directories[(directories["flags"] & INLINE_DATA_FLAG) != 0]
        self._inline = dict(zip(inline["ino"].tolist(), inline["offset_bytes"].tolist(), strict=True))
        self._runs = _content_runs(claims, directories["ino"])
        self._characters_left = max_characters(len(inodes))
        self.prefixes: list[str] = []
        self.encrypted: list[bool] = []
        self.entry_directory = array("q")
        self.entry_inode = array("q")
        self.entry_name: list[str] = []
        self.damaged: set[int] = set()

    def run(self) -> None:
        """Walk the tree."""
        pending = [(ROOT_INODE, "/", False)]
        seen = {ROOT_INODE}
        while pending:
            ino, prefix, encrypted = pending.pop()
            if len(prefix) > MAX_PATH_LENGTH:
                self.damaged.add(ino)
                continue
            encrypted = encrypted or ino in self._encrypted
            index = len(self.prefixes)
            self.prefixes.append(prefix)
            self.encrypted.append(encrypted)
            for child, raw_name in self._entries(ino):
                if raw_name in (b".", b".."):
                    continue
                name = raw_name.decode("utf-8", "backslashreplace")
                self._characters_left -= len(prefix) + len(name)
                if self._characters_left < 0:
                    self.damaged.add(ino)
                    break
                self.entry_directory.append(index)
                self.entry_inode.append(child)
                self.entry_name.append(name)
                if child in self._runs and child not in seen:
                    seen.add(child)
                    pending.append((child, f"{prefix}{name}/", encrypted))

    def _entries(self, ino: int) -> Iterator[tuple[int, bytes]]:
        """Yield (inode, name) of every entry in use. The blocks of a hash tree are also lists of entries."""
        size = self._superblock.block_bytes
        if ino not in self._runs:
            self.damaged.add(ino)
            return
        if ino in self._inline:
            for part in inline_parts(self._image.read(self._inline[ino], self._superblock.inode_bytes)):
                entries, is_whole = block_entries(part)
                if not is_whole:
                    self.damaged.add(ino)
                yield from entries
            return
        for start, length in self._runs[ino]:
            nr_read = 0
            for _, raw in self._image.chunks(start * size, length * size, size):
                nr_read += len(raw) // size
                for at in range(0, len(raw), size):
                    entries, is_whole = block_entries(raw[at : at + size])
                    if not is_whole:
                        self.damaged.add(ino)
                    yield from entries
            if nr_read < length:  # in a hole of the image, or after its end
                self.damaged.add(ino)


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


def inline_parts(raw: bytes) -> Iterator[bytes]:
    """Yield the entries of an inline directory: those in i_block, then those in the attribute ``system.data``.

    `raw` is the on-disk inode. Offsets of values count from the first attribute (EXT4_XATTR_INDEX_SYSTEM is 7).
    """
    yield raw[BLOCK_MAP_BYTE + _INLINE_PARENT_BYTES : BLOCK_MAP_BYTE + BLOCK_MAP_BYTES]
    if len(raw) <= 128:
        return
    magic_at = 128 + int.from_bytes(raw[128:130], "little")
    if raw[magic_at : magic_at + 4] != _ATTRIBUTES_MAGIC.to_bytes(4, "little"):
        return
    first = at = magic_at + 4
    while at + _ATTRIBUTE.size <= len(raw) and any(raw[at : at + 4]):
        name_length, prefix, offset, _, length, _ = _ATTRIBUTE.unpack_from(raw, at)
        at += _ATTRIBUTE.size
        if (prefix, raw[at : at + name_length]) == (7, b"data"):
            yield raw[first + offset : first + offset + length]
            return
        at += -(-name_length // 4) * 4


def _content_runs(claims: np.ndarray, inos: np.ndarray) -> dict[int, list[tuple[int, int]]]:
    """Return the content of some inodes as runs (first block, number of blocks), in the order of the file."""
    content = claims[(claims["use"] == CONTENT) & np.isin(claims["ino"], inos)]
    content = content[np.lexsort((content["logical"], content["ino"]))]
    runs: dict[int, list[tuple[int, int]]] = {ino: [] for ino in inos.tolist()}
    for ino, start, length in zip(*(content[name].tolist() for name in ("ino", "start", "length")), strict=True):
        runs[ino].append((start, length))
    return runs
