"""Find the blocks that a file had between two commits, from old copies of inode-table blocks in a journal.

A copy of an inode states its block map at the commit of its transaction. So does a copy of a node of that map (a block
of the extent tree or an indirect block), which may change while the inode does not. Three rules follow:

- Every change of a map is logged in its own transaction. The map is therefore valid until the next copy of the inode or
  of a node, as long as no transaction in between is missing.
- A new block is valid from the previous commit on. Blocks that a transaction frees are not allocated again before its
  commit, except with ``data=writeback``. No other file can therefore have owned the block at that time.
- A block may move without being freed, within its file (fallocate's FALLOC_FL_COLLAPSE_RANGE) or to another one
  (EXT4_IOC_MOVE_EXT, used by e4defrag). Between the two commits its location is unknown.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from androstep_analysis.fs import runs
from androstep_analysis.fs.ext4.blockmap import (
    CONTENT,
    EXTENT_TREE,
    INDIRECT,
    NODE_MAGIC_BYTES,
    UNWRITTEN,
    read_claims,
)
from androstep_analysis.fs.ext4.inodes import BLOCK_MAP_BYTES, INODE, ROOT_INODE, narrow, on_disk
from androstep_analysis.fs.ext4.layout import Groups, Superblock, placed
from androstep_analysis.fs.image import Image
from androstep_analysis.fs.jbd2 import Log

NEVER = np.iinfo(np.int64).max
"""Value of an order that means "not yet"."""

STATE = np.dtype(
    [
        *((name, INODE[name]) for name in INODE.names or ()),
        ("order", np.int64),
        ("next_order", np.int64),
        ("from_order", np.int64),
        ("end_order", np.int64),
        ("segment", np.int64),
    ]
)
"""A state of an inode, which one or more consecutive copies agree on. `order` is the first of these copies.
`next_order` is the first different copy, of the inode or of a node of its map (`NEVER`: none). The state is valid from
the commit `from_order`, at most until the commit `end_order`."""

CLAIMED = np.dtype(
    [
        ("state", np.int64),
        ("start", np.int64),
        ("length", np.int64),
        ("logical", np.int64),
        ("use", np.uint8),
        ("first_order", np.int64),
        ("next_order", np.int64),
        ("from_order", np.int64),
        ("to_order", np.int64),
    ]
)
"""Blocks of a file as in `blockmap.CLAIM`, where `state` is a row of the states. They are in its copies from
`first_order` to before `next_order`. They are valid from commit `from_order` to `to_order` (`NEVER`: no known end)."""

_MAX_NODE_READS = 1 << 18
"""Maximum number of nodes of block maps. Only a malicious journal has more."""


@dataclass(frozen=True)
class Past(Image):
    """The image as it was after a transaction, as far as log and image show it. Unknown blocks are zeros.

    A block without a copy in the log has not changed on the disk, unless it was freed and reused for the data of a
    file. It is therefore used only if it begins like a node of an extent tree.
    """

    log: Log
    copies: np.ndarray
    order: int
    reads: list[int]

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at `offset`, which must not cross the end of a block."""
        self.reads[0] += 1
        if self.reads[0] > _MAX_NODE_READS:
            return bytes(length)
        block, inside = divmod(offset, self.log.superblock.block_bytes)
        first, end = np.searchsorted(self.copies["target"], [block, block + 1])
        if first == end:
            raw = super().read(offset, length)
            return raw if raw.startswith(NODE_MAGIC_BYTES) else bytes(length)
        row = first + int(np.searchsorted(self.copies["order"][first:end], self.order, side="right")) - 1
        if row < first:
            return bytes(length)
        copy = self.copies[row]
        return self.log.block(int(copy["position"]), bool(copy["escaped"]))[inside : inside + length]


