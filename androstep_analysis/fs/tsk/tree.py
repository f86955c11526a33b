"""Walk the directory tree with The Sleuth Kit: files, their names, and the locations of their attributes."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
import pytsk3

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs.pieces import MAX_PATH_LENGTH, PIECE
from androstep_analysis.fs.tsk.kinds import CLASS, CONTENT, DATA, OTHER, TYPED_ATTRIBUTES, Kind

_MODES = {
    pytsk3.TSK_FS_META_TYPE_REG: stat.S_IFREG,
    pytsk3.TSK_FS_META_TYPE_DIR: stat.S_IFDIR,
    pytsk3.TSK_FS_META_TYPE_LNK: stat.S_IFLNK,
    pytsk3.TSK_FS_META_TYPE_BLK: stat.S_IFBLK,
    pytsk3.TSK_FS_META_TYPE_CHR: stat.S_IFCHR,
    pytsk3.TSK_FS_META_TYPE_FIFO: stat.S_IFIFO,
    pytsk3.TSK_FS_META_TYPE_SOCK: stat.S_IFSOCK,
}

_CONTENT_CLASSES = {
    pytsk3.TSK_FS_META_TYPE_DIR: CLASS["directory", None],
    pytsk3.TSK_FS_META_TYPE_LNK: CLASS["data", "symlink"],
}

INODE = np.dtype(
    [
        *(("ino", np.int64), ("generation", np.uint32), ("mode", np.uint16), ("size_bytes", np.int64)),
        *(("created_epoch_ns", np.int64), ("changed_epoch_ns", np.int64), ("is_own", np.bool_)),
    ]
)
"""A file. A missing time is 0. `is_own` marks the filesystem's own files."""


class _Directory(NamedTuple):
    number: int
    prefix: str
    is_own: bool


