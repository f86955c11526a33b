"""Record the results of this directory: iobench on real filesystems of this machine.

    make probes
    python datasets/bench/record.py -o DIR [--disk DIRECTORY] [--only PLACE ...]

Needs root, loop devices, mkfs of each filesystem, and fio. F2FS is measured in a virtual machine without acceleration
and needs what tests/harness/guest.py needs. Takes ten minutes. DIR gets PLACE/EXPERIMENT.rec.xz, and recorded.json with
the commands, the machine's load at the start of each place, and the sha256 of each file.

The images of `disk` are in DIRECTORY, and the loop device accesses them with direct I/O. The image of `memory` is in
/dev/shm: another device under the same filesystem.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from harness import guest, places

from androstep_analysis import runs
from androstep_analysis.bench import write_fio_job

STATIC = Path(__file__).resolve().parents[2] / "build" / "probes" / f"{os.uname().machine}-linux-musl" / "iobench"
"""The build for devices: host and guest run the same program."""

ROUNDS = 9
"""Smallest number whose interval of the median excludes the minimum and the maximum (96 %)."""

ALWAYS = f"--repeats {ROUNDS} --interval 10000 -q"

EXPERIMENTS = {
    "modes": "file --size 8m --runtime 300ms --number_ios 1024 --sweep rw=write,randwrite "
    "--sweep mode=buffered,osync,odsync,fsync,fdatasync,direct,direct_osync,mmap,mmap_sync",
    "reads": "file --size 8m --sweep rw=read,randread --sweep mode=buffered,direct,mmap",
    "threads": "file --size 256k --runtime 300ms --number_ios 512 --rw randwrite --mode fsync --sweep numjobs=1..32",
    "sizes": "file --size 32m --runtime 200ms --number_ios 512 --direct 1 --sweep rw=read,randread,write,randwrite "
    "--sweep bs=4k..1m",
    "journal_modes": "sqlite -T 1 -n 100 --sweep sqlite-op=insert,update,delete "
    "--sweep journal-mode=DELETE,TRUNCATE,PERSIST,WAL,MEMORY,OFF",
    "synchronous": "sqlite -T 1 -n 100 -j DELETE --sweep sqlite-op=insert,update,delete "
    "--sweep synchronous=OFF,NORMAL,FULL,EXTRA",
    "sqlite_threads": "sqlite -T 1 -n 160 -j DELETE --sweep numjobs=1..32",
}
"""Options of iobench.

These are the sync modes, threads, journal modes and synchronous levels of SQLite that Mobibench's papers compare, and
the rate by record size.
"""


PEERS = {
    "reads": "file --size 64m --sweep rw=read,randread --sweep mode=buffered,mmap,direct -q",
    "writes": "file --size 32m --sweep rw=write,randwrite --sweep mode=buffered,mmap,osync,direct -q",
}
"""Options for both iobench and fio: the common modes by which Mobibench's papers compare it with IOzone."""

COMPARED = ("modes", "journal_modes")
"""The experiments in every place. All experiments everywhere would make the data set too large."""


@dataclass(frozen=True)
class Place:
    """A filesystem to measure, the storage below it, and its experiments."""

    fs_type: str
    backing: str
    mkfs: tuple[str, ...]
    experiments: Collection[str] = COMPARED


PLACES = {
    "ext4_disk": Place("ext4", "disk", places.MKFS["ext4"], EXPERIMENTS),
    "xfs_disk": Place("xfs", "disk", places.MKFS["xfs"]),
    "btrfs_disk": Place("btrfs", "disk", places.MKFS["btrfs"]),
    "ext4_memory": Place("ext4", "memory", places.MKFS["ext4"]),
    "f2fs_guest": Place("f2fs", "guest", ()),
    "ext4_peers": Place("ext4", "peers", places.MKFS["ext4"], PEERS),
}


def words(experiment: str) -> str:
    return f"{EXPERIMENTS[experiment]} {ALWAYS}"


