"""Find the nodes that fsync wrote after the last checkpoint of F2FS, which a mount recovers (roll-forward).

fsync writes nodes as a chain. It begins at the next free block of the open warm node segment at the checkpoint, and
each node contains the address of the next one. The rules are the kernel's: find_fsync_dnodes and recover_data in
fs/f2fs/recovery.c, is_recoverable_dnode in fs/f2fs/node.h (mainline of 2025).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from androstep_analysis.fs import pieces
from androstep_analysis.fs.f2fs.layout import (
    BLOCKS_PER_SEGMENT,
    CP_NOCRC_RECOVERY,
    Checkpoint,
    Superblock,
)
from androstep_analysis.fs.f2fs.names import ENTRIES
from androstep_analysis.fs.f2fs.nodes import PLACE, XATTR_NODE_OFFSET, direct_number, footers, read_nodes
from androstep_analysis.fs.image import Image

_WARM = 1
_FSYNC_MARK = 0x2
_DENTRY_MARK = 0x4
_NAME_BYTE = 92
_MAX_NAME_BYTES = 255


@dataclass(frozen=True)
class _Node:
    """A node of the chain. `name` is set for an inode for which recovery creates a directory entry."""

    nid: int
    ino: int
    offset: int
    block: int
    fsynced: bool
    parent: int
    name: str | None


@dataclass(frozen=True)
class Newer:
    """The changes by recovery: `places` of nodes (dtype `nodes.PLACE`, by inode and offset) and `entries`."""

    places: np.ndarray
    entries: pl.DataFrame

    @property
    def nr_inodes(self) -> int:
        """Number of recovered inodes."""
        return len(np.unique(self.places["ino"]))

    def named(self, entries: pl.DataFrame) -> pl.DataFrame:
        """Return `entries` with those of recovery, which replace entries with the same name."""
        return pl.concat([entries.join(self.entries, on=["parent", "name"], how="anti"), self.entries])

    def released(self, image: Image, superblock: Superblock, nat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the runs of blocks of the recovered inodes at the checkpoint: (start, end), sorted and disjoint.

        Blocks that these inodes no longer have are free after the filesystem is mounted.
        """
        before = nat[np.isin(nat["ino"], self.places["ino"])]
        claims = pieces.first_wins(read_nodes(image, superblock, before, np.empty(0, PLACE)).claims)
        return claims["start"], claims["end"]


def read(image: Image, superblock: Superblock, checkpoint: Checkpoint, nat: np.ndarray) -> Newer:
    """Return the nodes and entries that a mount recovers. `nat` (dtype `tables.NODE`) is that of the checkpoint."""
    chain = list(_chain(image, superblock, checkpoint))
    inodes = set(nat["nid"][nat["nid"] == nat["ino"]].tolist())
    last: dict[int, int] = {}
    entries: dict[int, tuple[int, str]] = {}
    for number, node in enumerate(chain):
        if not node.fsynced:
            continue
        if node.name is not None:
            inodes.add(node.ino)
            entries[node.ino] = (node.parent, node.name)
        if node.ino in inodes:
            last[node.ino] = number
    places = {
        (node.ino, node.offset): node.block
        for number, node in enumerate(chain)
        if number <= last.get(node.ino, -1) and _is_recovered(superblock, node)
    }
    table = np.array([(ino, offset, block) for (ino, offset), block in sorted(places.items())], dtype=PLACE)
    named = [(parent, ino, name) for ino, (parent, name) in sorted(entries.items())]
    return Newer(table, pl.DataFrame(named, schema=ENTRIES, orient="row"))


def _is_recovered(superblock: Superblock, node: _Node) -> bool:
    """Return true for inodes, direct nodes and xattr nodes. A mount creates indirect nodes again."""
    direct = int(direct_number(superblock, np.array([node.offset]))[0]) >= 0
    return node.offset == XATTR_NODE_OFFSET or direct or (node.offset == 0 and node.nid == node.ino)


def _chain(image: Image, superblock: Superblock, checkpoint: Checkpoint) -> Iterator[_Node]:
    """Yield the nodes written to the warm node segments since the checkpoint, in the order of writing."""
    segment, following = checkpoint.node_segments[_WARM], checkpoint.node_next[_WARM]
    block = superblock.main + segment * BLOCKS_PER_SEGMENT + following
    version_mask = (1 << 32) - 1 if checkpoint.flags & CP_NOCRC_RECOVERY else (1 << 64) - 1
    visited: set[int] = set()
    while superblock.main <= block < superblock.main_end and block not in visited:
        visited.add(block)
        raw = image.blocks(np.array([block]), superblock.block_bytes)
        footer = footers(raw)[0]
        if (int(footer["version"]) ^ checkpoint.node_version) & version_mask:
            return
        yield _node(raw[0].tobytes(), footer, block)
        block = int(footer["next"])


def _node(raw: bytes, footer: np.void, block: int) -> _Node:
    nid, ino, flag = (int(footer[name]) for name in ("nid", "ino", "flag"))
    length = int.from_bytes(raw[88:92], "little")
    wants_entry = nid == ino and bool(flag & _DENTRY_MARK) and 0 < length <= _MAX_NAME_BYTES
    name = raw[_NAME_BYTE : _NAME_BYTE + length].decode("utf-8", "backslashreplace") if wants_entry else None
    return _Node(
        nid=nid,
        ino=ino,
        offset=flag >> 3,
        block=block,
        fsynced=bool(flag & _FSYNC_MARK),
        parent=int.from_bytes(raw[84:88], "little"),
        name=name,
    )
