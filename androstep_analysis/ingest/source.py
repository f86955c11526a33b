"""Reading one input whole, through whatever compression it comes in."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from androstep_analysis.errors import InputError, Loss

HEAD_BYTES = 1 << 16
"""What a format may look at to recognise itself."""

LIMIT_BYTES = 4 << 30
"""Inputs that are larger than this once decompressed are refused: a reader holds the whole input in memory, and a
few kilobytes of compressed zeros must not be able to take all of it."""

_STEP = 1 << 16
_PEEKED_BYTES = 1 << 18
"""More than a compressed block of any of the methods (zstd's are the largest: 128 KiB)."""


@dataclass(frozen=True)
class Source:
    """One input, decompressed.

    `losses` is what decompression had to give up. A format that is a set of files (blktrace writes one per CPU)
    finds the other members beside `path` and loads each with `load`.
    """

    path: Path
    data: bytes
    losses: tuple[Loss, ...] = ()

    @property
    def name(self) -> str:
        """The path, safe to print."""
        return printable(str(self.path))

    @property
    def head(self) -> bytes:
        """The first `HEAD_BYTES` of the data, which `sniff` functions get."""
        return self.data[:HEAD_BYTES]


def load(path: Path) -> Source:
    """The contents of file `path`: plain, gzip, xz, zstd, or a zip archive with one file in it.

    The compression is told by the first bytes, not by the name. A compressed stream that is cut short or damaged
    gives everything before the damage and a `Loss`. Raises `InputError` for what is no readable file, for archives
    of several files and for more than `LIMIT_BYTES`.
    """
    name = printable(str(path))
    if not path.exists():
        raise InputError(f"{name}: there is no such file")
    if not path.is_file():
        raise InputError(f"{name}: a file was expected, and this is none; name one of the files in it")
    if path.stat().st_size > LIMIT_BYTES:
        raise _too_large(name)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    for magic, method, decompress in _METHODS:
        if raw.startswith(magic):
            data, loss = decompress(name, method, raw)
            return Source(path, data, loss)
    return Source(path, raw)


def head(path: Path) -> bytes:
    """What `load(path).head` will be, or its beginning, from the first `_PEEKED_BYTES` of the file.

    Nothing where the file cannot be read: that is for `load` to say.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_PEEKED_BYTES)
        for magic, method, decompress in _METHODS:
            if raw.startswith(magic):
                return decompress(str(path), method, raw)[0][:HEAD_BYTES]
    except (OSError, InputError):
        return b""
    return raw[:HEAD_BYTES]


def printable(text: str) -> str:
    """`text` with everything that could move a terminal's cursor or hide in a message written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# --- compression -------------------------------------------------------------------------------------------------


class Stream(Protocol):
    """A decompressor at work: at most `size` more bytes; none at the end; an error of `_DAMAGE` where it breaks."""

    def read(self, size: int, /) -> bytes: ...


_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)


def drain(name: str, method: str, open_stream: Callable[[], Stream]) -> tuple[bytes, tuple[Loss, ...]]:
    """Everything a stream gives before its end or its damage, and the damage as a `Loss`."""
    pieces: list[bytes] = []
    done = 0
    try:
        stream = open_stream()
        while piece := stream.read(_STEP):
            pieces.append(piece)
            done += len(piece)
            if done > LIMIT_BYTES:
                raise _too_large(name)
        return b"".join(pieces), ()
    except _DAMAGE as damage:
        error = damage
    # The call that met the damage kept what it had already made to itself: go there again, byte by byte.
    with suppress(*_DAMAGE):
        stream = open_stream()
        again = 0
        while again < done:
            again += len(stream.read(min(_STEP, done - again)))
        while piece := stream.read(1):
            pieces.append(piece)
    data = b"".join(pieces)
    cut = isinstance(error, EOFError) or "Truncated" in str(error)
    what = "is cut short" if cut else f"is damaged ({printable(str(error))})"
    message = f"the {method} stream {what} after {len(data)} decompressed bytes; what comes later is lost"
    return data, (Loss("torn" if cut else "unreadable", 1, message),)


class Deflate:
    """A zlib (`wbits` 15) or raw deflate (-15) stream at the start of `data` as a `Stream`."""

    def __init__(self, data: bytes | memoryview, wbits: int) -> None:
        self._data = memoryview(data)
        self._place = 0
        self._inflate = zlib.decompressobj(wbits)

    @property
    def end(self) -> int:
        """Where in `data` the stream ends, once it has been read."""
        return self._place - len(self._inflate.unused_data)

    def read(self, size: int) -> bytes:
        while not self._inflate.eof:
            piece = self._inflate.decompress(self._input(), size)
            if piece:
                return piece
            if not self._inflate.eof and self._place >= len(self._data):
                raise EOFError
        return b""

    def _input(self) -> bytes | memoryview:
        if self._inflate.unconsumed_tail:
            return self._inflate.unconsumed_tail
        start = self._place
        self._place = min(start + _STEP, len(self._data))
        return self._data[start : self._place]


