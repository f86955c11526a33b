"""Find the committed transactions and their block copies in the on-disk log of jbd2, the journal of ext3 and ext4.

Nothing is replayed. The log is a ring buffer. Recovery would apply only a part of it; the rest are transactions that
were checkpointed earlier and are not yet overwritten. A transaction counts as committed if all of these hold:

- Its blocks form a chain with one sequence number: descriptors, each with as many data blocks as tags, then a commit.
- Its checksums are correct, if the journal has checksums.
- No newer transaction uses any of its blocks.

Formats and rules: include/linux/jbd2.h, fs/jbd2/{commit,recovery}.c, Documentation/filesystems/ext4/journal.rst (6.12).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs.image import Image, record_dtype
from androstep_analysis.fs.jbd2 import checksums

MAGIC = 0xC03B3998
_MAGIC_BYTES = MAGIC.to_bytes(4, "big")

_DESCRIPTOR, _COMMIT, _SUPERBLOCK_V1, _SUPERBLOCK_V2, _REVOKE = 1, 2, 3, 4, 5
"""h_blocktype."""

ROLES = ("superblock", "descriptor", "data", "revoke", "commit", "fast_commit", "stale")
"""Uses of a block in the journal. The use of a ``stale`` block is no longer known."""

SUPERBLOCK, DESCRIPTOR, DATA, REVOKE, COMMIT, FAST_COMMIT, STALE = range(len(ROLES))

_ROLE_OF_TYPE = {_DESCRIPTOR: DESCRIPTOR, _COMMIT: COMMIT, _REVOKE: REVOKE}

COMPAT_CHECKSUM = 0x1
INCOMPAT_64BIT = 0x2
INCOMPAT_CSUM_V2 = 0x8
INCOMPAT_CSUM_V3 = 0x10
INCOMPAT_FAST_COMMIT = 0x20

_DEFAULT_FAST_COMMIT_BLOCKS = 256
_HEADER_BYTES = 12
_UUID_BYTES = 16
_TAG_ESCAPED, _TAG_SAME_UUID, _TAG_LAST = 0x1, 0x2, 0x8
_COMMIT_BYTES = 60
"""Size of a commit block up to its time: h_commit_sec at byte 48, followed by h_commit_nsec."""

_CHECKSUM_BYTE = 16
"""Offset of h_chksum[0] in a commit block."""

_FAST_COMMIT_HEAD = 0xA
"""EXT4_FC_TAG_HEAD, the tag with features and transaction."""

_BLOCKS_AT_ONCE = 2048
_MAX_BLOCKS = 10_240_000
"""Maximum size of a journal (JBD2 of mke2fs)."""

_NO_ORDER = -(1 << 40)

COPY = np.dtype(
    [("position", np.int64), ("target", np.int64), ("order", np.int64), ("escaped", np.bool_)],
)
"""A block copy of a committed transaction: its `position` in the journal, its `target` block on the filesystem and the
`order` of its transaction. An escaped block began with the magic number, which the log replaces by zeros."""

COMMITTED = np.dtype(
    [
        ("order", np.int64),
        ("sequence", np.int64),
        ("epoch_ns", np.int64),
        ("is_live", np.bool_),
        ("segment", np.int64),
    ]
)
"""A committed transaction: its `order` (consecutive, oldest first), sequence number, time of commit (0: none), and
whether recovery would apply it. Within a `segment` no transaction and no part of one is missing."""


@dataclass(frozen=True)
class Superblock:
    """The journal's own superblock."""

    block_bytes: int
    nr_blocks: int
    first: int
    sequence: int
    start: int
    compat: int
    incompat: int
    uuid: bytes
    fast_commit_blocks: int

    @classmethod
    def parse(cls, raw: bytes) -> Superblock | None:
        """Parse the superblock from the first block of a journal; None if it is missing or invalid."""
        magic, kind, _, block_bytes, nr_blocks, first, sequence, start = struct.unpack_from(">8I", raw)
        if magic != MAGIC or kind not in (_SUPERBLOCK_V1, _SUPERBLOCK_V2):
            return None
        compat, incompat = struct.unpack_from(">2I", raw, 0x24) if kind == _SUPERBLOCK_V2 else (0, 0)
        fast = 0
        if incompat & INCOMPAT_FAST_COMMIT:
            fast = int.from_bytes(raw[0x54:0x58], "big") or _DEFAULT_FAST_COMMIT_BLOCKS
        superblock = cls(block_bytes, nr_blocks, first, sequence, start, compat, incompat, raw[0x30:0x40], fast)
        sound = 1024 <= block_bytes <= 1 << 16 and 0 < first < superblock.last
        return superblock if sound and block_bytes.bit_count() == 1 else None

    @property
    def last(self) -> int:
        """End of the ring (exclusive). The fast-commit area follows it."""
        return self.nr_blocks - self.fast_commit_blocks

    @property
    def has_checksums(self) -> bool:
        """Whether every block of the log has a checksum (versions 2 and 3)."""
        return bool(self.incompat & (INCOMPAT_CSUM_V2 | INCOMPAT_CSUM_V3))

    @property
    def tag_bytes(self) -> int:
        """Size of a tag in a descriptor block (journal_tag_bytes)."""
        if self.incompat & INCOMPAT_CSUM_V3:
            return 16
        size = 14 if self.incompat & INCOMPAT_CSUM_V2 else 12
        return size if self.incompat & INCOMPAT_64BIT else size - 4

    @property
    def tail_bytes(self) -> int:
        """Size of the checksum at the end of descriptor and revoke blocks."""
        return 4 if self.has_checksums else 0

    def order(self, sequence: int) -> int:
        """Convert a sequence number, which wraps at 32 bits, to a number that increases with time."""
        return (sequence - self.sequence + (1 << 31) & 0xFFFFFFFF) - (1 << 31)

    def after(self, position: int, count: int = 1) -> int:
        """Return the position `count` blocks later in the ring."""
        return self.first + (position + count - self.first) % (self.last - self.first)


