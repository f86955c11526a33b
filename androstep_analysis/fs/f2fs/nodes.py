"""Read the nodes of F2FS: inodes as columns, and the blocks of every inode.

Field offsets: struct f2fs_inode and struct node_footer, include/linux/f2fs_fs.h of Linux 6.6. Blocks come from the
addresses in nodes, not from the largest extent that an inode caches.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from androstep_analysis.common.errors import Loss
from androstep_analysis.fs.f2fs.layout import (
    COMPRESS_ADDRESS,
    FEATURE_COMPRESSION,
    FEATURE_CRTIME,
    FEATURE_FLEXIBLE_INLINE_XATTR,
    NEW_ADDRESS,
    NULL_ADDRESS,
    Superblock,
)
from androstep_analysis.fs.image import Image, record_dtype
from androstep_analysis.fs.pieces import PIECE, has_type, joined

ADDRESSES_BYTE = 360
"""Offset of i_addr in the inode: extra attributes, then block addresses or inline content, then inline xattrs."""

FOOTER_BYTES = 24
_NODE_IDS = 5
_INLINE_XATTR_SLOTS = 50

INLINE_XATTR = 0x1
INLINE_DATA = 0x2
INLINE_DENTRY = 0x4
_EXTRA_ATTR = 0x20
_ADVISE_ENCRYPTED = 0x4
_COMPRESSED_FLAG = 0x4
XATTR_NODE_OFFSET = (1 << 29) - 1
"""The offset of the xattr node in an inode's node tree: all bits set."""

_NODES_AT_ONCE = 1 << 12

INODE = np.dtype(
    [
        ("ino", np.int64),
        ("block", np.int64),
        ("mode", np.uint16),
        ("links", np.int64),
        ("inline", np.uint8),
        ("encrypted", np.bool_),
        ("cluster", np.int64),
        ("size_bytes", np.int64),
        ("generation", np.uint32),
        ("parent", np.int64),
        ("first_slot", np.int64),
        ("nr_slots", np.int64),
        ("per_node", np.int64),
        ("xattr_nid", np.int64),
        ("node_ids", np.int64, _NODE_IDS),
        ("changed_ns", np.int64),
        ("created_ns", np.int64),
        ("has_created", np.bool_),
        ("maps", np.bool_),
    ]
)
"""A decoded inode.

- `block` is its block.
- `first_slot` and `nr_slots` are the range of its slots for addresses.
- `per_node` is the number of addresses in a direct node.
- `cluster` is the number of blocks in a compressed cluster, or 1.
- `maps` is false if the slots hold inline content or a device number instead of addresses."""

CONTENT, NODE_BLOCK = range(2)
"""Kinds of claims: content of an inode, and the nodes themselves (with `logical` -1).

The blocks of a compressed cluster have the file block of their slot, as in the kernel's events."""

PLACE = np.dtype([("ino", np.int64), ("offset", np.int64), ("block", np.int64)])
"""The block of the node at `offset` in an inode's node tree: 0 is the inode, `XATTR_NODE_OFFSET` the xattr node."""

_LINK = np.dtype([("ino", np.int64), ("nid", np.int64), ("offset", np.int64)])
"""The id of the node at `offset` in an inode's node tree."""

FOOTER = np.dtype([("nid", "<u4"), ("ino", "<u4"), ("flag", "<u4"), ("version", "<u8"), ("next", "<u4")])

_FIELDS = {
    "mode": ("<u2", 0), "advise": ("u1", 2), "inline": ("u1", 3), "links": ("<u4", 12), "size": ("<u8", 16),
    "ctime": ("<i8", 40), "ctime_nsec": ("<u4", 60), "generation": ("<u4", 68), "xattr_nid": ("<u4", 76),
    "flags": ("<u4", 80), "parent": ("<u4", 84), "extra_bytes": ("<u2", 360), "xattr_slots": ("<u2", 362),
    "crtime": ("<i8", 372), "crtime_nsec": ("<u4", 380), "log_cluster": ("u1", 393),
}  # fmt: skip
_MAX_EXTRA_BYTES = 64
"""Maximum size of the extra attributes. The kernel writes 36 bytes; the rest is a reserve for future attributes."""


