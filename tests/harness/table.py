"""Record and judge filesystems, and write docs/truth.md: python tests/harness/table.py [NAME...]

Names are those of recordings.ALL; without names all of them are recorded. Recordings on this machine need root.
Results are saved in build/truth/NAME.json. Rows of the document without such a file are retained.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from harness import build, judge, recordings

RESULTS = build.ROOT / "build" / "truth"
TABLE = build.ROOT / "docs" / "truth.md"

QUESTIONS = ("file", "file, deleted", "name", "owner", "block type")
SUMMARY = ("sectors", "open", *QUESTIONS, "wrong facts")

Row = Callable[[dict[str, Any]], list[str]]

HEAD = """# Accuracy

This page states how often files, names, owners and block types in table `io` are right, on every supported filesystem.
A test workload writes files. Each sector that it writes contains the file, the place and the process
(`tests/harness/content.py`), and the disk logs every write. The results of AndroStep are compared with this log, so the
truth does not come from the trace.

`make truth` records all of it again, in virtual machines and, as root, on a loop device. It takes two hours on 2 cores,
and writes the tables below. `python tests/harness/table.py NAME` records one configuration.

The first table has the sectors that were written, with all evidence: the trace with its probes, and images from before
and after. Each cell is *right / inferred and right / inferred and wrong / unknown*, in percent of the sectors.

- *Open* is the share of the blocks of which the truth itself is unknown: zeros, equal content in several files,
  compressed blocks. They are left out.
- *Wrong facts* is the number of sectors with a wrong result that was stated as a fact, summed over the {runs}
  combinations of evidence (`judge.RUNS`).

The rows ext2 to ext4, except for quota and casefold, were recorded on a machine without kprobes. There, names of
deleted files come from fanotify only; in the other rows they also come from probes.

"""
READS = """
## Reads

What was read is compared with the content of the disk at that time. A read is *open* if a write of the same place was
in flight. *Owner* is compared only where one process used the file.

Linux marks a whole readahead window with `REQ_RAHEAD`, including the pages that a process waits for. *Asked, ahead* is
the share of the marked sectors that a process had asked for, *asked, other* the share of the unmarked ones.

"""
ALONE = """
## Without an image

No image can be read of an encrypted phone. These results use only the trace, the listing of the mounted files at the
beginning, and names by fanotify or probes.

"""
KERNELS = """
## By kernel

These filesystems are made and mounted as on Android (`recordings.BY_KERNEL`), in virtual machines with Debian's kernels
of the same versions, most on the architecture of phones. With pages of 16 KiB (*16k*), F2FS has blocks of 16 KiB and
ext4 of 4 KiB.

- *f2fs-dm-crypt*: the filesystem is on dm-crypt, with a cipher that does not change the content.
- *fscrypt*: the directory has an encryption policy as on Android. Its blocks are decrypted for the comparison
  (`tests/harness/encrypted.py`).

Causes of results that are not facts:

- ext4 with pages of 16 KiB, 0.9 % of owners inferred: the data was stored through a memory map into a file that another
  process had changed before. The address of a store gives one block of the page; the other blocks may still hold data
  of the other process.
- Compressed files of F2FS, 0.8 to 2.1 % of owners inferred: F2FS dirties all pages of a cluster to write one of them.
  These pages became dirty while their thread was writing another page.
- dm-crypt on Linux 5.10, nothing known: dm-crypt submits bios of its own, and the kernel records the device above only
  for flushes (405 of 405 flushes, none of 2,379 bios with data). Linux 6.12 records it for all bios. The start of the
  target on the disk is in the device-mapper table, which also contains the key. iotrace does not read it.
- Encryption in memory: another process may write to the page before the encrypted copy is queued. The owner is then
  inferred.

"""
SPOILT = """
## Damaged and incomplete recordings

