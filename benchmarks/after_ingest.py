"""What is done with an ingested capture: greatest memory and time, of captures of several sizes.

``python benchmarks/after_ingest.py DIR [--events 5 20] [--beside CHECKOUT] [--repeats 3] [--only WORD]``. Ingests
recordings of so many million block events (the corpus' ext4 guest, repeated: `formats_blktrace`) into DIR, unless they
are there, and runs each command on each in a process of its own, in turn with another checkout of this repository (with
its library built), where one is given; medians. Each checkout has captures of its own, which it derives by its own code
before anything is measured. What does not grow with a recording takes as much memory for the largest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import formats_blktrace

ROOT = Path(__file__).resolve().parents[1]
MODEL = [str(path) for path in sorted((ROOT / "datasets/whatif/model_disk").glob("*.rec.xz"))]
COMMANDS: dict[str, list[str]] = {
    "summary": ["summary", "CAPTURE"],
    "summary --json": ["summary", "CAPTURE", "--json"],
    "report": ["report", "CAPTURE", "-o", "OUT/page.html"],
    "report --figures": ["report", "CAPTURE", "-o", "OUT/page.html", "--figures", "OUT/figures"],
    **{
        f"compare {measure}{' in windows' if windows else ''}": [
            *("compare", "CAPTURE", "--measure", measure, "-j", "1"),
            *(["--windows", "10s"] if windows else []),
        ]
        for measure in ("locality", "latency", "block_types")
        for windows in (False, True)
    },
    **{
        f"export {target}": ["export", "CAPTURE", "--to", target, "-o", "OUT/exported"]
        for target in ("perfetto", "blktrace", "blkparse", "most", "fio3", "msr", "oraclegeneral")
    },
    "whatif": ["whatif", "CAPTURE", "--without", "fs-journal", "--model", *MODEL],
    "release": ["release", "CAPTURE", "-o", "OUT/release"],
}


def capture(directory: Path, millions: int, checkout: Path) -> Path:
    """The capture of so many events that this checkout made."""
    place = directory / f"{millions}-{checkout.name}"
    if not place.exists():
        trace = directory / f"blktrace-{millions}"
        if not trace.exists():
            trace.mkdir(parents=True)
            formats_blktrace.repeat(trace, millions * 1_000_000)
        run(checkout, ["ingest", str(trace / "t.blktrace.0"), "-o", str(place)])
    run(checkout, ["summary", str(place), "--json"])
    return place


def run(checkout: Path, words: Sequence[str]) -> tuple[float, float, float]:
    """Seconds, processor seconds and greatest MiB of a command."""
    program = "import sys; from androstep_analysis.cli import main; sys.exit(main())"
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=checkout,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(words))
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, nargs="+", default=[5, 20], metavar="MILLIONS")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", metavar="WORD", help="commands in which this word stands")
    options = parser.parse_args()
    checkouts = [ROOT, *([options.beside.resolve()] if options.beside else [])]
    captures = {
        (millions, checkout): capture(options.directory.resolve(), millions, checkout)
        for millions in options.events
        for checkout in checkouts
    }
    print("| command | M events | checkout | MiB | s | processor s |\n|---|---|---|---|---|---|")
    for name, words in COMMANDS.items():
        if options.only not in name:
            continue
        for millions in options.events:
            found: dict[Path, list[tuple[float, float, float]]] = {checkout: [] for checkout in checkouts}
            for _ in range(options.repeats):
                for checkout in checkouts:
                    with tempfile.TemporaryDirectory(dir=options.directory) as out:
                        made = [
                            word.replace("CAPTURE", str(captures[millions, checkout])).replace("OUT", out)
                            for word in words
                        ]
                        found[checkout].append(run(checkout, made))
            for checkout, runs in found.items():
                took, used, memory = (statistics.median(column) for column in zip(*runs, strict=True))
                print(
                    f"| {name} | {millions} | {checkout.name} | {memory:,.0f} | {took:.1f} | {used:.1f} |", flush=True
                )


if __name__ == "__main__":
    main()
