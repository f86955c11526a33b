"""Read untrusted tar archives with Python's tarfile, in bounded memory and time.

tarfile itself has no such bounds:

- It reads headers with long names as a whole, however large they claim to be.
- It keeps the headers of all members in memory.
- It accepts negative sizes, which lead it back to members that it has already read.
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
"""Maximum size of one read from a member."""

_MOST_READ_BYTES = 1 << 17
_PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


class Seekable(Protocol):
    """The methods of a file object that `Tar` uses."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = ..., /) -> int: ...

    def tell(self) -> int: ...


def plain(file: io.BufferedReader) -> io.BufferedIOBase:
    """Return the file decompressed, if its first bytes identify it as gzip, bzip2 or xz."""
    magic = file.peek(6)
    return next((open_one(file) for start, open_one in _PACKED if magic.startswith(start)), file)


class Tar:
    """An uncompressed archive, read up to `most_bytes`.

    Iterating yields its members. A damaged archive may raise any exception, as with tarfile.
    """

    def __init__(self, file: Seekable, most_bytes: int | None = None) -> None:
        self._tar = tarfile.TarFile(fileobj=_Bounded(file, most_bytes), tarinfo=_Member)

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        last = -1
        while (member := self._tar.next()) is not None:
            self._tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every member
            if member.offset <= last:
                raise tarfile.ReadError("a negative size")
            last = member.offset
            yield member

    def content(self, member: tarfile.TarInfo) -> IO[bytes]:
        """Open a regular file for reads of at most `PIECE_BYTES`. It is valid until the next member is read."""
        content = self._tar.extractfile(member)
        assert content is not None
        return content


class _Member(tarfile.TarInfo):
    """A member with only name, type and size parsed, unless its header needs tarfile's full parser.

    The full parser takes three times as long, mostly for owners, times and a second kind of checksum.
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
    """Return the sum of a header's bytes, with spaces in the checksum field (POSIX, ustar)."""
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
