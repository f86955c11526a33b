"""Record the data of this directory: models of devices, traces, replays and PostMark.

    make probes
    python datasets/whatif/record.py -o DIR [--disk DIRECTORY] [--only PART ...]

Needs root, loop devices, e2fsprogs, /dev/fuse and cgroup v1's blkio (devices.py). Takes about forty minutes on an
otherwise idle machine. Each part is a directory in DIR; recorded.json has the time, the commands and the sha256 of the
files of each. Replays use the traces in DIR, which must exist, and datasets/demo.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from devices import KINDS, LIMITS, MIB, Device, places
from programs import TABLES, programs

import androstep_analysis as androstep
from androstep_analysis import replay, whatif
from androstep_analysis.replay import device as device_replay

HERE = Path(__file__).resolve().parent
PROBES = HERE.parents[1] / "build" / "probes" / f"{os.uname().machine}-linux-musl"
"""The builds for devices."""

RAW = "file --direct 1 --size 32m --interval 10000 -q --raw --i-know"
MODELLED = ("disk", "memory", "throttled", "card", "card_log")

TRACES = {
    "messages": ((), "FULL"),
    "messages_no_journal": (("-O", "^has_journal"), "FULL"),
    "messages_no_sync": ((), "OFF"),
}
"""The same app as it is, without ext4's journal, and without SQLite's syncs.

The values are options of mkfs.ext4, and SQLite's `synchronous`.
"""

REPEATS = {"disk": 6, "memory": 6, "throttled": 4, "card": 3, "card_log": 3}
"""Number of replays of each program."""

POSTMARK = {
    "buffered": ("defaults", "postmark --files 1000 --transactions 1000 --subdirectories 10 --end_fsync 1 --repeats 3"),
    "sync": ("sync", "postmark --files 50 --transactions 50 --subdirectories 10"),
}
"""Mount options and options of iobench.

Without the mount option sync, the page cache would hold all that PostMark writes.
"""


# -- models -----------------------------------------------------------------------------------------------------------


def experiments(kind: str) -> dict[str, str]:
    """Return the iobench experiments for a device of this kind.

    They are those of `androstep model build` for a device whose contents may be lost. Cards are slow and get fewer.
    """
    usual = {"card": (200, 3, 4), "card_log": (100, 3, 2), "throttled": (2048, 3, 2)}
    count, repeats, seconds = usual.get(kind, (512, 5, 1))
    asked = dict(whatif.EXPERIMENTS)
    if kind in ("card", "card_log"):
        fewer = {
            "depths": ("bs=4k,64k,1m", "bs=4k"),
            "durable": ("4k..1m", "4k,64k,1m"),
            "flushes": ("4k..1m", "4k,1m"),
        }
        asked |= {name: asked[name].replace(*sizes) for name, sizes in fewer.items()}
    some = f"{RAW} --number_ios {count} --runtime {seconds} --repeats {repeats}"
    return {name: f"{some} {options}" for name, options in asked.items()}


def record_model(kind: str, disk: Path, out: Path) -> list[str]:
    """Measure the costs of a device for `whatif.fit`."""
    with KINDS[kind](disk) as device:
        for name, options in experiments(kind).items():
            asked = [*shlex.split(options), "--filename", device.path]
            places.measure([*device.prefix, PROBES / "iobench"], asked, out / f"{name}.rec")
    places.pack(out)
    return [f"androstep bench -- {options} --filename DEVICE" for options in experiments(kind).values()]


def run_on(device: Device, probe: str, *words: str | Path) -> None:
    """Run a probe with the device's command prefix."""
    places.run(*device.prefix, PROBES / probe, *words)


# -- traces -----------------------------------------------------------------------------------------------------------


@contextmanager
def mounted(device: Device, options: str, *mkfs: str) -> Iterator[Path]:
    """Mount a new ext4 on the device for the duration of the block."""
    places.run(
        "mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", *mkfs, device.path
    )
    with tempfile.TemporaryDirectory(prefix="androstep-whatif-", dir="/dev/shm") as top:
        places.run("mount", "-o", f"noatime,{options}", device.path, top)
        try:
            yield Path(top)
        finally:
            places.run("umount", top)


def record_trace(name: str, disk: Path, out: Path) -> list[str]:
    """Record the app's I/O on a device in memory."""
    mkfs, synchronous = TRACES[name]
    workload = [sys.executable, HERE / "workload.py"]
    with KINDS["memory"](disk) as device, mounted(device, "defaults", *mkfs) as top:
        command = [*workload, top, "--synchronous", synchronous]
        record_tables(["--device", device.path, "--list", top, "--", *command], TABLES, out)
    return [f"workload.py DIRECTORY --synchronous {synchronous}; mkfs.ext4 -b 4096 {shlex.join(mkfs)}".strip()]


