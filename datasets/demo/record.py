"""Record the demo capture: a miniature Android /data on ext4, traced by tracefs, with the image before and after.

    python datasets/demo/record.py -o DIR

Needs root, Linux with tracefs and loop devices, and e2fsprogs, util-linux and coreutils. Everything happens on an image
file of its own (on tmpfs where /dev/shm is one) behind a loop device, in a tracefs instance of its own; on every way
out, also SIGINT, SIGTERM and SIGHUP, all of that is taken away again. DIR is written only after a recording that
succeeded: capture.json, raw/trace.txt.gz, raw/before.img.zst, raw/after.img.zst.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workload import APPS

if TYPE_CHECKING:  # see main
    from androstep_analysis.manifest import Manifest, Source

IMAGE_BYTES = 64 << 20
TRACE_KIB_PER_CPU = 16 << 10

# As on Android, whatever the host's mke2fs.conf says: no flex_bg, 64bit or metadata_csum.
FEATURES = (
    "none,has_journal,ext_attr,dir_index,filetype,extent,sparse_super,large_file,huge_file,"
    "uninit_bg,dir_nlink,extra_isize"
)
MKFS = [
    *("mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "1", "-N", "2048", "-J", "size=4"),
    *("-O", FEATURES, "-U", "a2d20517-0000-4000-8000-000000000000", "-M", "/data"),
    *("-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed=6f1dbd0e-0000-4000-8000-000000000000"),
]
MOUNT_OPTIONS = "noatime,nosuid,nodev,noauto_da_alloc,discard"

# What is recorded, as far as the kernel has it: requests and their bios, and what tells whose blocks they hold.
EVENTS = {
    "block": (
        *("block_bio_queue", "block_bio_remap", "block_bio_backmerge", "block_bio_frontmerge", "block_split"),
        *("block_getrq", "block_rq_insert", "block_rq_merge", "block_rq_issue", "block_rq_requeue"),
        "block_rq_complete",
    ),
    "ext4": (
        *("ext4_es_insert_extent", "ext4_es_lookup_extent_exit", "ext4_free_blocks"),
        *("ext4_allocate_inode", "ext4_free_inode", "ext4_evict_inode", "ext4_unlink_enter"),
        *("ext4_da_write_begin", "ext4_write_begin", "ext4_writepages", "ext4_writepages_result"),
        *("ext4_direct_IO_enter", "ext4_direct_IO_exit"),
    ),
    "jbd2": ("jbd2_start_commit", "jbd2_end_commit", "jbd2_handle_stats"),
    "iomap": ("iomap_dio_rw_begin", "iomap_dio_complete"),
    "writeback": ("writeback_dirty_page", "writeback_dirty_folio"),
}

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class RecordError(RuntimeError):
    """The recording could not be made; the message says why."""


@dataclass(frozen=True)
class Device:
    """The loop device: its node, and its number as `MAJ:MIN` and as the kernel's dev_t."""

    node: Path
    number: str

    @property
    def dev_t(self) -> int:
        major, minor = map(int, self.number.split(":"))
        return major << 20 | minor


def run(*command: str | Path) -> str:
    """Run a command; its standard output, or `RecordError` with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise RecordError(f"{command[0]} is not on this machine; install e2fsprogs and util-linux") from error
    if done.returncode:
        raise RecordError(f"{command[0]} failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the stop signals in.

    They are held back everywhere else, so that they can only arrive where everything that was acquired is already
    registered for release.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


@contextmanager
def directory(path: Path) -> Iterator[Path]:
    """A directory that is empty again when it is removed: a mount that is stuck in it is never deleted into."""
    path.mkdir()
    try:
        yield path
    finally:
        path.rmdir()


@contextmanager
def mounted(source: Path | str, at: Path, fs_type: str, options: str = "defaults") -> Iterator[None]:
    run("mount", "-t", fs_type, "-o", options, source, at)
    try:
        yield
    finally:
        run("umount", at)


@contextmanager
def loop_device(image: Path) -> Iterator[Device]:
    node = Path(run("losetup", "--find", "--show", image))
    try:
        yield Device(node, Path("/sys/class/block", node.name, "dev").read_text().strip())
    finally:
        run("losetup", "--detach", node)


@contextmanager
def tgid_recording(tracing: Path) -> Iterator[None]:
    """Have the kernel remember the process of every thread.

    The option is global and an instance inherits it when it is made. The lock keeps a second recorder from taking our
    setting for the one to restore.
    """
    option = tracing / "options/record-tgid"
    if not option.exists():  # before Linux 4.13
        yield
        return
    with option.open("r+") as file:
        with interruptible():
            fcntl.flock(file, fcntl.LOCK_EX)
        before = option.read_text()
        option.write_text("1")
        try:
            yield
        finally:
            option.write_text(before)


@contextmanager
def trace_instance(tracing: Path, device: Device) -> Iterator[Path]:
    """A tracefs instance that is set up for `device` and not yet tracing."""
    instance = tracing / f"instances/androstep-demo-{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "tracing_on").write_text("0")
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(TRACE_KIB_PER_CPU))
        for system, events in EVENTS.items():
            # Writeback events name the backing device, all others have the kernel's dev_t.
            only = f'name == "{device.number}"' if system == "writeback" else f"dev == {device.dev_t}"
            for control in (instance / "events" / system / event for event in events):
                if control.is_dir():
                    (control / "filter").write_text(only)
                    (control / "enable").write_text("1")
        yield instance
    finally:
        instance.rmdir()


def lost_events(instance: Path) -> int:
    """Events that the instance overwrote or dropped, over all CPUs."""
    counters = ("overrun", "commit overrun", "dropped events")
    lines = [line for path in instance.glob("per_cpu/cpu*/stats") for line in path.read_text().splitlines()]
    return sum(int(value) for name, _, value in (line.partition(": ") for line in lines) if name in counters)


def run_workload(root: Path, rounds: int) -> None:
    """All apps at once; whatever happens, none of them is left when this returns."""
    script = Path(__file__).with_name("workload.py")
    apps: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in APPS:
            apps[name] = subprocess.Popen([sys.executable, script, name, root, "--rounds", str(rounds)])
        for name, process in apps.items():
            with interruptible():
                status = process.wait()
            if status:
                raise RecordError(f"{name} of the workload ended with status {status}")
    finally:
        for process in apps.values():
            process.kill()
            process.wait()


def mount_options(at: Path) -> str:
    """Options the kernel reports for the filesystem mounted at `at`: those of the mount, then those of ext4."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, filesystem = line.partition(" - ")
        if mount.split()[4] == os.fspath(at):
            return ",".join(dict.fromkeys(f"{mount.split()[5]},{filesystem.split()[2]}".split(",")))
    raise RecordError(f"nothing is mounted at {at}")


