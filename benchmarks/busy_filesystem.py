"""What it takes to find out who wrote what: a recording with filesystem events of three busy processes, ingested.

``python benchmarks/busy_filesystem.py DIR [--seconds 18] [--beside CHECKOUT] [--repeats 3]``. Needs root. Records an
ext4 on a loop device into DIR, unless it is there, while SQLite commits, files come and go, and a large file is written
at random. Then its tables are made anew in a process of its own, `--repeats` times, in turn with another checkout of
this repository (with its library built), where one is given: medians of elapsed and processor time and of the greatest
memory, and how many events that is in a second of a processor.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import loops

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("messages", "files", "random")

MEASURED = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
import androstep_analysis as androstep
began = time.perf_counter()
capture = androstep.open(sys.argv[1])
took, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
rows, cpu_s = capture.about["rows"], used.ru_utime + used.ru_stime
print(json.dumps([rows["block_events"] + rows["fs_events"], took, cpu_s, used.ru_maxrss / 1024]))
"""


def messages(top: Path, end: float) -> None:
    connection = sqlite3.connect(top / "messages.db")
    connection.execute("create table message (at real, text blob)")
    while time.time() < end:
        with connection:
            connection.executemany("insert into message values (?, ?)", [(time.time(), os.urandom(300))] * 20)


def files(top: Path, end: float) -> None:
    draw, number = random.Random(1), 0
    while time.time() < end:
        path = top / f"file{number % 400}"
        if number % 3 == 2:
            path.unlink(missing_ok=True)
        path.write_bytes(os.urandom(4096 * draw.randrange(1, 200)))
        number += 1
        if number % 50 == 0:
            os.sync()
        time.sleep(0.002)


def at_random(top: Path, end: float) -> None:
    draw, number = random.Random(2), 0
    with (top / "large").open("wb+") as file:
        file.truncate(256 << 20)
        while time.time() < end:
            file.seek(4096 * draw.randrange(60_000))
            file.write(b"x" * draw.randrange(100, 9000))
            file.flush()
            number += 1
            if number % 500 == 0:
                os.fsync(file.fileno())


def record(directory: Path, capture: Path, seconds: int) -> None:
    """Record while each of the three is a process of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    image = directory / "busy.img"
    image.unlink(missing_ok=True)
    loops.make_ext4(image, nr_mib=4096)
    with loops.mounted(image) as mounted:
        command = [
            ROOT / ".venv/bin/androstep",
            "record",
            "--on",
            "local",
            "--device",
            mounted.device,
            "-o",
            capture,
            "--",
        ]
        workload = f"for kind in {' '.join(KINDS)}; do {sys.executable} {__file__} {mounted.top} --kind $kind"
        workload += f" --seconds {seconds} & done; wait"
        subprocess.run([*command, "sh", "-c", workload], check=True, stdout=subprocess.DEVNULL)
    image.unlink()


def ingested(capture: Path, checkout: Path) -> list[float]:
    """Events, seconds, processor seconds and MiB of making its tables anew."""
    shutil.rmtree(capture / "tables", ignore_errors=True)
    command = [sys.executable, "-c", MEASURED, capture]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    told = subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True, text=True)
    return list(json.loads(told.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=int, default=18)
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        run = {"messages": messages, "files": files, "random": at_random}[options.kind]
        return run(options.directory, time.time() + options.seconds)
    capture = options.directory.resolve() / "capture"
    if not capture.exists():
        record(options.directory, capture, options.seconds)
    checkouts = [ROOT, *([options.beside.resolve()] if options.beside else [])]
    found: dict[Path, list[list[float]]] = {checkout: [] for checkout in checkouts}
    for _ in range(options.repeats):
        for checkout in checkouts:
            found[checkout].append(ingested(capture, checkout))
    print("| checkout | events | s | processor s | MiB | events per processor s |\n|---|---|---|---|---|---|")
    for checkout, rows in found.items():
        events, took, used, memory = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"| {checkout} | {events:,.0f} | {took:.1f} | {used:.1f} | {memory:,.0f} | {events / used:,.0f} |")
    return None


if __name__ == "__main__":
    main()
