"""Record the data of this directory: the same workloads on five kernel generations, in virtual machines.

    make probes
    python datasets/kernels/record.py -o DIR [--only KERNEL ...] [--repeats N]
    python datasets/kernels/record.py -o DIR --pack datasets/kernels

Each of KERNELS gets a new ext4 and a new F2FS, made and mounted with Android's options as far as the kernel supports
them. All workloads of workloads.py run twice in each guest, in several guests, and iotrace records each run. DIR gets a
capture of each, KERNEL-FS/WORKLOAD-N. With --pack, the tables captures, requests and io of all captures in DIR are
merged into one file per device below OUT/tables. That makes fewer files than `androstep release`, which writes one for
each capture.

Needs what tests/harness/guest.py needs for arm64, no root, and an hour. Existing captures are kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
from workloads import WORKLOADS

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from harness import guest, recordings
from harness.made import Made

from androstep_analysis import capture, schema
from androstep_analysis.datasets import parquet, release

KERNELS = ("arm64-5.10", "arm64-6.1", "arm64-6.12", "arm64-6.12-16k", "arm64-sid")
"""Names in `harness.recordings.KERNELS`, which contain the Linux version.

They are the kernels of Android 12 and 13, of 14, of 16, that of 16 with the 16 KiB pages that Android 15 introduced,
and a future one.
"""

PROBES = Path(__file__).resolve().parents[2] / "build" / "probes" / "aarch64-linux-musl"
PACKED = ("captures", "requests", "io")
ROWS = 1 << 14
"""Rows of a row group. A query of one capture then reads only a part of the file."""
ORDER = ("capture_id", "request_id", "sector")

IN_ONE_GUEST = 2
"""Rounds in one guest, which must end within guest.PATIENCE_S."""

SCRIPT = """set -x
echo 100 >/proc/sys/vm/dirty_writeback_centisecs; echo 200 >/proc/sys/vm/dirty_expire_centisecs
mount -t {fs_type} -o {options} /dev/vda /mnt || return
for round in {rounds}; do
{steps}
done
umount /mnt
"""

STEP = """mkdir /mnt/{name} && sync
cat >/tmp/{name}.sh <<'END'
set -e
cd /mnt/{name}
{work}
sync
END
iotrace -o /tmp/out/{name}-$round --device /dev/vda -- sh /tmp/{name}.sh || return
rm -r /mnt/{name}; sync; echo 3 >/proc/sys/vm/drop_caches
"""


def record(name: str, made: Made, rounds: range, out: Path) -> None:
    """Run all workloads in a guest once in each round, and make a capture of each recording."""
    steps = "".join(STEP.format(name=workload, work=work.strip()) for workload, work in WORKLOADS.items())
    numbers = " ".join(map(str, rounds))
    script = SCRIPT.format(fs_type=made.fs_type, options=made.options, rounds=numbers, steps=steps)
    with tempfile.TemporaryDirectory(prefix="androstep-kernels-") as scratch:
        directory = Path(scratch)
        guest.run(
            *(directory, made.fs_type, [PROBES / "iotrace", PROBES / "iobench"], script),
            log_writes=False,
            mkfs=made.mkfs,
            blank=made.blank,
            wanted=made.kernel,
        )
        for workload in WORKLOADS:
            for number in rounds:
                facts = {"device": name, "fs_type": made.fs_type, "workload": workload}
                recorded = directory / f"{workload}-{number}"
                capture.create([recorded], out / recorded.name, capture.Description(facts=facts))


def pack(captures: Path, out: Path) -> None:
    """Merge the tables of all captures into one file per device; times of each capture begin at 0."""
    with tempfile.TemporaryDirectory(prefix="androstep-kernels-") as scratch:
        tables = parquet.tables(release(sorted(captures.glob("*/*")), Path(scratch) / "released", shift_times=True))
        devices = tables["captures"].select("capture_id", of_device="device").collect()
        for name in PACKED:
            table = schema.table(name)
            rows = tables[name].collect().with_columns(pl.col(pl.Enum).cast(pl.String))
            order = [column for column in ORDER if column in rows.columns]
            for (device,), part in rows.sort(order).join(devices, on="capture_id").group_by("of_device"):
                place = out / parquet.DIRECTORY / name / f"{device}.parquet"
                place.parent.mkdir(parents=True, exist_ok=True)
                written = part.drop("of_device").to_arrow().cast(parquet.arrow(table))
                pq.write_table(written, place, **parquet.options(parquet.released(table)) | {"row_group_size": ROWS})


def main() -> None:
    """Record what is missing, or pack the captures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory of the captures")
    parser.add_argument("--only", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--repeats", type=int, default=8, help="how often everything is done (default 8)")
    parser.add_argument("--pack", type=Path, metavar="OUT", help="pack what is recorded instead")
    options = parser.parse_args()
    if options.pack:
        pack(options.output, options.pack)
        return
    with ThreadPoolExecutor(os.cpu_count()) as guests:
        jobs = []
        for first in range(0, options.repeats, IN_ONE_GUEST):
            rounds = range(first, min(first + IN_ONE_GUEST, options.repeats))
            for kernel in options.only:
                for fs_type, made in recordings.of_android(recordings.KERNELS[kernel]).items():
                    name = f"{kernel}-{fs_type}"
                    out = options.output / name
                    if not all((out / f"{one}-{number}").is_dir() for one in WORKLOADS for number in rounds):
                        jobs.append((f"{name} {rounds.start}", guests.submit(record, name, made, rounds, out)))
        for title, job in jobs:
            error = job.exception()
            print(f"{title}: {'recorded' if error is None else error}", flush=True)


if __name__ == "__main__":
    main()