def compress_image(image: Path, to: Path) -> None:
    import pyarrow as pa

    with image.open("rb") as source, pa.CompressedOutputStream(str(to), "zstd") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def compress_text(source: Path, to: Path) -> None:
    with source.open("rb") as lines, gzip.GzipFile(to, "wb", compresslevel=9, mtime=0) as target:
        shutil.copyfileobj(lines, target, 1 << 20)


def source(path: Path, role: str, device: Device | None = None) -> Source:
    """What the manifest says of a raw file."""
    from androstep_analysis import manifest

    number = device.number if device is not None else None
    return manifest.Source(f"raw/{path.name}", role, path.stat().st_size, manifest.sha256(path), number)


def record(stage: Path, raw: Path, rounds: int) -> Manifest:
    """Record into the directory `raw`, with everything that is temporary in `stage`; the manifest."""
    from androstep_analysis.manifest import Manifest

    with ExitStack() as cleanup:
        root = cleanup.enter_context(directory(stage / "root"))
        data = cleanup.enter_context(directory(root / "data"))
        tracing = cleanup.enter_context(directory(stage / "tracing"))
        # tracefs is one filesystem however often it is mounted: an own mount needs no knowledge of the others.
        cleanup.enter_context(mounted("nodev", tracing, "tracefs"))
        image = stage / "data.img"
        cleanup.callback(image.unlink, missing_ok=True)
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        run(*MKFS, image)
        device = cleanup.enter_context(loop_device(image))

        with mounted(device.node, data, "ext4", MOUNT_OPTIONS):
            run(sys.executable, Path(__file__).with_name("workload.py"), "populate", root)
        compress_image(image, raw / "before.img.zst")

        cleanup.enter_context(tgid_recording(tracing))
        instance = cleanup.enter_context(trace_instance(tracing, device))
        realtime_offset_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        (instance / "tracing_on").write_text("1")
        with mounted(device.node, data, "ext4", MOUNT_OPTIONS):
            options = mount_options(data)
            run_workload(root, rounds)
            run("sync", "--file-system", data)
        (instance / "tracing_on").write_text("0")
        lost = lost_events(instance)
        compress_text(instance / "trace", raw / "trace.txt.gz")
        compress_image(image, raw / "after.img.zst")

        return Manifest(
            sources=(
                source(raw / "trace.txt.gz", "trace"),
                source(raw / "before.img.zst", "image_before", device),
                source(raw / "after.img.zst", "image_after", device),
            ),
            facts={
                "device": os.uname().machine,
                "kernel": os.uname().release,
                "storage_model": "loop device",
                "fs_type": "ext4",
                "encryption": "none",
                "clock": "mono",
                "workload": f"AndroStep demo, {rounds} rounds of {', '.join(APPS)}",
                "rooted": True,
            },
            realtime_offset_ns=realtime_offset_ns,
            devices=(
                {
                    "dev": device.number,
                    "name": device.node.name,
                    "parent": None,
                    "start_sector": 0,
                    "nr_sectors": IMAGE_BYTES // 512,
                },
            ),
            mounts=({"dev": device.number, "path": "/data", "fs_type": "ext4", "options": options},),
            lost_events=lost,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the AndroStep demo capture.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="capture directory to write")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of the workload, about a second each")
    arguments = parser.parse_args()
    if os.geteuid():
        sys.exit("record.py needs root for loop devices and tracefs; run it with sudo")
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    # Not before: this import starts threads, and one that does not hold the signals back lets them in for all. Nor
    # after the handlers: polars puts its own on SIGINT, with which a wait goes on.
    from androstep_analysis import manifest

    for number in STOP_SIGNALS:
        signal.signal(number, stop)

    tmpfs = "/dev/shm" if os.path.ismount("/dev/shm") else None
    stage = Path(tempfile.mkdtemp(prefix=f"androstep-demo-{os.getpid()}-", dir=tmpfs))
    try:
        with directory(stage / "raw") as raw:
            try:
                described = record(stage, raw, arguments.rounds)
                output = arguments.output / "raw"
                output.mkdir(parents=True, exist_ok=True)
                for path in raw.iterdir():
                    shutil.copyfile(path, output / path.name)
                manifest.write(described, arguments.output)
            finally:
                for path in raw.iterdir():
                    path.unlink()
    except RecordError as error:
        sys.exit(f"record.py: {error}")
    finally:
        stage.rmdir()


if __name__ == "__main__":
    main()
