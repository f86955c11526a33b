"""Record what datasets/bench and datasets/replay hold of filesystems anew, on a machine that does nothing else.

    make probes
    python datasets/idle.py [--disk DIRECTORY]

Needs root and what the record.py of both need. Each place is a step. Before it the machine has to be idle: while others
work, the step waits, and after ten minutes ends with one sentence. Steps that are done stay in build/idle/ and are not
done again: start the same command again after it was stopped. When all are done, they replace the files in
datasets/bench and datasets/replay, and build/idle/ is removed. About twenty minutes.

bench/ext4_peers is left as it is: it compares tools, in turns.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

DATASETS = Path(__file__).resolve().parent
STAGE = DATASETS.parent / "build" / "idle"

BUSY = 0.05
"""The share of CPU time, waiting for storage included, from which on others are said to work."""
LOOK_S = 3.0
PATIENCE_S = 600.0

KEPT = ("ext4_peers",)

PROGRAMS = {
    **{"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.f2fs": "f2fs-tools"},
    **{"mkfs.nilfs2": "nilfs-tools", "qemu-system-x86_64": "qemu-system-x86"},
}
"""What is needed, and the package of Debian that has it: a step must not fail after twenty minutes for want of it."""


@dataclass(frozen=True)
class Step:
    """A place of a dataset, recorded by the record.py of that dataset."""

    dataset: str
    place: str

    @property
    def is_done(self) -> bool:
        return self.place in manifest(STAGE / self.dataset)["places"]

    def command(self, disk: Path) -> list[str | Path]:
        what = ["replays"] if self.dataset == "replay" else []
        record = DATASETS / self.dataset / "record.py"
        return [sys.executable, record, *what, "-o", STAGE / self.dataset, "--disk", disk, "--only", self.place]


def steps() -> list[Step]:
    """Every place of both datasets but `KEPT`."""
    every = [Step(name, place) for name in ("bench", "replay") for place in manifest(DATASETS / name)["places"]]
    return [step for step in every if step.place not in KEPT]


def manifest(directory: Path) -> dict[str, Any]:
    path = directory / "recorded.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"places": {}}
    return known


# -- idleness ---------------------------------------------------------------------------------------------------------


def ticks(text: str) -> tuple[int, int]:
    """CPU time since the start in which something was done or waited for, and all of it, as /proc/stat has it."""
    counts = [int(word) for word in text.splitlines()[0].split()[1:9]]
    return sum(counts) - counts[3], sum(counts)


def stat() -> str:
    return Path("/proc/stat").read_text("ascii")


def busy_share(before: str, after: str) -> float:
    """The share of CPU time between two readings of /proc/stat that was not idle."""
    (busy, total), (later_busy, later_total) = ticks(before), ticks(after)
    return (later_busy - busy) / max(1, later_total - total)


def looks() -> Iterator[float]:
    """How busy the machine is, again and again."""
    while True:
        before = stat()
        time.sleep(LOOK_S)
        yield busy_share(before, stat())


def wait_until_idle(shares: Iterator[float], clock: Callable[[], float] = time.monotonic) -> None:
    """Returns once others do nothing; ends the program with one sentence when that takes too long."""
    subprocess.run(["sync"], check=True)
    begun, said = clock(), False
    for share in shares:
        if share < BUSY:
            return
        if clock() - begun > PATIENCE_S:
            sys.exit(
                f"the machine is not idle: {share:.0%} of its CPU time is used by others; end what runs and start this "
                "again, it goes on where it stopped"
            )
        if not said:
            print(f"  waiting: {share:.0%} of the CPU time is used by others", flush=True)
            said = True


# -- all --------------------------------------------------------------------------------------------------------------


def prepare() -> None:
    """Checks that all programs are there, and begins the directory of steps with what record.py reads from it."""
    if absent := sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)}):
        sys.exit(f"programs are missing: install {', '.join(absent)}")
    for name in ("bench", "replay"):
        (STAGE / name).mkdir(parents=True, exist_ok=True)
    # What was recorded of the app stays: replays are of that program.
    kept = {key: value for key, value in manifest(DATASETS / "replay").items() if key != "places"}
    if not (STAGE / "replay" / "recorded.json").exists():
        (STAGE / "replay" / "recorded.json").write_text(json.dumps({"places": {}, **kept}))
    for path in (DATASETS / "replay").glob("*.xz"):
        shutil.copy2(path, STAGE / "replay")


def record(todo: Sequence[Step], disk: Path) -> None:
    for number, step in enumerate(todo, 1):
        if step.is_done:
            continue
        wait_until_idle(looks())
        print(f"{datetime.now():%H:%M:%S} {number} of {len(todo)}: {step.dataset}/{step.place}", flush=True)
        if subprocess.run(step.command(disk), stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"{step.dataset}/{step.place} could not be recorded; start this again, it goes on from there")


def replace(todo: Sequence[Step]) -> None:
    """Puts what was recorded in place of what was there."""
    for step in todo:
        old = DATASETS / step.dataset / step.place
        shutil.rmtree(old)
        shutil.copytree(STAGE / step.dataset / step.place, old)
    for name in ("bench", "replay"):
        old, new = manifest(DATASETS / name), manifest(STAGE / name)
        merged = {**old, **new, "places": {**old["places"], **new["places"]}}
        (DATASETS / name / "recorded.json").write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(STAGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="directory on the disk to measure")
    disk = parser.parse_args().disk
    prepare()
    todo = steps()
    record(todo, disk)
    replace(todo)
    print("datasets/bench and datasets/replay were recorded anew; make figures draws them")


if __name__ == "__main__":
    main()
