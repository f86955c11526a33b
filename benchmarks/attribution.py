"""How much of what was written is attributed, and how much of that is true: one table for what may be known.

``python benchmarks/attribution.py [CORPUS]``. Needs the corpus of recorded traces (ANDROSTEP_CORPUS, or beside the
checkout): a Linux 6.18 ext4 workload of SQLite, buffered, mapped and direct writers of which the truth about every
4 KiB was recorded below and above the kernel.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import polars as pl

import androstep_analysis

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import corpus
import truth


def main() -> None:
    """Print a line per run and question."""
    warnings.simplefilter("ignore")
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else corpus.ROOT
    directory = root / truth.DIRECTORY
    if not directory.is_dir():
        sys.exit(f"{directory}: no such directory; name the corpus as argument")
    print(f"{'known':22}{'question':14}{'blocks':>8}" + "".join(f"{name:>16}" for name in truth.OUTCOMES))
    with tempfile.TemporaryDirectory(prefix="androstep-bench-") as scratch:
        captures = {}
        for events in (False, True):
            path = Path(scratch) / f"trace-{events}.txt"
            path.write_bytes(truth.trace(directory, with_filesystem_events=events))
            captures[events] = androstep_analysis.open(path)
        for name, (events, before, after) in truth.RUNS.items():
            capture = captures[events].with_filesystem(
                before=directory / "pre.img.zst" if before else None,
                after=directory / "final.img.zst" if after else None,
            )
            answers = truth.answered(capture, directory)
            questions = {
                "all data": truth.file(answers),
                "deleted files": truth.file(answers.filter(~pl.col("in_final_image"))),
                "owner": truth.owner(answers),
                "block type": truth.block_type(answers),
            }
            for question, outcomes in questions.items():
                shares = "".join(f"{share:16.2%}" for share in truth.shares(outcomes).values())
                print(f"{name:22}{question:14}{outcomes.height:8}{shares}")


if __name__ == "__main__":
    main()
