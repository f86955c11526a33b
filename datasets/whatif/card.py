"""An emulated memory card: one file, served by FUSE, whose reads and writes take the time that a card would take.

    python datasets/whatif/card.py FILE [--mib 64] [--log-structured]

FILE is mounted until standard input ends. It needs root and /dev/fuse and no library. The card does one command at a
time, like MMC. Its costs are declared here and are **no measurement of any card**:

- A read takes `COMMAND_S`, its bytes at `READ_BPS`, and `SEEK_S` if it does not begin at the end of the previous read.
- A write takes `COMMAND_S` and its bytes at `WRITE_BPS` if it continues in an open allocation unit; there are
  `OPEN_UNITS`. Otherwise the unit is rewritten, like in cards that map units: the data before the write is copied when
  the unit is opened, the data after it when the unit is closed.
- A flush takes `COMMAND_S`.

The rates are those that Dumitru's slides (papers, EasyCo) call typical of Android: linear reads of 10 MB/s, 700 random
reads a second, linear writes of 8 MB/s. A random write of 4 KiB then takes about a quarter of a second.

``--log-structured`` puts the virtual controller of the slides in front of the card. Pages of 4 KiB are written one
after the other from unit to unit and are located by a map. If no unit is empty, the one with the fewest pages in use is
emptied by copying these.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import select
import struct
import sys
import time
from collections import OrderedDict
from pathlib import Path

READ_BPS, WRITE_BPS = 10_000_000, 8_000_000
COMMAND_S = 0.0005
SEEK_S = 1 / 700 - COMMAND_S - 4096 / READ_BPS
UNIT_BYTES = 1 << 20
OPEN_UNITS = 2
PAGE_BYTES = 4096
SPARE_UNITS = 16
"""Units of the virtual controller in addition to the size of the card that it presents."""

_COPY_S = 1 / READ_BPS + 1 / WRITE_BPS
"""Seconds to copy a byte."""


class Card:
    """The cost of a card's reads and writes, in seconds."""

    def __init__(self) -> None:
        self.read_end = -1
        self.open: OrderedDict[int, int] = OrderedDict()  # by unit: offset of the next write, least recent first

    def read(self, offset: int, length: int) -> float:
        """Return the duration of a read in seconds."""
        seek = 0.0 if offset == self.read_end else SEEK_S
        self.read_end = offset + length
        return COMMAND_S + seek + length / READ_BPS

    def write(self, offset: int, length: int) -> float:
        """Return the duration of a write in seconds."""
        seconds = COMMAND_S
        while length > 0:
            unit, place = divmod(offset, UNIT_BYTES)
            part = min(length, UNIT_BYTES - place)
            seconds += self._write_unit(unit, place, part)
            offset, length = offset + part, length - part
        return seconds

    def _write_unit(self, unit: int, place: int, length: int) -> float:
        copied = 0
        if unit in self.open and place < self.open[unit]:
            copied += UNIT_BYTES - self.open.pop(unit)
        if unit not in self.open and len(self.open) == OPEN_UNITS:
            copied += UNIT_BYTES - self.open.popitem(last=False)[1]
        copied += place - self.open.pop(unit, 0)
        if place + length < UNIT_BYTES:
            self.open[unit] = place + length
        return copied * _COPY_S + length / WRITE_BPS


