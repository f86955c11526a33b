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
import zlib
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
        self._file = _Bounded(file, most_bytes)
        self._tar = tarfile.TarFile(fileobj=self._file, tarinfo=_Member)
        self._headers, self._begin, self._most = b"", 0, tarfile.BLOCKSIZE if most_bytes is not None else PIECE_BYTES

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        last, member = -1, self._tar.next()
        while member is not None:
            self._tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every member
            if member.offset <= last:
                raise tarfile.ReadError("a negative size")
            last = member.offset
            yield member
            member = self._plain() or self._tar.next()

    def _plain(self) -> tarfile.TarInfo | None:
        """Return the next member if its header is plain; tarfile takes five times as long."""
        begin = self._tar.offset
        member = None if self._tar.pax_headers else _plain(self._header(begin), self._tar.encoding, self._tar.errors)
        if member is None:
            self._file.seek(0)  # tarfile checks that the file reaches to a header if it has to seek to it
        else:
            member.offset, member.offset_data = begin, begin + tarfile.BLOCKSIZE
            size = member.size if member.isreg() else 0
            self._tar.offset = member.offset_data + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        return member

    def _header(self, begin: int) -> bytes:
        """Return a header. The more headers follow one another without contents, the more are read at once."""
        at = begin - self._begin
        if not 0 <= at <= len(self._headers) - tarfile.BLOCKSIZE:
            size = min(2 * len(self._headers), self._most) if at == len(self._headers) else tarfile.BLOCKSIZE
            self._file.seek(begin)
            self._headers, self._begin, at = self._file.read(size), begin, 0
        return self._headers[at : at + tarfile.BLOCKSIZE]

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
        return _plain(buf, encoding, errors) or super().frombuf(buf, encoding, errors)


def _plain(header: bytes | bytearray, encoding: str, errors: str) -> _Member | None:
    """Return a file or directory whose name and size are in this header; None if there is more to it."""
    size, checksum = header[124:135], header[148:154]
    is_plain = len(header) == tarfile.BLOCKSIZE and header[156] in b"05" and not header[345] and size.isdigit()
    if not is_plain or not checksum.isdigit() or not _fits(header, int(checksum, 8)):
        return None
    name = header[:100].split(b"\0", 1)[0].decode(encoding, errors)
    member = _Member(name.rstrip("/") if header[156:157] == tarfile.DIRTYPE else name)
    member.type = bytes(header[156:157])
    member.size = int(size, 8)
    return member


def _fits(header: bytes | bytearray, checksum: int) -> bool:
    """Return whether the sum of a header's bytes, with spaces in the checksum field, is this (POSIX, ustar).

    The low half of Adler-32 is the sum of the bytes plus one, modulo 65521 (RFC 1950), and faster than `sum`.
    """
    whole = checksum - 8 * ord(" ") + sum(header[148:156])
    return (zlib.adler32(header) & 0xFFFF) == (whole + 1) % _ADLER


_ADLER = 65521


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
