"""Identify each block that reached the disk by its content alone.

The unit is the part of a page that a bio carries or, if it has data of several files, each filesystem block in it.

- A block of stamped cells names its file, offset, writers and their order (stamp.h).
- A block written by SQLite is looked up among all contents that the page had, by the log of its writes.
- Other blocks are identified by the layout of the filesystem (layout.py).
- A block with several possible origins, or with unknown content, is `ambiguous`.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from harness import devlog, matching, oplog
from harness.layout import Layout
from harness.oplog import Key, Op

SECTOR_BYTES = devlog.SECTOR_BYTES
LBLK_BYTES = 4096
"""Unit of offsets in the corpus, whatever the size of blocks and pages."""

CELL_BYTES = 64
CELL_MAGIC = 0x70617453

CELL = np.dtype(
    [
        ("magic", "<u4"),
        ("pid", "<u4"),
        ("ino", "<u8"),
        ("generation", "<u4"),
        ("check", "<u4"),
        ("offset", "<u8"),
        ("sequence", "<u8"),
        ("filling", "<u8", 3),
    ]
)

Bytes = npt.NDArray[np.uint8]


class Place(NamedTuple):
    """A page of a file."""

    key: Key
    page: int


class Origin(NamedTuple):
    """Origin of content: the offset in the file, and the sequence of the last write in it (None: not logged)."""

    key: Key
    offset: int
    sequence: int | None


class Block(NamedTuple):
    """A part of a write bio, at most a page, with the content that the disk received.

    `bio` is None if the trace lacks it. The block then arrived between `since` and `ts`, which are equal otherwise.
    """

    ts: int
    since: int
    sector: int
    sectors: int
    bio: int | None
    bio_sector: int
    submit_pid: int
    content: bytes
    cells: npt.NDArray[Any]

    def cut(self, first: int, last: int) -> Block:
        """Return sectors first .. last - 1 of the block."""
        content = self.content[first * SECTOR_BYTES : last * SECTOR_BYTES]
        cells = self.cells[first * SECTOR_BYTES // CELL_BYTES : last * SECTOR_BYTES // CELL_BYTES]
        return self._replace(sector=self.sector + first, sectors=last - first, content=content, cells=cells)


class Truth(NamedTuple):
    """`rows` as support.truth takes them; `unmatched`: sectors with unequal numbers of writes in trace and log."""

    rows: pl.DataFrame
    ambiguous: Counter[str]
    unmatched: int


Opened = Callable[[bytes], bytes | None]
"""A function that decrypts a block of the filesystem; None if it is not encrypted."""


def truth(
    log: devlog.DevLog,
    first: int,
    last: int,
    bios: pl.DataFrame,
    operations: list[Op],
    layout: Layout,
    opened: Opened | None = None,
) -> Truth:
    """Return the truth about entries first .. last - 1 of the disk's log.

    `bios` has ts, done, sector, nr_sectors and pid of each write bio, in order. It only adds time and submitter of a
    write; `done` is null without a recorded completion.
    """
    blocks, unlogged, unmatched = _blocks(log, first, last, bios, layout, opened)
    known = _Contents(operations, layout.page_sectors * SECTOR_BYTES)
    names = oplog.names(operations)
    stamps = _Stamps(operations, names.now)
    writers = _Writers(operations, layout)
    ambiguous: Counter[str] = Counter()
    rows = []
    for whole in blocks:
        while unlogged and unlogged[-1] < whole.ts:
            writers.unclear_at(unlogged.pop())
        for block, origin in _told(whole, layout, stamps, known):
            if isinstance(origin, str):
                writers.unclear_at(block.ts)
                ambiguous[origin] += block.bio is not None
                continue
            origin = _of_run(origin, names)
            writer_pids = writers.of(block, origin) if isinstance(origin, Origin) else None
            if block.bio is not None:
                rows.append(_row(block, origin, names) | {"writer_pids": writer_pids})
    return Truth(pl.DataFrame(rows, schema=ROW), +ambiguous, unmatched)


def truth_of_reads(
    sectors: pl.DataFrame,
    held: Bytes,
    operations: list[Op],
    layout: Layout,
    opened: Opened | None = None,
) -> Truth:
    """Return the truth about reads: the content on the disk, and the reader (`writer_pids`, `asked`).

    `sectors` has a row for each sector of a read bio (bio, bio_sector, sector, ts, pid), in order, and `held` its
    content on the disk at that time. A process reads a file from the begin to the end of its call; a write to a part
    of a page also reads. `asked` is null unless exactly one process used the file.
    """
    page = (pl.col("sector") - pl.col("bio_sector")) // layout.page_sectors
    blocks = _grouped(sectors.with_columns(page=page, since="ts", entry="bio"), held, layout, opened)
    known = _Contents(operations, layout.page_sectors * SECTOR_BYTES)
    names = oplog.names(operations)
    stamps = _Stamps(operations, names.now)
    asked = _Askers(operations, layout.page_sectors * SECTOR_BYTES)
    ambiguous: Counter[str] = Counter()
    rows = []
    for whole in blocks:
        for block, origin in _told(whole, layout, stamps, known):
            if isinstance(origin, Origin) and stamps.is_moving(origin.key, block.ts):
                origin = "content on its way within its file"
            if isinstance(origin, str):
                ambiguous[origin] += 1
                continue
            origin = _of_run(origin, names)
            rows.append(_row(block, origin, names) | (asked.of(block, origin) if isinstance(origin, Origin) else {}))
    return Truth(pl.DataFrame(rows, schema={**ROW, "asked": pl.Boolean()}), ambiguous, 0)


def _of_run(origin: Origin | tuple[str, str], names: oplog.Names) -> Origin | tuple[str, str]:
    """Return the origin with the key that the file has in the run."""
    return origin._replace(key=names.now.get(origin.key, origin.key)) if isinstance(origin, Origin) else origin


def _row(block: Block, origin: Origin | tuple[str, str], names: oplog.Names) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(block, name) for name in ROW_OF_BLOCK}
    if not isinstance(origin, Origin):
        return row | {"kind": origin[0], "subtype": origin[1]}
    key, lblk = origin.key, origin.offset // LBLK_BYTES
    row |= {"kind": "data", "subtype": None, "ino": key.ino, "gen": key.generation, "lblk": lblk}
    return row | {
        "offset_bytes": origin.offset, "names": names.of.get(key, []), "in_final_image": key in names.live,
    }  # fmt: skip


def _told(
    block: Block, layout: Layout, stamps: _Stamps, known: _Contents
) -> Iterator[tuple[Block, Origin | tuple[str, str] | str]]:
    """Yield the parts of a block that belong together, with the origin or kind of each, or why it is ambiguous."""
    fixed = layout.of_place(block.sector)
    if fixed == layout.of_place(block.sector + block.sectors - 1):
        origin = fixed or stamps.origin(block) or known.origin(block)
        if isinstance(origin, Origin):
            to_page_end = layout.page_sectors - origin.offset // SECTOR_BYTES % layout.page_sectors
            if to_page_end >= block.sectors:
                yield block, origin
                return
            yield from _told(block.cut(0, to_page_end), layout, stamps, known)
            yield from _told(block.cut(to_page_end, block.sectors), layout, stamps, known)
            return
        kind = origin or layout.of_content(block.content)
        if isinstance(kind, tuple) or block.sectors <= layout.block_sectors or not any(block.content):
            yield block, kind or ("unknown content" if any(block.content) else "zeros")
            return
    for at in range(0, block.sectors, layout.block_sectors):
        yield from _told(block.cut(at, min(at + layout.block_sectors, block.sectors)), layout, stamps, known)


ROW_OF_BLOCK = ("ts", "sector", "sectors", "bio_sector", "submit_pid")

ROW = pl.Schema(
    {
        **dict.fromkeys(ROW_OF_BLOCK, pl.Int64()),
        "kind": pl.String(),
        "subtype": pl.String(),
        **dict.fromkeys(("ino", "gen", "lblk", "offset_bytes"), pl.Int64()),
        "writer_pids": pl.List(pl.Int64),
        "names": pl.List(pl.String),
        "in_final_image": pl.Boolean(),
    }
)


def save(rows: pl.DataFrame, directory: Path) -> None:
    """Write ground_truth.json.gz in the format of the corpus."""
    (directory / "ground_truth.json.gz").write_bytes(gzip.compress(json.dumps({"writes": rows.to_dicts()}).encode()))


def _blocks(
    log: devlog.DevLog, first: int, last: int, bios: pl.DataFrame, layout: Layout, opened: Opened | None
) -> tuple[list[Block], list[int], int]:
    """Return the blocks of the log in order, times of bios not in the log (latest first), and differing sectors."""
    queued = matching.bio_sectors(bios)
    written = devlog.sectors(log, first, last)
    reached, spans = matching.matched(written, queued.select("bio", "sector", "ts_ns", "done_ns"))
    both = (
        reached.join(queued.select("bio", "sector", "ts", "bio_sector", "pid"), on=["bio", "sector"], how="left")
        .join(spans, on="entry")
        .join(log.entries.select("entry", begin="sector"), on="entry")
        .with_columns(
            # Blocks without a bio get the latest possible time.
            ts=pl.coalesce("ts", "latest_ns"),
            since=pl.coalesce("ts", "earliest_ns"),
            # The pages of a bio are consecutive from its first sector on.
            page=(pl.col("sector") - pl.coalesce("bio_sector", "begin")) // layout.page_sectors,
        )
        .sort("entry", "sector")
    )
    held = devlog.as_sectors(log.content)[both["position"].to_numpy() // SECTOR_BYTES]
    blocks = _grouped(both, held, layout, opened)
    unlogged = queued.join(reached, on=["bio", "sector"], how="anti")
    without = reached.filter(pl.col("bio").is_null())
    differing = pl.concat([unlogged["sector"], without["sector"]]).n_unique()
    return blocks, unlogged["ts"].unique().sort(descending=True).to_list(), differing


def _grouped(sectors: pl.DataFrame, held: Bytes, layout: Layout, opened: Opened | None) -> list[Block]:
    """Group sectors into blocks, one for each page of a bio or entry; `held` is the content of the `sectors`."""
    run = (pl.col("sector") != pl.col("sector").shift() + 1).fill_null(True).cum_sum()
    groups = (
        sectors.with_row_index("row")
        .with_columns(run=run)
        .group_by("run", "entry", "bio", "page", maintain_order=True)
        .agg(
            pl.col("sector", "row").first(),
            pl.len().alias("sectors"),
            pl.col("ts", "since", "bio_sector", "pid").first(),
        )
    )
    content = np.zeros((groups.height, layout.page_sectors * SECTOR_BYTES), np.uint8)
    for number, (row, sector, length) in enumerate(groups.select("row", "sector", "sectors").iter_rows()):
        content[number, : length * SECTOR_BYTES] = held[row : row + length].reshape(-1)
        if opened:
            _open(content[number], sector, length, layout, opened)
    cells = _cells(content)
    fields = groups.select("ts", "since", "sector", "sectors", "bio", "bio_sector", "pid").iter_rows()
    return [
        Block(*known, content[row, : known[3] * SECTOR_BYTES].tobytes(), cells[row]) for row, known in enumerate(fields)
    ]


def _open(content: Bytes, sector: int, sectors: int, layout: Layout, opened: Opened) -> None:
    """Decrypt the encrypted blocks of a page in place."""
    for at in range(0, sectors - layout.block_sectors + 1, layout.block_sectors):
        block = content[at * SECTOR_BYTES : (at + layout.block_sectors) * SECTOR_BYTES]
        if not layout.of_place(sector + at) and (plain := opened(block.tobytes())):
            block[:] = np.frombuffer(plain, np.uint8)


def heads(operations: list[Op], block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the possible first 16 bytes of blocks of files, with the inode."""
    pages: dict[Key, dict[int, bytearray]] = defaultdict(dict)
    for op in operations:
        yield op.key.ino, bytes(16)
        yield op.key.ino, struct.pack("<IIQ", CELL_MAGIC, op.pid, op.key.ino)
        if op.op in (oplog.DATA, oplog.SNAPSHOT):
            for _, changed in _write(pages[op.key], block_bytes, op.offset, op.payload):
                yield op.key.ino, bytes(changed[:16])