class _Gzip:
    """All members of a gzip file as a `Stream` (RFC 1952).

    Header and checksum are read here: zlib would keep the last byte of a member with a wrong checksum to itself.
    """

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._crc = 0
        self._open(0)

    def read(self, size: int) -> bytes:
        while True:
            if piece := self._deflate.read(size):
                self._crc = zlib.crc32(piece, self._crc)
                return piece
            end = self._start + self._deflate.end
            trailer = self._data[end : end + 8]
            if len(trailer) < 8:
                raise EOFError
            if int.from_bytes(trailer[:4], "little") != self._crc:
                raise OSError("its checksum does not fit")
            if bytes(self._data[end + 8 : end + 10]) != b"\x1f\x8b":
                if any(self._data[end + 8 :]):  # zeros are padding
                    raise OSError("other bytes follow it")
                return b""
            self._open(end + 8)

    def _open(self, start: int) -> None:
        """Goes to the deflate stream of the member at `start`, behind its optional fields (RFC 1952, 2.3)."""
        header = bytes(self._data[start : start + _STEP])
        if len(header) < 10:
            raise EOFError
        flags, place = header[3], 10
        if flags & 4:  # FEXTRA
            place += 2 + int.from_bytes(header[place : place + 2], "little")
        for flag in (8, 16):  # FNAME, FCOMMENT
            if flags & flag:
                place = header.find(b"\0", place) + 1
                if not place:
                    raise EOFError
        if flags & 2:  # FHCRC
            place += 2
        self._start = start + place
        self._deflate = Deflate(self._data[self._start :], -15)
        self._crc = 0


class _Xz:
    """All xz streams of `data` as a `Stream` (the .xz format allows several, with zero padding between them)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        self._rest = data

    def read(self, size: int) -> bytes:
        while True:
            while not self._decoder.eof:
                piece = self._decoder.decompress(self._rest, size)
                self._rest = b""
                if piece:
                    return piece
                if self._decoder.needs_input and not self._decoder.eof:
                    raise EOFError
            self._rest = self._decoder.unused_data.lstrip(b"\0")
            if not self._rest:
                return b""
            self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)


def _gunzip(name: str, method: str, raw: bytes) -> tuple[bytes, tuple[Loss, ...]]:
    return drain(name, method, lambda: _Gzip(raw))


def _unxz(name: str, method: str, raw: bytes) -> tuple[bytes, tuple[Loss, ...]]:
    return drain(name, method, lambda: _Xz(raw))


def _unzstd(name: str, method: str, raw: bytes) -> tuple[bytes, tuple[Loss, ...]]:
    return drain(name, method, lambda: pa.CompressedInputStream(pa.BufferReader(raw), "zstd"))


def _unzip(name: str, method: str, raw: bytes) -> tuple[bytes, tuple[Loss, ...]]:
    """The one file of a zip archive.

    An archive that was cut short has lost its directory, which stands at the end; its first file still follows the
    local header at the start (PKWARE APPNOTE 4.3.7).
    """
    offset, intact = 0, True
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            files = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
        if len(files) != 1:
            raise InputError(f"{name}: a zip archive with one file was expected, and this has {len(files)}; unpack it")
        offset = files[0].header_offset
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        if isinstance(error, InputError):
            raise
        intact = False
    header = raw[offset : offset + 30]
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise InputError(f"{name}: the zip archive is cut short before its first file; fetch it again")
    flags, compression = struct.unpack_from("<HH", header, 6)
    name_bytes, extra_bytes = struct.unpack_from("<HH", header, 26)
    if flags & 1 or compression != zipfile.ZIP_DEFLATED:
        raise InputError(f"{name}: the file in the zip archive is encrypted or not deflated; unpack it")
    body = raw[offset + 30 + name_bytes + extra_bytes :]
    data, losses = drain(name, method, lambda: Deflate(body, -15))
    if intact and not losses and zlib.crc32(data) != files[0].CRC:
        losses = (Loss("unreadable", 1, "the file in the zip archive is damaged: its checksum does not fit"),)
    if not intact and not losses:
        losses = (Loss("torn", 1, "the zip archive is cut short after its first file; more files may be lost"),)
    return data, losses


def _too_large(name: str) -> InputError:
    return InputError(
        f"{name}: more than {LIMIT_BYTES >> 30} GiB once decompressed, which is the limit; cut it into parts"
    )


_METHODS: tuple[tuple[bytes, str, Callable[[str, str, bytes], tuple[bytes, tuple[Loss, ...]]]], ...] = (
    (b"\x1f\x8b", "gzip", _gunzip),
    (b"\xfd7zXZ\x00", "xz", _unxz),
    (b"\x28\xb5\x2f\xfd", "zstd", _unzstd),
    (b"PK\x03\x04", "zip", _unzip),
)
