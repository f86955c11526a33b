"""Open image files, decompress them if necessary, and read them at any offset."""

from __future__ import annotations

import contextlib
import errno
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
"""Unit of decompression. A chunk of zeros becomes a hole in the temporary file."""

MOST_GIB = 256
"""The default size limit of a decompressed image. Most phones have less storage."""

MOST = "ANDROSTEP_MAX_IMAGE_GIB"
"""The environment variable that raises this limit."""

MOST_RUNS = 1 << 23
"""The default limit of the runs of free blocks in an image, of those of its FAT chains, and of the files of NTFS.

A run needs some hundred bytes of memory. FAT may have 8 times as many clusters.
"""

RUNS = "ANDROSTEP_MAX_IMAGE_RUNS"
"""The environment variable that raises this limit."""

_READ_BYTES = 1 << 24
"""Size of the chunks in which tables are read."""

_RESERVED_BYTES = 1 << 30
"""Space on the temporary file's disk that is left free for other programs."""

_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class Image:
    """An image file opened for reading. Offsets count from the start of the filesystem, at `offset_bytes` of the file.

    `nr_bytes` is the size of the file from that start.
    """

    file: int
    path: Path
    offset_bytes: int
    nr_bytes: int

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at `offset`. Bytes beyond the end of the image are zeros."""
        inside = 0 <= offset < self.nr_bytes
        data = os.pread(self.file, length, self.offset_bytes + offset) if inside else b""
        return data.ljust(length, b"\0")

    def blocks(self, numbers: np.ndarray, block_bytes: int) -> np.ndarray:
        """Return the contents of blocks as a uint8 array of shape (n, block_bytes), in the order of `numbers`.

        Consecutive blocks are read with one call.
        """
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        first = np.concatenate([[0], breaks]) if len(numbers) else breaks
        counts = np.diff(np.append(first, len(numbers)))
        raw = b"".join(
            self.read(number * block_bytes, count * block_bytes)
            for number, count in zip(numbers[first].tolist(), counts.tolist(), strict=True)
        )
        return np.frombuffer(raw, np.uint8).reshape(len(numbers), block_bytes)

    def chunks(self, offset: int, length: int, record_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Yield `length` bytes at `offset` in chunks of whole records, as (offset, bytes).

        Holes of a sparse file and the part after its end are left out; records there are zeros.
        """
        end = offset + min(length, -(-max(self.nr_bytes - offset, 0) // record_bytes) * record_bytes)
        step = max(_READ_BYTES // record_bytes, 1) * record_bytes
        while offset < end:
            try:
                data = os.lseek(self.file, self.offset_bytes + offset, os.SEEK_DATA) - self.offset_bytes
            except OSError as error:  # EINVAL: a device, which has no holes
                data = end if error.errno == errno.ENXIO else offset
            offset += (data - offset) // record_bytes * record_bytes
            if offset < end:
                yield offset, self.read(offset, min(step, end - offset))
                offset += step

    def check_runs(self, count: int, what: str = "runs of blocks of one use", factor: int = 1) -> None:
        """Raise `InputError` if there are more than `factor` times `MOST_RUNS`, as only a forged image has."""
        if count > (limit := factor * limit_of(RUNS, MOST_RUNS)):
            raise InputError(
                f"{self.path}: more than {limit} {what}; if the filesystem is that large or fragmented, set"
                f" {RUNS} to a larger number"
            )

    def truncation(self, nr_bytes: int) -> Iterator[Loss]:
        """Yield a loss if the file is shorter than its filesystem of `nr_bytes`."""
        missing = nr_bytes - self.nr_bytes
        if missing > 0:
            message = f"the image is {missing} bytes shorter than its filesystem; these were read as zeros"
            yield Loss("torn", missing, message)


def record_dtype(fields: Mapping[str, tuple[Any, int]], size: int) -> np.dtype[np.void]:
    """Return the dtype of on-disk records of `size` bytes; `fields` maps names to (format, offset)."""
    formats, offsets = zip(*fields.values(), strict=True)
    return np.dtype({"names": [*fields], "formats": [*formats], "offsets": [*offsets], "itemsize": size})


def peek(path: str | Path, offset: int, length: int) -> bytes:
    """Return up to `length` bytes at `offset` of a file for detecting its format; none if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError:
        return b""


@contextlib.contextmanager
def reading(path: str | Path, offset_bytes: int = 0) -> Iterator[Image]:
    """Open an uncompressed image read-only as a context manager.

    The filesystem begins at `offset_bytes`. Raises `InputError` if the file cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{path}: the image cannot be opened ({error.strerror}); check path and rights") from error
    try:
        yield Image(file, Path(path), offset_bytes, max(os.lseek(file, 0, os.SEEK_END) - offset_bytes, 0))
    finally:
        os.close(file)


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[Path]:
    """Provide the path of an uncompressed image as a context manager, decompressing `path` if necessary.

    An uncompressed image is yielded unchanged and is never written to. A gzip, xz or zstd file, recognized by its
    first bytes, is decompressed to a sparse temporary file, which is removed at the end.

    Raises `InputError` if the file:

    - cannot be read
    - is truncated or damaged, because unread metadata would look like free space
    - decompresses to more than `MOST_GIB` or than the disk can hold, as even a small file may
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
        except InputError as error:  # The reader's message names the temporary file.
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
    free_bytes = shutil.disk_usage(target.parent).free - _RESERVED_BYTES
    with target.open("wb") as out:
        try:
            with _stream(source, compression) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    if out.tell() >= limit:
                        raise InputError(
                            f"{source}: unpacks to more than {limit >> 30} GiB; if the device is that large, "
                            f"set {MOST} to a larger number"
                        )
                    if chunk == zeros:
                        out.seek(_CHUNK_BYTES, 1)
                        continue
                    free_bytes -= len(chunk)
                    if free_bytes < 0:
                        raise InputError(
                            f"{source}: unpacks to more than the free space in {target.parent}; set TMPDIR to a "
                            "directory on a larger disk"
                        )
                    out.write(chunk)
        except (EOFError, zlib.error, lzma.LZMAError, OSError, pa.ArrowException) as error:
            raise InputError(
                f"{source}: the {compression} data are truncated or damaged after {out.tell()} unpacked bytes"
                f" ({error}); copy the file again"
            ) from error
        out.truncate()
