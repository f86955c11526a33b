"""Record the demo capture: a miniature Android /data on ext4, traced by iotrace, with the image before and after.

    make probes
    python datasets/demo/record.py -o DIR

Needs root, Linux 5.8 or later with tracefs and loop devices, and e2fsprogs, util-linux and coreutils. Everything
happens on an image file (on tmpfs if /dev/shm is one) behind a loop device. All of that is removed at exit, also after
SIGINT, SIGTERM and SIGHUP. DIR is written only after a successful recording: capture.json, and in raw/ the images and
iotrace's files, compressed and without data of other processes (redact.py).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workload import APPS

if TYPE_CHECKING:  # see main
    from androstep_analysis.common.manifest import Manifest, Source

IMAGE_BYTES = 64 << 20
PROGRAM = Path(__file__).parents[2] / f"build/probes/{os.uname().machine}-linux-musl/iotrace"
"""The static build for phones, which runs in an otherwise empty root directory."""

# Features as on Android, independent of the host's mke2fs.conf: no flex_bg, 64bit or metadata_csum.
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
NOBODYS_GROUP = 65534
IOTRACES_GROUP = (1 << 30) + os.getpid()
"""A group that no other process has, not even the iotrace of another recording at the same time.

Processes of another group may not be traced, even with fewer capabilities (ptrace(2)).
"""

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class RecordError(RuntimeError):
    """The recording failed; the message says why."""


@dataclass(frozen=True)
class Device:
    """The loop device: its node, and its number as `MAJ:MIN`."""

    node: Path
    number: str


def run(*command: str | Path) -> str:
    """Run a command and return its standard output; `RecordError` with its message on failure."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise RecordError(f"{command[0]} is not on this machine; install e2fsprogs and util-linux") from error
    if done.returncode:
        raise RecordError(f"{command[0]} failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def interruptible() -> Iterator[None]:
    """Unblock the stop signals within the block.

    They are blocked elsewhere, so that they can only arrive when everything that was acquired is registered for
    release.
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
    """Make a directory that must be empty when it is removed, so that nothing is deleted in a mount that is stuck."""
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
def small_world(root: Path, program: Path) -> Iterator[None]:
    """Prepare `root` as the root directory of iotrace, which then sees none of this machine's other mounts.

    Its /proc shows only the processes that the reader may trace (see `iotrace`), not others and their command lines.
    """
    with ExitStack() as cleanup:
        for name, fs_type, options in (
            ("proc", "proc", f"hidepid=invisible,gid={NOBODYS_GROUP}"),
            ("sys", "sysfs", "ro"),
        ):
            at = cleanup.enter_context(directory(root / name))
            cleanup.enter_context(mounted("nodev", at, fs_type, options))
        cleanup.callback((root / "iotrace").unlink)
        shutil.copy(program, root / "iotrace")
        cleanup.callback(shutil.rmtree, root / "recording", ignore_errors=True)
        yield


@contextmanager
def iotrace(root: Path) -> Iterator[int]:
    """Run iotrace on the filesystem at /data and yield its PID; afterwards `root`/recording holds its files."""
    command = (
        # The host name would become the device's name in the capture.
        *("unshare", "--uts", "sh", "-euc", 'echo demo > /proc/sys/kernel/hostname; exec "$@"', "sh"),
        # With CAP_SYS_PTRACE it would see all processes in any /proc.
        *("setpriv", "--bounding-set", "-sys_ptrace", "--regid", str(IOTRACES_GROUP), "--clear-groups"),
        *("chroot", root, "/iotrace", "-o", "/recording", "--device", "/data"),
    )
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until_begun(process, root / "recording/before.rec")
            yield process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
        if process.returncode:
            raise failure(process)


def wait_until_begun(process: subprocess.Popen[str], listing: Path) -> None:
    """Wait until iotrace, which records already, has finished its first listing of the files."""
    while not is_whole(listing):
        if process.poll() is not None:
            raise failure(process)
        with interruptible():
            time.sleep(0.05)


def is_whole(listing: Path) -> bool:
    from androstep_analysis.common.errors import InputError
    from androstep_analysis.ingest import record

    try:
        return record.read(listing).complete
    except InputError:  # missing or just begun
        return False


def failure(process: subprocess.Popen[str]) -> RecordError:
    said = process.stderr.read().strip() if process.stderr is not None else ""
    return RecordError(f"iotrace ended with status {process.returncode}: {said}")


def run_workload(root: Path, rounds: int) -> None:
    """Run all apps at once; all of them have ended when this returns or raises."""
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


def compress(source: Path, to: Path) -> None:
    import pyarrow as pa

    to.write_bytes(pa.Codec("zstd", compression_level=19).compress(source.read_bytes(), asbytes=True))


def keep(path: Path, kept: Path, role: str, device: Device | None = None) -> Source:
    """Store a file of the recording as `kept`, compressed if it has suffix .zst, and return its manifest entry."""
    from androstep_analysis.common import manifest

    (compress if kept.suffix == ".zst" else shutil.copyfile)(path, kept)
    number = device.number if device is not None else None
    return manifest.Source(f"raw/{kept.name}", role, kept.stat().st_size, manifest.sha256(kept), number)


def keep_recording(sources: Sequence[Source], raw: Path) -> Iterator[Source]:
    """Store the files of iotrace: JSON as it is, the rest compressed."""
    for source in sources:
        path = Path(source.path)
        yield keep(path, raw / (path.name if path.suffix == ".json" else f"{path.name}.zst"), source.role)


def record(stage: Path, raw: Path, program: Path, rounds: int) -> Manifest:
    """Record into the directory `raw`, with temporary files in `stage`; return the manifest."""
    from redact import redact

    from androstep_analysis.ingest import recording

    with ExitStack() as cleanup:
        root = cleanup.enter_context(directory(stage / "root"))
        data = cleanup.enter_context(directory(root / "data"))
        cleanup.enter_context(small_world(root, program))
        image = stage / "data.img"
        cleanup.callback(image.unlink, missing_ok=True)
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        run(*MKFS, image)
        device = cleanup.enter_context(loop_device(image))

        with mounted(device.node, data, "ext4", MOUNT_OPTIONS):
            run(sys.executable, Path(__file__).with_name("workload.py"), "populate", root)
        before = keep(image, raw / "before.img.zst", "image_before", device)

        with mounted(device.node, data, "ext4", MOUNT_OPTIONS), iotrace(root) as tracer:
            run_workload(root, rounds)
            # From here on nothing changes, so that the trace contains everything that leads to the image after.
            run("mount", "-o", "remount,ro", data)
        after = keep(image, raw / "after.img.zst", "image_after", device)

        described = recording.described(root / "recording")
        if described.lost_events:
            raise RecordError(f"{described.lost_events} events were lost; record again while the machine does less")
        redact(root / "recording/trace.dat", {os.getpid(), tracer})
        return replace(
            described,
            sources=(*keep_recording(described.sources, raw), before, after),
            facts=described.facts
            | {
                "device": os.uname().machine,
                "storage_model": "loop device",
                "encryption": "none",
                "workload": f"AndroStep demo, {rounds} rounds of {', '.join(APPS)}",
            },
            devices=tuple(row for row in described.devices if row["dev"] == device.number),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the AndroStep demo capture.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="capture directory to write")
    parser.add_argument("--iotrace", type=Path, default=PROGRAM, metavar="PATH", help="a statically linked iotrace")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of the workload, about a second each")
    arguments = parser.parse_args()
    if not arguments.iotrace.is_file():
        sys.exit(f"record.py: {arguments.iotrace}: there is no iotrace; run make probes, or name one with --iotrace")
    if os.geteuid():
        sys.exit("record.py needs root for loop devices and tracefs; run it with sudo")
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    # Not before: this import starts threads, and a thread that does not block the signals receives them for the
    # process. Not after the handlers: polars installs its own for SIGINT, after which a wait would continue.
    from androstep_analysis.common import manifest

    for number in STOP_SIGNALS:
        signal.signal(number, stop)

    tmpfs = "/dev/shm" if os.path.ismount("/dev/shm") else None
    stage = Path(tempfile.mkdtemp(prefix=f"androstep-demo-{os.getpid()}-", dir=tmpfs))
    try:
        with directory(stage / "raw") as raw:
            try:
                described = record(stage, raw, arguments.iotrace, arguments.rounds)
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