The four recordings of `corpus/kernel`, of which the truth is known, were damaged or reduced in many ways
(`tests/gauntlet`). The table counts the results about file, name, owner and block type of each block, with all images:
right facts, wrong facts, inferred, unknown. The last column has the message that names the problem.
"""


def main() -> None:
    """Record the configurations, and write the table of all that have results here."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or list(recordings.ALL):
        if lacking := recordings.missing(name):
            if sys.argv[1:]:
                sys.exit(f"{name}: {lacking}")
            print(f"{name}: skipped: {lacking}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="androstep-truth-") as directory:
            began = time.monotonic()
            recording = recordings.make(name, Path(directory))
            print(f"{name}: recorded in {time.monotonic() - began:.0f} s", flush=True)
            (RESULTS / f"{name}.json").write_text(json.dumps(measured(recording)))
    TABLE.write_text(document())


def measured(recording: judge.Recording) -> dict[str, Any]:
    """Return the results of a recording for the table."""
    rows = judge.table(recording).to_dicts()
    known = recording.truth
    kernel = recording.directory / "kernel"
    return {
        "kernel": kernel.read_text() if kernel.is_file() else "",
        "lost": recording.staging.lost_events,
        "unmatched": known.unmatched,
        "sectors": int(known.rows["sectors"].sum()),
        "open": known.ambiguous.total() / (known.ambiguous.total() + known.rows.height),
        "wrong": {
            op: sum(round(row["wrong"] * row["sectors"]) for row in rows if row["op"] == op) for op in ("write", "read")
        },
        "read": int(recording.truth_of_reads.rows["sectors"].sum()),
        "asked": judge.asked_for(recording).to_dicts(),
        "rows": rows,
    }


def document() -> str:
    """Return the text of docs/truth.md from the results here and the rows of the existing document."""
    before = TABLE.read_text().splitlines()
    gauntlet = RESULTS / "gauntlet.md"
    if gauntlet.is_file():
        spoilt = [SPOILT, gauntlet.read_text()]
    else:
        heading = SPOILT.strip().splitlines()[0]
        spoilt = ["", *before[before.index(heading) :]] if heading in before else []
    tables = [*_table(before), "", *_ordinary(before), KERNELS + "\n".join(_by_kernel(before))]
    tables += [READS + "\n".join(_reads(before)), ALONE + "\n".join(_alone(before))]
    return HEAD.format(runs=len(judge.RUNS)) + "\n".join([*tables, *spoilt]).rstrip() + "\n"


def _measured(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.is_file() else None
    return found


def _lines(names: Iterable[str], before: list[str], columns: Sequence[str], row: Row) -> Iterator[str]:
    """Yield a table with a line for each name with results here or a line in the existing document."""
    head = f"| configuration | {' | '.join(columns)} |"
    yield head
    yield "|---|" + "".join("---|" if column == "kernel" else "---:|" for column in columns)
    rest = before[before.index(head) :] if head in before else []
    kept = {line.split("|")[1].strip(): line for line in itertools.takewhile(lambda line: line.startswith("|"), rest)}
    for name in names:
        result = _measured(name)
        if result:
            yield f"| {name} | {' | '.join(row(result))} |"
        elif name in kept:
            yield kept[name]


def _cell(row: dict[str, Any]) -> str:
    shares = (row[outcome] for outcome in ("right", "inferred right", "inferred wrong", "unknown"))
    return " / ".join(f"{100 * share:.3g}" for share in shares)


def _answers(result: dict[str, Any], run: str, questions: Sequence[str], op: str = "write") -> list[str]:
    rows = {row["asked"]: row for row in result["rows"] if row["run"] == run and row["op"] == op}
    return [_cell(rows[question]) for question in questions]


def _summary(result: dict[str, Any]) -> list[str]:
    numbers = [f"{result['sectors']:,}", f"{100 * result['open']:.2g} %"]
    return [*numbers, *_answers(result, "all", QUESTIONS), str(result["wrong"]["write"])]


def _table(before: list[str]) -> Iterator[str]:
    names = [name for name in recordings.ALL if name not in recordings.BY_KERNEL]
    yield from _lines(names, before, SUMMARY, _summary)


def _by_kernel(before: list[str]) -> Iterator[str]:
    def row(result: dict[str, Any]) -> list[str]:
        return [f"`{result['kernel']}`", *_summary(result)]

    yield from _lines(recordings.BY_KERNEL, before, ("kernel", *SUMMARY), row)


def _reads(before: list[str]) -> Iterator[str]:
    def row(result: dict[str, Any]) -> list[str]:
        asked = [_share(result["asked"], is_ahead) for is_ahead in (True, False)]
        return [
            f"{result['read']:,}",
            *_answers(result, "all", QUESTIONS, "read"),
            *asked,
            str(result["wrong"]["read"]),
        ]

    columns = ("sectors", *QUESTIONS, "asked, ahead", "asked, other", "wrong facts")
    yield from _lines(recordings.ALL, before, columns, row)


def _share(asked: list[dict[str, Any]], is_ahead: bool) -> str:
    """Return the share of these reads that a process requested."""
    sectors = {row["asked"]: row["sectors"] for row in asked if row["is_ahead"] == is_ahead}
    return f"{100 * sectors.get(True, 0) / sum(sectors.values()):.3g} %" if sectors else "–"


def _alone(before: list[str]) -> Iterator[str]:
    questions = ("file", "file, deleted", "name", "owner", "block type")
    columns = (*questions, *(f"{question}, read" for question in ("file", "name", "owner")))

    def row(result: dict[str, Any]) -> list[str]:
        return [
            *_answers(result, judge.ALONE, questions),
            *_answers(result, judge.ALONE, ("file", "name", "owner"), "read"),
        ]

    yield from _lines(recordings.ALL, before, columns, row)


def _ordinary(before: list[str]) -> Iterator[str]:
    yield "Without probes, only images name files of FAT and exFAT. A result is a fact if both images agree on a"
    yield "cluster and its entry in the allocation table was not written during the recording"
    yield "(`link/evidence/unnumbered.py`). All other results are inferred:"
    yield ""
    questions = ("file", "name", "owner", "block type")
    names = [name for name in recordings.ALL if name.startswith(("vfat", "exfat"))]
    yield from _lines(names, before, questions, lambda result: _answers(result, judge.WITHOUT_PROBES, questions))


if __name__ == "__main__":
    main()
