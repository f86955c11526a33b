"""Record the data of this directory: apps on several storage devices and configurations, and iobench there.

    make probes
    python datasets/apps/record.py -o DIR [--disk DIRECTORY] [--only PART ...]

Needs root, loop devices, /dev/fuse, e2fsprogs, dpkg, Chromium, and apt with its lists. Packages are downloaded, and so
is libeatmydata, which disables an app's fsync(); nothing is installed on this machine. Takes a quarter of an hour.
recorded.json gets the time, the method, the load and the sha256 of the files of each part.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

sys.path.append(str(Path(__file__).resolve().parents[1] / "whatif"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from apps import Messages, Packages, Site, Web
from harness import places
from support.devices import KINDS

from androstep_analysis.capture import Capture
from androstep_analysis.device import connect
from androstep_analysis.device.workloads import Ran, Workload

IOBENCH = Path(__file__).resolve().parents[2] / "build" / "probes" / f"{os.uname().machine}-linux-musl" / "iobench"

PACKAGES = (
    *("fonts-dejavu-core", "fonts-inconsolata", "fonts-lato", "fonts-liberation", "fonts-noto-mono"),
    *("fonts-open-sans", "libjs-d3", "libjs-prototype", "libjs-sphinxdoc", "libjs-underscore"),
)
"""Ten packages without maintainer scripts, which would need more than dpkg in their root."""
NO_SYNC = "libeatmydata1"

HZ = 10
PAGES, ROUNDS = 12, 3
LUO_PAGES, LUO_ROUNDS, LUO_INSTALLS = 6, 5, 3
PAUSED_PAGES, PAUSE_S = 10, 4.0

NO_JOURNAL = ("-O", "^has_journal")


@dataclass(frozen=True)
class Configuration:
    """A configuration of Luo et al.: whether the app's fsync() works, and options of mkfs.ext4."""

    syncs: bool = True
    mkfs: tuple[str, ...] = ()


CONFIGURATIONS = {
    "default": Configuration(),
    "no_sync": Configuration(syncs=False),
    "no_journal": Configuration(mkfs=NO_JOURNAL),
    "both": Configuration(syncs=False, mkfs=NO_JOURNAL),
}

KIM_DEVICES = ("disk", "memory", "card")

_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
KEPT = {
    "requests": pl.lit(True),
    "io": pl.lit(True),
    "steps": pl.lit(True),
    "samples": (pl.col("scope") == "system") & pl.col("counter").is_in([f"stat.{state}" for state in _CPU]),
}
"""The tables and rows to keep of a recording. The rest contains other activity of this machine."""
CHANGED = "extents"
"""The further table that `whatif` needs."""

TABLE2 = {
    "sequential": "file --direct 1 --size 32m --bs 1m --sweep rw=read,write --runtime 2s --repeats 3 -q "
    "--interval 10000",
    "random": "file --direct 1 --size 32m --bs 4k --sweep rw=randread,randwrite --number_ios 64 --repeats 3 -q "
    "--interval 10000",
}
"""Kim et al., Table 2: sequential and random I/O of a file. They used CrystalDiskMark."""

FIGURE2 = {
    "sqlite": "sqlite -T 1 -n 100 -j TRUNCATE --sweep sqlite-op=insert,update,delete --sweep synchronous=OFF,FULL "
    "--repeats 5 -q --interval 10000",
    "random": "file --size 8m --bs 4k --sweep rw=randread,randwrite --fsync 1 --number_ios 256 --repeats 5 -q "
    "--interval 10000",
}
"""Luo et al., Figure 2. OFF is their SQLITE_NO_SYNC."""


# -- places -----------------------------------------------------------------------------------------------------------


@contextmanager
def mounted(kind: str, disk: Path, mkfs: Sequence[str] = ()) -> Iterator[tuple[str, Path]]:
    """Make a device of this kind with a new ext4; yield its path and mount point."""
    with (
        KINDS[kind](disk) as device,
        tempfile.TemporaryDirectory(prefix="androstep-apps-", dir="/dev/shm") as name,
    ):
        places.run(*places.MKFS["ext4"], "-b", "4096", *mkfs, device.path)
        places.run("mount", "-o", "noatime", device.path, name)
        try:
            yield device.path, Path(name)
        finally:
            places.run("umount", name)