def record_tables(options: Sequence[str | Path], names: Sequence[str], out: Path, prefix: Sequence[str] = ()) -> None:
    """Record with iotrace and keep these tables only. Others also contain other processes' activity."""
    with tempfile.TemporaryDirectory(prefix="androstep-whatif-", dir="/dev/shm") as scratch:
        recording = Path(scratch) / "recording"
        places.run(*prefix, PROBES / "iotrace", "-o", recording, *options)
        capture = androstep.open(recording)
        for name in names:
            capture.tables[name].collect().write_parquet(
                out / f"{name}.parquet", compression="zstd", compression_level=19
            )


# -- replays ----------------------------------------------------------------------------------------------------------


def record_replays(kind: str, disk: Path, out: Path) -> list[str]:
    """Replay each program on a device, and write the times to measured.csv."""
    sources = [out.parent / "messages"] + [HERE.parent / "demo"] * (kind in ("disk", "memory"))
    tables = []
    with tempfile.TemporaryDirectory(prefix="androstep-whatif-") as scratch, KINDS[kind](disk) as device:
        program, record = Path(scratch) / "program.rec", Path(scratch) / "replay.rec"
        for source in sources:
            for change, requests, modes in programs(kind, source):
                device_replay.program(requests).write(program)
                for mode in modes:
                    for repeat in range(REPEATS[kind]):
                        target = ("--target", device.path, "--allow-device", device.path)
                        run_on(device, "ioreplay", *target, "--mode", mode, "-o", record, program)
                        found = replay.metrics(replay.read(record).tables)
                        found = found.filter(
                            pl.col("metric").is_in(["elapsed", "io_time", "latency"]), pl.col("call").is_null()
                        )
                        tables.append(
                            found.select(
                                pl.lit(source.name).alias("trace"),
                                pl.lit(change).alias("change"),
                                pl.lit(mode.replace("-", "_")).alias("mode"),
                                pl.lit(repeat).alias("repeat"),
                                "metric",
                                pl.col("quantile").cast(pl.String),
                                pl.col("value").cast(pl.Int64).alias("value_ns"),
                                "n",
                            )
                        )
                        record.unlink()
                program.unlink()
                print(f"  {source.name} {change}", flush=True)
    pl.concat(tables).write_csv(out / "measured.csv")
    return ["ioreplay --target DEVICE --allow-device DEVICE --mode MODE PROGRAM"]


# -- PostMark ---------------------------------------------------------------------------------------------------------


def record_postmark(kind: str, disk: Path, out: Path) -> list[str]:
    """Run PostMark on a device, with a trace of its requests if it is not mounted with sync."""
    for name, (mount, options) in POSTMARK.items():
        with KINDS[kind](disk) as device, mounted(device, mount) as top:
            command = [PROBES / "iobench", *shlex.split(options), "-q", "-p", top, "-o", out / f"{name}.rec"]
            if name == "sync":
                places.run(*device.prefix, *command)
                continue
            options_of_trace = ["--preset", "block", "--device", device.path, "--list", "none", "--", *command]
            record_tables(options_of_trace, ["requests"], out, device.prefix)
    places.pack(out)
    return [f"iobench {options} -p DIRECTORY, mounted with {mount}" for mount, options in POSTMARK.values()]


# -- all --------------------------------------------------------------------------------------------------------------

PARTS: dict[str, tuple[Callable[[str, Path, Path], list[str]], str]] = {
    **{f"model_{kind}": (record_model, kind) for kind in MODELLED},
    **{name: (record_trace, name) for name in TRACES},
    **{f"replays_{kind}": (record_replays, kind) for kind in REPEATS},
    **{f"postmark_{kind}": (record_postmark, kind) for kind in ("disk", "throttled", "card", "card_log")},
}


def digests(directory: Path) -> dict[str, str]:
    """Return the sha256 of every file below a directory."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def main() -> None:
    """Record each part and describe it in recorded.json."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for the results")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="directory on the disk to measure")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="record these and keep the rest")
    options = parser.parse_args()
    manifest = options.output / "recorded.json"
    recorded = json.loads(manifest.read_text()) if manifest.exists() else {"parts": {}}
    for name in options.only:
        record, what = PARTS[name]
        out = options.output / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        begun = datetime.datetime.now(datetime.UTC)
        print(f"{begun:%H:%M:%S} {name}", flush=True)
        commands = record(what, options.disk, out)
        recorded["parts"][name] = {
            "recorded": f"{begun:%Y-%m-%d %H:%M} UTC",
            "commands": commands,
            "sha256": digests(out),
        }
        recorded["host"] = {"kernel": os.uname().release, "machine": os.uname().machine, "cpus": os.cpu_count()}
        recorded["devices"] = {"mib": MIB, "throttled": LIMITS}
        manifest.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
