"""Run one benchmark of iobench on several filesystems and kernels, each in a virtual machine, and plot the results.

    make probes
    python datasets/bench/matrix.py -o DIR [--filesystems ext4 f2fs ...] [--kernels amd64-6.1 ...] [-- OPTION ...]

The options after `--` are those after `androstep bench --`. The default is SQLite's transactions in every journal mode.
DIR gets KERNEL-FILESYSTEM.rec, and two plots: rate.png (operations per second) and written.png (bytes that the device
wrote per operation).

Without acceleration every instruction is emulated. Rates are then only meaningful relative to each other; bytes are
exact. Needs what tests/harness/guest.py needs, no root, and a minute for each guest. Existing results in DIR are kept.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from harness import guest, kernel, places, recordings

from androstep_analysis import bench, plot

PROBES = Path(__file__).resolve().parents[2] / "build" / "probes"
BUILDS = {"amd64": "x86_64-linux-musl", "arm64": "aarch64-linux-musl"}

DEFAULT = shlex.split("sqlite -T 1 -n 60 -d update --sweep journal-mode=DELETE,TRUNCATE,PERSIST,WAL --repeats 6 -q")

SERIES = ("journal_mode", "sync_mode", "synchronous", "threads", "block_bytes", "test")
"""Parameters of a sweep. The first one that varies is shown by colour."""

SCRIPT = """set -x
mount -t {fs_type} -o noatime /dev/vda /mnt || return
{command} && umount /mnt
"""


def measure(fs_type: str, wanted: kernel.Wanted, options: Sequence[str], path: Path) -> None:
    """Run iobench on a new filesystem in a guest of this kernel."""
    iobench = PROBES / BUILDS[wanted.architecture] / "iobench"
    command, parts = places.measure_in_guest([*options, "-p", "/mnt"], "result.rec")
    script = SCRIPT.format(fs_type=fs_type, command=command)
    with tempfile.TemporaryDirectory(prefix="androstep-matrix-") as scratch:
        directory = Path(scratch)
        cpus = os.cpu_count() or 1
        guest.run(directory, fs_type, [iobench], script, cpus, log_writes=False, wanted=wanted)
        places.join([directory / part for part in parts], path)


def draw(tables: Mapping[str, pl.DataFrame], out: Path) -> None:
    """Plot the results: a group for each filesystem, and for each kernel if there are several."""
    runs = tables["bench_runs"]
    series = next((name for name in SERIES if runs[name].n_unique() > 1), "test")
    place = pl.col("fs_type")
    if runs["kernel"].n_unique() > 1:
        place = pl.format("{} {}", "fs_type", pl.col("kernel").str.extract(r"^(\d+\.\d+)"))
    by = ["fs_type", "kernel", *dict.fromkeys(("test", series))]
    rates = bench.summarise(tables, by=by).with_columns(place=place)
    rate = "tps" if "tps" in rates["metric"] else "iops"
    written = bench.written(tables, by=by).with_columns(place=place)
    for name, metric, table in (("rate", rate, rates), ("written", "written_per_op", written)):
        for (test,), of_test in table.group_by("test"):
            path = out / (f"{name}-{test}" if runs["test"].n_unique() > 1 else name)
            ax = plot.bench_devices(of_test, device="place", metric=metric, series=series)
            plot.save(ax, path, table=of_test, provenance={"command": " ".join(sys.argv)})
    print(written.filter(metric="written_per_op").select("place", "test", series, "value", "lo", "hi", "n"))


def main() -> None:
    """Measure what is missing, and plot all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="directory of the results")
    parser.add_argument("--filesystems", nargs="+", choices=guest.MKFS, default=["ext4", "f2fs", "exfat", "vfat"])
    parser.add_argument("--kernels", nargs="+", choices=recordings.KERNELS, default=["amd64-6.1"])
    parser.add_argument("options", nargs="*", metavar="OPTION", help="of iobench, behind --")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    wanted = list(itertools.product(asked.kernels, asked.filesystems))
    for name, fs_type in wanted:
        path = asked.output / f"{name}-{fs_type}.rec"
        print(path, "is there" if path.exists() else "is measured", flush=True)
        if not path.exists():
            measure(fs_type, recordings.KERNELS[name], asked.options or DEFAULT, path)
    draw(bench.read(*(asked.output / f"{name}-{fs_type}.rec" for name, fs_type in wanted)).tables, asked.output)


if __name__ == "__main__":
    main()
