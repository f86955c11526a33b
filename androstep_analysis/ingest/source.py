"""Reading one input piece by piece, through whatever compression and archive it comes in.

Nothing here holds an input in memory. A plain file is read where it lies; a compressed one is decompressed once, into a
temporary file that has no name and is gone with the last `Source` of it.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tqdm.auto import tqdm

from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.ingest import compression

HEAD_BYTES = 1 << 16
"""What a format may look at to recognise itself."""

PIECE_BYTES = 1 << 20
"""What is read at once."""

DATA_BYTES = 1 << 30
"""Largest input that `Source.data` holds in memory as a whole."""

_FREE_SHARE = 2
"""A decompressed input may take one part in so many of the space that is free where temporary files are made: a few
kilobytes of compressed zeros must not be able to fill the disk."""


class Directory(Protocol):
    """Where the files beside a source are, if not in a directory of the filesystem (`archive.Archive`)."""

    def siblings(self, path: Path) -> tuple[str, ...]: ...

    def load_sibling(self, path: Path, name: str) -> Source: ...


class Source:
    """One input, decompressed. It may be read from several threads.

    `losses` is what decompression had to give up. A format that is a set of files (blktrace writes one per CPU)
    finds the other members among `siblings`, which are in the same directory or, where the input is a member of a tar
    archive, in the same directory of that.
    """

    def __init__(
        self,
        path: Path,
        storage: _Storage,
        start: int,
        size: int,
        losses: tuple[Loss, ...] = (),
        archive: Directory | None = None,
    ) -> None:
        self.path = path
        self.size = size
        self.losses = losses
        self._storage = storage
        self._start = start
        self.archive = archive
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
        part = Source(self.path, self._storage, self._start + start, max(0, end - start), self.losses, self.archive)
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
    def siblings(self) -> tuple[str, ...]:
        """Names of the files in the directory of this one, itself included, sorted."""
        if self.archive is not None:
            return self.archive.siblings(self.path)
        try:
            with os.scandir(self.path.parent) as entries:
                return tuple(sorted(entry.name for entry in entries if entry.is_file()))
        except OSError:
            return (self.path.name,)

    def load_sibling(self, name: str) -> Source:
        """The file `name` of `siblings`; `InputError` where it cannot be read."""
        return load(self.path.parent / name) if self.archive is None else self.archive.load_sibling(self.path, name)


def load(path: Path) -> Source:
    """The contents of file `path`: plain, gzip, xz, zstd, or a zip archive with one file in it.

    The compression is told by the first bytes, not by the name. A compressed stream that is cut short or damaged
    gives everything before the damage and a `Loss`. An archive of several files is as it is (`archive.Archive`). Raises
    `InputError` for what is no readable file, and for more than the disk has room for.
    """
    return plain(opened(path))


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
        return head_of(opened(path))
    except InputError:
        return b""


def head_of(raw: Source) -> bytes:
    """The first `HEAD_BYTES` of a source that may be compressed."""
    packed = compression.packed(raw)
    if packed is None:
        return raw.head.removeprefix(codecs.BOM_UTF8)
    return first_of(packed.open_stream).removeprefix(codecs.BOM_UTF8)


def first_of(open_stream: Callable[[], compression.Stream]) -> bytes:
    """The first `HEAD_BYTES` of what a stream gives before its end or its damage."""
    data = b""
    with suppress(*compression.DAMAGE):
        stream = open_stream()
        while len(data) < HEAD_BYTES and (piece := stream.read(HEAD_BYTES - len(data))):
            data += piece
    return data


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


# --- compression -------------------------------------------------------------------------------------------------


def unpacked(source: Source, method: str, open_stream: Callable[[], compression.Stream]) -> Source:
    """Everything a stream (of `source`, packed by `method`) gives before its end or its damage, and that as a `Loss`.

    It is kept in a temporary file. Raises `InputError` where that takes too much of the free space.
    """
    with tempfile.TemporaryFile(prefix="androstep-") as file:
        limit = shutil.disk_usage(tempfile.gettempdir()).free // _FREE_SHARE
        losses = compression.drain(source.name, method, open_stream, file.write, limit)
        file.flush()
        storage = _File(os.dup(file.fileno()))
    return Source(source.path, storage, 0, storage.size(), source.losses + losses, source.archive)


def plain(raw: Source) -> Source:
    """Return the source without its compression and without a byte-order mark of UTF-8."""
    packed = compression.packed(raw)
    if packed is None:
        return _without_mark(raw)
    return _without_mark(checked(raw, packed))


def checked(raw: Source, packed: compression.Packed) -> Source:
    """The source unpacked, with a `Loss` where its checksum does not fit."""
    with raw.progress(f"decompressing {raw.path.name}"):
        source = unpacked(raw, packed.method, packed.open_stream)
    if packed.crc is not None and source.losses == raw.losses:
        crc = 0
        for piece in source.pieces():
            crc = zlib.crc32(piece, crc)
        if crc != packed.crc:
            message = "the file in the zip archive is damaged: its checksum does not fit"
            source.losses += (Loss("unreadable", 1, message),)
    if source.losses == raw.losses:
        source.losses += packed.losses
    return source


def _without_mark(source: Source) -> Source:
    return source.part(len(codecs.BOM_UTF8)) if source.read(0, 3) == codecs.BOM_UTF8 else source