@dataclass(frozen=True)
class Log:
    """The contents of a journal.

    Attributes
    ----------
    superblock : Superblock
        The journal's superblock.
    image : Image
        The image that holds the journal.
    places : ndarray
        For each position in the journal, the block in `image`.
    role : ndarray
        For each position, the index in `ROLES`.
    sequence : ndarray
        For each position, the sequence number of its transaction, or -1.
    committed : ndarray
        The committed transactions (dtype `COMMITTED`).
    copies : ndarray
        The block copies of these transactions (dtype `COPY`).
    nr_damaged : int
        The number of blocks with a wrong checksum or invalid content.
    """

    superblock: Superblock
    image: Image
    places: np.ndarray
    role: np.ndarray
    sequence: np.ndarray
    committed: np.ndarray
    copies: np.ndarray
    nr_damaged: int

    def block(self, position: int, escaped: bool = False) -> bytes:
        """Return the block at a position; for an escaped copy, with the magic number restored."""
        size = self.superblock.block_bytes
        raw = self.image.read(int(self.places[position]) * size, size)
        return _MAGIC_BYTES + raw[4:] if escaped else raw


@dataclass(frozen=True)
class _Header:
    """A header block and the position of the next header of its transaction; descriptors have `tags` (dtype `_TAG`)."""

    kind: int
    sequence: int
    next: int
    tags: np.ndarray


_TAG = np.dtype([("target", np.int64), ("flags", np.uint32), ("checksum", np.uint32)])