@dataclass(frozen=True)
class Nodes:
    """The contents of nodes: sorted `inodes` (dtype `INODE`), unsorted `claims` (dtype `PIECE`) and damaged inodes."""

    inodes: np.ndarray
    claims: np.ndarray
    damaged: np.ndarray


def slots(superblock: Superblock) -> int:
    """Return the number of 4-byte slots in i_addr."""
    return (superblock.block_bytes - ADDRESSES_BYTE - 4 * _NODE_IDS - FOOTER_BYTES) // 4


def ids(superblock: Superblock) -> int:
    """Return the number of addresses or node ids in a node that is not an inode."""
    return (superblock.block_bytes - FOOTER_BYTES) // 4


def footers(raw: np.ndarray) -> np.ndarray:
    """Return the footers (dtype `FOOTER`) of node blocks (uint8 of shape (n, block_bytes))."""
    return np.ascontiguousarray(raw[:, -FOOTER_BYTES:]).view(FOOTER).reshape(-1)


def read_nodes(image: Image, superblock: Superblock, nat: np.ndarray, newer: np.ndarray) -> Nodes:
    """Read all inodes with their blocks.

    `nat` (dtype `NODE`, by nid) locates the nodes of the checkpoint. `newer` (dtype `PLACE`, by inode and offset)
    locates the nodes that replace them in roll-forward recovery. `damaged` in the result lists the inodes that were
    read incompletely or not at all.
    """
    inodes, claims, lost = _read_inodes(image, superblock, nat, newer[newer["offset"] == 0])
    links, more, broken = _descend(image, superblock, nat, inodes)
    newer = newer[(newer["offset"] != 0) & np.isin(newer["ino"], inodes["ino"])]
    replaced = _pair(links["ino"], links["offset"], newer)
    placed, missing = _locate(nat, links[~replaced])
    placed = np.concatenate([placed, newer])
    parts = [claims, more]
    bad = [lost, broken, missing]
    for at in range(0, len(placed), _NODES_AT_ONCE):
        some, damaged = _read_direct(image, superblock, inodes, placed[at : at + _NODES_AT_ONCE])
        parts.append(some)
        bad.append(damaged)
    return Nodes(inodes, np.concatenate(parts), np.unique(np.concatenate(bad)))