class Controller:
    """A virtual flash controller in front of a card: every write is appended at the end of the last one."""

    def __init__(self, pages: int) -> None:
        self.card = Card()
        self.per_unit = UNIT_BYTES // PAGE_BYTES
        self.place = list(range(pages))  # location of each page; all are in use at the start
        self.holder = [*range(pages), *[-1] * (SPARE_UNITS * self.per_unit)]  # the page at each location
        units = len(self.holder) // self.per_unit
        self.used = [self.per_unit] * (units - SPARE_UNITS) + [0] * SPARE_UNITS
        self.free = list(range(units - SPARE_UNITS, units))
        self.unit, self.next = self.free.pop(0), 0

    def read(self, offset: int, length: int) -> float:
        """Return the duration of a read in seconds."""
        return sum(self.card.read(at * PAGE_BYTES, size * PAGE_BYTES) for at, size in self._runs(offset, length))

    def write(self, offset: int, length: int) -> float:
        """Return the duration of a write in seconds."""
        seconds = 0.0
        first, last = offset // PAGE_BYTES, (offset + length - 1) // PAGE_BYTES
        if offset % PAGE_BYTES:
            seconds += self.card.read(self.place[first] * PAGE_BYTES, PAGE_BYTES)
        if (offset + length) % PAGE_BYTES and (last > first or not offset % PAGE_BYTES):
            seconds += self.card.read(self.place[last] * PAGE_BYTES, PAGE_BYTES)
        return seconds + self._append(range(first, last + 1))

    def _append(self, pages: range | list[int]) -> float:
        seconds, begun, count = 0.0, self.unit * self.per_unit + self.next, 0
        for page in pages:
            if self.next == self.per_unit:
                seconds += self._out(begun, count) + self._next_unit()
                begun, count = self.unit * self.per_unit + self.next, 0
            old, new = self.place[page], self.unit * self.per_unit + self.next
            self.used[old // self.per_unit] -= 1
            self.holder[old], self.holder[new], self.place[page] = -1, page, new
            self.used[self.unit] += 1
            self.next += 1
            count += 1
        return seconds + self._out(begun, count)

    def _out(self, begun: int, count: int) -> float:
        return self.card.write(begun * PAGE_BYTES, count * PAGE_BYTES) if count else 0.0

    def _next_unit(self) -> float:
        self.unit, self.next = self.free.pop(0), 0
        seconds = 0.0
        while len(self.free) < 2:
            full = (unit for unit in range(len(self.used)) if unit != self.unit and unit not in self.free)
            victim = min(full, key=lambda unit: (self.used[unit], unit))
            places = range(victim * self.per_unit, (victim + 1) * self.per_unit)
            kept = [self.holder[place] for place in places if self.holder[place] >= 0]
            seconds += sum(self.card.read(self.place[page] * PAGE_BYTES, PAGE_BYTES) for page in kept)
            seconds += self._append(kept)
            self.free.append(victim)
        return seconds

    def _runs(self, offset: int, length: int) -> list[tuple[int, int]]:
        """Return the contiguous runs of a read's pages: first location and number of pages."""
        runs: list[tuple[int, int]] = []
        for page in range(offset // PAGE_BYTES, (offset + length - 1) // PAGE_BYTES + 1):
            at = self.place[page]
            if runs and sum(runs[-1]) == at:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((at, 1))
        return runs


# -- FUSE (include/uapi/linux/fuse.h) ---------------------------------------------------------------------------------

_GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS, _RELEASE, _FSYNC, _FLUSH, _INIT = (
    3,
    4,
    14,
    15,
    16,
    17,
    18,
    20,
    25,
    26,
)
_FORGET, _BATCH_FORGET, _DESTROY, _INTERRUPT = 2, 42, 38, 36
_UNANSWERED = (_FORGET, _BATCH_FORGET, _INTERRUPT)
_HEADER = struct.Struct("<IIQQIIII")
_MAX_WRITE = 1 << 20
_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22
_DIRECT_IO = 1


class Server:
    """Answers the kernel's FUSE requests for a file of `size` bytes on `device`."""

    def __init__(self, descriptor: int, size: int, device: Card | Controller) -> None:
        self.descriptor, self.device = descriptor, device
        self.content = bytearray(size)
        self.free_at = 0.0

    def serve(self) -> None:
        """Serve until standard input ends or the file is unmounted."""
        while True:
            ready, _, _ = select.select([self.descriptor, sys.stdin], [], [])
            if sys.stdin in ready and not sys.stdin.buffer.raw.read(1):
                return
            if self.descriptor in ready:
                try:
                    message = os.read(self.descriptor, _MAX_WRITE + 4096)
                except OSError as error:
                    if error.errno == errno.ENODEV:
                        return
                    if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                        continue
                    raise
                self._answer(message)

    def _answer(self, message: bytes) -> None:
        _, code, unique, *_ = _HEADER.unpack_from(message)
        if code in _UNANSWERED:
            return
        begun = time.monotonic()
        status, data, seconds = self._done(code, message[_HEADER.size :])
        # Never answer early. Time that was overslept is not deducted from the next command.
        while (left := begun + seconds - time.monotonic()) > 0:
            time.sleep(left)
        os.writev(self.descriptor, [struct.pack("<IiQ", 16 + len(data), -status, unique), data])

    def _done(self, code: int, body: bytes) -> tuple[int, bytes, float]:
        """Carry out a request; return error, answer, and the card's time in seconds."""
        if code == _INIT:
            flags = _BIG_WRITES | _MAX_PAGES
            return 0, struct.pack("<IIIIHHIIHHI7I", 7, 31, 131072, flags, 1, 1, _MAX_WRITE, 1, 256, 0, 0, *[0] * 7), 0.0
        if code in (_GETATTR, _SETATTR):
            size = len(self.content)
            attributes = struct.pack("<6Q10I", 1, size, size // 512, 0, 0, 0, 0, 0, 0, 0o100600, 1, 0, 0, 0, 4096, 0)
            return 0, struct.pack("<QII", 3600, 0, 0) + attributes, 0.0
        if code == _OPEN:
            return 0, struct.pack("<QII", 1, _DIRECT_IO, 0), 0.0
        if code == _STATFS:
            return 0, struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0), 0.0
        if code == _READ:
            offset, length = struct.unpack_from("<8xQI", body)
            data = bytes(self.content[offset : offset + length])
            return 0, data, self.device.read(offset, len(data)) if data else 0.0
        if code == _WRITE:
            offset, length = struct.unpack_from("<8xQI", body)
            if offset + length > len(self.content):
                return errno.ENOSPC, b"", 0.0
            self.content[offset : offset + length] = body[40 : 40 + length]
            return 0, struct.pack("<II", length, 0), self.device.write(offset, length)
        if code == _FSYNC:
            return 0, b"", COMMAND_S
        return (0, b"", 0.0) if code in (_RELEASE, _FLUSH, _DESTROY) else (errno.ENOSYS, b"", 0.0)


def main() -> None:
    """Serve the card until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path, help="file to make")
    parser.add_argument("--mib", type=int, default=64, help="size of the card (default: 64 MiB)")
    parser.add_argument("--log-structured", action="store_true", help="with the virtual controller in front")
    options = parser.parse_args()
    size = options.mib << 20
    options.file.touch(exist_ok=False)
    descriptor = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    given = f"fd={descriptor},rootmode=100000,user_id=0,group_id=0,allow_other,max_read={_MAX_WRITE}".encode()
    try:
        if libc.mount(b"card", bytes(options.file), b"fuse.card", 0, given):
            sys.exit(f"{options.file}: cannot be mounted: {os.strerror(ctypes.get_errno())}")
        print("ready", flush=True)
        try:
            device = Controller(size // PAGE_BYTES) if options.log_structured else Card()
            Server(descriptor, size, device).serve()
        finally:
            libc.umount2(bytes(options.file), 2)
    finally:
        options.file.unlink()


if __name__ == "__main__":
    main()
