"""Mount a filesystem in a file on a loop device for a test."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import machine
from support.needs import needs


@dataclass(frozen=True)
class Mounted:
    """The filesystem in file `image`, on loop device `device`, mounted at `top`."""

    image: Path
    device: str
    top: Path


def make_ext4(image: Path, mkfs: Sequence[str | Path] = (), nr_mib: int = 64) -> None:
    """Make an ext4 in a new file with mke2fs options `mkfs`; skip the test without mke2fs.

    All tables are initialised. Otherwise ext4lazyinit would write 8 MiB at unpredictable times during a short mount.
    """
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed")
    image.touch()  # otherwise mkfs.ext4 prints that it creates the file
    whole = ["-E", "lazy_itable_init=0,lazy_journal_init=0"]
    subprocess.run(["mkfs.ext4", "-q", "-F", *whole, *mkfs, image, f"{nr_mib}M"], check=True)


@needs("root")
@contextlib.contextmanager
def attached(image: Path, sector_bytes: int = 512) -> Iterator[str]:
    """Attach an image to a loop device with this logical block size; skip the test if that is impossible."""
    if shutil.which("losetup") is None:
        pytest.skip("losetup is not installed")
    command: list[str | Path] = ["losetup", "--find", "--show", "--sector-size", str(sector_bytes), image]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"no loop device: {found.stderr.strip()}")
    device = found.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def mounted(image: Path, options: str = "defaults", sector_bytes: int = 512) -> Iterator[Mounted]:
    """Mount an image next to itself, on a device with this logical block size; skip the test if that is impossible.

    At the end it is unmounted, with everything below it, and detached.
    """
    top = image.with_suffix(".mounted")
    with attached(image, sector_bytes) as device:
        top.mkdir()
        try:
            mount = subprocess.run(["mount", "-o", options, device, top], capture_output=True, text=True)
            if mount.returncode:
                pytest.skip(f"cannot mount with {options}: {mount.stderr.strip()}")
            try:
                yield Mounted(image, device, top)
            finally:
                with machine.shared(machine.MOUNTS):
                    subprocess.run(["umount", "-R", top], check=True)
        finally:
            top.rmdir()
