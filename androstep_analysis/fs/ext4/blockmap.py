"""Read the blocks that each inode of an ext2/3/4 filesystem claims: its content and the blocks of its block map.

Two inodes claim the same block only with the feature shared_blocks or on a damaged filesystem. The result agrees with
debugfs icheck also for damaged maps. They are read as libext2fs 1.47 does (lib/ext2fs/block.c, extent.c): up to and
including the first invalid node.

pytsk3 also returns data runs. However, it refuses inodes with a damaged map, and leaves out xattr blocks and blocks
beyond the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from androstep_analysis.common.errors import Loss
from androstep_analysis.fs.ext4.inodes import EXTENTS_FLAG, maps_blocks
from androstep_analysis.fs.ext4.layout import Superblock
from androstep_analysis.fs.image import Image, record_dtype

CONTENT, UNWRITTEN, EXTENT_TREE, INDIRECT, XATTR = range(5)
"""Uses of a block by an inode. UNWRITTEN is preallocated content, which reads as zeros."""

CLAIM = np.dtype(
    [("start", np.int64), ("length", np.int64), ("ino", np.int64), ("logical", np.int64), ("use", np.uint8)]
)
"""A run of blocks that an inode claims. `logical` is the file block of the first block, or -1 if it has none."""

_NODE_HEADER_BYTES = 12
_ENTRY = record_dtype(
    {
        **{"logical": ("<u4", 0), "length": ("<u2", 4), "start_high": ("<u2", 6), "start": ("<u4", 8)},
        **{"leaf": ("<u4", 4), "leaf_high": ("<u2", 8)},
    },
    12,
)
"""An entry of an extent tree node: an extent (length, start) in a leaf, or an index entry (leaf)."""

_NODE_MAGIC = 0xF30A
NODE_MAGIC_BYTES = _NODE_MAGIC.to_bytes(2, "little")
"""The first bytes of an extent tree node."""

_WRITTEN_MAX_LENGTH = 32768
"""Maximum length of a written extent. A larger value means an unwritten extent, whose length is the excess."""

_DIRECT = 12
_INODES_AT_ONCE = 1 << 15
_POINTERS_READ_AT_ONCE = 1 << 22


def read_claims(
    image: Image, superblock: Superblock, inodes: np.ndarray, block_maps: np.ndarray
) -> tuple[np.ndarray, list[Loss]]:
    """Return all claims (dtype `CLAIM`), sorted by inode and clipped to the filesystem, and losses for damaged maps.

    `inodes` and their `block_maps` come from `inodes.read_inodes`.
    """
    parts = [_xattr_claims(inodes)]
    damaged_parts = [np.empty(0, dtype=np.int64)]
    visited: set[int] = set()
    for at in range(0, len(inodes), _INODES_AT_ONCE):
        some, maps = inodes[at : at + _INODES_AT_ONCE], block_maps[at : at + _INODES_AT_ONCE]
        mapping = maps_blocks(some, maps)
        by_extents = (some["flags"] & EXTENTS_FLAG) != 0
        trees, pointers = mapping & by_extents, mapping & ~by_extents
        for claims, damaged in (
            _extent_claims(image, superblock, some["ino"][trees], maps[trees], visited),
            _pointer_claims(image, superblock, some["ino"][pointers], maps[pointers]),
        ):
            parts.append(claims)
            damaged_parts.append(damaged)
    claims = np.concatenate(parts)
    claims = claims[np.argsort(claims["ino"], kind="stable")]
    inside = (claims["start"] >= 0) & (claims["start"] < superblock.nr_blocks) & (claims["length"] > 0)
    outside = np.unique(claims["ino"][~inside | (claims["start"] + claims["length"] > superblock.nr_blocks)])
    claims = claims[inside]
    claims["length"] = np.minimum(claims["length"], superblock.nr_blocks - claims["start"])
    return claims, list(_damage(np.union1d(np.concatenate(damaged_parts), outside)))


def _damage(damaged: np.ndarray) -> Iterator[Loss]:
    if damaged.size:
        yield Loss(
            "damaged",
            int(damaged.size),
            f"the block map of {damaged.size} inodes (first: {damaged[0]}) is damaged and was read up to the damage;"
            " their other blocks are unknown",
        )


def _claims(start: np.ndarray, length: object, ino: object, logical: object, use: object) -> np.ndarray:
    claims = np.empty(len(start), dtype=CLAIM)
    claims["start"], claims["length"], claims["ino"] = start, length, ino
    claims["logical"], claims["use"] = logical, use
    return claims


def _xattr_claims(inodes: np.ndarray) -> np.ndarray:
    """Return claims on blocks of extended attributes. A block that several inodes share belongs to the first inode."""
    having = np.flatnonzero((inodes["links"] > 0) & (inodes["xattr_block"] != 0))
    blocks, first = np.unique(inodes["xattr_block"][having], return_index=True)
    return _claims(blocks, 1, inodes["ino"][having[first]], -1, XATTR)


def _extent_claims(
    image: Image, superblock: Superblock, inos: np.ndarray, roots: np.ndarray, visited: set[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the claims of inodes with extent trees, and the inode numbers of damaged trees.

    Trees that fit in the inode, which are most of them, are read with array operations. The others are walked one by
    one (see `_walk_tree` for `visited`).
    """
    headers = roots[:, :8].copy().view("<u2")
    magic, entries, capacity, depth = headers.T
    sound = (magic == _NODE_MAGIC) & (entries <= capacity) & (capacity >= 2) & (capacity <= 4)
    sound &= ~((depth > 0) & (entries == 0))
    table = roots[:, _NODE_HEADER_BYTES:].copy().view(_ENTRY)
    is_used = np.arange(table.shape[1]) < entries[:, None]
    lengths, _ = _extent_length(table)
    begins, ends = table["logical"].astype(np.int64), table["logical"].astype(np.int64) + lengths
    before = np.concatenate([np.zeros((len(inos), 1), np.int64), ends[:, :-1]], axis=1)
    ordered = (~is_used | ((begins >= before) & (lengths > 0))).all(axis=1)

    flat = sound & ordered & (depth == 0)
    row, column = np.nonzero(is_used & flat[:, None])
    parts = [_leaf_claims(table[row, column], inos[row])]
    damaged = [inos[~sound & roots.any(axis=1)]]
    for i in np.flatnonzero(sound & ~flat).tolist():
        ino = int(inos[i])
        nodes, leaves, broken = _walk_tree(image, superblock, roots[i].tobytes(), visited)
        logical = np.concatenate([leaf["logical"] for leaf in leaves]).astype(np.int64) if leaves else before[:0, 0]
        length = np.concatenate([_extent_length(leaf)[0] for leaf in leaves]) if leaves else before[:0, 0]
        in_order = bool((logical[1:] >= (logical + length)[:-1]).all() and (length > 0).all())
        parts.append(_claims(np.array(nodes, dtype=np.int64), 1, ino, -1, EXTENT_TREE))
        if in_order:
            parts.extend(_leaf_claims(leaf, ino) for leaf in leaves)
        else:
            parts.append(_disordered_claims(leaves, ino))
        if broken or not in_order:
            damaged.append(np.array([ino]))
    return np.concatenate(parts), np.concatenate(damaged)