def number(path: str) -> int:
    """Return a device's number as in column dev."""
    node = Path(path).stat().st_rdev
    return os.major(node) << 20 | os.minor(node)


def downloaded(names: Sequence[str], directory: Path) -> list[Path]:
    """Download Debian packages with apt."""
    done = subprocess.run(["apt-get", "download", *names], cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"apt-get download: {done.stderr.strip()}; run apt-get update, or see which package there is no more")
    return [next(directory.glob(f"{name}_*.deb")) for name in names]


def without_sync(directory: Path) -> dict[str, str]:
    """Return the environment in which fsync() and similar calls do nothing."""
    (package,) = downloaded([NO_SYNC], directory)
    places.run("dpkg-deb", "--extract", package, directory)
    return {"LD_PRELOAD": str(next(directory.rglob("libeatmydata.so")))}


# -- recordings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A workload of a recording, its repetition, and the directory of its files."""

    workload: Workload
    repeat: int
    top: Path


def recorded(tasks: Sequence[Task], devices: Sequence[str], out: Path, *more: str) -> None:
    """Run the tasks one after the other; keep `KEPT` and the tables `more` of the recording."""
    with tempfile.TemporaryDirectory(prefix="androstep-apps-", dir="/dev/shm") as scratch, connect("local") as device:
        with device.record(trace=devices, monitor_hz=HZ, out=Path(scratch) / "capture") as recording:
            done = []
            for task in tasks:
                ran = task.workload.run(device)
                done.append(ran.steps.with_columns(repeat=pl.lit(task.repeat, pl.Int32)))
                cleared(task.top)
                print(f"  {task.workload.name} {task.repeat}", flush=True)
            recording.add(Ran(pl.concat(done), (), ran.realtime_offset_ns))
        assert recording.capture is not None
        keep(recording.capture, out, [*KEPT, *more])


def warmed(tasks: Sequence[Task]) -> None:
    """Run the first task of each app once, so that its programs are in the page cache."""
    with connect("local") as device:
        for task in {type(task.workload): task for task in reversed(tasks)}.values():
            task.workload.run(device)
            cleared(task.top)


def cleared(top: Path) -> None:
    """Sync and then remove the files of an app, so that the next run starts in an empty directory.

    The messenger's files remain, because they are needed to attribute their blocks afterwards.
    """
    places.run("sync", "--file-system", top)
    for path in top.iterdir():
        if path.name in ("profile", "installed"):
            shutil.rmtree(path)
    places.run("sync", "--file-system", top)


def keep(capture: Capture, out: Path, names: Sequence[str]) -> None:
    """Write these tables without names of this machine's directories and ports."""
    if lost := capture.manifest.lost_events:
        print(f"  {lost} events were lost", flush=True)
    for name in names:
        table = capture.tables[name].filter(KEPT.get(name, pl.lit(True))).collect()
        if name == "steps":
            table = table.with_columns(pl.col("label").str.replace(r"^http://127\.0\.0\.1:\d+/", ""))
        if name == "io":
            table = table.with_columns(pl.col("path").str.replace(r"^.*/androstep-apps-[^/]*", ""))
        table.write_parquet(out / f"{name}.parquet", compression="zstd", compression_level=19)


def record_kim(disk: Path, out: Path) -> dict[str, Any]:
    """Record a browser and an installer on each device."""
    with ExitStack() as stack:
        packages = downloaded(
            PACKAGES, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="androstep-apps-")))
        )
        tops = {kind: stack.enter_context(mounted(kind, disk)) for kind in KIM_DEVICES}
        site = stack.enter_context(Site(PAGES))
        tasks = [
            Task(workload, repeat, top)
            for repeat in range(ROUNDS)
            for kind, (_, top) in tops.items()
            for workload in (Web(site, f"web {kind}", top, {}), Packages(packages, f"install {kind}", top, {}))
        ]
        warmed(tasks)
        recorded(tasks, [path for path, _ in tops.values()], out)
        return {"devices": {kind: number(path) for kind, (path, _) in tops.items()}, "packages": sizes(packages)}


