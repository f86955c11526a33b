"""Find the clusters of files on FAT and exFAT by following chains in the file allocation table.

pytsk3 also follows chains, but it reports neither cross-linked chains nor lost clusters, and maps a file sector by
sector.
"""

from __future__ import annotations

from array import array

import numpy as np

from androstep_analysis.fs.fat.layout import FIRST_CLUSTER, Volume
from androstep_analysis.fs.image import Image

_ENTRIES_AT_ONCE = 1 << 22


class Chains:
    """The clusters of a volume: the successor of each, and whether a file has claimed it.

    Every cluster belongs to the first file that claims it. This also bounds the time for a damaged table.
    """

    def __init__(self, image: Image, volume: Volume) -> None:
        self._image = image
        self._volume = volume
        self._next = _entries(image, volume, volume.active_fat)
        self._claims = bytearray(len(self._next))
        self._breaks = _breaks(self._next)
        self._next_break = np.searchsorted(self._breaks, self._next[self._breaks])
        self._nr_runs = 0

    @property
    def is_claimed(self) -> np.ndarray:
        """Which clusters a file has claimed (bool array by cluster number)."""
        return np.frombuffer(self._claims, dtype=bool)

    @property
    def end(self) -> int:
        """The last cluster number in the table plus one."""
        return len(self._next)

    def is_free(self) -> np.ndarray:
        """Return which clusters are free in the table (bool array by cluster number)."""
        answer: np.ndarray = self._next == 0
        return answer

    def nr_bad(self) -> int:
        """Return the number of clusters marked as bad, which legitimately belong to no file."""
        return int((self._next[FIRST_CLUSTER:] == self._end_mark - 1).sum())

    def differing(self, image: Image) -> int:
        """Return the largest number of entries in which another copy of the table differs from the active one."""
        volume = self._volume
        counts = [0]
        for number in range(volume.nr_fats):
            if number != volume.active_fat:
                other = _entries(image, volume, number)
                counts.append(int((other != self._next[: len(other)]).sum()))
        return max(counts)

    def follow(self, first: int) -> tuple[np.ndarray, bool]:
        """Claim the clusters of the chain at `first`; return its runs, and whether it is intact.

        A run is a row (first cluster, count), Int64. The chain ends early if it leaves the volume, or reaches a cluster
        that is free, bad or already claimed. Raises `InputError` if the chains of the volume have too many runs.
        """
        runs = array("q")
        is_intact = False
        following, breaks, next_break = self._next.data, self._breaks.data, self._next_break.data
        end, end_mark, number = self.end, self._end_mark, int(np.searchsorted(self._breaks, first))
        while FIRST_CLUSTER <= first < end:
            last = breaks[number]
            count = self._claim(first, last - first + 1)
            if count:
                runs.extend((first, count))
            if count < last - first + 1:
                break
            first = following[last]
            if first >= end_mark:
                is_intact = True
                break
            number = next_break[number]
        self._nr_runs += len(runs) // 2
        self._image.check_runs(self._nr_runs)
        return np.array(runs, dtype=np.int64).reshape(-1, 2), is_intact

    def contiguous(self, first: int, count: int) -> tuple[np.ndarray, bool]:
        """Claim `count` contiguous clusters, which are not in the table (exFAT, NoFatChain); result as in `follow`."""
        if not FIRST_CLUSTER <= first < self.end:
            return np.empty((0, 2), dtype=np.int64), False
        inside = min(count, self.end - first)
        claimed = self._claim(first, inside)
        return np.array([(first, claimed)] * bool(claimed), dtype=np.int64).reshape(-1, 2), claimed == count

    @property
    def _end_mark(self) -> int:
        return {12: 0xFF8, 16: 0xFFF8}.get(self._volume.entry_bits, _end_of_32(self._volume))

    def _claim(self, first: int, count: int) -> int:
        """Claim contiguous clusters up to the first that is already claimed; return how many."""
        taken = self._claims.find(1, first, first + count)
        if taken >= 0:
            count = taken - first
        self._claims[first : first + count] = b"\1" * count
        return count


def _end_of_32(volume: Volume) -> int:
    return 0xFFFFFFF8 if volume.kind == "exfat" else 0x0FFFFFF8


def _entries(image: Image, volume: Volume, number: int) -> np.ndarray:
    """Return copy `number` of the table, as far as the image contains it: uint32 by cluster number."""
    offset = volume.fat_offset + number * volume.fat_bytes
    wanted = -(-volume.end_cluster * volume.entry_bits // 8)
    raw = image.read(offset, max(min(wanted, volume.fat_bytes, image.nr_bytes - offset), 0))
    if volume.entry_bits == 12:
        raw = raw[: len(raw) // 3 * 3] + raw[len(raw) // 3 * 3 :].ljust(3, b"\0")
        low, middle, high = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 3).astype(np.uint32).T
        pairs = np.stack([low | (middle & 0xF) << 8, middle >> 4 | high << 4], axis=1)
        return pairs.reshape(-1)[: volume.end_cluster]
    if volume.entry_bits == 16:
        return np.frombuffer(raw[: len(raw) // 2 * 2], dtype="<u2").astype(np.uint32)
    entries = np.frombuffer(raw[: len(raw) // 4 * 4], dtype="<u4")
    return entries if volume.kind == "exfat" else entries & np.uint32(0x0FFFFFFF)


def _breaks(entries: np.ndarray) -> np.ndarray:
    """Return the clusters after which a chain does not continue with the next cluster."""
    parts = [np.empty(0, dtype=np.int64)]
    for at in range(0, len(entries), _ENTRIES_AT_ONCE):
        some = entries[at : at + _ENTRIES_AT_ONCE]
        is_break = some != np.arange(at + 1, at + 1 + len(some), dtype=np.uint32)
        if at + len(some) == len(entries):
            is_break[-1] = True  # The last entry may point to the cluster after the end.
        parts.append(at + np.flatnonzero(is_break))
    return np.concatenate(parts)