def _cells(content: Bytes) -> npt.NDArray[Any]:
    """Return the cells of each block. Incomplete cells and other content have magic 0."""
    cells = content.view(CELL).copy()
    check = (
        cells["ino"] * np.uint64(3)
        + cells["offset"] * np.uint64(5)
        + cells["sequence"] * np.uint64(7)
        + cells["pid"] * np.uint64(11)
        + cells["generation"]
    ).astype(np.uint32)
    # A cell truncated by the end of a page may have the magic only, and the check of zeros is zero.
    is_cut = (cells["check"] != check) | (cells["ino"] == 0)
    cells["magic"][(cells["magic"] != CELL_MAGIC) | is_cut] = 0
    return cells


class _Stamps:
    """Origins by stamped cells, corrected for content that moved within its file later."""

    def __init__(self, operations: list[Op], now: dict[Key, Key]) -> None:
        self._moves = oplog.moves(operations)
        self._named_now = now

    def origin(self, block: Block) -> Origin | str | None:
        """Return the origin by the cells, or why it is ambiguous; None without cells."""
        places = np.flatnonzero(block.cells["magic"])
        if not len(places):
            return None
        cells = block.cells[places]
        last = cells[int(np.argmax(cells["sequence"]))]
        key = Key(int(last["ino"]), int(last["generation"]))
        keys = {Key(*both) for both in cells[["ino", "generation"]].tolist()}
        if len({self._named_now.get(each, each) for each in keys}) > 1:
            return "cells of several files"
        offsets = [self._now(key, block.ts, cell) for cell in cells]
        begins = {offset - int(place) * CELL_BYTES for offset, place in zip(offsets, places, strict=True)}
        if len(begins) > 1:
            return "cells of several places"
        (begin,) = begins
        if begin < 0 or begin % SECTOR_BYTES:
            return None
        return Origin(key, begin, int(last["sequence"]))

    def is_moving(self, key: Key, ts: int) -> bool:
        """Check whether content of the file is being moved, which makes the offset of a read unknown."""
        return any(move.ts_ns <= ts <= move.done_ns for move in self._moves.get(key, ()))

    def _now(self, key: Key, ts: int, cell: np.void) -> int:
        """Return the offset at `ts` of a cell that was written earlier."""
        offset = int(cell["offset"])
        for move in self._moves.get(key, ()):
            if move.ts_ns < ts and cell["sequence"] < move.sequence and offset >= move.offset:
                offset += move.by
        return offset


