"""Read the directory entries of FAT and exFAT.

Names are the same as on Linux. A long name is used if its parts are in order and its checksum matches the short name
that follows. Otherwise the short name is used, in lower case if its flags say so. FAT does not record the code page of
short names, so that they are read as code page 437, the kernel's default. Invalid UTF-16 becomes ``\\xNN``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from androstep_analysis.fs.fat.layout import ENTRY_BYTES

_DELETED, _ESCAPED_E5 = 0xE5, 0x05
_VOLUME, _DIRECTORY, _LONG_NAME = 0x08, 0x10, 0x0F
_LAST_LONG_ENTRY = 0x40
_MAX_LONG_ENTRIES = 20
_LOWER_BASE, _LOWER_EXTENSION = 0x08, 0x10

_BITMAP, _UPCASE, _FILE, _STREAM, _NAME = 0x81, 0x82, 0x85, 0xC0, 0xC1
_NO_FAT_CHAIN = 0x2
_QUARTER_HOUR_NS = 15 * 60 * 10**9
_DAY_SECONDS = 86400
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Entry:
    """A file, a directory, or a table that exFAT stores like a file (`kind` bitmap, upcase).

    `at` is the offset of the entry in the directory. Only the first `valid_bytes` of `size_bytes` were written.
    """

    kind: str
    at: int
    name: str
    first_cluster: int
    size_bytes: int
    valid_bytes: int
    is_contiguous: bool = False
    created_ns: int | None = None


def fat_entries(raw: bytes, is_fat32: bool) -> tuple[list[Entry], int]:
    """Return the entries of a FAT directory, and the number of invalid long names."""
    entries = []
    broken = 0
    long_name = _LongName()
    for at in range(0, len(raw) - ENTRY_BYTES + 1, ENTRY_BYTES):
        first = raw[at]
        if first == 0:
            break
        attributes = raw[at + 11]
        if first == _DELETED:
            long_name = _LongName()
            continue
        if attributes & 0x3F == _LONG_NAME:
            long_name.add(raw[at : at + ENTRY_BYTES])
            continue
        name = long_name.of(raw[at : at + 11])
        broken += long_name.has_parts and name is None
        long_name = _LongName()
        if attributes & _VOLUME or raw[at : at + 11] in (b".          ", b"..         "):
            continue
        high, low, size = struct.unpack_from("<H4xHI", raw, at + 20)
        is_directory = bool(attributes & _DIRECTORY)
        cluster = low | high << 16 if is_fat32 else low
        name = name or _short_name(raw[at : at + 11], raw[at + 12])
        size = 0 if is_directory else size
        entries.append(Entry("directory" if is_directory else "file", at, name, cluster, size, size))
    return entries, broken


class _LongName:
    """The parts of a long name, which precede the short name, the last part first."""

    def __init__(self) -> None:
        self.has_parts = False
        self._left = 0
        self._checksum = -1
        self._parts: list[bytes] = []

    def add(self, raw: bytes) -> None:
        """Add one part."""
        number = raw[0] & ~_LAST_LONG_ENTRY
        if raw[0] & _LAST_LONG_ENTRY:
            self._left, self._checksum, self._parts = number, raw[13], []
        elif number != self._left or raw[13] != self._checksum:
            self._left = -1
        if not 0 < self._left <= _MAX_LONG_ENTRIES:
            self._left = -1
        self.has_parts = True
        self._left -= 1
        self._parts.insert(0, raw[1:11] + raw[14:26] + raw[28:32])

    def of(self, short: bytes) -> str | None:
        """Return the name if it is complete and belongs to the short name."""
        if not self.has_parts or self._left != 0 or self._checksum != _checksum_of(short):
            return None
        return _text(b"".join(self._parts)) or None


def _checksum_of(short: bytes) -> int:
    total = 0
    for byte in short:
        total = ((total & 1) << 7) + (total >> 1) + byte & 0xFF
    return total


def _text(raw: bytes) -> str:
    """Decode UTF-16 up to a zero character."""
    for at in range(0, len(raw) - 1, 2):
        if raw[at : at + 2] == b"\0\0":
            raw = raw[:at]
            break
    return raw.decode("utf-16-le", "backslashreplace")


def _short_name(raw: bytes, flags: int) -> str:
    if raw[0] == _ESCAPED_E5:
        raw = bytes([_DELETED]) + raw[1:]
    base, extension = (part.rstrip(b" ").decode("cp437") for part in (raw[:8], raw[8:]))
    base = base.lower() if flags & _LOWER_BASE else base
    extension = extension.lower() if flags & _LOWER_EXTENSION else extension
    return f"{base}.{extension}" if extension else base


def exfat_entries(raw: bytes) -> tuple[list[Entry], int]:
    """Return the entries of an exFAT directory, and the number of damaged entry sets.

    A set with a wrong checksum is still used if its fields are plausible, as on Linux.
    """
    entries = []
    broken = 0
    at = 0
    while at + ENTRY_BYTES <= len(raw) and raw[at]:
        kind = raw[at]
        length = ENTRY_BYTES
        if kind in (_BITMAP, _UPCASE):
            cluster, size = struct.unpack_from("<IQ", raw, at + 20)
            if kind == _UPCASE or not raw[at + 1] & 1:  # the second bitmap belongs to the second table
                entries.append(Entry("bitmap" if kind == _BITMAP else "upcase", at, "", cluster, size, size))
        elif kind == _FILE:
            entry, length, is_sound = _exfat_file(raw, at)
            broken += not is_sound
            if entry is not None:
                entries.append(entry)
        at += length
    return entries, broken


def _exfat_file(raw: bytes, at: int) -> tuple[Entry | None, int, bool]:
    """Return (entry, bytes of the entry set, whether it is intact) of the file at `at`."""
    count = raw[at + 1]
    end = at + (1 + count) * ENTRY_BYTES
    stream = at + ENTRY_BYTES
    if count < 2 or end > len(raw) or raw[stream] != _STREAM:
        return None, ENTRY_BYTES, False
    name_units = raw[stream + 3]
    parts = list(_name_parts(raw, stream + ENTRY_BYTES, end))
    name = b"".join(parts)[: name_units * 2]
    if not name_units or len(name) < name_units * 2:
        return None, ENTRY_BYTES, False
    valid, cluster, size = struct.unpack_from("<Q4xIQ", raw, stream + 8)
    is_directory = struct.unpack_from("<H", raw, at + 4)[0] & _DIRECTORY
    entry = Entry(
        "directory" if is_directory else "file",
        at,
        name.decode("utf-16-le", "backslashreplace"),
        cluster,
        size,
        min(valid, size),
        bool(raw[stream + 1] & _NO_FAT_CHAIN),
        _exfat_time(struct.unpack_from("<I", raw, at + 8)[0], raw[at + 20], raw[at + 22]),
    )
    return entry, end - at, _set_checksum(raw[at:end]) == struct.unpack_from("<H", raw, at + 2)[0]


def _name_parts(raw: bytes, first: int, end: int) -> Iterator[bytes]:
    for at in range(first, end, ENTRY_BYTES):
        if raw[at] != _NAME:
            return
        yield raw[at + 2 : at + ENTRY_BYTES]


def _set_checksum(raw: bytes) -> int:
    total = 0
    for at, byte in enumerate(raw):
        if at not in (2, 3):
            total = ((total & 1) << 15) + (total >> 1) + byte & 0xFFFF
    return total


def _exfat_time(stamp: int, centiseconds: int, zone: int) -> int | None:
    """Return ns since 1970 of a time with its zone; None if the zone is unknown or the date invalid."""
    if not zone & 0x80 or centiseconds > 199:
        return None
    offset = (zone & 0x7F) - (zone & 0x40) * 2
    year, month, day = 1980 + (stamp >> 25), stamp >> 21 & 0xF, stamp >> 16 & 0x1F
    hour, minute, second = stamp >> 11 & 0x1F, stamp >> 5 & 0x3F, (stamp & 0x1F) * 2
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    seconds = days * _DAY_SECONDS + hour * 3600 + minute * 60 + second
    return seconds * 10**9 + centiseconds * 10**7 - offset * _QUARTER_HOUR_NS
