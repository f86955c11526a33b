"""Whose each block was that reached the disk, told by its content alone.

Judged is what a bio carries of a page; where that is not of one file, each of the filesystem's blocks in it. A block
of stamped cells says its file, place, writers and their order itself (stamp.h). A block that SQLite wrote is found
among all contents that the page had according to the log of its writes. What is no file's content is told by where the
filesystem keeps such (layout.py). What can be two things, or nothing known, is `ambiguous`.
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
"""What the corpus counts in, whatever a block or page is."""

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
    """Where content comes from: the byte of the file, and the number of the last write in it (None: not logged)."""

    key: Key
    offset: int
    sequence: int | None


class Block(NamedTuple):
    """A part of a write bio, at most a page, with what the disk got.

    `bio` is None where the trace has none: the block came at some time from `since` to `ts`, which else are the same.
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
        """Sectors first .. last - 1 of it."""
        content = self.content[first * SECTOR_BYTES : last * SECTOR_BYTES]
        cells = self.cells[first * SECTOR_BYTES // CELL_BYTES : last * SECTOR_BYTES // CELL_BYTES]
        return self._replace(sector=self.sector + first, sectors=last - first, content=content, cells=cells)


class Truth(NamedTuple):
    """`rows` as support.truth takes them; `unmatched`: sectors that trace and disk saw written unequally often."""

    rows: pl.DataFrame
    ambiguous: Counter[str]
    unmatched: int


Opened = Callable[[bytes], bytes | None]
"""What tells of an encrypted block of the filesystem what it holds; None where it is not one."""


def truth(
    log: devlog.DevLog,
    first: int,
    last: int,
    bios: pl.DataFrame,
    operations: list[Op],
    layout: Layout,
    opened: Opened | None = None,
) -> Truth:
    """The truth about entries first .. last - 1 of the disk's log.

    `bios` (ts, done, sector, nr_sectors, pid of each write bio, in their order) says only when and by whom a write
    came; `done` is null where no completion is known.
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
    """The truth about what was read: what the disk held there, and who was at it (`writer_pids`, `asked`).

    `sectors` has a row for each sector of a read bio (bio, bio_sector, sector, ts, pid), in their order; `held` what
    the disk held there at that time. A process reads of a file from when it asks for it to when it has it; one that
    writes a part of a page also reads. `asked` is null where no process, or several, were at the file.
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
    """With the file as it is called in the run."""
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
    """The block, cut into what belongs together, with where each part comes from, what it is, or why that is open."""
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
    """Writes ground_truth.json.gz as the corpus has it."""
    (directory / "ground_truth.json.gz").write_bytes(gzip.compress(json.dumps({"writes": rows.to_dicts()}).encode()))


def _blocks(
    log: devlog.DevLog, first: int, last: int, bios: pl.DataFrame, layout: Layout, opened: Opened | None
) -> tuple[list[Block], list[int], int]:
    """What the disk got, in its order; when bios came that it did not get (latest first); how many sectors differ."""
    queued = matching.bio_sectors(bios)
    written = devlog.sectors(log, first, last)
    reached, spans = matching.matched(written, queued.select("bio", "sector", "ts_ns", "done_ns"))
    both = (
        reached.join(queued.select("bio", "sector", "ts", "bio_sector", "pid"), on=["bio", "sector"], how="left")
        .join(spans, on="entry")
        .join(log.entries.select("entry", begin="sector"), on="entry")
        .with_columns(
            # What no bio is known of came at its latest.
            ts=pl.coalesce("ts", "latest_ns"),
            since=pl.coalesce("ts", "earliest_ns"),
            # The pages of a bio follow one another from its first sector.
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
    """Blocks of what belongs to one page of a bio, or an entry; `held` is the content of each of the `sectors`."""
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
    """Puts in place of encrypted blocks in a page's content what they hold."""
    for at in range(0, sectors - layout.block_sectors + 1, layout.block_sectors):
        block = content[at * SECTOR_BYTES : (at + layout.block_sectors) * SECTOR_BYTES]
        if not layout.of_place(sector + at) and (plain := opened(block.tobytes())):
            block[:] = np.frombuffer(plain, np.uint8)


def heads(operations: list[Op], block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The first 16 bytes that blocks of files may have had, with the inode."""
    pages: dict[Key, dict[int, bytearray]] = defaultdict(dict)
    for op in operations:
        yield op.key.ino, bytes(16)
        yield op.key.ino, struct.pack("<IIQ", CELL_MAGIC, op.pid, op.key.ino)
        if op.op in (oplog.DATA, oplog.SNAPSHOT):
            for _, changed in _write(pages[op.key], block_bytes, op.offset, op.payload):
                yield op.key.ino, bytes(changed[:16])


def _cells(content: Bytes) -> npt.NDArray[Any]:
    """The cells of each block; those that are none, or cut, have magic 0."""
    cells = content.view(CELL).copy()
    check = (
        cells["ino"] * np.uint64(3)
        + cells["offset"] * np.uint64(5)
        + cells["sequence"] * np.uint64(7)
        + cells["pid"] * np.uint64(11)
        + cells["generation"]
    ).astype(np.uint32)
    # Of a cell that a page ends in there may be no more than the magic, and the check of zeros is zero.
    is_cut = (cells["check"] != check) | (cells["ino"] == 0)
    cells["magic"][(cells["magic"] != CELL_MAGIC) | is_cut] = 0
    return cells


class _Stamps:
    """What stamped cells say, corrected for content that moved inside its file afterwards."""

    def __init__(self, operations: list[Op], now: dict[Key, Key]) -> None:
        self._moves = oplog.moves(operations)
        self._named_now = now

    def origin(self, block: Block) -> Origin | str | None:
        """Where the cells say that the block belongs, or why that is not clear; None where it has none."""
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
        """Whether content of the file is being moved, so that nobody knows from which place of it the disk is read."""
        return any(move.ts_ns <= ts <= move.done_ns for move in self._moves.get(key, ()))

    def _now(self, key: Key, ts: int, cell: np.void) -> int:
        """Offset in the file at a time, of a cell that was written at another."""
        offset = int(cell["offset"])
        for move in self._moves.get(key, ()):
            if move.ts_ns < ts and cell["sequence"] < move.sequence and offset >= move.offset:
                offset += move.by
        return offset


@dataclass
class _Version:
    """Content that a page had from `ts_ns` on, and no longer at `until_ns`."""

    ts_ns: int
    until_ns: int
    place: Place
    sequence: int | None


class _Contents:
    """All contents that pages had which were written without stamps, by hash of the page and of its sectors."""

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
        """The page that held this at the time, or before; why that is not clear; None where no page ever did."""
        if not any(block.content):
            return None
        versions = [(self._begin(v), v) for v in self._pages.get(_digest(block.content), ())]
        whole = [(begin, version) for begin, version in versions if version.ts_ns <= block.ts]
        found = self._held(whole, block)
        if not found:
            # A block may begin inside a page, and hold what another page held once: SQLite's vacuum moves its pages.
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
        """Those that their page still held when the block came."""
        return [(begin, version) for begin, version in versions if version.until_ns >= block.since]

    def _begin(self, version: _Version) -> int:
        """The byte of the file at which its page begins."""
        return version.place.page * self._page_bytes

    def _parts(self, block: Block) -> list[tuple[int, _Version]]:
        """Where in its file the block would begin, and the last of the pages, of which these sectors were a part."""
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
    """Who wrote to each of the filesystem's blocks and is not on the disk yet."""

    def __init__(self, operations: list[Op], layout: Layout) -> None:
        self._page_sectors = layout.page_sectors
        self._page_blocks = layout.page_sectors // layout.block_sectors
        self._block_bytes = layout.block_sectors * SECTOR_BYTES
        self._pending = oplog.block_writes(operations, self._block_bytes, has_holes=layout.has_holes)
        self._unclear = -1

    def unclear_at(self, ts: int) -> None:
        """The disk got a block of which nobody knows the page."""
        self._unclear = ts

    def of(self, block: Block, origin: Origin) -> list[int]:
        """The processes whose writes are new on the disk with this block; empty where they are not known.

        The disk gets a page as it is when it takes it: a write after the bio is in the content already, and belongs to
        the next bio of the page. Of a write under way at that time nobody knows on which side of the bio it fell; a
        part of a page may come without what another process wrote in the rest of it; where there are several, a block
        of an unknown page may have been this one with the earlier writes; and where they wrote different blocks of the
        page, it depends on whom one asks, of the page or of the block.
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
    """Who was at a file at which time, and at which part of it."""

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
