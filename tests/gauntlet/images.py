"""Make images that do not belong to a recording but look like it: same type, size, label and names."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from androstep_analysis import fs

_UUID = {"ext4": 1024 + 104, "f2fs": 1024 + 108}
"""Offset of the UUID in the filesystem (Linux: fs/ext4/ext4.h, include/linux/f2fs_fs.h)."""

_LARGEST_TREE = 400
"""Maximum number of files in a populated image."""


def plain(packed: Path, to: Path) -> Path:
    """Unpack an image, sparse for zeros."""
    with fs.opened(packed) as image:
        _copy(image, to)
    return to


def populated(fs_type: str, like: Path, names: Iterable[str], directory: Path, *options: str) -> Path:
    """Make a filesystem with the size and UUID of `like` and files of these names, at other locations."""
    image, tree = directory / "populated.img", directory / "tree"
    tree.mkdir()
    for number, name in enumerate(sorted(names, key=lambda name: (len(name), name))[:_LARGEST_TREE]):
        path = tree / name
        if ".." not in path.parts and not path.exists() and not any(part.is_file() for part in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"another" * (1000 + 4321 * (number % 7)))
    with image.open("wb") as file:
        file.truncate(like.stat().st_size)
    for command in _made(fs_type, image, tree, *options):
        _run(*command)
    shutil.rmtree(tree)
    if fs_type in _UUID:
        with like.open("rb") as known, image.open("r+b") as new:
            known.seek(_UUID[fs_type])
            new.seek(_UUID[fs_type])
            new.write(known.read(16))
    return image


def empty(fs_type: str, like: Path, directory: Path) -> Path:
    """Make the filesystem again without files."""
    return populated(fs_type, like, (), directory)


def cut(like: Path, directory: Path) -> Path:
    """Return the first half of the image."""
    image = _copy(like, directory / "cut.img")
    with image.open("r+b") as file:
        file.truncate(like.stat().st_size // 2)
    return image


def on_disk(like: Path, first_sector: int, directory: Path) -> Path:
    """Return the image as the partition of a disk that begins at a sector."""
    image = directory / "disk.img"
    with image.open("wb") as file:
        file.truncate(first_sector * 512)
    _run("dd", f"if={like}", f"of={image}", "bs=1M", f"seek={first_sector * 512 >> 20}", "conv=sparse,notrunc")
    with image.open("r+b") as file:
        nr_sectors = like.stat().st_size // 512
        file.seek(446)
        file.write(struct.pack("<8BII", 0, 0, 0, 0, 0x83, 0, 0, 0, first_sector, nr_sectors))
        file.seek(510)
        file.write(b"\x55\xaa")
        file.truncate(first_sector * 512 + like.stat().st_size)
    return image


def _made(fs_type: str, image: Path, tree: Path, *options: str) -> list[list[str | Path]]:
    """Return the commands that make a filesystem in `image` and copy `tree` into it."""
    if fs_type == "ext4":
        # There are more inodes than files, but inode numbers still coincide with the original's.
        return [["mke2fs", "-q", "-F", "-t", "ext4", "-d", tree, *options, image]]
    if fs_type == "f2fs":
        return [["mkfs.f2fs", "-q", "-f", *options, image], ["sload.f2fs", "-f", tree, image]]
    top = sorted(tree.iterdir())
    return [["mkfs.vfat", *options, image], *([["mcopy", "-s", "-i", image, *top, "::"]] if top else [])]


def _copy(source: Path, to: Path) -> Path:
    _run("cp", "--sparse=always", source, to)
    return to


def _run(*command: str | Path) -> None:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True)
    # sload.f2fs exits with 1 although it succeeds (f2fs-tools 1.15).
    assert done.returncode == 0 or command[0] == "sload.f2fs", f"{command}: {done.stdout}{done.stderr}"
