"""Record on this machine, on ext4 on a loop device over the logging disk. Needs root."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from support import machine
from support.needs import needs

from harness import build
from harness.made import Made

FS_BYTES = 192 << 20
MARK_BYTE = FS_BYTES
DISK_BYTES = FS_BYTES + (1 << 20)
PATIENCE_S = 60

MKFS = ("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096")
JOURNAL_BLOCKS = 4096


def missing() -> str | None:
    """Return why recording is not possible here, or None."""
    for program in ("mke2fs", "losetup", "dumpe2fs", "debugfs", "gcc"):
        if shutil.which(program) is None:
            return f"needs {program}"
    if not Path("/dev/fuse").exists():
        return "needs /dev/fuse"
    return None


@needs("root")
@contextlib.contextmanager
def disk(directory: Path, mkfs: Sequence[str]) -> Iterator[Path]:
    """Yield a loop device with an ext4 in directory/disk.img. All writes are logged to directory/disk.log."""
    image = directory / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    _run(*MKFS, *mkfs, image, f"{FS_BYTES >> 10}k")
    _run("cp", "--sparse=always", image, directory / "base.img")
    mountpoint = directory / "fuse"
    mountpoint.mkdir()
    server = subprocess.Popen([build.disklog(), image, directory / "disk.log", mountpoint])
    try:
        _wait_for(mountpoint / "disk")
        device = Path(_run("losetup", "--find", "--show", "--direct-io=on", mountpoint / "disk").strip())
        try:
            yield device
        finally:
            _run("losetup", "--detach", device)
    finally:
        subprocess.run(["umount", mountpoint], check=False, timeout=PATIENCE_S)
        _stop(server)


def record(directory: Path, made: Made, iotrace: Path, *, seed: int = 1, size: int = 12) -> None:
    """Record the workload with iotrace. Writes disk.img, base.img, disk.log, oplog/ and recording/ to `directory`."""
    mountpoint, log = directory / "mnt", directory / "oplog"
    mountpoint.mkdir()
    log.mkdir()
    program = build.workload()
    part = [mountpoint, log, str(seed), str(size)]
    with (
        machine.alone(machine.WORKLOAD),
        machine.shared(machine.MOUNTS),
        journal(directory, made) as further,
        disk(directory, [*made.mkfs, *further]) as device,
    ):
        with mounted(device, mountpoint, made.options):
            _run(program, "prep", *part)
        _run(program, "mark", device, str(MARK_BYTE), "prepared")
        with mounted(device, mountpoint, made.options):
            mark = [str(program), "mark", str(device), str(MARK_BYTE)]
            steps = [
                [*mark, "begin"],
                [str(program), "run", *map(str, part)],
                ["umount", str(mountpoint)],
                [*mark, "end"],
            ]
            script = " && ".join(shlex.join(step) for step in steps)
            where = ["--preset", "block+fs+syscalls", "--device", device]
            _run(iotrace, "-o", directory / "recording", *where, "--", "sh", "-c", script)


@contextlib.contextmanager
def journal(directory: Path, made: Made) -> Iterator[Sequence[str]]:
    """Create a separate journal device if `made` has one, and yield the arguments of mke2fs for it."""
    if not made.has_own_journal_disk:
        yield ()
        return
    image = directory / "journal.img"
    with image.open("wb") as file:
        file.truncate(JOURNAL_BLOCKS * 4096)
    device = _run("losetup", "--find", "--show", image).strip()
    try:
        _run("mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", device)
        yield ("-J", f"device={device}")
    finally:
        _run("losetup", "--detach", device)


@contextlib.contextmanager
def mounted(device: Path, mountpoint: Path, options: str) -> Iterator[None]:
    """Mount the filesystem of the device. The block may unmount it."""
    _run("mount", "-t", "ext4", "-o", options, device, mountpoint)
    try:
        yield
    finally:
        if mountpoint.is_mount():
            _run("umount", mountpoint)


def _run(*command: str | Path) -> str:
    """Return the output of the command. After a timeout it is killed with all its child processes."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            printed, _ = process.communicate(timeout=PATIENCE_S)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
                time.sleep(1)
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.02)


def _stop(server: subprocess.Popen[bytes]) -> None:
    try:
        server.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
