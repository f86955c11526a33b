"""Read the workload's log of its operations, as defined in tests/harness/oplog.h."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

OPEN, STAMP, DATA, STORE, SNAPSHOT, TRUNCATE, UNLINK, RENAME, LINK = range(1, 10)
COLLAPSE, INSERT, DONE, LIVE, SKIP, RUN, DROP, READ, SYNC, PROCESS, ENDED = range(10, 21)

RECORD = np.dtype(
    [
        *((name, "<u8") for name in ("ts_ns", "done_ns", "sequence", "ino", "offset", "length")),
        *((name, "<u4") for name in ("generation", "pid", "op", "payload_bytes")),
    ]
)


class Key(NamedTuple):
    """A file. The generation separates files that reuse an inode number; 0 if the filesystem has none."""

    ino: int
    generation: int


class Op(NamedTuple):
    """A record of the log with its payload."""

    ts_ns: int
    done_ns: int
    sequence: int
    key: Key
    offset: int
    length: int
    pid: int
    op: int
    payload: bytes


def read(directory: Path) -> list[Op]:
    """Return the operations of all processes, sorted by sequence number."""
    operations = [op for path in directory.glob("*.log") for op in _read_one(path)]
    return sorted(operations, key=lambda op: op.sequence)


def _read_one(path: Path) -> list[Op]:
    content = path.read_bytes()
    operations, at = [], 0
    while at < len(content):
        fields = np.frombuffer(content, RECORD, 1, at)[0].tolist()
        ts_ns, done_ns, sequence, ino, offset, length, generation, pid, op, payload_bytes = fields
        at += RECORD.itemsize
        payload = content[at : at + payload_bytes]
        at += payload_bytes
        operations.append(Op(ts_ns, done_ns, sequence, Key(ino, generation), offset, length, pid, op, payload))
    return operations


@dataclass
class Names:
    """Every name that each file had, and which files exist at the end."""

    of: dict[Key, list[str]] = field(default_factory=dict)
    live: set[Key] = field(default_factory=set)
    now: dict[Key, Key] = field(default_factory=dict)
    """Keys in the run of files from before it: FAT renumbers inodes at each mount."""


def names(operations: list[Op]) -> Names:
    """Return the names of all files by opens, renames (also of directories above a file), links and unlinks."""
    found = Names()
    at_path: dict[str, Key] = {}
    prepared: dict[str, Key] = {}

    def bind(path: str, key: Key) -> None:
        at_path[path] = key
        known = found.of.setdefault(key, [])
        if path not in known:
            known.append(path)

    for op in operations:
        first, _, second = (
            op.payload.decode(errors="replace").partition("\0") if op.op not in (DATA, SNAPSHOT) else ("",) * 3
        )
        if op.op == RUN:
            prepared = dict(at_path)
        elif op.op == OPEN:
            if at_path.get(first) == prepared.get(first) is not None:
                found.now[prepared[first]] = op.key
            bind(first, op.key)
        elif op.op == LIVE:
            bind(first, op.key)
            found.live.add(op.key)
        elif op.op == UNLINK:
            at_path.pop(first, None)
        elif op.op == LINK and first in at_path:
            bind(second, at_path[first])
        elif op.op == RENAME:
            below = [path for path in at_path if path == first or path.startswith(first + "/")]
            for path in below:
                bind(second + path[len(first) :], at_path.pop(path))
    return found


class Move(NamedTuple):
    """A move of content within a file, from byte `offset` on by `by` bytes, between `ts_ns` and `done_ns`."""

    ts_ns: int
    done_ns: int
    sequence: int
    offset: int
    by: int


def moves(operations: list[Op]) -> dict[Key, list[Move]]:
    """Return the moves by collapsed and inserted ranges that the filesystem supports."""
    found: dict[Key, list[Move]] = {}
    begun: dict[int, Op] = {}
    for op in operations:
        if op.op in (COLLAPSE, INSERT):
            begun[op.pid] = op
        elif op.op == DONE and op.length:
            start = begun[op.pid]
            by = -start.length if start.op == COLLAPSE else start.length
            found.setdefault(start.key, []).append(Move(start.ts_ns, op.done_ns, start.sequence, start.offset, by))
    return found


class Write(NamedTuple):
    """A write that changed a block between `ts_ns` and `done_ns`.

    `gone` is the sequence number of the operation that dropped the block, if any. Later content of the block has no
    part of the write.
    """

    sequence: int
    pid: int
    ts_ns: int
    done_ns: int
    gone: int = sys.maxsize


def block_writes(
    operations: list[Op], block_bytes: int, *, has_holes: bool = True
) -> dict[tuple[Key, int], list[Write]]:
    """Return the writes of the run to each block of each file, sorted by sequence number.

    Without holes, a write past the end of the file also writes all blocks from the end on.
    """
    size: dict[Key, int] = {}
    found: dict[Key, dict[int, list[Write]]] = {}
    run = next(op.sequence for op in operations if op.op == RUN)
    moved = {(key, move.sequence) for key, done in moves(operations).items() for move in done}
    for op in operations:
        blocks = found.setdefault(op.key, {})
        if op.op in (STAMP, DATA, STORE) and op.length and op.sequence > run:
            write = Write(op.sequence, op.pid, op.ts_ns, op.done_ns)
            begin = op.offset if has_holes else min(op.offset, size.get(op.key, 0))
            for block in range(begin // block_bytes, (op.offset + op.length - 1) // block_bytes + 1):
                blocks.setdefault(block, []).append(write)
        if op.op in (STAMP, DATA, STORE):
            size[op.key] = max(size.get(op.key, 0), op.offset + op.length)
        elif op.op == TRUNCATE:
            size[op.key] = op.offset
        if op.op in (TRUNCATE, DROP) or (op.key, op.sequence) in moved:
            first, last = _dropped(op, block_bytes)
            for block in blocks:
                if first <= block < last:
                    blocks[block] = [write._replace(gone=min(write.gone, op.sequence)) for write in blocks[block]]
    return {(key, block): writes for key, blocks in found.items() for block, writes in blocks.items()}


def _dropped(op: Op, block_bytes: int) -> tuple[int, int]:
    """Return the range of blocks that an operation drops completely. Partially dropped blocks retain the rest.

    A collapsed or inserted range moves all content after it, which is written back before.
    """
    last = (op.offset + op.length) // block_bytes if op.op == DROP else sys.maxsize
    return -(-op.offset // block_bytes), last