def _extent_length(extents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of blocks of each extent (Int64), and whether it is unwritten."""
    length = extents["length"].astype(np.int64)
    unwritten = length > _WRITTEN_MAX_LENGTH
    return length - _WRITTEN_MAX_LENGTH * unwritten, unwritten


def _leaf_claims(extents: np.ndarray, ino: object) -> np.ndarray:
    length, unwritten = _extent_length(extents)
    start = extents["start"].astype(np.int64) | extents["start_high"].astype(np.int64) << 32
    return _claims(start, length, ino, extents["logical"], np.where(unwritten, UNWRITTEN, CONTENT))


def _disordered_claims(leaves: list[np.ndarray], ino: int) -> np.ndarray:
    """Return the claims of extents that are not in the order of the file, as libext2fs counts them.

    ext2fs_block_iterate3 handles these two cases specially:

    - An extent ends before the file blocks already seen: it is skipped, together with the next one in the same leaf.
    - An extent begins before them: its begin is moved forward. Its file offset is unknown.
    """
    ordered = []
    seen = 0
    for leaf in leaves:
        claims = iter(_leaf_claims(leaf, ino))
        for claim in claims:
            end = claim["logical"] + claim["length"]
            if end <= seen:
                next(claims, None)
                continue
            if claim["logical"] < seen:
                claim["start"] += seen - claim["logical"]
                claim["logical"] = -1
            ordered.append(claim.copy())
            seen = end
    return np.array(ordered, dtype=CLAIM)


def _walk_tree(
    image: Image, superblock: Superblock, root: bytes, visited: set[int]
) -> tuple[list[int], list[np.ndarray], bool]:
    """Walk an extent tree in file order; return the blocks of its nodes, the entries of its leaves, and any damage.

    `visited` holds the nodes of all trees walked so far. Not entering a node twice bounds the time for a damaged image.
    """
    depth = int.from_bytes(root[6:8], "little")
    capacity = (superblock.block_bytes - _NODE_HEADER_BYTES) // _ENTRY.itemsize
    nodes: list[int] = []
    leaves: list[np.ndarray] = []
    broken = False
    pending: list[tuple[int, int]] = []  # (block, level), next one last

    def enter(entries: np.ndarray, level: int) -> None:
        if level == depth:
            leaves.append(entries)
        else:
            below = entries["leaf"].astype(np.int64) | entries["leaf_high"].astype(np.int64) << 32
            pending.extend((block, level + 1) for block in below[::-1].tolist())

    enter(_node_entries(root), 0)
    while pending:
        block, level = pending.pop()
        nodes.append(block)
        if block in visited:
            broken = True
            continue
        visited.add(block)
        raw = image.read(block * superblock.block_bytes, superblock.block_bytes)
        magic, entries, maximum = (int.from_bytes(raw[at : at + 2], "little") for at in (0, 2, 4))
        if magic != _NODE_MAGIC or not 0 < entries <= maximum or not capacity - 2 <= maximum <= capacity:
            broken = True
            break
        enter(_node_entries(raw), level)
    return nodes, leaves, broken


def _node_entries(raw: bytes) -> np.ndarray:
    count = int.from_bytes(raw[2:4], "little")
    return np.frombuffer(raw, dtype=_ENTRY, count=count, offset=_NODE_HEADER_BYTES)


def _pointer_claims(
    image: Image, superblock: Superblock, inos: np.ndarray, block_maps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the claims of inodes with direct and indirect block pointers (ext2, ext3), and those with a damaged map.

    The map is read level by level for all inodes: triple, double and single indirect blocks, then content.
    """
    per_block = superblock.block_bytes // 4
    slots = block_maps.view("<u4").astype(np.int64)

    def roots(slot: int, logical: int) -> np.ndarray:
        row = np.flatnonzero(slots[:, slot])
        return _pointers(inos[row], np.full(len(row), logical, np.int64), slots[row, slot])

    single = roots(12, _DIRECT)
    double = roots(13, _DIRECT + per_block)
    triple = roots(14, _DIRECT + per_block + per_block**2)
    outside = [level["ino"][~_within(superblock, level["block"])] for level in (single, double, triple)]

    triple = _enterable(superblock, triple)
    below, parent, failed_triple = _descend(image, superblock, triple, per_block**2)
    # After a double indirect block with an invalid pointer, libext2fs reads no more of its triple indirect block.
    _, _, failed = _descend(image, superblock, below, per_block)
    below = below[_errors_before(parent, failed) == 0]
    double = _enterable(superblock, np.concatenate([double, below]))
    below, _, failed_double = _descend(image, superblock, double, per_block)
    single = _enterable(superblock, np.concatenate([single, below]))

    row, slot = np.nonzero(slots[:, :_DIRECT])
    parts = [_content_runs(_pointers(inos[row], slot, slots[row, slot]))]
    parts += [_claims(level["block"], 1, level["ino"], -1, INDIRECT) for level in (triple, double, single)]
    step = max(_POINTERS_READ_AT_ONCE // per_block, 1)
    for at in range(0, len(single), step):
        content, _ = _children(image, superblock, single[at : at + step], 1)
        parts.append(_content_runs(content))
    damaged = np.concatenate([*outside, triple["ino"][failed_triple], double["ino"][failed_double]])
    return np.concatenate(parts), damaged


_POINTER = np.dtype([("ino", np.int64), ("logical", np.int64), ("block", np.int64)])
"""A pointer in a block map; `logical` is the first file block below it."""


def _pointers(ino: np.ndarray, logical: np.ndarray, block: np.ndarray) -> np.ndarray:
    pointers = np.empty(len(block), dtype=_POINTER)
    pointers["ino"], pointers["logical"], pointers["block"] = ino, logical, block
    return pointers


def _within(superblock: Superblock, block: np.ndarray) -> np.ndarray:
    inside: np.ndarray = (block >= superblock.first_data_block) & (block < superblock.nr_blocks)
    return inside


def _enterable(superblock: Superblock, pointers: np.ndarray) -> np.ndarray:
    """Return the pointers to indirect blocks within the filesystem, in inode order.

    Each block occurs only once, for its first inode. This bounds the time for a damaged image.
    """
    pointers = pointers[_within(superblock, pointers["block"])]
    pointers = pointers[np.argsort(pointers["ino"], kind="stable")]
    _, first = np.unique(pointers["block"], return_index=True)
    return pointers[np.sort(first)]


def _children(image: Image, superblock: Superblock, parents: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pointers in indirect blocks, each to `span` file blocks, and the row of the parent of each."""
    size = superblock.block_bytes
    raw = b"".join(image.read(block * size, size) for block in parents["block"].tolist())
    table = np.frombuffer(raw, dtype="<u4").reshape(len(parents), size // 4)
    row, slot = np.nonzero(table)
    logical = parents["logical"][row] + slot * span
    return _pointers(parents["ino"][row], logical, table[row, slot].astype(np.int64)), row


def _descend(
    image: Image, superblock: Superblock, parents: np.ndarray, span: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pointers to further indirect blocks, the row of each one's parent, and whether each parent is invalid.

    libext2fs stops reading an indirect block at the first pointer outside of the filesystem.
    """
    children, row = _children(image, superblock, parents, span)
    bad = ~_within(superblock, children["block"])
    failed = np.zeros(len(parents), dtype=bool)
    failed[row[bad]] = True
    good = ~bad & (_errors_before(row, bad) == 0)
    return children[good], row[good], failed


def _errors_before(group: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Return the number of bad rows before each row in the same group; groups are contiguous."""
    before = np.cumsum(bad) - bad
    first = np.searchsorted(group, group, side="left")
    errors: np.ndarray = before - before[first] if len(group) else before
    return errors


def _content_runs(pointers: np.ndarray) -> np.ndarray:
    """Return the claims of content blocks, merged if they are adjacent both in the file and on the disk."""
    ends = np.flatnonzero(
        (np.diff(pointers["ino"]) != 0) | (np.diff(pointers["logical"]) != 1) | (np.diff(pointers["block"]) != 1)
    )
    first = np.concatenate([[0], ends + 1])[: len(pointers)]
    length = np.diff(np.append(first, len(pointers)))
    head = pointers[first]
    return _claims(head["block"], length, head["ino"], head["logical"], CONTENT)