@dataclass
class Tree:
    """The directory tree from the root down, parents before children. Each directory is visited only once.

    `unread` lists the paths of unreadable directories, and `incomplete` those of files with unreadable runs. Raises
    `OSError` if there is no root, or if the block size is not a multiple of the sector size.
    """

    filesystem: pytsk3.FS_Info
    kind: Kind
    unread: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    nr_dangling: int = 0

    def __post_init__(self) -> None:
        self._block_bytes = int(self.filesystem.info.block_size)
        self._nr_blocks = int(self.filesystem.info.block_count)
        if self._block_bytes % SECTOR_BYTES or self._nr_blocks <= 0:
            raise OSError(f"{self._nr_blocks} blocks of {self._block_bytes} bytes")
        self._root = int(self.filesystem.info.root_inum)
        self._root_file = self.filesystem.open_meta(inode=self._root)
        self._inodes: list[tuple[int, int, int, int, int, int, bool]] = []
        self._runs: list[tuple[int, int, int, int, int]] = []
        self._named: list[int] = []
        self._paths: list[str] = []

    def inodes(self) -> np.ndarray:
        """Return all files, including the filesystem's own (dtype `INODE`), sorted by inode number."""
        inodes = np.array(self._inodes, dtype=INODE)
        return inodes[np.argsort(inodes["ino"], kind="stable")]

    def runs(self) -> np.ndarray:
        """Return the runs of the files' content and attributes, in sectors (dtype `pieces.PIECE`)."""
        return np.array(self._runs, dtype=PIECE)

    def names(self) -> pl.DataFrame:
        """Return DataFrame(ino, path, encrypted) with one row for each hard link."""
        return pl.DataFrame(
            {"ino": self._named, "path": self._paths, "encrypted": [False] * len(self._paths)},
            schema={"ino": pl.Int64, "path": pl.String, "encrypted": pl.Boolean},
        )

    def walk(self) -> None:
        """Read the whole tree."""
        self._add(self._root_file, "/", False)
        self._name(self._root, "/")
        seen = {self._root}
        pending = [_Directory(self._root, "/", False)]
        for directory in pending:
            if len(directory.prefix) > MAX_PATH_LENGTH:
                self.unread.append(directory.prefix[:MAX_PATH_LENGTH])
                continue
            try:
                for entry in self.filesystem.open_dir(inode=directory.number):
                    subdirectory = self._add_entry(entry, directory, seen)
                    if subdirectory is not None:
                        pending.append(subdirectory)
            except OSError:
                self.unread.append(directory.prefix)

    def _add_entry(self, entry: pytsk3.File, directory: _Directory, seen: set[int]) -> _Directory | None:
        """Add the file of a directory entry; return it if it is a directory not seen before."""
        name, meta = entry.info.name, entry.info.meta
        if name.flags != pytsk3.TSK_FS_NAME_FLAG_ALLOC or name.name in (b".", b".."):
            return None
        if name.type == pytsk3.TSK_FS_NAME_TYPE_VIRT_DIR:  # The Sleuth Kit's virtual directory of deleted files.
            return None
        if meta is None or not meta.flags & pytsk3.TSK_FS_META_FLAG_ALLOC:
            self.nr_dangling += 1
            return None
        number = int(meta.addr)
        in_root = directory.number == self._root
        is_own = directory.is_own or number in self.kind.own or (in_root and name.name in self.kind.own_names)
        is_journal = in_root and name.name in self.kind.journals
        path = directory.prefix + name.name.decode("utf-8", "backslashreplace")
        if not is_own and not is_journal:
            self._name(number, path)
        if number in seen:
            return None
        seen.add(number)
        self._add(entry, path, is_own or is_journal, CLASS["journal", None] if is_journal else None)
        if meta.type != pytsk3.TSK_FS_META_TYPE_DIR:
            return None
        return _Directory(number, f"{path}/", is_own)

    def _name(self, number: int, path: str) -> None:
        self._named.append(number + self.kind.shift)
        self._paths.append(path)

    def _add(self, file: pytsk3.File, path: str, is_own: bool, content: int | None = None) -> None:
        meta = file.info.meta
        number = int(meta.addr) + self.kind.shift
        changed = _nanoseconds(meta.ctime, meta.ctime_nano)
        # ISO 9660 has no time of change, and its creation time is that of the original file.
        created = _nanoseconds(meta.crtime, meta.crtime_nano) if changed else 0
        mode = _MODES.get(meta.type, 0)
        self._inodes.append((number, int(meta.seq), mode, int(meta.size), created, changed, is_own))
        if content is None:
            default = OTHER if is_own else _CONTENT_CLASSES.get(meta.type, DATA)
            content = self.kind.own.get(int(meta.addr), default)
        is_whole = True
        try:
            for attribute in file:
                is_whole &= self._add_runs(attribute, number, content)
        except OSError:
            is_whole = False
        if not is_whole:
            self.incomplete.append(path)

    def _add_runs(self, attribute: pytsk3.Attribute, number: int, content: int) -> bool:
        """Add the runs of an attribute; return whether all are known and inside of the filesystem.

        Runs get no file offset if the attribute is compressed (bytes and sectors do not correspond), or if it is not
        the file's content.
        """
        info = attribute.info
        is_content = info.type in CONTENT
        kind = content if is_content else TYPED_ATTRIBUTES.get(info.type, OTHER)
        if number == 0 and info.type == pytsk3.TSK_FS_ATTR_TYPE_NTFS_BITMAP:
            kind = CLASS["metadata", "inode_bitmap"]
        is_stream = info.type == pytsk3.TSK_FS_ATTR_TYPE_NTFS_DATA and info.name is not None
        has_offsets = is_content and number and not is_stream and not info.flags & pytsk3.TSK_FS_ATTR_COMP
        sectors = self._block_bytes // SECTOR_BYTES
        is_whole = True
        for run in attribute:
            flags, offset = int(run.flags), int(run.offset)
            if flags & pytsk3.TSK_FS_ATTR_RUN_FLAG_SPARSE:
                continue
            inside = min(run.len, self._nr_blocks - run.addr)
            if flags & pytsk3.TSK_FS_ATTR_RUN_FLAG_FILLER or inside < run.len:
                is_whole = False
            elif inside > 0:
                start = run.addr * sectors
                logical = offset * sectors if has_offsets else -1
                self._runs.append((start, start + inside * sectors, kind, number, logical))
        return is_whole


def _nanoseconds(seconds: int, nanoseconds: int) -> int:
    """Return a time in ns, or 0 if it is missing or invalid."""
    return seconds * 10**9 + nanoseconds if 0 < seconds < 1 << 33 and 0 <= nanoseconds < 10**9 else 0
