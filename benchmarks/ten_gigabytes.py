"""Ten gigabytes of trace, really there: made a capture, summarised and reported.

``python benchmarks/ten_gigabytes.py DIR [--gigabytes 10] [--only trace.dat]``. Writes a set of blktrace and a trace.dat
of that size into DIR, unless they are there (recordings of the corpus repeated, each time later: `formats_blktrace`,
`formats_tracedat`), and runs each command once, in a process of its own: seconds, processor seconds, greatest memory.
How fast the readers are beside blkparse, btt and trace-cmd is measured on five million events of the same recordings
(`formats_blktrace.py`, `formats_tracedat.py`, `linking.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import formats_blktrace
import formats_tracedat
from after_ingest import ROOT, run

SAMPLE = 1_000_000
"""Events of the recording whose size says how many are needed."""

MADE: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "blktrace": ("t.blktrace.0", formats_blktrace.repeat),
    "trace.dat": ("trace.dat", formats_tracedat.repeat),
}


def recording(directory: Path, kind: str, nr_bytes: float) -> Path:
    """The file to give to `androstep ingest`; those beside it of the same kind belong to it."""
    name, repeat = MADE[kind]
    place = directory / kind
    if not place.exists():
        sample, part = directory / f"{kind}.sample", directory / f"{kind}.part"
        sample.mkdir(parents=True)
        repeat(sample, SAMPLE)
        part.mkdir()
        repeat(part, int(nr_bytes / size(sample) * SAMPLE))
        part.rename(place)
    return place / name


def size(directory: Path) -> int:
    """Bytes of the files in it."""
    return sum(path.stat().st_size for path in directory.iterdir())


def main() -> None:
    """Print a row for each recording and command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--only", choices=MADE)
    options = parser.parse_args()
    directory = options.directory.resolve()
    print("| recording | GB | command | s | processor s | MiB |\n|---|---|---|---|---|---|")
    for kind in [options.only] if options.only else MADE:
        trace = recording(directory, kind, options.gigabytes * 1e9)
        capture, page = directory / f"{kind}.capture", directory / f"{kind}.html"
        for words in (
            ["ingest", str(trace), "-o", str(capture)],
            ["summary", str(capture)],
            ["report", str(capture), "-o", str(page)],
        ):
            took, used, memory = run(ROOT, words)
            row = f"| {kind} | {size(trace.parent) / 1e9:.1f} | {words[0]} | {took:.0f} | {used:.0f} | {memory:,.0f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
