"""Detect the compression of a file, and decompress everything before the end or the first damage.

Text in UTF-16, which `>` of PowerShell writes, is treated as a compression: every reader of text gets UTF-8. Without a
byte-order mark, it is recognised by the zero bytes of its first characters.
"""

from __future__ import annotations

import codecs
import functools
import io
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from androstep_analysis.common.errors import InputError, Loss, printable

_STEP = 1 << 18
_FIRST_STEP = 1 << 10
"""The bytes that are read first of a member, because a file of 2 MB may consist of 100,000 members."""
_SMALL_BYTES = 1 << 30


class Bytes(Protocol):
    """Random access to bytes, such as `source.Source`. `name` is where they are, safe to print."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes: ...


class Stream(Protocol):
    """A decompressor. `read` returns at most `size` bytes, and none at the end.

    It raises an error of `DAMAGE` at damage.
    """

    def read(self, size: int, /) -> bytes: ...


DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)


def drain(
    name: str, method: str, open_stream: Callable[[], Stream], write: Callable[[bytes], object], limit: int
) -> tuple[Loss, ...]:
    """Write all that a stream yields before its end or its damage, and return the damage as a `Loss`.

    Raises
    ------
    InputError
        If there are more than `limit` bytes.
    """
    done = 0
    stream = None
    while True:
        try:
            stream = stream or open_stream()
            piece = stream.read(_STEP)
        except DAMAGE as damage:
            error = damage
            break
        if not piece:
            return ()
        done += len(piece)
        if done > limit:
            raise InputError(
                f"{name}: more than {limit >> 20} MiB when decompressed, the limit for this disk; "
                "split it, or set TMPDIR to a larger disk"
            )
        write(piece)
    # The call that failed lost the bytes that it had already decompressed. Repeat it byte by byte to recover them.
    total = done
    with suppress(*DAMAGE):
        stream = open_stream()
        again = 0
        while again < done:
            again += len(stream.read(min(_STEP, done - again)))
        while piece := stream.read(1):
            write(piece)
            total += len(piece)
    is_truncated = isinstance(error, EOFError) or "Truncated" in str(error)
    what = "is truncated" if is_truncated else f"is damaged ({printable(str(error))})"
    message = f"the {method} stream {what} after {total} decompressed bytes; the rest is lost"
    return (Loss("torn" if is_truncated else "unreadable", 1, message),)


def drained(name: str, method: str, open_stream: Callable[[], Stream]) -> tuple[bytes, tuple[Loss, ...]]:
    """Return the decompressed bytes in memory, for small inputs, and the loss."""
    pieces = io.BytesIO()
    losses = drain(name, method, open_stream, pieces.write, _SMALL_BYTES)
    return pieces.getvalue(), losses


class _Memory:
    """Bytes in memory."""

    name = ""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]


def _pieces(data: Bytes, start: int = 0) -> Iterator[bytes]:
    """Yield the bytes from `start` on."""
    while piece := data.read(start, _STEP):
        yield piece
        start += len(piece)


class Readable(io.RawIOBase):
    """Bytes as a file object, for libraries that need one."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = max(
            0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._data.size}[whence]
        )
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        piece = self._data.read(self._position, self._data.size if size is None or size < 0 else size)
        self._position += len(piece)
        return piece


class Deflate:
    """A zlib (`wbits` 15) or raw deflate (-15) stream at `start` of `data`."""

    def __init__(self, data: Bytes | bytes | memoryview, wbits: int, start: int = 0) -> None:
        self._data: Bytes = _Memory(bytes(data)) if isinstance(data, bytes | memoryview) else data
        self._position = start
        self._step = _FIRST_STEP
        self._inflate = zlib.decompressobj(wbits)

    @property
    def end(self) -> int:
        """The offset of the end of the stream in the data, once it has been read."""
        return self._position - len(self._inflate.unused_data)

    def read(self, size: int) -> bytes:
        while not self._inflate.eof:
            piece = self._inflate.decompress(self._input(), size)
            if piece:
                return piece
            if not self._inflate.eof and self._position >= self._data.size:
                raise EOFError
        return b""

    def _input(self) -> bytes:
        if self._inflate.unconsumed_tail:
            return self._inflate.unconsumed_tail
        data = self._data.read(self._position, self._step)
        self._step = min(2 * self._step, _STEP)
        self._position += len(data)
        return data