def table_inos(superblock: Superblock, groups: Groups, blocks: np.ndarray) -> np.ndarray:
    """Return the first inode in each of some blocks, or 0 for blocks outside of inode tables."""
    table_blocks = superblock.inode_table_blocks
    group = np.flatnonzero(placed(superblock, groups.inode_table, table_blocks))
    if not len(group):
        return np.zeros(len(blocks), dtype=np.int64)
    group = group[np.argsort(groups.inode_table[group], kind="stable")]
    starts = groups.inode_table[group]
    row = np.maximum(np.searchsorted(starts, blocks, side="right") - 1, 0)
    inside = blocks - starts[row]
    first = group[row] * superblock.inodes_per_group + inside * (superblock.block_bytes // superblock.inode_bytes) + 1
    answer: np.ndarray = np.where((inside >= 0) & (inside < table_blocks), first, 0)
    return answer


def read_states(log: Log, superblock: Superblock, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Return the states of all files and directories (dtype `STATE`, by ino and order), and their fields i_block."""
    states, block_maps = _inode_copies(log, superblock, groups)
    order = np.lexsort((states["order"], states["ino"]))
    states, block_maps = states[order], block_maps[order]
    states["segment"] = log.committed["segment"][states["order"]]
    first = _first_of_state(states, block_maps)
    return _dated(states[first], log), block_maps[first]


def _dated(states: np.ndarray, log: Log) -> np.ndarray:
    """Set the times of the states, which are sorted by ino and order."""
    states["next_order"] = NEVER
    followed = np.flatnonzero(states["ino"][1:] == states["ino"][:-1])
    states["next_order"][followed] = states["order"][followed + 1]
    segment = log.committed["segment"]
    has_before = (states["order"] > 0) & (segment[states["order"] - 1] == states["segment"])
    states["from_order"] = states["order"] - has_before
    ends = np.searchsorted(segment, states["segment"], side="right") - 1
    states["end_order"] = np.where(ends == len(segment) - 1, NEVER, ends)
    return states


def _inode_copies(log: Log, superblock: Superblock, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    layout = on_disk(superblock)
    firsts = table_inos(superblock, groups, log.copies["target"])
    parts = [np.empty(0, dtype=STATE)]
    maps = [np.empty((0, BLOCK_MAP_BYTES), dtype=np.uint8)]
    excluded = [superblock.orphan_file_inode, *superblock.quota_inodes]
    for row in np.flatnonzero(firsts).tolist():
        copy = log.copies[row]
        raw = log.block(int(copy["position"]), bool(copy["escaped"]))
        table = np.frombuffer(raw, dtype=layout, count=len(raw) // superblock.inode_bytes)
        inos = firsts[row] + np.arange(len(table))
        nameable = (inos == ROOT_INODE) | (inos >= superblock.first_inode)
        used = (table["mode"] != 0) | (table["generation"] != 0)
        selected = np.flatnonzero(nameable & used & ~np.isin(inos, excluded))
        part = np.zeros(len(selected), dtype=STATE)
        inodes = narrow(table[selected], superblock)
        for name in inodes.dtype.names or ():
            part[name] = inodes[name]
        part["ino"], part["order"] = inos[selected], copy["order"]
        parts.append(part)
        maps.append(table["block_map"][selected])
    return np.concatenate(parts), np.concatenate(maps)


def _first_of_state(states: np.ndarray, block_maps: np.ndarray) -> np.ndarray:
    """Return the rows that differ from the previous one in anything but times."""
    if not len(states):
        return np.empty(0, dtype=np.int64)
    differs = (block_maps[1:] != block_maps[:-1]).any(axis=1)
    for name in ("ino", "generation", "mode", "flags", "size_bytes", "xattr_block", "segment"):
        differs |= states[name][1:] != states[name][:-1]
    differs |= (states["links"][1:] == 0) != (states["links"][:-1] == 0)
    return np.flatnonzero(np.concatenate([[True], differs]))


def read_claimed(
    log: Log, image: Image, superblock: Superblock, states: np.ndarray, block_maps: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the states, the blocks that they claim (dtype `CLAIMED`), and whether reading stopped at a limit.

    The result has one more state for each further copy of a node of the maps. Only a malicious journal reaches a limit.
    """
    reads = [0]
    copies = log.copies[np.lexsort((log.copies["order"], log.copies["target"]))]
    parts, new = [np.empty(0, dtype=CLAIMED)], np.arange(len(states))
    while len(new):
        parts.append(_claims(log, image, superblock, copies, states, block_maps, new, reads))
        row, order = _node_changes(log, states, parts[-1], copies)
        if reads[0] + len(row) > _MAX_NODE_READS:
            reads[0] = _MAX_NODE_READS + 1
            break
        new = len(states) + np.arange(len(row))
        states, block_maps = np.append(states, states[row]), np.append(block_maps, block_maps[row], axis=0)
        states["order"][new] = order
    claimed = np.concatenate(parts)
    by_ino = np.lexsort((states["order"], states["ino"]))
    states = _dated(states[by_ino], log)
    claimed["state"] = np.argsort(by_ino)[claimed["state"]]
    dated = _until_change(_disjoint(claimed, superblock), states, superblock)
    return states, _without_moves(_merged(dated, states), superblock), reads[0] > _MAX_NODE_READS


def _claims(
    log: Log,
    image: Image,
    superblock: Superblock,
    copies: np.ndarray,
    states: np.ndarray,
    block_maps: np.ndarray,
    wanted: np.ndarray,
    reads: list[int],
) -> np.ndarray:
    """Return the claims of the `wanted` rows of states, each at its order; `copies` are sorted by target and order."""
    by_order = wanted[np.lexsort((states["ino"][wanted], states["order"][wanted]))]
    bounds = np.flatnonzero(np.diff(states["order"][by_order], prepend=-1, append=-1))
    parts = [np.empty(0, dtype=CLAIMED)]
    for begin, end in itertools.pairwise(bounds.tolist()):
        if reads[0] > _MAX_NODE_READS:
            break
        rows = by_order[begin:end]
        order = int(states["order"][rows[0]])
        past = Past(image.file, image.path, image.offset_bytes, image.nr_bytes, log, copies, order, reads)
        inodes = np.zeros(len(rows), dtype=INODE)
        for name in inodes.dtype.names or ():
            inodes[name] = states[name][rows]
        # A deleted file that is still open has its blocks. After its eviction its map is empty.
        inodes["links"], inodes["deleted"] = np.maximum(inodes["links"], 1), 0
        claims, _ = read_claims(past, superblock, inodes, block_maps[rows])
        part = np.zeros(len(claims), dtype=CLAIMED)
        for name in ("start", "length", "logical", "use"):
            part[name] = claims[name]
        part["state"] = rows[np.searchsorted(inodes["ino"], claims["ino"])]
        parts.append(part)
    return np.concatenate(parts)


def _node_changes(
    log: Log, states: np.ndarray, claimed: np.ndarray, copies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows of states, orders) of later copies of claimed nodes for which there is no state yet.

    A later copy counts as long as the inode does not change and no transaction is missing.
    """
    nodes = claimed[np.isin(claimed["use"], (EXTENT_TREE, INDIRECT))]
    first = np.searchsorted(copies["target"], nodes["start"])
    count = np.searchsorted(copies["target"], nodes["start"] + nodes["length"]) - first
    count[np.cumsum(count) > _MAX_NODE_READS] = 0
    row = np.repeat(nodes["state"], count)
    order = copies["order"][np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)]
    is_later = (states["order"][row] < order) & (order < states["next_order"][row])
    is_later &= log.committed["segment"][order] == states["segment"][row]
    row, order = row[is_later], order[is_later]
    known = states["ino"] * len(log.committed) + states["order"]
    change = states["ino"][row] * len(log.committed) + order
    _, unique = np.unique(change, return_index=True)
    unique = unique[~np.isin(change[unique], known)]
    return row[unique], order[unique]


def _disjoint(claimed: np.ndarray, superblock: Superblock) -> np.ndarray:
    """Split the claims so that each block occurs once in a state; sorted by state and block."""
    line = claimed["state"] * superblock.nr_blocks + claimed["start"]
    start, end, index = runs.first_wins(line, line + claimed["length"])
    return _part(claimed, start - line[index], end - start, index)


def _part(claimed: np.ndarray, inside: np.ndarray, length: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return parts of the rows `index`: `length` blocks, beginning `inside` blocks after the row's start."""
    part: np.ndarray = claimed[index]
    part["start"] += inside
    part["logical"][part["logical"] >= 0] += inside[part["logical"] >= 0]
    part["length"] = length
    return part


def _until_change(claimed: np.ndarray, states: np.ndarray, superblock: Superblock) -> np.ndarray:
    """Set the times of the claims, split into parts that the inode's next state repeats and parts that it lacks."""
    state = claimed["state"]
    line = state * superblock.nr_blocks + claimed["start"]
    line_end = line + claimed["length"]
    following = np.minimum(state + 1, len(states) - 1)
    same_file = states["next_order"][state] != NEVER
    for name in ("generation", "segment"):
        same_file &= states[name][following] == states[name][state]
    may_continue = np.flatnonzero(same_file)
    shifted, shifted_end = line[may_continue] + superblock.nr_blocks, line_end[may_continue] + superblock.nr_blocks
    start, end, index = runs.intersect(shifted, shifted_end, line, line_end)
    below = np.searchsorted(line, start, side="right") - 1
    mine = may_continue[index]
    inside = start - shifted[index]
    repeated = _part(claimed, inside, end - start, mine)
    logical = np.where(claimed["logical"][below] >= 0, claimed["logical"][below] + start - line[below], -1)
    follows = (repeated["logical"] == logical) & (_class(repeated["use"]) == _class(claimed["use"][below]))
    # A block that moved within its file was never free. It moved at an unknown time between the two commits.
    moved = repeated[~follows]
    claimed["from_order"] = states["from_order"][state]
    claimed["from_order"][below[~follows]] = states["order"][state[below[~follows]]]
    repeated["from_order"], moved["from_order"] = (claimed["from_order"][rows] for rows in (mine, mine[~follows]))
    start, end, repeated = start - superblock.nr_blocks, end - superblock.nr_blocks, repeated[follows]

    gap_start, gap_end = runs.gaps(start, end, (len(states) + 1) * superblock.nr_blocks)
    left_start, left_end, remaining = runs.intersect(line, line_end, gap_start, gap_end)
    ended = _part(claimed, left_start - line[remaining], left_end - left_start, remaining)

    repeated["to_order"] = states["from_order"][np.minimum(repeated["state"] + 1, len(states) - 1)]
    ended["to_order"] = np.minimum(states["next_order"], states["end_order"])[ended["state"]]
    moved["to_order"] = states["from_order"][np.minimum(moved["state"] + 1, len(states) - 1)]
    both = np.concatenate([repeated, moved, ended])
    both["first_order"] = states["order"][both["state"]]
    both["next_order"] = states["next_order"][both["state"]]
    return both


def _class(use: np.ndarray) -> np.ndarray:
    """Return the use of a block, without the difference between written and preallocated content."""
    answer: np.ndarray = np.where(use == UNWRITTEN, CONTENT, use)
    return answer


def _merged(claimed: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Merge equal claims that follow each other in time."""
    keys = (
        claimed["first_order"],
        *(_class(claimed["use"]), claimed["logical"], claimed["length"], claimed["start"]),
        *(states[name][claimed["state"]] for name in ("generation", "ino")),
    )
    order = np.lexsort(keys)
    claimed = claimed[order]
    same = np.ones(max(len(claimed) - 1, 0), dtype=bool)
    for key in keys[1:]:
        same &= key[order][1:] == key[order][:-1]
    same &= claimed["next_order"][:-1] == claimed["first_order"][1:]
    same &= claimed["to_order"][:-1] == claimed["from_order"][1:]
    first = np.flatnonzero(np.concatenate([np.ones(min(len(claimed), 1), dtype=bool), ~same]))
    whole: np.ndarray = claimed[first]
    last = np.append(first[1:], len(claimed))[: len(first)] - 1
    for name in ("next_order", "to_order"):
        whole[name] = claimed[name][last]
    return whole


def _without_moves(claimed: np.ndarray, superblock: Superblock) -> np.ndarray:
    """Shorten the claims on blocks that one transaction moves from one file to another.

    Such a block was not freed. The new file owns it from the commit of that transaction, and the old file until the
    previous commit.
    """
    is_released = (claimed["to_order"] == claimed["next_order"]) & (claimed["to_order"] != NEVER)
    is_acquired = claimed["from_order"] < claimed["first_order"]
    shared = _shared(
        _line(claimed[is_released], "to_order", superblock), _line(claimed[is_acquired], "first_order", superblock)
    )
    if not len(shared[0]):
        return claimed
    acquired, remaining = _split(claimed, is_acquired, _line(claimed, "first_order", superblock), shared)
    acquired["from_order"] = acquired["first_order"]
    claimed = np.concatenate([remaining, acquired])
    is_released = (claimed["to_order"] == claimed["next_order"]) & (claimed["to_order"] != NEVER)
    released, remaining = _split(claimed, is_released, _line(claimed, "to_order", superblock), shared)
    released["to_order"] -= 1
    return np.concatenate([remaining, released])


Runs = tuple[np.ndarray, np.ndarray]


def _line(claimed: np.ndarray, order: str, superblock: Superblock) -> Runs:
    """Return starts and ends of the claims on a line that contains all blocks of one transaction after another."""
    start = np.where(claimed[order] == NEVER, -1, claimed[order]) * superblock.nr_blocks + claimed["start"]
    return start, start + claimed["length"]


def _shared(some: Runs, others: Runs) -> Runs:
    """Return the intersection of both, sorted and disjoint."""
    start, end, _ = runs.intersect(*runs.first_wins(*some)[:2], *runs.first_wins(*others)[:2])
    return start, end


def _split(claimed: np.ndarray, is_selected: np.ndarray, line: Runs, shared: Runs) -> Runs:
    """Return the parts of the selected claims within `shared`, and all remaining parts and claims."""
    selected = np.flatnonzero(is_selected)
    starts, ends = line[0][selected], line[1][selected]
    rest = runs.gaps(*shared, int(max(ends.max(), shared[1].max())) + 1)
    parts = []
    for start, end, index in (runs.intersect(starts, ends, *shared), runs.intersect(starts, ends, *rest)):
        parts.append(_part(claimed, start - starts[index], end - start, selected[index]))
    return parts[0], np.concatenate([claimed[~is_selected], parts[1]])


def owners(claimed: np.ndarray, copies: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the row of `claimed` that owns each copy's target at its transaction (-1: none), and if all were found.

    The second value is false if there are more than `_MAX_PAIRS` pairs, of which the rest is not compared.
    """
    row_of_copy = np.full(len(copies), -1, dtype=np.int64)
    by_target = np.argsort(copies["target"], kind="stable")
    targets = copies["target"][by_target]
    first = np.searchsorted(targets, claimed["start"])
    count = np.searchsorted(targets, claimed["start"] + claimed["length"]) - first
    done = np.flatnonzero(np.cumsum(count) > _MAX_PAIRS)
    nr_rows = int(done[0]) if len(done) else len(claimed)
    for at in range(0, nr_rows, _ROWS_AT_ONCE):
        some = np.arange(at, min(at + _ROWS_AT_ONCE, nr_rows))
        row = np.repeat(some, count[some])
        nth = np.arange(len(row)) - np.repeat(np.cumsum(count[some]) - count[some], count[some])
        copy = by_target[np.repeat(first[some], count[some]) + nth]
        order = copies["order"][copy]
        held = (claimed["first_order"][row] <= order) & (order < claimed["next_order"][row])
        row_of_copy[copy[held]] = row[held]
    return row_of_copy, nr_rows == len(claimed)


_ROWS_AT_ONCE = 1 << 14
_MAX_PAIRS = 1 << 25
"""Maximum number of pairs of claims and copies. Only a malicious journal has more."""