def record_here(place: Place, scratch: Path, out: Path) -> None:
    """Run the experiments on one filesystem of this machine."""
    with (
        tempfile.TemporaryDirectory(prefix="androstep-bench-", dir=scratch) as name,
        places.mounted(place.mkfs, Path(name), past_cache=place.backing == "disk") as top,
    ):
        for experiment in place.experiments:
            asked = [*shlex.split(words(experiment)), "-p", str(top)]
            places.measure([STATIC], asked, out / f"{experiment}.rec")


def record_peers(place: Place, scratch: Path, out: Path) -> None:
    """Run iobench and fio alternately on one filesystem of this machine, so that both see the same load."""
    with (
        tempfile.TemporaryDirectory(prefix="androstep-bench-", dir=scratch) as name,
        places.mounted(place.mkfs, Path(name)) as top,
    ):
        for number in range(ROUNDS):
            for experiment, asked in PEERS.items():
                options = [*shlex.split(asked), "-p", str(top)]
                places.measure([STATIC], options, out / f"{experiment}-{number}.rec")
                jobs = write_fio_job.write(runs.described(options) or [])
                (out / f"{experiment}-{number}.json").write_text(by_fio(jobs, Path(name)))


def by_fio(jobs: str, scratch: Path) -> str:
    """Return fio's JSON output for the jobs of a job file, each run separately.

    In a common run fio would lay out the files of all jobs before the first job, which removes them.
    """
    path = scratch / "jobs.fio"
    path.write_text(jobs + "\n")
    sections = re.findall(r"(?m)^\[(.+)\]$", jobs)
    said = [json.loads(places.run("fio", "--output-format=json", f"--section={name}", path)) for name in sections]
    return json.dumps({**said[0], "jobs": [job for document in said for job in document["jobs"]]}, indent=1) + "\n"


def record_in_guest(place: Place, scratch: Path, out: Path) -> None:
    """Run each experiment in a guest of its own, because a guest must end within guest.PATIENCE_S."""
    for experiment in place.experiments:
        command, parts = places.measure_in_guest([*shlex.split(words(experiment)), "-p", "/mnt"], f"{experiment}.rec")
        script = f"set -x\nmount -t {place.fs_type} -o noatime /dev/vda /mnt && {command} && umount /mnt || return\n"
        with tempfile.TemporaryDirectory(prefix="androstep-bench-", dir=scratch) as directory:
            guest.run(Path(directory), place.fs_type, [STATIC], script, cpus=os.cpu_count() or 1, log_writes=False)
            places.join([Path(directory) / part for part in parts], out / f"{experiment}.rec")


def main() -> None:
    """Record each place and describe it in recorded.json."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for the results")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="directory on the disk to measure")
    parser.add_argument(
        "--only", nargs="+", choices=PLACES, default=list(PLACES), help="record these and keep the rest"
    )
    options = parser.parse_args()
    manifest = options.output / "recorded.json"
    recorded = json.loads(manifest.read_text()) if manifest.exists() else {"places": {}}
    for name in options.only:
        place, out = PLACES[name], options.output / name
        out.mkdir(parents=True, exist_ok=True)
        begun = datetime.datetime.now(datetime.UTC)
        print(f"{begun:%H:%M:%S} {name}", flush=True)
        load = round(os.getloadavg()[0], 1)
        if place.backing == "guest":
            record_in_guest(place, options.disk, out)
        elif place.backing == "peers":
            record_peers(place, options.disk, out)
        else:
            record_here(place, options.disk if place.backing == "disk" else Path("/dev/shm"), out)
        recorded["places"][name] = {"recorded": f"{begun:%Y-%m-%d %H:%M} UTC", "load": load, "sha256": places.pack(out)}
    recorded["host"] = {"kernel": os.uname().release, "machine": os.uname().machine, "cpus": os.cpu_count()}
    recorded["commands"] = {experiment: f"androstep bench -- {words(experiment)}" for experiment in EXPERIMENTS}
    recorded["peers"] = {experiment: f"androstep bench -- {asked}" for experiment, asked in PEERS.items()}
    manifest.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
