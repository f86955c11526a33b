"""Read filesystem images and assign every sector to a file, metadata or free space.

``with fs.opened("userdata.img.zst") as image: filesystem = fs.read(image, dev=dev, source="image_after")``
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from androstep_analysis.common.errors import InputError
from androstep_analysis.fs import ext4, f2fs, fat, tsk
from androstep_analysis.fs.filesystem import HEAD_BYTES, Filesystem, lookup
from androstep_analysis.fs.image import opened

__all__ = ["HEAD_BYTES", "READERS", "Filesystem", "lookup", "opened", "read"]


class Read(Protocol):
    """Signature of a reader."""

    def __call__(self, path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
        """Read the filesystem in the image."""


class Reader(NamedTuple):
    """A row of the table of readers."""

    name: str
    sniff: Callable[[str | Path, int], bool]
    read: Read


READERS: tuple[Reader, ...] = (
    Reader("ext2/ext3/ext4", ext4.sniff, ext4.read),
    Reader("F2FS", f2fs.sniff, f2fs.read),
    Reader("FAT/exFAT", fat.sniff, fat.read),
    Reader("NTFS/HFS+/ISO 9660", tsk.sniff, tsk.read),
)
"""All readers. The first with a `sniff` that returns true reads the image."""


def read(path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
    """Read the filesystem at `offset_bytes` of an uncompressed image (`opened` decompresses).

    `dev` is the value for column `dev`, and `source` that for column `source` (`image_before`, `image_after`). Raises
    `InputError` if no reader recognizes the image.
    """
    for reader in READERS:
        if reader.sniff(path, offset_bytes):
            return reader.read(path, dev=dev, source=source, offset_bytes=offset_bytes)
    known = ", ".join(reader.name for reader in READERS)
    raise InputError(
        f"{path}: byte {offset_bytes} is not the start of a supported filesystem ({known}); give an image of one"
        " partition: extract it from the image of a disk, decrypt it, or expand a sparse image with simg2img"
    )
