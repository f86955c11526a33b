"""Reading one input piece by piece, through whatever compression and archive it comes in.

Nothing here holds an input in memory. A plain file is read where it lies; a compressed one is decompressed once, into a
temporary file that has no name and is gone with the last `Source` of it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import lzma
import os
import shutil
import struct
import tarfile
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

import pyarrow as pa
from tqdm.auto import tqdm

from androstep_analysis.errors import InputError, Loss

HEAD_BYTES = 1 << 16
"""What a format may look at to recognise itself."""

PIECE_BYTES = 8 << 20
"""What is read at once."""

DATA_BYTES = 1 << 30
"""Largest input that `Source.data` holds in memory as a whole."""

_STEP = 1 << 16
_FREE_SHARE = 2
"""A decompressed input may take one part in so many of the space that is free where temporary files are made: a few
kilobytes of compressed zeros must not be able to fill the disk."""


class Source:
    """One input, decompressed. It may be read from several threads.

    `losses` is what decompression had to give up. A format that is a set of files (blktrace writes one per CPU)
    finds the other members among `beside`, which are in the same directory or, where the input is a member of a tar
    archive, in the same directory of that.
    """

    def __init__(
        self,
        path: Path,
        storage: _Storage,
        start: int,
        size: int,
        losses: tuple[Loss, ...] = (),
        archive: Archive | None = None,
    ) -> None:
        self.path = path
        self.size = size
        self.losses = losses
        self._storage = storage
        self._start = start
        self._archive = archive
        self._advance: Callable[[int], None] | None = None

    @classmethod
    def of(cls, path: Path, data: bytes, losses: tuple[Loss, ...] = ()) -> Source:
        """An input that is in memory already; `path` says where it is from."""
        return cls(path, _Memory(data), 0, len(data), losses)

    @property
    def name(self) -> str:
        """The path, safe to print."""
        return printable(str(self.path))

    @functools.cached_property
    def head(self) -> bytes:
        """The first `HEAD_BYTES`, which `sniff` functions get."""
        return self.read(0, HEAD_BYTES)

    @property
    def data(self) -> bytes:
        """All of it, for formats that are small by nature; `InputError` for more than `DATA_BYTES`."""
        if self.size > DATA_BYTES:
            raise InputError(
                f"{self.name}: {self.size >> 20} MiB, where a file of this format has at most {DATA_BYTES >> 20} MiB; "
                "cut it into parts"
            )
        return self.read(0, self.size)

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on; fewer at the end, none behind it. `InputError` where the medium fails."""
        size = max(0, min(size, self.size - offset))
        try:
            data = self._storage.read(self._start + offset, size)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
        if self._advance is not None:
            self._advance(len(data))
        return data

    def pieces(self, size: int = PIECE_BYTES) -> Iterator[bytes]:
        """All of it, in order, `size` bytes at a time."""
        offset = 0
        while piece := self.read(offset, size):
            yield piece
            offset += len(piece)

    def part(self, start: int, end: int | None = None) -> Source:
        """The bytes from `start` to before `end` as an input of their own, not copied."""
        end = self.size if end is None else min(end, self.size)
        part = Source(self.path, self._storage, self._start + start, max(0, end - start), self.losses, self._archive)
        part._advance = self._advance
        return part

    @contextlib.contextmanager
    def progress(self, doing: str) -> Iterator[None]:
        """Show on a terminal how far reading has come, where it takes long."""
        bar = tqdm(total=self.size, desc=doing, unit="B", unit_scale=True, disable=None, delay=2, leave=False)

        def advance(done: int) -> None:
            bar.update(min(done, self.size - bar.n))  # some formats look at a place twice

        with bar:
            self._advance = advance
            try:
                yield
            finally:
                self._advance = None

    @property
    def beside(self) -> tuple[str, ...]:
        """Names of the files in the directory of this one, itself included, sorted."""
        if self._archive is not None:
            return self._archive.beside(self.path)
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self.path.parent) if entry.is_file()))
        except OSError:
            return (self.path.name,)

    def load_beside(self, name: str) -> Source:
        """The file `name` of `beside`; `InputError` where it cannot be read."""
        return load(self.path.parent / name) if self._archive is None else self._archive.load_beside(self.path, name)