def _pair(ino: np.ndarray, offset: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return which (ino, offset) pairs are in `places` (bool array)."""
    bits = 30
    is_listed: np.ndarray = np.isin(ino << bits | offset, places["ino"] << bits | places["offset"])
    return is_listed


# -- inodes -----------------------------------------------------------------------------------------------------------


def _read_inodes(
    image: Image, superblock: Superblock, nat: np.ndarray, newer: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (sorted inodes, claims of inode blocks and of the addresses in them, numbers of damaged inodes)."""
    table = nat[nat["nid"] == nat["ino"]]
    table = table[np.argsort(table["block"], kind="stable")]
    inodes, claims, damaged = [np.empty(0, INODE)], [np.empty(0, PIECE)], [np.empty(0, np.int64)]
    for at in range(0, len(table), _NODES_AT_ONCE):
        some = table[at : at + _NODES_AT_ONCE]
        raw = image.blocks(some["block"], superblock.block_bytes)
        footer = footers(raw)
        sound = (footer["nid"] == some["nid"]) & (footer["ino"] == some["nid"])
        damaged.append(some["nid"][~sound])
        some, raw = some[sound], raw[sound]
        _apply_newer(image, superblock, some, raw, newer)
        part, content, bad = _decode(superblock, some["nid"], some["block"], raw)
        inodes.append(part)
        claims.append(content)
        damaged.append(bad)
    created = newer[~np.isin(newer["ino"], table["nid"])]
    raw = image.blocks(created["block"], superblock.block_bytes).copy()
    raw[:, -FOOTER_BYTES - 4 * _NODE_IDS : -FOOTER_BYTES] = 0
    raw[:, 76:80] = 0  # i_xattr_nid
    part, content, bad = _decode(superblock, created["ino"], created["block"], raw)
    every = np.concatenate([*inodes, part])
    return every[np.argsort(every["ino"])], np.concatenate([*claims, content]), np.concatenate([*damaged, bad])


def _apply_newer(image: Image, superblock: Superblock, table: np.ndarray, raw: np.ndarray, newer: np.ndarray) -> None:
    """Apply newer inodes to older ones as roll-forward recovery does: everything except links and node ids."""
    row = np.flatnonzero(np.isin(table["nid"], newer["ino"]))
    if not row.size:
        return
    block = newer["block"][np.searchsorted(newer["ino"], table["nid"][row])]
    fresh = image.blocks(block, superblock.block_bytes)
    preserved = ((12, 16), (76, 80), (superblock.block_bytes - FOOTER_BYTES - 4 * _NODE_IDS, superblock.block_bytes))
    old = raw[row]
    raw[row] = fresh
    for start, end in preserved:
        raw[row, start:end] = old[:, start:end]
    table["block"][row] = block


def _decode(
    superblock: Superblock, inos: np.ndarray, blocks: np.ndarray, raw: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (inodes, claims, numbers of damaged inodes) from blocks with one inode each."""
    nr_slots = slots(superblock)
    fields = {
        **_FIELDS,
        "slots": (("<u4", nr_slots), ADDRESSES_BYTE),
        "node_ids": (("<u4", _NODE_IDS), ADDRESSES_BYTE + 4 * nr_slots),
    }
    table = raw.view(record_dtype(fields, superblock.block_bytes)).reshape(-1)
    inodes = np.zeros(len(table), INODE)
    inodes["ino"], inodes["block"] = inos, blocks
    for name in ("mode", "inline", "links", "generation", "parent", "xattr_nid", "node_ids"):
        inodes[name] = table[name]
    inodes["encrypted"] = (table["advise"] & _ADVISE_ENCRYPTED) != 0
    inodes["size_bytes"] = table["size"].view(np.int64)
    inodes["changed_ns"] = _nanoseconds(table["ctime"], table["ctime_nsec"])
    inodes["created_ns"] = _nanoseconds(table["crtime"], table["crtime_nsec"])
    extended = (table["inline"] & _EXTRA_ATTR) != 0
    extra = np.where(extended, table["extra_bytes"], 0).astype(np.int64)
    inodes["has_created"] = (extra >= 24) & bool(superblock.features & FEATURE_CRTIME)
    sound = _lay_out(superblock, table, inodes, extra)
    claims, bad = _addresses(
        superblock, inodes, np.where(inodes["maps"], inodes["nr_slots"], 0), inodes["first_slot"], table["slots"], 0
    )
    own = _pieces(inodes["block"], NODE_BLOCK, inodes["ino"], -1)
    return inodes, np.concatenate([own, claims]), np.concatenate([inos[~sound], bad])


def _nanoseconds(seconds: np.ndarray, nanoseconds: np.ndarray) -> np.ndarray:
    """Return ns since 1970 (Int64). Years after 2262 do not fit and are clipped."""
    limit = np.iinfo(np.int64).max // 1_000_000_000 - 1
    whole: np.ndarray = np.clip(seconds, -limit, limit) * 1_000_000_000 + np.minimum(nanoseconds, 999_999_999)
    return whole


def _lay_out(superblock: Superblock, table: np.ndarray, inodes: np.ndarray, extra: np.ndarray) -> np.ndarray:
    """Set the ranges of addresses in `inodes` (addrs_per_page, get_inline_xattr_addrs); return which are valid."""
    extended = (inodes["inline"] & _EXTRA_ATTR) != 0
    fixed = np.where((inodes["inline"] & (INLINE_XATTR | INLINE_DENTRY)) != 0, _INLINE_XATTR_SLOTS, 0)
    flexible = extended & bool(superblock.features & FEATURE_FLEXIBLE_INLINE_XATTR)
    xattr = np.where(flexible, table["xattr_slots"], fixed).astype(np.int64)
    compressed = has_type(inodes, stat.S_IFREG) & extended & ((table["flags"] & _COMPRESSED_FLAG) != 0)
    compressed &= bool(superblock.features & FEATURE_COMPRESSION)
    log = np.where(compressed, table["log_cluster"], 0).astype(np.int64)
    sound: np.ndarray = ((extra % 4 == 0) & (extra <= _MAX_EXTRA_BYTES)) & (~compressed | ((log >= 2) & (log <= 8)))
    nr_slots = slots(superblock) - extra // 4 - xattr
    sound &= nr_slots > 0
    inodes["cluster"] = 1 << np.where(sound, log, 0)
    inodes["first_slot"] = extra // 4
    inodes["nr_slots"] = np.where(sound, nr_slots, 0)
    inodes["nr_slots"] -= inodes["nr_slots"] % inodes["cluster"]
    inodes["per_node"] = ids(superblock) - ids(superblock) % inodes["cluster"]
    kinds = has_type(inodes, stat.S_IFREG) | has_type(inodes, stat.S_IFDIR) | has_type(inodes, stat.S_IFLNK)
    inodes["maps"] = sound & kinds & ((inodes["inline"] & (INLINE_DATA | INLINE_DENTRY)) == 0)
    return sound


def _pieces(block: np.ndarray, kind: int, ino: np.ndarray, logical: object) -> np.ndarray:
    """Return one piece for each block."""
    pieces = np.empty(len(block), PIECE)
    pieces["start"], pieces["end"], pieces["kind"] = block, block + 1, kind
    pieces["ino"], pieces["logical"] = ino, logical
    return pieces


def _addresses(
    superblock: Superblock,
    inodes: np.ndarray,
    count: np.ndarray,
    first: np.ndarray,
    table: np.ndarray,
    logical: object,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (claims, damaged inodes) of the content blocks in `count` slots from `first` of each row of `table`.

    Row i belongs to `inodes[i]`, and its first slot is file block `logical[i]`.
    """
    column = np.arange(table.shape[1])
    in_range = (column >= first[:, None]) & (column < (first + count)[:, None])
    row, slot = np.nonzero(in_range & (table != NULL_ADDRESS) & (table != NEW_ADDRESS))
    block = table[row, slot].astype(np.int64)
    is_cluster_head = (block == COMPRESS_ADDRESS) & (inodes["cluster"][row] > 1)
    inside = superblock.in_main(block)
    begin = np.broadcast_to(np.asarray(logical, np.int64), len(inodes))
    file_block = begin[row] + slot - first[row]
    claims = _pieces(block, CONTENT, inodes["ino"][row], file_block)
    return joined(claims[inside]), inodes["ino"][row[~inside & ~is_cluster_head]]


# -- the other nodes --------------------------------------------------------------------------------------------------


def _descend(
    image: Image, superblock: Superblock, nat: np.ndarray, inodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the direct and xattr nodes of all inodes, the claims of indirect nodes, and the damaged inodes.

    The tree is read level by level: double indirect nodes, indirect nodes, direct nodes.
    """
    width = ids(superblock)
    offsets = np.array([1, 2, 3, 4 + width, 5 + 2 * width])
    mapping = inodes[inodes["maps"]]
    row, slot = np.nonzero(mapping["node_ids"])
    links = _links(mapping["ino"][row], mapping["node_ids"][row, slot], offsets[slot])
    having = inodes[inodes["xattr_nid"] > 0]
    shallow = [links[slot < 2], _links(having["ino"], having["xattr_nid"], XATTR_NODE_OFFSET)]
    below, claims, damaged = _children(image, superblock, nat, links[slot == 4], width + 1)
    indirect = np.concatenate([links[(slot == 2) | (slot == 3)], below])
    direct, more, broken = _children(image, superblock, nat, indirect, 1)
    return (
        np.concatenate([*shallow, direct]),
        np.concatenate([claims, more]),
        np.concatenate([damaged, broken]),
    )


def _links(ino: np.ndarray, nid: np.ndarray, offset: object) -> np.ndarray:
    links = np.empty(len(ino), _LINK)
    links["ino"], links["nid"], links["offset"] = ino, nid, offset
    return links


def _children(
    image: Image, superblock: Superblock, nat: np.ndarray, links: np.ndarray, step: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (child links of the nodes of `links`, claims of these nodes, damaged inodes).

    The offsets of consecutive children differ by `step`.
    """
    placed, damaged = _locate(nat, links)
    children, claims, bad = [np.empty(0, _LINK)], [np.empty(0, PIECE)], [damaged]
    for at in range(0, len(placed), _NODES_AT_ONCE):
        some, table, broken = _node_tables(image, superblock, placed[at : at + _NODES_AT_ONCE])
        row, slot = np.nonzero(table)
        offset = some["offset"][row] + 1 + slot * step
        children.append(_links(some["ino"][row], table[row, slot].astype(np.int64), offset))
        claims.append(_pieces(some["block"], NODE_BLOCK, some["ino"], -1))
        bad.append(broken)
    return np.concatenate(children), np.concatenate(claims), np.concatenate(bad)


def _locate(nat: np.ndarray, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the locations of linked nodes (dtype `PLACE`), each once, and the inodes with invalid links."""
    _, first = np.unique(links["nid"], return_index=True)
    row = np.minimum(np.searchsorted(nat["nid"], links["nid"]), max(len(nat) - 1, 0))
    good = np.zeros(len(links), dtype=bool)
    good[first] = True
    if len(nat):
        good &= (nat["nid"][row] == links["nid"]) & (nat["ino"][row] == links["ino"])
    placed = np.empty(int(good.sum()) if len(nat) else 0, PLACE)
    if len(placed):
        placed["ino"], placed["offset"], placed["block"] = (
            links["ino"][good],
            links["offset"][good],
            nat["block"][row[good]],
        )
    return placed, links["ino"][~good]


def _node_tables(image: Image, superblock: Superblock, placed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (the valid nodes of `placed`, their slots as a uint32 array, the inodes of invalid nodes)."""
    placed = placed[np.argsort(placed["block"], kind="stable")]
    raw = image.blocks(placed["block"], superblock.block_bytes)
    footer = footers(raw)
    sound = (footer["ino"] == placed["ino"]) & (footer["flag"] >> 3 == placed["offset"])
    table = np.ascontiguousarray(raw[sound, :-FOOTER_BYTES]).view("<u4")
    return placed[sound], table, placed["ino"][~sound]


def _read_direct(
    image: Image, superblock: Superblock, inodes: np.ndarray, placed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the claims of direct and xattr nodes and of the addresses in direct nodes, and the damaged inodes."""
    placed, table, damaged = _node_tables(image, superblock, placed)
    owner = inodes[np.searchsorted(inodes["ino"], placed["ino"])]
    number = direct_number(superblock, placed["offset"])
    count = np.where((number >= 0) & owner["maps"], owner["per_node"], 0)
    logical = owner["nr_slots"] + number * owner["per_node"]
    content, bad = _addresses(superblock, owner, count, np.zeros_like(count), table, logical)
    own = _pieces(placed["block"], NODE_BLOCK, placed["ino"], -1)
    return np.concatenate([own, content]), np.concatenate([damaged, bad])


def direct_number(superblock: Superblock, offset: np.ndarray) -> np.ndarray:
    """Return the index of each node among the direct nodes of its inode, or -1 if it is not a direct node."""
    width = ids(superblock)
    indirect, inner = np.divmod(offset - (6 + 2 * width), width + 1)
    number: np.ndarray = np.select(
        [
            (offset == 1) | (offset == 2),
            (offset >= 4) & (offset < 4 + width),
            (offset >= 5 + width) & (offset < 5 + 2 * width),
            (offset > 6 + 2 * width) & (inner > 0) & (indirect < width),
        ],
        [offset - 1, offset - 2, offset - 3, 2 + 2 * width + indirect * width + inner - 1],
        -1,
    )
    return number


def damage(damaged: np.ndarray) -> Iterator[Loss]:
    """Yield a loss for the contents of damaged nodes."""
    if damaged.size:
        yield Loss(
            "damaged",
            int(damaged.size),
            f"{damaged.size} inodes (first: {damaged[0]}) have invalid nodes or addresses; the blocks below these are"
            " unknown",
        )
