"""Records and judges filesystems, and writes docs/truth.md: python tests/harness/table.py [NAME...]

Names are those of recordings.ALL; without any, all of them, one after the other. Those on this machine need root. What
was measured of each is kept in build/truth/NAME.json; the table has every configuration that is there.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from harness import build, judge, recordings

RESULTS = build.ROOT / "build" / "truth"
TABLE = build.ROOT / "docs" / "truth.md"

QUESTIONS = ("file", "file, deleted", "name", "owner", "block type")

HEAD = """# How much of it is true

Every sector that a workload wrote, on every filesystem, held against what table `io` says of it. The truth comes from
outside: the disk logs what it gets, and the content says of which file, place and process it is
(`tests/harness/content.py`). `make truth` records all of it anew, in virtual machines and, as root, on a loop device
(an hour on 2 cores), and writes this table; `python tests/harness/table.py NAME` only one.

Each cell is *right / inferred and right / inferred and wrong / unknown*, in percent of the sectors, with all evidence:
the trace with its probes, the image before and the image after. On this machine (ext2 to ext4 but for quota and
casefold) there are no kprobes: names of deleted files are told by fanotify alone, elsewhere by probes. *Wrong facts*
counts the sectors for which a wrong answer was given as a fact, with each of the {runs} combinations of evidence
(`judge.RUNS`). *Open* are the blocks of which the truth itself is not known: zeros, content that several files had,
compressed blocks.

"""
SPOILT = """
## Recordings as other people's are

The four recordings of `corpus/kernel`, of which the truth is known, spoilt in every way that could be thought of
(`tests/gauntlet`), with all their images: how many answers about file, name, owner and block type of each block were
right or wrong facts, inferred, or unknown, and the sentence that names what happened.
"""


def main() -> None:
    """Records the configurations, and writes the table of all that were ever recorded here."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or list(recordings.ALL):
        if lacking := recordings.missing(name):
            sys.exit(f"{name}: {lacking}")
        with tempfile.TemporaryDirectory(prefix="androstep-truth-") as directory:
            began = time.monotonic()
            recording = recordings.make(name, Path(directory))
            print(f"{name}: recorded in {time.monotonic() - began:.0f} s", flush=True)
            (RESULTS / f"{name}.json").write_text(json.dumps(measured(recording)))
    TABLE.write_text(document())


def measured(recording: judge.Recording) -> dict[str, Any]:
    """What the table needs of a recording."""
    rows = judge.table(recording).to_dicts()
    known = recording.truth
    return {
        "lost": recording.staging.lost_events,
        "unmatched": known.unmatched,
        "sectors": int(known.rows["sectors"].sum()),
        "open": known.ambiguous.total() / (known.ambiguous.total() + known.rows.height),
        "wrong": sum(round(row["wrong"] * row["sectors"]) for row in rows),
        "rows": rows,
    }


def document() -> str:
    """The text of docs/truth.md from what was measured."""
    gauntlet = RESULTS / "gauntlet.md"
    spoilt = [SPOILT, gauntlet.read_text()] if gauntlet.is_file() else []
    return HEAD.format(runs=len(judge.RUNS)) + "\n".join([*_table(), "", *_ordinary(), *spoilt]).rstrip() + "\n"


def _results() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in recordings.ALL:
        path = RESULTS / f"{name}.json"
        if path.is_file():
            yield name, json.loads(path.read_text())


def _cell(row: dict[str, Any]) -> str:
    shares = (row[outcome] for outcome in ("right", "inferred right", "inferred wrong", "unknown"))
    return " / ".join(f"{100 * share:.3g}" for share in shares)


def _table() -> Iterator[str]:
    yield f"| configuration | sectors | open | {' | '.join(QUESTIONS)} | wrong facts |"
    yield "|---|" + "---:|" * (len(QUESTIONS) + 3)
    for name, result in _results():
        rows = {row["asked"]: row for row in result["rows"] if row["run"] == "all"}
        cells = [_cell(rows[question]) for question in QUESTIONS]
        numbers = f"{result['sectors']:,} | {100 * result['open']:.2g} %"
        yield f"| {name} | {numbers} | {' | '.join(cells)} | {result['wrong']} |"


def _ordinary() -> Iterator[str]:
    yield "Under ordinary tracing (no probes) nothing but images tells a file of FAT and exFAT. A fact is what both"
    yield "images say of a cluster whose entry in the allocation table nobody wrote meanwhile"
    yield "(`link/evidence/unnumbered.py`); the rest is inferred:"
    yield ""
    yield "| configuration | file | name | owner | block type |"
    yield "|---|---:|---:|---:|---:|"
    for name, result in _results():
        rows = {row["asked"]: row for row in result["rows"] if row["run"] == judge.WITHOUT_PROBES}
        if name.startswith(("vfat", "exfat")) and rows:
            cells = [_cell(rows[question]) for question in ("file", "name", "owner", "block type")]
            yield f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
