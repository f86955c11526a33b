"""Read an input in pieces, with its compression and archive removed.

No input is held in memory as a whole. A plain file is read where it is. A compressed file is decompressed once into a
temporary file without a name, which disappears with the last `Source` that uses it.
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

from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.ingest import compression

HEAD_BYTES = 1 << 16
"""The number of bytes that a format may examine to recognise a file."""

PIECE_BYTES = 1 << 20
"""The number of bytes read at once."""

DATA_BYTES = 1 << 30
"""The largest input that `Source.data` holds in memory as a whole."""

_MOST_LAYERS = 4
"""A compressed text in UTF-16 in a zip archive has three. A file can be its own compression, without end."""

_FREE_SHARE = 2
"""A decompressed input may fill 1/`_FREE_SHARE` of the free space for temporary files. A few kilobytes of compressed
zeros must not be able to fill the disk.
"""


class Directory(Protocol):
    """The files next to a source, if they are not in a directory of the filesystem (`archive.Archive`)."""

    def siblings(self, path: Path) -> tuple[str, ...]: ...

    def load_sibling(self, path: Path, name: str) -> Source: ...


class Source:
    """One input, decompressed. Several threads may read from it.

    `losses` lists what could not be decompressed. `siblings` are the files in the same directory, or in the same
    directory of the tar archive. A format that is a set of files, such as blktrace, finds its other members there.
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
        """Return an input that is already in memory. `path` is where it came from."""
        return cls(path, _Memory(data), 0, len(data), losses)

    @property
    def name(self) -> str:
        """The path, safe to print."""
        return printable(str(self.path))

    @functools.cached_property
    def head(self) -> bytes:
        """The first `HEAD_BYTES`, which are passed to `sniff` functions."""
        return self.read(0, HEAD_BYTES)

    @property
    def data(self) -> bytes:
        """The whole input, for formats with small files.

        Raises
        ------
        InputError
            If it is larger than `DATA_BYTES`.
        """
        if self.size > DATA_BYTES:
            raise InputError(
                f"{self.name}: {self.size >> 20} MiB, but a file of this format may have at most "
                f"{DATA_BYTES >> 20} MiB; split it"
            )
        return self.read(0, self.size)

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset`. At the end of the input there are fewer, or none.

        Raises
        ------
        InputError
            If the file cannot be read.
        """
        size = max(0, min(size, self.size - offset))
        try:
            data = self._storage.read(self._start + offset, size)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
        if self._advance is not None:
            self._advance(len(data))
        return data

    def pieces(self, size: int = PIECE_BYTES) -> Iterator[bytes]:
        """Yield the whole input in order, `size` bytes at a time."""
        offset = 0
        while piece := self.read(offset, size):
            yield piece
            offset += len(piece)

    def part(self, start: int, end: int | None = None) -> Source:
        """Return the bytes from `start` to before `end` as an input of its own. They are not copied."""
        end = self.size if end is None else min(end, self.size)
        part = Source(self.path, self._storage, self._start + start, max(0, end - start), self.losses, self.archive)
        part._advance = self._advance
        return part

    @contextlib.contextmanager
    def progress(self, doing: str) -> Iterator[None]:
        """Show a progress bar on a terminal if reading takes long."""
        from tqdm.auto import tqdm  # imports asyncio

        bar = tqdm(total=self.size, desc=doing, unit="B", unit_scale=True, disable=None, delay=2, leave=False)

        def advance(done: int) -> None:
            bar.update(min(done, self.size - bar.n))  # some formats read the same bytes twice

        with bar:
            self._advance = advance
            try:
                yield
            finally:
                self._advance = None

    @property
    def siblings(self) -> tuple[str, ...]:
        """Names of the files in the directory of this file, itself included, sorted."""
        if self.archive is not None:
            return self.archive.siblings(self.path)
        try:
            with os.scandir(self.path.parent) as entries:
                return tuple(sorted(entry.name for entry in entries if entry.is_file()))
        except OSError:
            return (self.path.name,)

    def load_sibling(self, name: str) -> Source:
        """Return the file `name` of `siblings`. Raise `InputError` if it cannot be read."""
        return load(self.path.parent / name) if self.archive is None else self.archive.load_sibling(self.path, name)


def load(path: Path) -> Source:
    """Return the contents of file `path`: plain, gzip, xz, zstd, or a zip archive with one file in it.

    The first bytes decide on the compression, not the name. From a truncated or damaged compressed file, the data
    before the damage is returned, with a `Loss`. An archive of several files is returned as it is (`archive.Archive`).

    Raises
    ------
    InputError
        If `path` is not a readable file, or if the decompressed data would take too much disk space.
    """
    return plain(opened(path))


def opened(path: Path) -> Source:
    """Return file `path` as it is, without decompression. Raise `InputError` if it is not a readable file."""
    name = printable(str(path))
    if not path.exists():
        raise InputError(f"{name}: no such file")
    if not path.is_file():
        raise InputError(f"{name}: is not a file; for a directory, pass one of the files in it")
    try:
        storage = _File(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    return Source(path, storage, 0, storage.size())


def head(path: Path) -> bytes:
    """Return the same bytes as ``load(path).head``, without decompressing the whole file.

    Returns no bytes if the file cannot be read. `load` reports the error.
    """
    try:
        return head_of(opened(path))
    except InputError:
        return b""


def head_of(raw: Source) -> bytes:
    """Return the first `HEAD_BYTES` of a source that may be compressed."""
    for _ in range(_MOST_LAYERS):
        packed = compression.packed(raw)
        if packed is None:
            break
        raw = Source.of(raw.path, first_of(packed.open_stream))
    return raw.head.removeprefix(codecs.BOM_UTF8)


def first_of(open_stream: Callable[[], compression.Stream]) -> bytes:
    """Return the first `HEAD_BYTES` of a stream, or fewer if it ends or is damaged before."""
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
    """An open file, which is closed with the last source that uses it."""

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
    """Return all that a stream yields before its end or damage, from a temporary file. Damage is reported as a `Loss`.

    `method` names the compression of `source`.

    Raises
    ------
    InputError
        If the data would take too much of the free disk space.
    """
    with tempfile.TemporaryFile(prefix="androstep-") as file:
        limit = shutil.disk_usage(tempfile.gettempdir()).free // _FREE_SHARE
        losses = compression.drain(source.name, method, open_stream, file.write, limit)
        file.flush()
        storage = _File(os.dup(file.fileno()))
    return Source(source.path, storage, 0, storage.size(), source.losses + losses, source.archive)


def plain(raw: Source) -> Source:
    """Return the source without its compression and without a byte-order mark of UTF-8."""
    for _ in range(_MOST_LAYERS):
        packed = compression.packed(raw)
        if packed is None:
            break
        raw = checked(raw, packed)
    return _without_mark(raw)


def checked(raw: Source, packed: compression.Packed) -> Source:
    """Return the decompressed source, with a `Loss` if its checksum is wrong."""
    with raw.progress(f"decompressing {raw.path.name}"):
        source = unpacked(raw, packed.method, packed.open_stream)
    if packed.crc is not None and source.losses == raw.losses:
        crc = 0
        for piece in source.pieces():
            crc = zlib.crc32(piece, crc)
        if crc != packed.crc:
            message = "the file in the zip archive is damaged: its checksum is wrong"
            source.losses += (Loss("unreadable", 1, message),)
    if source.losses == raw.losses:
        source.losses += packed.losses
    return source


def _without_mark(source: Source) -> Source:
    return source.part(len(codecs.BOM_UTF8)) if source.read(0, 3) == codecs.BOM_UTF8 else source
