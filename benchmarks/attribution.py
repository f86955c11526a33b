"""How much of what was written is attributed, and how much of that is true: one table for what may be known.

``python benchmarks/attribution.py [RECORDING …]``. Needs the corpus of recorded traces (ANDROSTEP_CORPUS, or beside
the checkout): workloads of SQLite, buffered, mapped and direct writers on ext4 (Linux 6.18 and 6.1), F2FS and vfat
(6.1), of which the truth about every block was recorded below and above the kernel. The last column is the time to
link each run, and how many events that are in a second.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

from androstep_analysis import link

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import polars as pl
from support import corpus, truth


def main() -> None:
    """Print a line per recording, run and question."""
    warnings.simplefilter("ignore")
    print(f"{'known':22}{'question':14}{'blocks':>8}" + "".join(f"{name:>16}" for name in truth.OUTCOMES))
    for name in sys.argv[1:] or truth.RECORDINGS:
        directory = corpus.ROOT / "kernel" / name
        if not directory.is_dir():
            sys.exit(f"{directory}: no such directory; set ANDROSTEP_CORPUS")
        _report(directory)


def _report(directory: Path) -> None:
    staging = truth.staging(directory)
    dev = truth.device(staging)
    before, after = (truth.image(directory, when, dev) for when in ("before", "after"))
    written = truth.writes(directory)
    rows = {name: table.select(pl.len()).collect().item() for name, table in staging.tables.items()}
    print(f"\n{directory.name}: {rows['block_events'] + rows['fs_events']} events")
    for run, (with_events, with_before, with_after) in truth.RUNS.items():
        if with_before and before is None:
            continue
        images = link.Images(before if with_before else None, after if with_after else None)
        started = time.perf_counter()
        tables = truth.tables(staging, images, with_filesystem_events=with_events)
        seconds = time.perf_counter() - started
        events = rows["block_events"] + (rows["fs_events"] if with_events else 0)
        answers = truth.answered(tables["io"], written, directory.name.split("_")[0])
        questions = {
            "all data": truth.file(answers),
            "deleted files": truth.file(truth.deleted(answers, after)),
            "name": truth.name(answers),
            "owner": truth.owner(answers),
            "block type": truth.block_type(answers),
        }
        for question, outcomes in questions.items():
            shares = "".join(f"{share:16.2%}" for share in truth.shares(outcomes).values())
            speed = f"  {seconds:.2f} s, {events / seconds:,.0f}/s" if question == "all data" else ""
            print(f"{run:22}{question:14}{outcomes.height:8}{shares}{speed}")


if __name__ == "__main__":
    main()
