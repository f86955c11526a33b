"""The names of an ext2/3/4 filesystem, read by walking its directories with pytsk3.

Names in encrypted directories are ciphertext; pytsk3 hands out C strings, so that such a name ends before its first
zero byte.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytsk3

from androstep_analysis.fs.ext4_inodes import ENCRYPTED_FLAG, INLINE_DATA_FLAG, has_type
from androstep_analysis.fs.ext4_layout import RO_COMPAT_BIGALLOC, SUPERBLOCK_BYTE, Image, Superblock
from androstep_analysis.ingest.staging import Loss

ROOT_INODE = 2
_MAX_PATH_BYTES = 1 << 15
"""Directories below a path longer than this (eight times PATH_MAX) are left out: a hostile image nests without end."""

NAMES = pl.Schema({"ino": pl.Int64, "path": pl.String, "encrypted": pl.Boolean})


class _WithoutBigalloc(pytsk3.Img_Info):  # type: ignore[misc]  # pytsk3 has no types
    """An image as it would look without bigalloc, which The Sleuth Kit refuses.

    Only the allocation bitmaps count clusters; extents and directories count blocks, so that names read all the same.
    What is handed to The Sleuth Kit says: clusters are as large as blocks, and no bigalloc. The file is not touched.
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
        """Size of the image in bytes."""
        return self._image.nr_bytes

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`, with the changed superblock in its place."""
        data = bytearray(self._image.read(offset, length))
        first, end = max(offset, SUPERBLOCK_BYTE), min(offset + length, SUPERBLOCK_BYTE + len(self._superblock))
        if first < end:
            data[first - offset : end - offset] = self._superblock[first - SUPERBLOCK_BYTE : end - SUPERBLOCK_BYTE]
        return bytes(data)


def read_names(
    image: Image, superblock: Superblock, inodes: np.ndarray, mapped_bytes: np.ndarray
) -> tuple[pl.DataFrame, list[Loss]]:
    """Every path of every inode: DataFrame(ino Int64, path String, encrypted Boolean), and what could not be read.

    `inodes` (dtype `ext4_inodes.INODE`) are those in use, `mapped_bytes` the size of the blocks of each. An inode with
    hard links has a row for each. Bytes that are no UTF-8 are written ``\\xNN``.
    """
    try:
        filesystem = _open(image, superblock)
    except OSError as error:
        return pl.DataFrame(schema=NAMES), [
            Loss("unreadable", 1, f"The Sleuth Kit refuses the filesystem ({_first_line(error)}); no names were read")
        ]
    walk = _Walk(filesystem, superblock, inodes, mapped_bytes)
    walk.run()
    directory = np.array(walk.entry_directory, dtype=np.int64)
    prefixes = pl.DataFrame(
        {"prefix": walk.prefixes, "encrypted": walk.encrypted}, schema={"prefix": pl.String, "encrypted": pl.Boolean}
    )
    entries = prefixes[directory].select(
        ino=pl.Series(walk.entry_inode, dtype=pl.Int64),
        path=pl.col("prefix") + pl.Series(walk.entry_name, dtype=pl.String),
        encrypted="encrypted",
    )
    known = entries["ino"].is_in(inodes["ino"])
    root = pl.DataFrame({"ino": [ROOT_INODE], "path": ["/"], "encrypted": [False]}, schema=NAMES)
    names = pl.concat([root, entries.filter(known)]).unique()
    return names, list(_losses(walk, int((~known).sum())))


def _open(image: Image, superblock: Superblock) -> pytsk3.FS_Info:
    if superblock.ro_compat & RO_COMPAT_BIGALLOC:
        return pytsk3.FS_Info(_WithoutBigalloc(image))
    return pytsk3.FS_Info(pytsk3.Img_Info(str(image.path)), offset=image.offset_bytes)


def _losses(walk: _Walk, dangling: int) -> Iterator[Loss]:
    if walk.unreadable:
        yield Loss(
            "unreadable",
            len(walk.unreadable),
            f"{len(walk.unreadable)} directories (first: inode {walk.unreadable[0]}) are damaged or nested without end;"
            " what lies in them has no path",
        )
    if dangling:
        yield Loss("damaged", dangling, f"{dangling} directory entries name inodes that are not in use")


def _first_line(error: OSError) -> str:
    return (str(error).splitlines() or [""])[0]


class _Walk:
    """The directory tree from the root down, every directory once; entries as parallel columns."""

    def __init__(
        self, filesystem: pytsk3.FS_Info, superblock: Superblock, inodes: np.ndarray, mapped_bytes: np.ndarray
    ) -> None:
        self._filesystem = filesystem
        self._nr_inodes = superblock.nr_inodes
        is_directory = has_type(inodes, stat.S_IFDIR) & (inodes["links"] > 0) & (inodes["deleted"] == 0)
        directories = inodes[is_directory]
        # The Sleuth Kit reads a directory up to its size, block by block: one that claims much more than its blocks
        # hold would be read for hours.
        inline = (directories["flags"] & INLINE_DATA_FLAG) != 0
        sized = inline | (directories["size_bytes"] <= 4 * mapped_bytes[is_directory])
        self._sound = dict(zip(directories["ino"].tolist(), sized.tolist(), strict=True))
        self._hides_names = set(directories["ino"][(directories["flags"] & ENCRYPTED_FLAG) != 0].tolist())
        self.prefixes: list[str] = []
        self.encrypted: list[bool] = []
        self.entry_directory: list[int] = []
        self.entry_inode: list[int] = []
        self.entry_name: list[str] = []
        self.unreadable: list[int] = []

    def run(self) -> None:
        """Walk the tree."""
        pending = [(ROOT_INODE, "/", False)]
        seen = {ROOT_INODE}
        while pending:
            ino, prefix, encrypted = pending.pop()
            if not self._sound.get(ino, False) or len(prefix) > _MAX_PATH_BYTES:
                self.unreadable.append(ino)
                continue
            encrypted = encrypted or ino in self._hides_names
            number = len(self.prefixes)
            self.prefixes.append(prefix)
            self.encrypted.append(encrypted)
            for child, name in self._entries(ino):
                self.entry_directory.append(number)
                self.entry_inode.append(child)
                self.entry_name.append(name)
                if child in self._sound and child not in seen:
                    seen.add(child)
                    pending.append((child, f"{prefix}{name}/", encrypted))

    def _entries(self, ino: int) -> Iterator[tuple[int, str]]:
        """(inode, name) of every entry in use but ``.`` and ``..``."""
        try:
            for entry in self._filesystem.open_dir(inode=ino):
                name = entry.info.name
                raw = name.name
                if name.flags != pytsk3.TSK_FS_NAME_FLAG_ALLOC or raw in (b".", b".."):
                    continue
                child = name.meta_addr
                if 0 < child <= self._nr_inodes:  # The Sleuth Kit's own $OrphanFiles comes after the last inode
                    yield child, raw.decode("utf-8", "backslashreplace")
        except OSError:
            self.unreadable.append(ino)