class _Gzip:
    """All members of a gzip file (RFC 1952).

    Header and checksum are read here, because zlib would withhold the last byte of a member with a wrong checksum.
    """

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._crc = 0
        self._open(0)

    def read(self, size: int) -> bytes:
        while True:
            if piece := self._deflate.read(size):
                self._crc = zlib.crc32(piece, self._crc)
                return piece
            end = self._deflate.end
            trailer = self._data.read(end, 10)
            if len(trailer) < 8:
                raise EOFError
            if int.from_bytes(trailer[:4], "little") != self._crc:
                raise OSError("its checksum is wrong")
            if trailer[8:] != b"\x1f\x8b":
                if any(any(piece) for piece in _pieces(self._data, end + 8)):  # zeros are padding
                    raise OSError("other bytes follow it")
                return b""
            self._open(end + 8)

    def _open(self, start: int) -> None:
        """Go to the deflate stream of the member at `start`, after its optional fields (RFC 1952, 2.3)."""
        header = self._data.read(start, 10)
        if len(header) < 10:
            raise EOFError
        flags, position = header[3], 10
        if flags & 28:
            header = self._data.read(start, 1 << 17)
        if flags & 4:  # FEXTRA
            position += 2 + int.from_bytes(header[position : position + 2], "little")
        for flag in (8, 16):  # FNAME, FCOMMENT
            if flags & flag:
                position = header.find(b"\0", position) + 1
                if not position:
                    raise EOFError
        if flags & 2:  # FHCRC
            position += 2
        self._deflate = Deflate(self._data, -15, start + position)
        self._crc = 0


class _Xz:
    """All xz streams of `data`. The .xz format allows several, with zero padding between them."""

    def __init__(self, data: Bytes) -> None:
        self._pieces = _pieces(data)
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)

    def read(self, size: int) -> bytes:
        while True:
            while not self._decoder.eof:
                more = next(self._pieces, b"") if self._decoder.needs_input else b""
                if self._decoder.needs_input and not more:
                    raise EOFError
                if piece := self._decoder.decompress(more, size):
                    return piece
            rest = self._decoder.unused_data.lstrip(b"\0")
            while not rest:
                more = next(self._pieces, b"")
                if not more:
                    return b""
                rest = more.lstrip(b"\0")
            self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            if piece := self._decoder.decompress(rest, size):
                return piece


def _zstd(data: Bytes) -> Stream:
    return pa.CompressedInputStream(pa.PythonFile(Readable(data), mode="r"), "zstd")


