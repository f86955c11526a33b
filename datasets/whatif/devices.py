"""Block devices of several kinds to measure and to replay to: loop devices of this machine. Needs root.

Each is 96 MiB, fully written.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from harness import places

MIB = 96
CGROUPS = Path("/sys/fs/cgroup/blkio")
LIMITS = {"read_bps": 10_000_000, "read_iops": 700, "write_bps": 8_000_000, "write_iops": 100}
"""Limits of `throttled`: the rates that EasyCo's slides call typical of Android.

The slides have 1.3 to 2,000 random writes a second. The value here lets a recording end in reasonable time.
"""


@dataclass(frozen=True)
class Device:
    """A block device, and the command prefix of processes that must be subject to its limits."""

    path: str
    prefix: tuple[str, ...] = ()


@contextmanager
def disk(directory: Path) -> Iterator[Device]:
    """Make a device over a file on the machine's disk, with direct I/O."""
    with (
        tempfile.TemporaryDirectory(prefix="androstep-whatif-", dir=directory) as name,
        _loop(_written(Path(name) / "image"), "--direct-io=on") as path,
    ):
        yield Device(path)


@contextmanager
def memory(directory: Path) -> Iterator[Device]:
    """Make a device over a file in memory; `directory` is not used."""
    with (
        tempfile.TemporaryDirectory(prefix="androstep-whatif-", dir="/dev/shm") as name,
        _loop(_written(Path(name) / "image")) as path,
    ):
        yield Device(path)


@contextmanager
def throttled(directory: Path) -> Iterator[Device]:
    """Make a device over a file in memory that a cgroup may use only at `LIMITS` (blk-throttle, cgroup v1)."""
    with memory(directory) as device:
        group = CGROUPS / f"androstep-whatif-{os.getpid()}"
        group.mkdir()
        try:
            number = places.run("lsblk", "--nodeps", "--noheadings", "--output", "MAJ:MIN", device.path).strip()
            for limit, value in LIMITS.items():
                operation, unit = limit.split("_")
                (group / f"blkio.throttle.{operation}_{unit}_device").write_text(f"{number} {value}")
            join = 'echo $$ > "$0" && exec "$@"'
            yield Device(device.path, ("sh", "-c", join, str(group / "cgroup.procs")))
        finally:
            group.rmdir()


@contextmanager
def card(directory: Path, *options: str) -> Iterator[Device]:
    """Run the emulated card of card.py; `directory` is not used."""
    with tempfile.TemporaryDirectory(prefix="androstep-whatif-", dir="/dev/shm") as name, ExitStack() as stack:
        file = Path(name) / "card"
        command = [sys.executable, Path(__file__).with_name("card.py"), file, "--mib", str(MIB), *options]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdin is not None
        assert server.stdout is not None
        stack.callback(server.wait)
        stack.callback(server.stdin.close)
        if server.stdout.readline() != "ready\n":
            sys.exit("card.py: could not be started")
        yield Device(stack.enter_context(_loop(file, "--direct-io=on")))


@contextmanager
def log_structured_card(directory: Path) -> Iterator[Device]:
    """Run the emulated card with its virtual controller."""
    with card(directory, "--log-structured") as device:
        yield device


KINDS = {
    "disk": disk,
    "memory": memory,
    "throttled": throttled,
    "card": card,
    "card_log": log_structured_card,
}


def _written(image: Path) -> Path:
    with image.open("wb") as file:
        for _ in range(MIB):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    return image


@contextmanager
def _loop(image: Path, *options: str) -> Iterator[str]:
    path = places.run("losetup", "--find", "--show", *options, image)
    try:
        yield path
    finally:
        places.run("losetup", "--detach", path)
