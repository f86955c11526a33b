"""Tar archives that anyone may have made, read in bounded memory by Python's tarfile.

What a member is called, and how long that is, stands in headers that tarfile reads as a whole, and it keeps what it
read of every member. Sizes may be less than nothing, which leads it back to members that it has had.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Iterator
from typing import IO, Protocol

PIECE_BYTES = 1 << 16
"""How much of a member may be read at once."""

_MOST_READ_BYTES = 1 << 17
_PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


class Seekable(Protocol):
    """As much of a file as is needed of one."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = ..., /) -> int: ...

    def tell(self) -> int: ...


def plain(file: io.BufferedReader) -> io.BufferedIOBase:
    """The file without its compression by gzip, bzip2 or xz, which its first bytes tell."""
    magic = file.peek(6)
    return next((open_one(file) for start, open_one in _PACKED if magic.startswith(start)), file)


class Tar:
    """An archive, without compression, of which at most `most_bytes` are read.

    It raises what tarfile does, which may be any exception where the archive is damaged.
    """

    def __init__(self, file: Seekable, most_bytes: int | None = None) -> None:
        self._tar = tarfile.TarFile(fileobj=_Bounded(file, most_bytes), tarinfo=_Member)

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        last = -1
        while (member := self._tar.next()) is not None:
            self._tar.members.clear()  # type: ignore[attr-defined]  # of which it keeps all
            if member.offset <= last:
                raise tarfile.ReadError("a size less than nothing")
            last = member.offset
            yield member

    def content(self, member: tarfile.TarInfo) -> IO[bytes]:
        """A regular file, to be read by `PIECE_BYTES` at most before the next member is asked for."""
        content = self._tar.extractfile(member)
        assert content is not None
        return content


class _Member(tarfile.TarInfo):
    """A member of which only name, type and size are read, where its header has no more that matters.

    tarfile takes three times as long for a header, most of it for owners, times and a second kind of checksum.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        size, checksum = buf[124:135], buf[148:154]
        is_plain = len(buf) == tarfile.BLOCKSIZE and buf[156] in b"05" and not buf[345] and size.isdigit()
        if not is_plain or not checksum.isdigit() or int(checksum, 8) != _checksum(buf):
            return super().frombuf(buf, encoding, errors)
        name = buf[:100].split(b"\0", 1)[0].decode(encoding, errors)
        member = cls(name.rstrip("/") if buf[156:157] == tarfile.DIRTYPE else name)
        member.type = bytes(buf[156:157])
        member.size = int(size, 8)
        return member


def _checksum(header: bytes | bytearray) -> int:
    """Return the sum of a header's bytes, with spaces in place of the sum (POSIX, ustar)."""
    return sum(header) - sum(header[148:156]) + 8 * ord(" ")


class _Bounded(io.RawIOBase):
    def __init__(self, file: Seekable, most_bytes: int | None) -> None:
        self._file, self._most_bytes, self._done = file, most_bytes, 0

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _MOST_READ_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        read = self._file.read(size)
        self._done += len(read)
        if self._most_bytes is not None and self._done > self._most_bytes:
            raise tarfile.ReadError(f"more than {self._most_bytes} bytes")
        return read

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()