def load(path: Path) -> Source:
    """The contents of file `path`: plain, gzip, xz, zstd, or a zip archive with one file in it.

    The compression is told by the first bytes, not by the name. A compressed stream that is cut short or damaged
    gives everything before the damage and a `Loss`. Raises `InputError` for what is no readable file, for zip archives
    of several files, and for more than the disk has room for.
    """
    return _plain(opened(path))


def opened(path: Path) -> Source:
    """File `path` as it is, compressed or not; `InputError` for what is no readable file."""
    name = printable(str(path))
    if not path.exists():
        raise InputError(f"{name}: there is no such file")
    if not path.is_file():
        raise InputError(f"{name}: a file was expected, and this is none; name one of the files in it")
    try:
        storage = _File(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    return Source(path, storage, 0, storage.size())


def head(path: Path) -> bytes:
    """What `load(path).head` will be, without decompressing all of the file.

    Nothing where the file cannot be read: that is for `load` to say.
    """
    try:
        return _head(opened(path))
    except InputError:
        return b""


def _head(raw: Source) -> bytes:
    """The first `HEAD_BYTES` of a source that may be compressed."""
    packed = _packed(raw)
    if packed is None:
        return raw.head
    found = b""
    with suppress(*_DAMAGE):
        stream = packed.open_stream()
        while len(found) < HEAD_BYTES and (piece := stream.read(HEAD_BYTES - len(found))):
            found += piece
    return found


def printable(text: str) -> str:
    """`text` with everything that could move a terminal's cursor or hide in a message written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# --- where the bytes are -----------------------------------------------------------------------------------------


class _Storage(Protocol):
    def read(self, offset: int, size: int) -> bytes: ...


@dataclass(frozen=True)
class _Memory:
    data: bytes

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


class _File:
    """An open file, closed with the last source of it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        while len(data) < size and (more := os.pread(self._descriptor, size - len(data), offset + len(data))):
            data += more
        return data


class _Readable(io.RawIOBase):
    """A source as a file object, for libraries that want one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = max(
            0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._source.size}[whence]
        )
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        data = self._source.read(self._place, self._source.size if size is None or size < 0 else size)
        self._place += len(data)
        return data


# --- compression -------------------------------------------------------------------------------------------------


class Stream(Protocol):
    """A decompressor at work: at most `size` more bytes; none at the end; an error of `_DAMAGE` where it breaks."""

    def read(self, size: int, /) -> bytes: ...


_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)


def unpacked(source: Source, method: str, open_stream: Callable[[], Stream]) -> Source:
    """Everything a stream (of `source`, packed by `method`) gives before its end or its damage, and that as a `Loss`.

    It is kept in a temporary file. Raises `InputError` where that takes too much of the free space.
    """
    with tempfile.TemporaryFile(prefix="androstep-") as file:
        limit = shutil.disk_usage(tempfile.gettempdir()).free // _FREE_SHARE
        losses = _drain(source, method, open_stream, file.write, limit)
        file.flush()
        storage = _File(os.dup(file.fileno()))
    return Source(source.path, storage, 0, storage.size(), source.losses + losses, source._archive)


def drain(name: str, method: str, open_stream: Callable[[], Stream]) -> tuple[bytes, tuple[Loss, ...]]:
    """As `unpacked`, for what is small: the bytes and the loss."""
    pieces = io.BytesIO()
    losses = _drain(Source.of(Path(name), b""), method, open_stream, pieces.write, DATA_BYTES)
    return pieces.getvalue(), losses


def _drain(
    source: Source, method: str, open_stream: Callable[[], Stream], write: Callable[[bytes], object], limit: int
) -> tuple[Loss, ...]:
    done = 0
    stream = None
    while True:
        try:
            stream = stream or open_stream()
            piece = stream.read(_STEP)
        except _DAMAGE as damage:
            error = damage
            break
        if not piece:
            return ()
        done += len(piece)
        if done > limit:
            raise InputError(
                f"{source.name}: more than {limit >> 20} MiB once decompressed, which is the limit here; "
                "cut it into parts, or give more room with TMPDIR"
            )
        write(piece)
    # The call that met the damage kept what it had already made to itself: go there again, byte by byte.
    total = done
    with suppress(*_DAMAGE):
        stream = open_stream()
        again = 0
        while again < done:
            again += len(stream.read(min(_STEP, done - again)))
        while piece := stream.read(1):
            write(piece)
            total += len(piece)
    cut = isinstance(error, EOFError) or "Truncated" in str(error)
    what = "is cut short" if cut else f"is damaged ({printable(str(error))})"
    message = f"the {method} stream {what} after {total} decompressed bytes; what comes later is lost"
    return (Loss("torn" if cut else "unreadable", 1, message),)


class Deflate:
    """A zlib (`wbits` 15) or raw deflate (-15) stream at `start` of `data` as a `Stream`."""

    def __init__(self, data: Source | bytes | memoryview, wbits: int, start: int = 0) -> None:
        self._data = data if isinstance(data, Source) else Source.of(Path(), bytes(data))
        self._place = start
        self._inflate = zlib.decompressobj(wbits)

    @property
    def end(self) -> int:
        """Where in the data the stream ends, once it has been read."""
        return self._place - len(self._inflate.unused_data)

    def read(self, size: int) -> bytes:
        while not self._inflate.eof:
            piece = self._inflate.decompress(self._input(), size)
            if piece:
                return piece
            if not self._inflate.eof and self._place >= self._data.size:
                raise EOFError
        return b""

    def _input(self) -> bytes:
        if self._inflate.unconsumed_tail:
            return self._inflate.unconsumed_tail
        data = self._data.read(self._place, _STEP)
        self._place += len(data)
        return data


class _Gzip:
    """All members of a gzip file as a `Stream` (RFC 1952).

    Header and checksum are read here: zlib would keep the last byte of a member with a wrong checksum to itself.
    """

    def __init__(self, data: Source) -> None:
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
                raise OSError("its checksum does not fit")
            if trailer[8:] != b"\x1f\x8b":
                if any(any(piece) for piece in self._data.part(end + 8).pieces(_STEP)):  # zeros are padding
                    raise OSError("other bytes follow it")
                return b""
            self._open(end + 8)

    def _open(self, start: int) -> None:
        """Goes to the deflate stream of the member at `start`, behind its optional fields (RFC 1952, 2.3)."""
        header = self._data.read(start, 1 << 17)
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
        self._deflate = Deflate(self._data, -15, start + place)
        self._crc = 0


class _Xz:
    """All xz streams of `data` as a `Stream` (the .xz format allows several, with zero padding between them)."""

    def __init__(self, data: Source) -> None:
        self._pieces = data.pieces(_STEP)
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


def _zstd(data: Source) -> Stream:
    return pa.CompressedInputStream(pa.PythonFile(_Readable(data), mode="r"), "zstd")


@dataclass(frozen=True)
class _Packed:
    """How a source is packed, and the losses and checksum (CRC-32) that an archive states beforehand."""

    method: str
    open_stream: Callable[[], Stream]
    losses: tuple[Loss, ...] = ()
    crc: int | None = None


def _packed(raw: Source) -> _Packed | None:
    """How the source is packed; None if it is not."""
    magic = raw.read(0, 6)
    for start, method, stream in _METHODS:
        if magic.startswith(start):
            return _Packed(method, functools.partial(stream, raw))
    return _zipped(raw) if magic.startswith(b"PK\x03\x04") else None


_METHODS: tuple[tuple[bytes, str, Callable[[Source], Stream]], ...] = (
    (b"\x1f\x8b", "gzip", _Gzip),
    (b"\xfd7zXZ\x00", "xz", _Xz),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
)


def _plain(raw: Source) -> Source:
    """The source without its compression."""
    packed = _packed(raw)
    if packed is None:
        return raw
    with raw.progress(f"decompressing {raw.path.name}"):
        plain = unpacked(raw, packed.method, packed.open_stream)
    if packed.crc is not None and plain.losses == raw.losses:
        crc = 0
        for piece in plain.pieces():
            crc = zlib.crc32(piece, crc)
        if crc != packed.crc:
            message = "the file in the zip archive is damaged: its checksum does not fit"
            plain.losses += (Loss("unreadable", 1, message),)
    if plain.losses == raw.losses:
        plain.losses += packed.losses
    return plain


def _zipped(raw: Source) -> _Packed:
    """The one file of a zip archive.

    An archive that was cut short has lost its directory, which stands at the end; its first file still follows the
    local header at the start (PKWARE APPNOTE 4.3.7).
    """
    offset, crc = 0, None
    losses: tuple[Loss, ...] = ()
    try:
        with zipfile.ZipFile(_Readable(raw)) as archive:
            files = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        losses = (Loss("torn", 1, "the zip archive is cut short after its first file; more files may be lost"),)
    else:
        if len(files) != 1:
            raise InputError(
                f"{raw.name}: a zip archive with one file was expected, and this has {len(files)}; unpack it"
            )
        offset, crc = files[0].header_offset, files[0].CRC
    header = raw.read(offset, 30)
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise InputError(f"{raw.name}: the zip archive is cut short before its first file; fetch it again")
    flags, compression = struct.unpack_from("<HH", header, 6)
    name_bytes, extra_bytes = struct.unpack_from("<HH", header, 26)
    if flags & 1 or compression != zipfile.ZIP_DEFLATED:
        raise InputError(f"{raw.name}: the file in the zip archive is encrypted or not deflated; unpack it")
    start = offset + 30 + name_bytes + extra_bytes
    return _Packed("zip", lambda: Deflate(raw, -15, start), losses, crc)


# --- tar archives ------------------------------------------------------------------------------------------------


class Archive:
    """A tar archive: its files, each as a `Source`, decompressed where it is compressed itself.

    `losses` says what of the archive is lost. `taken` are the names of members that were loaded.
    """

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self.taken: set[str] = set()
        self._source = source
        self._places: dict[str, tuple[int, int]] = {}
        self.losses = source.losses
        try:
            with tarfile.TarFile(fileobj=_Readable(source)) as tar:
                last = -1
                for member in tar:
                    if member.offset <= last:
                        raise tarfile.ReadError("a size less than nothing")
                    last = member.offset
                    if member.isreg() and not member.issparse():
                        self._places[str(PurePosixPath(member.name)).lstrip("/")] = (member.offset_data, member.size)
        except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
            message = f"the tar archive is damaged ({printable(str(error))}); the files behind that place are lost"
            self.losses += (Loss("torn", 1, message),)

    @staticmethod
    def is_one(source: Source) -> bool:
        """Whether the source begins with the header of a tar archive, whose checksum fits."""
        try:
            tarfile.TarInfo.frombuf(source.head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            return False
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """The files in it, in order."""
        return tuple(self._places)

    def head(self, name: str) -> bytes:
        """What `load(name).head` will be."""
        try:
            return _head(self._raw(name))
        except InputError:
            return b""

    def load(self, name: str) -> Source:
        """The file `name`."""
        self.taken.add(name)
        return _plain(self._raw(name))

    def beside(self, path: Path) -> tuple[str, ...]:
        """Names of the files in the directory of the archive where `path` is."""
        folder = PurePosixPath(path.relative_to(self.path)).parent
        return tuple(sorted(PurePosixPath(name).name for name in self._places if PurePosixPath(name).parent == folder))

    def load_beside(self, path: Path, name: str) -> Source:
        """The file `name` in that directory."""
        wanted = str(PurePosixPath(path.relative_to(self.path)).with_name(name))
        if wanted not in self._places:
            raise InputError(f"{printable(str(self.path))}: has no {printable(wanted)}; was it packed completely?")
        return self.load(wanted)

    def _raw(self, name: str) -> Source:
        start, size = self._places[name]
        raw = self._source.part(start, start + size)
        raw.path = self.path / name
        raw.losses = ()
        raw._archive = self
        if raw.size < size:
            raw.losses = (
                Loss("torn", 1, f"the archive ends within {printable(name)}: {size - raw.size} bytes are lost"),
            )
        return raw
