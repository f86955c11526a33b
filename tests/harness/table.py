"""Records every filesystem and prints its truth table: python tests/harness/table.py [NAME...]

Names: ext4 (on this machine, needs root), ext4-guest, f2fs, vfat, exfat; without any all of them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import truth

from harness import judge, recordings


def main() -> None:
    """Prints a table for each recording: run, question, blocks and the share of every outcome."""
    names = sys.argv[1:] or list(recordings.RECORDINGS)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="androstep-truth-") as directory:
            began = time.monotonic()
            recording = recordings.make(name, Path(directory))
            seconds = time.monotonic() - began
            known, on_disk = recording.truth, recording.log.entries.height
            print(f"\n{name}: recorded in {seconds:.0f} s, {recording.staging.lost_events} events lost;")
            print(f"{on_disk} requests reached the disk, {known.unmatched} sectors not as often as in the trace;")
            print(f"{known.rows.height} blocks judged, {known.ambiguous.total()} not ({dict(known.ambiguous)})")
            print(f"{'':22}{'':16}{'blocks':>7}" + "".join(f"{outcome:>16}" for outcome in truth.OUTCOMES))
            for row in judge.table(recording).iter_rows(named=True):
                shares = "".join(f"{row[outcome]:>16.2%}" for outcome in truth.OUTCOMES)
                print(f"{row['run']:22}{row['asked']:16}{row['blocks']:7}{shares}")


if __name__ == "__main__":
    main()