def sizes(packages: Sequence[Path]) -> list[dict[str, str | int]]:
    """Return name, version and bytes of packages from their files."""
    found = []
    for path in packages:
        name, version = places.run("dpkg-deb", "--show", "--showformat", "${Package} ${Version}", path).split()
        found.append({"name": name, "version": version, "bytes": path.stat().st_size})
    return found


def record_luo(disk: Path, out: Path) -> dict[str, Any]:
    """Record a browser, a messenger and an installer alternately in each configuration."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="androstep-apps-")))
        packages, environment = downloaded(PACKAGES, scratch), without_sync(scratch)
        tops = {
            name: stack.enter_context(mounted("disk", disk, configuration.mkfs))
            for name, configuration in CONFIGURATIONS.items()
        }
        site = stack.enter_context(Site(LUO_PAGES))
        tasks = []
        for repeat in range(LUO_ROUNDS):
            for name, (_, top) in tops.items():
                own: Mapping[str, str] = {} if CONFIGURATIONS[name].syncs else environment
                tasks += [Task(Web(site, f"web {name}", top, own), repeat, top)]
                tasks += [Task(Messages(f"messages {name}", top, own), repeat, top)]
                if repeat < LUO_INSTALLS:
                    tasks += [Task(Packages(packages, f"install {name}", top, own), repeat, top)]
        warmed(tasks)
        recorded(tasks, [path for path, _ in tops.values()], out, CHANGED)
        return {"devices": {name: number(path) for name, (path, _) in tops.items()}, "packages": sizes(packages)}


def record_paused(disk: Path, out: Path) -> dict[str, Any]:
    """Record page loads with pauses."""
    with mounted("disk", disk) as (path, top), Site(PAUSED_PAGES) as site:
        recorded([Task(Web(site, "web", top, {}, PAUSE_S), 0, top)], [path], out)
        return {"devices": {"disk": number(path)}}


# -- iobench ----------------------------------------------------------------------------------------------------------


def record_table2(disk: Path, out: Path) -> dict[str, Any]:
    """Run iobench on a file of each device."""
    for kind in KIM_DEVICES:
        with mounted(kind, disk) as (_, top):
            measured(TABLE2, top, out, kind)
    return {"commands": [f"androstep bench -- {words}" for words in TABLE2.values()]}


def record_figure2(disk: Path, out: Path) -> dict[str, Any]:
    """Run iobench with and without the filesystem's journal."""
    for name, mkfs in (("default", ()), ("no_journal", NO_JOURNAL)):
        with mounted("disk", disk, mkfs) as (_, top):
            measured(FIGURE2, top, out, name)
    return {"commands": [f"androstep bench -- {words}" for words in FIGURE2.values()]}


def measured(experiments: Mapping[str, str], top: Path, out: Path, where: str) -> None:
    """Run each experiment and store it as WHERE-EXPERIMENT.rec.xz."""
    for name, words in experiments.items():
        places.measure([IOBENCH], [*shlex.split(words), "-p", str(top)], out / f"{where}-{name}.rec")
    places.pack(out)


# -- all --------------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "kim": record_kim,
    "kim_table2": record_table2,
    "luo": record_luo,
    "luo_paused": record_paused,
    "luo_figure2": record_figure2,
}


def stop(signal_number: int, _frame: object) -> None:
    raise SystemExit(128 + signal_number)


def main() -> None:
    """Record each part and describe it in recorded.json."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for the results")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="directory on the disk to measure")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="record these and keep the rest")
    options = parser.parse_args()
    for number_ in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number_, stop)
    manifest = options.output / "recorded.json"
    known = json.loads(manifest.read_text()) if manifest.exists() else {"parts": {}}
    for name in options.only:
        out = options.output / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        begun = datetime.datetime.now(datetime.UTC)
        print(f"{begun:%H:%M:%S} {name}", flush=True)
        load = round(os.getloadavg()[0], 1)
        said = PARTS[name](options.disk, out)
        digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}
        known["parts"][name] = {"recorded": f"{begun:%Y-%m-%d %H:%M} UTC", "load": load, **said, "sha256": digests}
        known["host"] = {"kernel": os.uname().release, "machine": os.uname().machine, "cpus": os.cpu_count()}
        manifest.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