def places(extents: pl.DataFrame, block_bytes: int, image: Image) -> np.ndarray:
    """Return the blocks of the journal inode in file order, from table `extents`.

    Returns none if the image is too short, or if the journal is larger than mke2fs makes any.
    """
    own = extents.filter(block_type="journal").sort("file_offset_bytes")
    if own["nr_sectors"].sum() * SECTOR_BYTES > min(image.nr_bytes, _MAX_BLOCKS * block_bytes):
        return np.empty(0, dtype=np.int64)
    sectors = block_bytes // SECTOR_BYTES
    parts = [
        np.arange(sector // sectors, (sector + nr_sectors) // sectors)
        for sector, nr_sectors in own.select("sector", "nr_sectors").iter_rows()
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def read(image: Image, places: np.ndarray, block_bytes: int, superblock_at: int = 0) -> Log | None:
    """Read the journal in the blocks `places` of an image, in this order; None if it has no valid superblock.

    `superblock_at` is the position of the superblock, which is not the first block on a journal device.
    """
    if superblock_at >= len(places):
        return None
    superblock = Superblock.parse(image.read(int(places[superblock_at]) * block_bytes, block_bytes))
    if superblock is None or superblock.block_bytes != block_bytes or superblock.nr_blocks > len(places):
        return None
    if superblock.nr_blocks * block_bytes > image.nr_bytes:
        return None
    return _Reader(image, superblock, places[: superblock.nr_blocks]).read(superblock_at)


def read_commits(image: Image, places: np.ndarray, block_bytes: int) -> tuple[int, np.ndarray] | None:
    """Return the number of the newest committed transaction, and the contents of all commit blocks.

    The second is an array of shape (n, 2) with sequence number and time of commit (epoch ns, 0 for none). This is
    cheaper than `read`, because it inspects only the commit blocks. See `read` for `places`; returns None as it does.
    """
    superblock = Superblock.parse(image.read(int(places[0]) * block_bytes, block_bytes)) if len(places) else None
    if superblock is None or superblock.block_bytes != block_bytes or superblock.nr_blocks > len(places):
        return None
    parts = [np.empty((0, 2), dtype=np.int64)]
    for at in range(superblock.first, superblock.last, _BLOCKS_AT_ONCE):
        rows = image.blocks(places[at : min(at + _BLOCKS_AT_ONCE, superblock.last)], block_bytes)
        head = np.ascontiguousarray(rows[:, :_COMMIT_BYTES])
        words = head.view(">u4").astype(np.int64)
        is_commit = (words[:, 0] == MAGIC) & (words[:, 1] == _COMMIT)
        seconds, nanoseconds = words[is_commit, 12] << 32 | words[is_commit, 13], words[is_commit, 14]
        seconds[seconds >= 1 << 33] = 0
        parts.append(np.stack([words[is_commit, 2], seconds * 1_000_000_000 + nanoseconds], axis=1))
    commits = np.concatenate(parts)
    age = np.array([superblock.order(int(sequence)) for sequence in commits[:, 0]], dtype=np.int64)
    # Commit blocks left by an earlier filesystem have arbitrary sequence numbers. The log cannot hold more transactions
    # than blocks.
    commits, age = commits[np.abs(age) <= superblock.nr_blocks], age[np.abs(age) <= superblock.nr_blocks]
    newest = superblock.sequence + (int(max(-1, *age)) if superblock.start and len(age) else -1)
    return newest, commits


class _Reader:
    """Reads a log in three passes: blocks for headers, headers for transactions, and copies for checksums."""

    def __init__(self, image: Image, superblock: Superblock, places: np.ndarray) -> None:
        self._image = image
        self._superblock = superblock
        self._places = places
        self._seed = int(_crc32c_of(superblock.uuid, checksums.SEED))
        self._starts = np.zeros((len(places), 2), dtype=np.uint32)  # first two words of every block
        self._headers: dict[int, _Header] = {}
        self._claim = np.full(len(places), _NO_ORDER, dtype=np.int64)  # the newest transaction that used a position
        self._is_broken = np.zeros(len(places), dtype=bool)
        self._damaged = 0

    def read(self, superblock_at: int) -> Log:
        """Read the log."""
        superblock = self._superblock
        self._read_headers()
        self._claim_positions()
        self._check_copies()
        chains = sorted(self._chains(), key=lambda chain: superblock.order(chain[0]))
        role = np.full(len(self._places), STALE, dtype=np.uint8)
        sequence = np.full(len(self._places), -1, dtype=np.int64)
        for position, header in self._headers.items():
            role[position], sequence[position] = _ROLE_OF_TYPE[header.kind], header.sequence
            if header.kind == _DESCRIPTOR:
                own = self._data_positions(position, header)
                own = own[self._claim[own] == superblock.order(header.sequence)]
                role[own], sequence[own] = DATA, header.sequence
        committed, copies = self._committed(chains)
        role[superblock_at] = SUPERBLOCK
        self._mark_fast_commits(role, sequence)
        return Log(superblock, self._image, self._places, role, sequence, committed, copies, self._damaged)

    def _block(self, position: int) -> bytes:
        size = self._superblock.block_bytes
        return self._image.read(int(self._places[position]) * size, size)

    def _rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the blocks at some positions: uint8 of shape (n, block size)."""
        return self._image.blocks(self._places[positions], self._superblock.block_bytes)

    def _read_headers(self) -> None:
        superblock = self._superblock
        for at in range(superblock.first, superblock.last, _BLOCKS_AT_ONCE):
            positions = np.arange(at, min(at + _BLOCKS_AT_ONCE, superblock.last))
            rows = self._rows(positions)
            words = np.ascontiguousarray(rows[:, :_HEADER_BYTES]).view(">u4")
            self._starts[positions] = words[:, :2]
            is_header = (words[:, 0] == MAGIC) & np.isin(words[:, 1], list(_ROLE_OF_TYPE))
            positions, rows = positions[is_header], rows[is_header]
            holds = self._checksums_hold(rows)
            self._damaged += int((~holds).sum())
            for position, row in zip(positions[holds].tolist(), rows[holds], strict=True):
                header = self._header(position, row.tobytes())
                if header is not None:
                    self._headers[position] = header

    def _header(self, position: int, raw: bytes) -> _Header | None:
        superblock = self._superblock
        _, kind, sequence = struct.unpack_from(">3I", raw)
        tags = self._tags(raw) if kind == _DESCRIPTOR else np.empty(0, dtype=_TAG)
        if len(tags) >= superblock.last - superblock.first:
            self._damaged += 1
            return None
        return _Header(kind, sequence, superblock.after(position, 1 + len(tags)), tags)

    def _checksums_hold(self, rows: np.ndarray) -> np.ndarray:
        """Return for each header block whether its checksum (version 2 or 3) is correct; true without checksums."""
        if not self._superblock.has_checksums or not len(rows):
            return np.ones(len(rows), dtype=bool)
        rows = rows.copy()
        is_commit = rows[:, 7] == _COMMIT
        at = np.where(is_commit, _CHECKSUM_BYTE, rows.shape[1] - 4)[:, None] + np.arange(4)
        stored = np.take_along_axis(rows, at, axis=1).view(">u4")[:, 0]
        np.put_along_axis(rows, at, np.uint8(0), axis=1)
        answer: np.ndarray = checksums.crc32c(rows, self._seed) == stored
        return answer

    def _tags(self, raw: bytes) -> np.ndarray:
        """Return the tags of a descriptor block. Only the first tag may be followed by a UUID."""
        superblock = self._superblock
        size = superblock.tag_bytes
        has_uuid = not self._fields(raw[_HEADER_BYTES : _HEADER_BYTES + size])["flags"][0] & _TAG_SAME_UUID
        first_end = _HEADER_BYTES + size
        rest = first_end + (_UUID_BYTES if has_uuid else 0)
        count = (len(raw) - superblock.tail_bytes - rest) // size
        tags = self._fields(raw[_HEADER_BYTES:first_end] + raw[rest : rest + count * size])
        ends = np.flatnonzero(tags["flags"] & _TAG_LAST)
        return tags[: ends[0] + 1] if len(ends) else tags

    def _fields(self, raw: bytes) -> np.ndarray:
        incompat, size = self._superblock.incompat, self._superblock.tag_bytes
        wide = bool(incompat & INCOMPAT_64BIT)
        fields = {"low": (">u4", 0), "flags": (">u2", 6), "checksum": (">u2", 4)}
        if incompat & INCOMPAT_CSUM_V3:
            fields |= {"flags": (">u4", 4), "checksum": (">u4", 12)}
        if wide:
            fields["high"] = (">u4", 8)
        table = np.frombuffer(raw, dtype=record_dtype(fields, size))
        tags = np.empty(len(table), dtype=_TAG)
        tags["target"] = table["low"]
        if wide:
            tags["target"] |= (table["high"].astype(np.int64) & 0x7FFFFFFF) << 32
        tags["flags"], tags["checksum"] = table["flags"], table["checksum"]
        return tags

    def _data_positions(self, position: int, header: _Header) -> np.ndarray:
        first, length = self._superblock.first, self._superblock.last - self._superblock.first
        positions: np.ndarray = first + (position + 1 + np.arange(len(header.tags)) - first) % length
        return positions

    def _claim_positions(self) -> None:
        """Assign each position to the newest transaction that uses it, committed or not."""
        for position, header in self._headers.items():
            order = self._superblock.order(header.sequence)
            self._claim[position] = max(order, self._claim[position])
            data = self._data_positions(position, header)
            # A copy never begins with the magic number (it would be escaped), so that this block is a newer header.
            data = data[self._starts[data, 0] != MAGIC]
            self._claim[data] = np.maximum(self._claim[data], order)

    def _chains(self) -> Iterator[tuple[int, list[int]]]:
        """Yield (sequence number, positions of the headers in order) of each transaction with a commit block."""
        before: dict[tuple[int, int], int] = {}
        for position, header in self._headers.items():
            if header.kind != _COMMIT:
                before[header.next, header.sequence] = position
        for position, header in self._headers.items():
            if header.kind != _COMMIT or self._claim[position] != self._superblock.order(header.sequence):
                continue
            chain = [position]
            while (earlier := before.get((chain[-1], header.sequence))) is not None:
                chain.append(earlier)
            yield header.sequence, chain[::-1]

    def _committed(self, chains: list[tuple[int, list[int]]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the transactions as arrays `COMMITTED` and `COPY`, oldest first."""
        superblock = self._superblock
        committed = np.empty(len(chains), dtype=COMMITTED)
        parts = [np.empty(0, dtype=COPY)]
        segment = count = 0
        previous: tuple[int, int] | None = None  # sequence number and position of the commit before
        for sequence, chain in chains:
            copies, is_sound = self._copies(chain)
            if superblock.compat & COMPAT_CHECKSUM and not superblock.has_checksums and not self._sum_holds(chain):
                self._damaged += 1
                continue
            if previous is None or not (is_sound and self._follows(previous, sequence, chain[0])):
                segment += 1
            previous = sequence, chain[-1]
            seconds, nanoseconds = struct.unpack_from(">QI", self._block(chain[-1]), 0x30)
            epoch_ns = seconds * 10**9 + nanoseconds if seconds < 1 << 33 and nanoseconds < 10**9 else 0
            is_live = superblock.start != 0 and superblock.order(sequence) >= 0
            committed[count] = (count, sequence, epoch_ns, is_live, segment)
            copies["order"] = count
            parts.append(copies)
            count += 1
        return committed[:count], np.concatenate(parts)

    def _follows(self, previous: tuple[int, int], sequence: int, begin: int) -> bool:
        """Return whether the transaction at `begin` directly follows `previous`, with no transaction missing.

        It begins at the end of the previous one. After an unmount, which empties the journal, it begins at the start of
        the ring. An unmount also uses one sequence number. That number was never written if the block after the
        previous commit still holds something older.
        """
        superblock = self._superblock
        number, commit = previous
        place = superblock.after(commit)
        step = sequence - number & 0xFFFFFFFF
        if begin == place:
            return step in (1, 2)
        unused = self._claim[place] < superblock.order(number) and (
            self._claim[place] != _NO_ORDER or not self._starts[place].any()
        )
        return begin == superblock.first and step in (1, 2) and bool(unused)

    def _copies(self, chain: list[int]) -> tuple[np.ndarray, bool]:
        """Return a transaction's copies (dtype `COPY`, without `order`), and whether all are present and intact."""
        superblock = self._superblock
        parts = [np.empty(0, dtype=COPY)]
        nr_tags = 0
        for position in chain[:-1]:
            header = self._headers[position]
            places = self._data_positions(position, header)
            nr_tags += len(places)
            there = self._claim[places] == superblock.order(header.sequence)
            there &= (self._starts[places, 0] != MAGIC) & ~self._is_broken[places]
            tags, places = header.tags[there], places[there]
            copies = np.zeros(len(places), dtype=COPY)
            copies["position"], copies["target"] = places, tags["target"]
            copies["escaped"] = (tags["flags"] & _TAG_ESCAPED) != 0
            parts.append(copies)
        all_copies = np.concatenate(parts)
        return all_copies, len(all_copies) == nr_tags

    def _check_copies(self) -> None:
        """Mark the copies that do not match the checksum in their tag (`_is_broken`, by position)."""
        if not self._superblock.has_checksums:
            return
        parts = []
        for position, header in self._headers.items():
            if len(header.tags):
                places = self._data_positions(position, header)
                mine = self._claim[places] == self._superblock.order(header.sequence)
                parts.append((places[mine], header.tags["checksum"][mine], np.full(mine.sum(), header.sequence)))
        if not parts:
            return
        places, stored, sequences = (np.concatenate(column) for column in zip(*parts, strict=True))
        for at in range(0, len(places), _BLOCKS_AT_ONCE):
            some = slice(at, at + _BLOCKS_AT_ONCE)
            numbers = sequences[some].astype(">u4").view(np.uint8).reshape(-1, 4)
            sums = checksums.crc32c(self._rows(places[some]), checksums.crc32c(numbers, self._seed))
            if not self._superblock.incompat & INCOMPAT_CSUM_V3:
                sums = sums & 0xFFFF
            self._is_broken[places[some]] = sums != stored[some]
        self._damaged += int(self._is_broken.sum())

    def _sum_holds(self, chain: list[int]) -> bool:
        """Return whether the commit block's checksum over descriptors and copies (version 1) is correct."""
        commit = self._block(chain[-1])
        kind, size, stored = commit[12], commit[13], int.from_bytes(commit[16:20], "big")
        if (kind, size, stored) == (0, 0, 0):
            return True
        total = checksums.SEED
        for position in chain[:-1]:
            header = self._headers[position]
            if header.kind == _DESCRIPTOR:
                for place in (position, *self._data_positions(position, header).tolist()):
                    total = checksums.crc32_be(self._block(place), total)
        return (kind, size, stored) == (1, 4, total)

    def _mark_fast_commits(self, role: np.ndarray, sequence: np.ndarray) -> None:
        """Mark the used blocks of the fast-commit area. A block with a head tag contains its transaction's number."""
        for position in range(self._superblock.last, len(self._places)):
            raw = self._block(position)
            if not any(raw[:8]):
                continue
            role[position] = FAST_COMMIT
            tag, length, _, number = struct.unpack_from("<HHII", raw)
            if (tag, length) == (_FAST_COMMIT_HEAD, 8):
                sequence[position] = number


def _crc32c_of(data: bytes, seed: int) -> np.uint32:
    answer: np.uint32 = checksums.crc32c(np.frombuffer(data, dtype=np.uint8)[None, :], seed)[0]
    return answer
