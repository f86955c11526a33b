"""A filesystem in a file, mounted on a loop device of its own for as long as a test needs it."""

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
    """An ext4 in a new file, with mke2fs's options `mkfs`; skips without mke2fs.

    Nothing is left for the kernel to initialise: ext4lazyinit would write 8 MiB of a mount of seconds, or not.
    """
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed")
    image.touch()  # mkfs.ext4 prints that it makes a file
    whole = ["-E", "lazy_itable_init=0,lazy_journal_init=0"]
    subprocess.run(["mkfs.ext4", "-q", "-F", *whole, *mkfs, image, f"{nr_mib}M"], check=True)


@needs("root")
@contextlib.contextmanager
def attached(image: Path, sector_bytes: int = 512) -> Iterator[str]:
    """A loop device with the image behind it and such logical blocks; skips where that cannot be done."""
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
    """The image mounted beside itself, on a device with such logical blocks; skips where that cannot be done.

    Unmounted, with all that is mounted below it, and detached at the end.
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
