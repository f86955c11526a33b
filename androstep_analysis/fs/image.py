"""Filesystem images: kept as they are (often compressed), opened as plain files, read at any offset."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from androstep_analysis.common import scratch
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.files import limit_of

_CHUNK_BYTES = 64 * 1024
"""Unit of unpacking; a chunk of zeros becomes a hole of the temporary file."""

MOST_GIB = 256
"""The default limit of what a compressed image is unpacked to; phones with less storage are the most common."""

MOST = "ANDROSTEP_MAX_IMAGE_GIB"
"""The environment variable that raises this limit."""

_KEPT_FREE_BYTES = 1 << 30
"""So much stays free on the disk of the temporary file: other programs need it, too."""

_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class Image:
    """An image file opened for reading; offsets count from the start of the filesystem in it.

    `nr_bytes` is what the file holds from there on.
    """

    file: int
    path: Path
    offset_bytes: int
    nr_bytes: int

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`; zeros stand for what lies beyond the image."""
        inside = 0 <= offset < self.nr_bytes
        data = os.pread(self.file, length, self.offset_bytes + offset) if inside else b""
        return data.ljust(length, b"\0")

    def blocks(self, numbers: np.ndarray, block_bytes: int) -> np.ndarray:
        """The contents of some blocks in the given order, uint8 array (n, block_bytes); neighbours are read at once."""
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        first = np.concatenate([[0], breaks]) if len(numbers) else breaks
        counts = np.diff(np.append(first, len(numbers)))
        raw = b"".join(
            self.read(number * block_bytes, count * block_bytes)
            for number, count in zip(numbers[first].tolist(), counts.tolist(), strict=True)
        )
        return np.frombuffer(raw, np.uint8).reshape(len(numbers), block_bytes)

    def cut(self, nr_bytes: int) -> Iterator[Loss]:
        """The loss of what the file does not hold of a filesystem of `nr_bytes`."""
        missing = nr_bytes - self.nr_bytes
        if missing > 0:
            message = f"the image ends {missing} bytes before its filesystem; they were read as zeros"
            yield Loss("torn", missing, message)


def record_dtype(fields: Mapping[str, tuple[Any, int]], size: int) -> np.dtype[np.void]:
    """The dtype of records of `size` bytes as they lie on the disk; `fields` are (format, offset) by name."""
    formats, offsets = zip(*fields.values(), strict=True)
    return np.dtype({"names": [*fields], "formats": [*formats], "offsets": [*offsets], "itemsize": size})


def peek(path: str | Path, offset: int, length: int) -> bytes:
    """The bytes at `offset` of the file `path`, for telling what it holds; fewer than `length` where there are none."""
    try:
        with Path(path).open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError:
        return b""


@contextlib.contextmanager
def reading(path: str | Path, offset_bytes: int = 0) -> Iterator[Image]:
    """The plain image file `path`, opened read-only for the length of a ``with`` statement.

    The filesystem begins at `offset_bytes`. Raises `InputError` where the file cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{path}: the image cannot be opened ({error.strerror}); check path and rights") from error
    try:
        yield Image(file, Path(path), offset_bytes, max(os.fstat(file).st_size - offset_bytes, 0))
    finally:
        os.close(file)


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[Path]:
    """A plain image file with the content of `path`, for the length of a ``with`` statement.

    A plain image is yielded as it is and never written. A gzip, xz or zstd file (told by its first bytes, not by its
    name) is unpacked to a sparse temporary file, which is removed on every exit. Raises `InputError` where the file
    cannot be read, is cut short or damaged (half an image would pass unread metadata off as free space), or unpacks to
    more than `MOST_GIB` or than the disk holds (a small file may unpack to any size).
    """
    source = Path(path)
    if source.exists() and not (source.is_file() or source.is_block_device()):
        raise InputError(f"{source}: neither a file nor a block device; give a filesystem image")
    compression = _compression(source)
    if compression is None:
        yield source
        return
    with scratch.directory("image") as directory:
        plain = directory / "image"
        _unpack(source, compression, plain)
        try:
            yield plain
        except InputError as error:  # whoever reads it knows the copy's name only
            raise InputError(str(error).replace(str(plain), str(source))) from error


def _compression(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise InputError(f"{path}: the image cannot be opened ({error.strerror}); check path and rights") from error
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def _stream(path: Path, compression: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    if compression == "gzip":
        return cast("IO[bytes]", gzip.open(path))
    if compression == "xz":
        return lzma.open(path)
    return cast("IO[bytes]", pa.input_stream(str(path), compression="zstd"))


def _unpack(source: Path, compression: str, target: Path) -> None:
    zeros = bytes(_CHUNK_BYTES)
    limit = limit_of(MOST, MOST_GIB) << 30
    room = shutil.disk_usage(target.parent).free - _KEPT_FREE_BYTES
    with target.open("wb") as out:
        try:
            with _stream(source, compression) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    if out.tell() >= limit:
                        raise InputError(
                            f"{source}: unpacks to more than {limit >> 30} GiB; if it is an image of so large a "
                            f"device, set {MOST} to a larger number"
                        )
                    if chunk == zeros:
                        out.seek(_CHUNK_BYTES, 1)
                        continue
                    room -= len(chunk)
                    if room < 0:
                        raise InputError(
                            f"{source}: unpacks to more than {target.parent} has room for; let TMPDIR name a "
                            "directory on a larger disk"
                        )
                    out.write(chunk)
        except (EOFError, zlib.error, lzma.LZMAError, OSError, pa.ArrowException) as error:
            raise InputError(
                f"{source}: the {compression} data end or break after {out.tell()} unpacked bytes, where the rest of"
                f" the image was expected ({error}); copy the file again"
            ) from error
        out.truncate()
