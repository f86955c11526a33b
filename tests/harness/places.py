"""Create filesystems in image files on this machine to record on, and pack recordings. Needs root."""

from __future__ import annotations

import hashlib
import lzma
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from androstep_analysis.bench.plan import plan
from androstep_analysis.ingest import record

IMAGE_BYTES = 512 << 20

MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}


def run(*command: str | Path) -> str:
    """Return the output of a program. If it fails, exit with its error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, command))}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def measure(command: Sequence[str | Path], words: Sequence[str], out: Path) -> None:
    """Run iobench (`command`) for each run of `androstep bench -- WORDS` and write the records to `out`."""
    runs = plan(words).runs
    parts = [out.with_name(f"{out.name}.{number}") for number in range(len(runs))]
    for asked, part in zip(runs, parts, strict=True):
        run(*command, *asked.words, "--record", part)
    join(parts, out)


def measure_in_guest(words: Sequence[str], name: str) -> tuple[str, list[str]]:
    """Return the same as a shell command of a guest, and the names of its record files in /tmp/out."""
    runs = plan(words).runs
    parts = [f"{name}.{number}" for number in range(len(runs))]
    lines = [
        shlex.join(["iobench", *asked.words, "--record", f"/tmp/out/{part}"])
        for asked, part in zip(runs, parts, strict=True)
    ]
    return " && ".join(lines), parts


def join(parts: Sequence[Path], out: Path) -> None:
    """Merge the record files of several runs into one, and remove them."""
    record.join(parts, out)
    for part in parts:
        part.unlink()


@contextmanager
def mounted(mkfs: Sequence[str], directory: Path, *, past_cache: bool = True) -> Iterator[Path]:
    """Mount a new filesystem in an image file in `directory` and yield its mountpoint.

    `past_cache`: the loop device bypasses the page cache (direct I/O).
    """
    image, top = directory / "image", directory / "top"
    top.mkdir()
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, IMAGE_BYTES)
    run(*mkfs, image)
    direct = ("--direct-io=on",) if past_cache else ()
    device = run("losetup", "--find", "--show", *direct, image)
    try:
        run("mount", "-o", "noatime", device, top)
        try:
            yield top
        finally:
            run("umount", top)
    finally:
        run("losetup", "--detach", device)


def pack(directory: Path) -> dict[str, str]:
    """Compress the record streams and JSON files in a directory. Return their sha256 by name."""
    for path in (*directory.glob("*.rec"), *directory.glob("*.json")):
        packed = lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        path.with_name(f"{path.name}.xz").write_bytes(packed)
        path.unlink()
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.glob("*.xz"))}
