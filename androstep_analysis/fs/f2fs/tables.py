"""Read the tables of F2FS, including their journals: node address table (NAT) and segment information table (SIT)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from androstep_analysis.common.errors import Loss
from androstep_analysis.fs.f2fs.layout import (
    BLOCKS_PER_SEGMENT,
    NAT_ENTRY,
    NEW_ADDRESS,
    NULL_ADDRESS,
    SIT_ENTRY,
    Checkpoint,
    Superblock,
)
from androstep_analysis.fs.image import Image

_BLOCKS_AT_ONCE = 1 << 11
_SEGMENTS_AT_ONCE = 1 << 13

NODE = np.dtype([("nid", np.int64), ("ino", np.int64), ("block", np.int64)])
"""The block of a node, and its inode."""


def read_nat(image: Image, superblock: Superblock, checkpoint: Checkpoint) -> tuple[np.ndarray, list[Loss]]:
    """Return all nodes in the main area (dtype `NODE`, sorted by nid), and losses for invalid entries."""
    per_block = superblock.nat_entries_per_block
    parts = [np.empty(0, NODE)]
    # A truncated image may claim a table of terabytes.
    nr_blocks = min(superblock.nr_nat_blocks, image.nr_bytes // superblock.block_bytes)
    for at in range(0, nr_blocks, _BLOCKS_AT_ONCE):
        numbers = np.arange(at, min(at + _BLOCKS_AT_ONCE, nr_blocks))
        segment, rest = np.divmod(numbers, BLOCKS_PER_SEGMENT)
        copy = checkpoint.nat_version[numbers].astype(np.int64)
        raw = image.blocks(superblock.nat + (2 * segment + copy) * BLOCKS_PER_SEGMENT + rest, superblock.block_bytes)
        entries = np.ascontiguousarray(raw[:, : per_block * NAT_ENTRY.itemsize]).view(NAT_ENTRY)
        row, column = np.nonzero(entries["block"] != NULL_ADDRESS)
        parts.append(_nodes(numbers[row] * per_block + column, entries[row, column]))
    journal = checkpoint.nat_journal
    nodes = np.concatenate(parts)
    nodes = nodes[~np.isin(nodes["nid"], journal["nid"])]
    nodes = np.concatenate([nodes, _nodes(journal["nid"], journal["entry"])])
    _, first = np.unique(nodes["nid"], return_index=True)
    nodes = nodes[first]
    nodes = nodes[(nodes["nid"] > 0) & (nodes["block"] > 1)]  # 0: none; 1: the node and meta inodes, only in memory
    nodes = nodes[nodes["block"] != NEW_ADDRESS]
    placed = np.zeros(len(nodes), dtype=bool)
    placed[np.unique(nodes["block"], return_index=True)[1]] = True
    placed &= superblock.in_main(nodes["block"])
    return nodes[placed], list(_misplaced(nodes[~placed]))


def _nodes(nid: np.ndarray, entries: np.ndarray) -> np.ndarray:
    nodes = np.empty(len(nid), NODE)
    nodes["nid"], nodes["ino"], nodes["block"] = nid, entries["ino"], entries["block"]
    return nodes


def _misplaced(nodes: np.ndarray) -> Iterator[Loss]:
    if nodes.size:
        yield Loss(
            "damaged",
            int(nodes.size),
            f"{nodes.size} nodes (first: {nodes['nid'][0]}) have addresses outside of the main area, or of another"
            " node; the blocks below them are unknown",
        )


@dataclass(frozen=True)
class Segments:
    """The segments of the main area. `valid_map` (uint8, (n, 64)) has one bit for each block, highest bit first."""

    superblock: Superblock
    valid_map: np.ndarray

    def free_space(self, image: Image) -> tuple[np.ndarray, np.ndarray]:
        """Return the runs of unused blocks in the main area: (start Int64, end Int64), sorted, not merged."""
        starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        nr_runs = 0
        for at in range(0, len(self.valid_map), _SEGMENTS_AT_ONCE):
            some = self.valid_map[at : at + _SEGMENTS_AT_ONCE]
            edges = np.array([0, some.size * 8])
            if some.any():
                edges = np.flatnonzero(np.diff(np.unpackbits(some), prepend=1, append=1))
            nr_runs += len(edges) // 2
            image.check_runs(nr_runs)
            first = self.superblock.main + at * BLOCKS_PER_SEGMENT
            starts.append(first + edges[0::2])
            ends.append(first + edges[1::2])
        return np.concatenate(starts), np.concatenate(ends)


def read_sit(image: Image, superblock: Superblock, checkpoint: Checkpoint) -> tuple[Segments, list[Loss]]:
    """Return the segments with their used blocks, and a loss for journal entries of invalid segments."""
    per_block = superblock.sit_entries_per_block
    numbers = np.arange(-(-superblock.nr_segments // per_block))
    place = superblock.sit + checkpoint.sit_version[numbers].astype(np.int64) * superblock.nr_sit_blocks + numbers
    valid_map = np.zeros((len(numbers) * per_block, 64), np.uint8)
    # Only the blocks inside of a truncated image use memory.
    for at in range(0, min(len(numbers), image.nr_bytes // superblock.block_bytes), _BLOCKS_AT_ONCE):
        raw = image.blocks(place[at : at + _BLOCKS_AT_ONCE], superblock.block_bytes)
        entries = np.ascontiguousarray(raw[:, : per_block * SIT_ENTRY.itemsize]).view(SIT_ENTRY)
        valid_map[at * per_block : (at + len(raw)) * per_block] = entries["valid_map"].reshape(-1, 64)
    journal = checkpoint.sit_journal
    is_valid = journal["segment"] < superblock.nr_segments
    valid_map[journal["segment"][is_valid]] = journal["entry"]["valid_map"][is_valid]
    bad = int((~is_valid).sum())
    losses = [Loss("damaged", bad, f"{bad} entries of the SIT journal name segments that do not exist")] if bad else []
    return Segments(superblock, valid_map[: superblock.nr_segments]), losses