@dataclass
class _Version:
    """Content of a page from `ts_ns` until before `until_ns`."""

    ts_ns: int
    until_ns: int
    place: Place
    sequence: int | None


class _Contents:
    """All contents of pages written without stamps, by hash of the page and of its sectors."""

    def __init__(self, operations: list[Op], page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._pages: dict[bytes, list[_Version]] = defaultdict(list)
        self._sectors: dict[bytes, list[tuple[int, _Version]]] = defaultdict(list)
        self._latest: dict[Place, _Version] = {}
        pages: dict[Key, dict[int, bytearray]] = defaultdict(dict)
        for op in operations:
            if op.op in (oplog.DATA, oplog.SNAPSHOT):
                for page, changed in _write(pages[op.key], page_bytes, op.offset, op.payload):
                    self._add(op, page, bytes(changed))
            elif op.op == oplog.TRUNCATE and op.key in pages:
                for page, changed in _truncate(pages[op.key], page_bytes, op.offset):
                    self._add(op, page, bytes(changed))

    def _add(self, op: Op, page: int, content: bytes) -> None:
        place = Place(op.key, page)
        version = _Version(op.ts_ns, sys.maxsize, place, None if op.op == oplog.SNAPSHOT else op.sequence)
        if place in self._latest:
            self._latest[place].until_ns = op.done_ns
        self._latest[place] = version
        self._pages[_digest(content)].append(version)
        for number, sector in _used_sectors(content):
            self._sectors[_digest(sector)].append((number, version))

    def origin(self, block: Block) -> Origin | str | None:
        """Return the page with this content then or before, or why it is ambiguous; None for unknown content."""
        if not any(block.content):
            return None
        versions = [(self._begin(v), v) for v in self._pages.get(_digest(block.content), ())]
        whole = [(begin, version) for begin, version in versions if version.ts_ns <= block.ts]
        found = self._held(whole, block)
        if not found:
            # A block may begin within a page, and have the former content of another page: SQLite's vacuum moves pages.
            parts = self._parts(block)
            found = self._held(parts, block) or whole or parts
        if len({(begin, version.place.key) for begin, version in found}) > 1:
            return "content of several pages"
        if block.since < block.ts and len({version.sequence for _, version in found}) > 1:
            return "content that several writes made"
        if found and found[-1][1].place.key.ino == 0:
            return "content of a file that was gone before it was identified"
        return Origin(found[-1][1].place.key, found[-1][0], found[-1][1].sequence) if found else None

    @staticmethod
    def _held(versions: list[tuple[int, _Version]], block: Block) -> list[tuple[int, _Version]]:
        """Return the versions that their page still had when the block arrived."""
        return [(begin, version) for begin, version in versions if version.until_ns >= block.since]

    def _begin(self, version: _Version) -> int:
        """Return the offset of the page in the file."""
        return version.place.page * self._page_bytes

    def _parts(self, block: Block) -> list[tuple[int, _Version]]:
        """Return possible offsets of the block in its file, each with the last page that contained these sectors."""
        found: list[dict[tuple[Key, int], _Version]] = []
        for number, sector in _used_sectors(block.content):
            versions = [(at - number, v) for at, v in self._sectors.get(_digest(sector), ()) if v.ts_ns <= block.ts]
            begins = {
                (v.place.key, v.place.page * self._page_bytes + inside * SECTOR_BYTES): v for inside, v in versions
            }
            found.append(begins)
        everywhere = set.intersection(*(set(places) for places in found))
        return [(place[1], version) for place, version in found[0].items() if place in everywhere and place[1] >= 0]


def _used_sectors(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number in range(len(content) // SECTOR_BYTES):
        sector = content[number * SECTOR_BYTES :][:SECTOR_BYTES]
        if any(sector):
            yield number, sector


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _write(
    pages: dict[int, bytearray], page_bytes: int, offset: int, payload: bytes
) -> Iterator[tuple[int, bytearray]]:
    done = 0
    while done < len(payload):
        page, inside = divmod(offset + done, page_bytes)
        part = payload[done : done + page_bytes - inside]
        content = pages.setdefault(page, bytearray(page_bytes))
        content[inside : inside + len(part)] = part
        done += len(part)
        yield page, content


def _truncate(pages: dict[int, bytearray], page_bytes: int, size: int) -> Iterator[tuple[int, bytearray]]:
    last, inside = divmod(size, page_bytes)
    for page in [page for page in pages if page > last or (page == last and inside == 0)]:
        del pages[page]
    if last in pages:
        pages[last][inside:] = bytes(page_bytes - inside)
        yield last, pages[last]


class _Writers:
    """Writes to each filesystem block that have not reached the disk yet."""

    def __init__(self, operations: list[Op], layout: Layout) -> None:
        self._page_sectors = layout.page_sectors
        self._page_blocks = layout.page_sectors // layout.block_sectors
        self._block_bytes = layout.block_sectors * SECTOR_BYTES
        self._pending = oplog.block_writes(operations, self._block_bytes, has_holes=layout.has_holes)
        self._unclear = -1

    def unclear_at(self, ts: int) -> None:
        """Record that the disk received a block of an unknown page."""
        self._unclear = ts

    def of(self, block: Block, origin: Origin) -> list[int]:
        """Return the processes with writes that reach the disk with this block; empty if they are unknown.

        The disk reads the page when it executes the request. A write after the bio may be in the content already, but
        belongs to the next bio of the page. The processes are unknown in these cases, if several are possible:

        - A write was running when the bio was submitted.
        - The block is a part of a page, and another process wrote to the rest of the page.
        - The disk received a block of an unknown page before, which may have been this one with the earlier writes.
        - The processes wrote to different blocks of the page, so page and block have different writers.
        """
        if origin.sequence is None:
            return []
        first = origin.offset // self._block_bytes
        last = (origin.offset + block.sectors * SECTOR_BYTES - 1) // self._block_bytes
        begin = first // self._page_blocks * self._page_blocks
        pending = {
            number: [write for write in self._writes(origin.key, number) if origin.sequence < write.gone]
            for number in range(begin, max(begin + self._page_blocks, last + 1))
        }
        included = {
            number: [w for w in pending[number] if w.sequence <= origin.sequence and w.ts_ns <= block.ts]
            for number in range(first, last + 1)
        }
        for number, writes in included.items():
            self._pending[origin.key, number] = [write for write in pending[number] if write not in writes]
        pids = {write.pid for writes in included.values() for write in writes}
        others = {w.pid for number in included for w in pending[number] if w.ts_ns <= block.ts < w.done_ns}
        if block.sectors < self._page_sectors:
            others |= {write.pid for writes in pending.values() for write in writes}
        if len(pids | others) > 1 and (others or self._unclear > min(w.ts_ns for ws in included.values() for w in ws)):
            return []
        if len(pids) > 1 and any({write.pid for write in writes} != pids for writes in included.values()):
            return []
        return sorted(pids)

    def _writes(self, key: Key, number: int) -> list[oplog.Write]:
        return self._pending.get((key, number), [])


class _Askers:
    """Accesses to each file: process, time and range."""

    def __init__(self, operations: list[Op], page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._of: dict[Key, list[Op]] = defaultdict(list)
        for op in operations:
            if op.op in (oplog.READ, oplog.STAMP, oplog.DATA, oplog.STORE):
                self._of[op.key].append(op)

    def of(self, block: Block, origin: Origin) -> dict[str, Any]:
        under_way = [op for op in self._of[origin.key] if op.ts_ns <= block.ts <= op.done_ns]
        pids = {op.pid for op in under_way}
        if len(pids) != 1:
            return {}
        first = origin.offset // self._page_bytes
        last = (origin.offset + block.sectors * SECTOR_BYTES - 1) // self._page_bytes
        asked = any(
            op.offset // self._page_bytes <= last and (op.offset + op.length - 1) // self._page_bytes >= first
            for op in under_way
        )
        return {"writer_pids": sorted(pids), "asked": asked}
