"""Record the filesystem results of datasets/bench and datasets/replay again, on an idle machine.

    make probes
    python datasets/idle.py [--disk DIRECTORY]

Needs root and what the record.py of both need. Each place is a step. A step starts once the machine is idle; if that
takes more than ten minutes, the program ends with a message. Completed steps are stored in build/idle/ and are not
repeated: run the same command again to continue. At the end they replace the files in datasets/bench and
datasets/replay, and build/idle/ is removed. Takes about twenty minutes.

bench/ext4_peers is not recorded again: it compares tools alternately, so that a busy machine matters less.
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
"""Share of CPU time, including waits for storage, above which the machine counts as busy."""
LOOK_S = 3.0
PATIENCE_S = 600.0

KEPT = ("ext4_peers",)

PROGRAMS = {
    **{"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.f2fs": "f2fs-tools"},
    **{"mkfs.nilfs2": "nilfs-tools", "qemu-system-x86_64": "qemu-system-x86"},
}
"""Required programs and their Debian packages. They are checked first, so that no step fails after twenty minutes."""


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
    """Return every place of both datasets except `KEPT`."""
    every = [Step(name, place) for name in ("bench", "replay") for place in manifest(DATASETS / name)["places"]]
    return [step for step in every if step.place not in KEPT]


def manifest(directory: Path) -> dict[str, Any]:
    path = directory / "recorded.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"places": {}}
    return known


# -- idleness ---------------------------------------------------------------------------------------------------------


def ticks(text: str) -> tuple[int, int]:
    """Return the busy CPU time, including waits for I/O, and the total since boot, from /proc/stat."""
    counts = [int(word) for word in text.splitlines()[0].split()[1:9]]
    return sum(counts) - counts[3], sum(counts)


def stat() -> str:
    return Path("/proc/stat").read_text("ascii")


def busy_share(before: str, after: str) -> float:
    """Return the share of CPU time between two readings of /proc/stat that was not idle."""
    (busy, total), (later_busy, later_total) = ticks(before), ticks(after)
    return (later_busy - busy) / max(1, later_total - total)


def looks() -> Iterator[float]:
    """Yield the busy share of the machine repeatedly."""
    while True:
        before = stat()
        time.sleep(LOOK_S)
        yield busy_share(before, stat())


def wait_until_idle(shares: Iterator[float], clock: Callable[[], float] = time.monotonic) -> None:
    """Wait until the machine is idle; exit with a message if that takes too long."""
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
    """Check that all programs are installed, and create the directory of steps with the files that record.py reads."""
    if absent := sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)}):
        sys.exit(f"programs are missing: install {', '.join(absent)}")
    for name in ("bench", "replay"):
        (STAGE / name).mkdir(parents=True, exist_ok=True)
    # The recording of the app is reused, because replays are of its program.
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
    """Replace the old results by the new ones."""
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