class _Utf16:
    """Text in UTF-16, converted to UTF-8 with plain line ends. `codec` states the byte order, unless a mark does."""

    def __init__(self, data: Bytes, codec: str = "utf-16") -> None:
        self._pieces = _pieces(data)
        decoder = codecs.getincrementaldecoder(codec)("replace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._ready = b""

    def read(self, size: int) -> bytes:
        while not self._ready:
            piece = next(self._pieces, b"")
            self._ready = self._decoder.decode(piece, final=not piece).encode()
            if not piece:
                break
        ready, self._ready = self._ready[:size], self._ready[size:]
        return ready


@dataclass(frozen=True)
class Packed:
    """The compression of some bytes, with the losses and the checksum (CRC-32) that the archive states."""

    method: str
    open_stream: Callable[[], Stream]
    losses: tuple[Loss, ...] = ()
    crc: int | None = None


def packed(raw: Bytes) -> Packed | None:
    """Return the compression of the bytes, or None."""
    magic = raw.read(0, 6)
    for start, method, stream in _METHODS:
        if magic.startswith(start):
            return Packed(method, functools.partial(stream, raw))
    if magic.startswith(b"PK\x03\x04"):
        return _zipped(raw)
    first = raw.read(0, _FIRST_BYTES)
    codec = next((codec for codec, pattern in _UNMARKED.items() if pattern.fullmatch(first)), None)
    return None if codec is None else Packed("UTF-16", functools.partial(_Utf16, raw, codec))


_FIRST_BYTES = 64
_UNMARKED = {
    "utf-16-le": re.compile(rb"(?:[\t\r\n -~]\0){8,}"),
    "utf-16-be": re.compile(rb"(?:\0[\t\r\n -~]){8,}"),
}
"""The first bytes of text in UTF-16 without a byte-order mark."""


_METHODS: tuple[tuple[bytes, str, Callable[[Bytes], Stream]], ...] = (
    (b"\x1f\x8b", "gzip", _Gzip),
    (b"\xfd7zXZ\x00", "xz", _Xz),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
    (codecs.BOM_UTF16_LE, "UTF-16", _Utf16),
    (codecs.BOM_UTF16_BE, "UTF-16", _Utf16),
)


@dataclass(frozen=True)
class ZipMember:
    """A file in a zip archive: the offset of its header, and its entry in the central directory if there is one."""

    header: int
    crc: int = 0
    is_encrypted: bool = False
    packed_bytes: int | None = None


def zip_members(raw: Bytes) -> dict[str, ZipMember] | None:
    """Return the files in a zip archive by name; None if it is not a zip archive, or has lost its central directory.

    Raises
    ------
    InputError
        If files overlap: some kilobytes can then unpack to any size.
    """
    try:
        with zipfile.ZipFile(Readable(raw)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise InputError(f"{raw.name}: files in the zip archive overlap, as only in a forged one; do not use it")
        end = member.header_offset + 30 + member.compress_size
    return {
        member.filename: ZipMember(member.header_offset, member.CRC, bool(member.flag_bits & 1), member.compress_size)
        for member in members
        if not member.is_dir() and not member.filename.startswith("__MACOSX/")
    }


def zipped(raw: Bytes, member: ZipMember, losses: tuple[Loss, ...] = ()) -> Packed:
    """Return the compression of a file in a zip archive.

    Raises
    ------
    InputError
        If the compression is not supported.
    """
    header = raw.read(member.header, 30)
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise InputError(f"{raw.name}: the zip archive is truncated before its first file; fetch it again")
    flags, compression = struct.unpack_from("<HH", header, 6)
    (size,) = struct.unpack_from("<I", header, 18)
    name_bytes, extra_bytes = struct.unpack_from("<HH", header, 26)
    start = member.header + 30 + name_bytes + extra_bytes
    is_streamed = flags & 8 and member.packed_bytes is None
    size = size if member.packed_bytes is None else member.packed_bytes
    is_plain = compression == zipfile.ZIP_STORED and not is_streamed
    if member.is_encrypted or flags & 1 or not (is_plain or compression == zipfile.ZIP_DEFLATED):
        raise InputError(f"{raw.name}: the file in the zip archive is encrypted or not deflated; unpack it")
    crc = member.crc if not losses else None
    if is_plain:
        return Packed("zip", lambda: _Stored(raw, start, size), losses, crc)
    return Packed("zip", lambda: Deflate(raw, -15, start), losses, crc)


def _zipped(raw: Bytes) -> Packed | None:
    """Return the compression of the only file in a zip archive; None if there are several (`archive.Archive`).

    A truncated archive has lost its central directory, which is at the end. Its first file still follows the local
    header at the start (PKWARE APPNOTE 4.3.7).
    """
    members = zip_members(raw)
    if members is None:
        truncation = Loss("torn", 1, "the zip archive is truncated after its first file; more files may be lost")
        return zipped(raw, ZipMember(0), (truncation,))
    if not members:
        raise InputError(f"{raw.name}: this zip archive has no files; open the recording itself")
    return zipped(raw, next(iter(members.values()))) if len(members) == 1 else None


class _Stored:
    """Bytes of a zip archive that are not compressed."""

    def __init__(self, data: Bytes, start: int, size: int) -> None:
        self._data, self._position, self._end = data, start, start + size

    def read(self, size: int) -> bytes:
        piece = self._data.read(self._position, min(size, self._end - self._position))
        if not piece and self._position < self._end:
            raise EOFError
        self._position += len(piece)
        return piece
