"""Record the data of this directory: an app's I/O, and its replays on five filesystems.

    make probes
    python datasets/replay/record.py app -o DIR
    python datasets/replay/record.py replays -o DIR [--disk DIRECTORY] [--only PLACE ...]

`app` runs tests/harness/app.c in a virtual machine, traced by strace and iotrace at once, and writes app.strace.xz and
recording.tar.xz. `replays` makes the program of app.strace.xz and replays it with its recorded timing, on filesystems
in loop devices of this machine and in virtual machines. It also measures writes with fsync there. DIR gets
PLACE/replay-N.rec.xz and PLACE/fsync.rec.xz. recorded.json has times, commands and the sha256 of each file.

Virtual machines need what tests/harness/guest.py needs, and nilfs-tools; replays on this machine need root. Takes a
quarter of an hour.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import lzma
import os
import shlex
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from harness import build, guest, places

import androstep_analysis as androstep
from androstep_analysis import replay

STATIC = Path(__file__).resolve().parents[2] / "build" / "probes" / f"{os.uname().machine}-linux-musl"
"""The probes' build for devices: host and guests run the same programs."""

ROUNDS = 8
REPEATS = 9
"""Smallest number whose interval of the median excludes the minimum and the maximum (96 %)."""

PLACES = {
    **{f"{fs_type}_disk": ("disk", fs_type) for fs_type in ("ext4", "xfs", "btrfs")},
    **{f"{fs_type}_guest": ("guest", fs_type) for fs_type in ("ext4", "xfs", "btrfs", "nilfs2", "f2fs")},
}
"""Where the program is replayed: on a loop device over the disk, or on a disk of a guest."""

FSYNC = f"file --rw randwrite --size 4m --number_ios 160 --mode fsync --repeats {REPEATS} -q"
"""Options of iobench: the paper's random writes with fsync.

NILFS frees no space in between, so that all repetitions must fit on the guest's disk.
"""

READ_BACK = ("app.strace.xz", "recording.tar.xz")


def record_app(out: Path) -> dict[str, str]:
    """Record one run of the app with both tracers; return the sha256 of the files by name."""
    with tempfile.TemporaryDirectory(prefix="androstep-replay-") as name:
        directory = Path(name)
        guest.record_calls(
            directory,
            "ext4",
            STATIC / "iotrace",
            [build.app()],
            ["app", "/mnt", str(ROUNDS)],
            options=("-yy", "-ttt", "-T", "-s", "16"),
        )
        packed = lzma.compress((directory / "app.strace").read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        (out / "app.strace.xz").write_bytes(packed)
        with tarfile.open(out / "recording.tar.xz", "w:xz", preset=9) as files:
            files.add(directory / "recording", "recording")
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in READ_BACK}


def write_program(log: Path, path: Path) -> None:
    """Write the replay program of strace's log."""
    capture = androstep.open(log)
    replay.clean(capture.syscalls, capture.tasks).program.write(path)


def replay_here(fs_type: str, program: Path, scratch: Path, out: Path) -> None:
    """Run the replays and the benchmark on a filesystem of this machine."""
    with (
        tempfile.TemporaryDirectory(prefix="androstep-replay-", dir=scratch) as name,
        places.mounted(places.MKFS[fs_type], Path(name)) as top,
    ):
        for number in range(REPEATS):
            places.run(STATIC / "ioreplay", "-o", out / f"replay-{number}.rec", program, top / "replay")
        places.run(STATIC / "iobench", *shlex.split(FSYNC), "-p", top, "-o", out / "fsync.rec")


def replay_in_guest(fs_type: str, program: Path, scratch: Path, out: Path) -> None:
    """Run the replays and the benchmark on a filesystem of a guest."""
    script = "\n".join(
        [
            f"mount -t {fs_type} -o noatime /dev/vda /mnt || return",
            *(f"ioreplay -o /tmp/out/replay-{n}.rec /bin/app.rec /mnt/replay || return" for n in range(REPEATS)),
            f"iobench {FSYNC} -p /mnt -o /tmp/out/fsync.rec || return",
            "umount /mnt\n",
        ]
    )
    programs = [STATIC / "ioreplay", STATIC / "iobench", program]
    with tempfile.TemporaryDirectory(prefix="androstep-replay-", dir=scratch) as name:
        directory = Path(name)
        guest.run(directory, fs_type, programs, script, cpus=os.cpu_count() or 1, log_writes=False)
        for made in directory.glob("*.rec"):
            places.run("cp", made, out / made.name)


def record_replays(recorded: dict[str, Any], out: Path, scratch: Path, only: list[str]) -> None:
    """Run the replays in each place, and describe them in `recorded`."""
    with tempfile.TemporaryDirectory(prefix="androstep-replay-") as name:
        program = Path(name) / "app.rec"
        write_program(out / "app.strace.xz", program)
        for place in only:
            kind, fs_type = PLACES[place]
            (out / place).mkdir(exist_ok=True)
            begun = now()
            (replay_here if kind == "disk" else replay_in_guest)(fs_type, program, scratch, out / place)
            recorded["places"][place] = {"recorded": begun, "sha256": places.pack(out / place)}
            write_manifest(recorded, out)


def write_manifest(recorded: dict[str, Any], out: Path) -> None:
    """Write `out`/recorded.json."""
    recorded["host"] = {"kernel": os.uname().release, "machine": os.uname().machine, "cpus": os.cpu_count()}
    recorded["fsync"] = f"iobench {FSYNC}"
    (out / "recorded.json").write_text(json.dumps(recorded, indent=1) + "\n")


def now() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"


def main() -> None:
    """Record the app or its replays, and describe them in recorded.json."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("app", "replays"))
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for the results")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="directory on the disk to measure")
    parser.add_argument(
        "--only", nargs="+", choices=PLACES, default=list(PLACES), help="replay there and keep the rest"
    )
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    manifest = options.output / "recorded.json"
    recorded = json.loads(manifest.read_text()) if manifest.exists() else {"places": {}}
    if options.what == "app":
        begun = now()
        recorded["app"] = {"recorded": begun, "sha256": record_app(options.output), "rounds": ROUNDS}
        write_manifest(recorded, options.output)
    else:
        record_replays(recorded, options.output, options.disk, options.only)


if __name__ == "__main__":
    main()
