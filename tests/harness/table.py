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

HEAD = """# How much of it is true

Every sector that a workload wrote, on every filesystem, held against what table `io` says of it. The truth comes from
outside: the disk logs what it gets, and the content says of which file, place and process it is
(`tests/harness/content.py`). `make truth` records all of it anew, in virtual machines and, as root, on a loop device
(two hours on 2 cores), and writes this table; `python tests/harness/table.py NAME` only one.

Each cell is *right / inferred and right / inferred and wrong / unknown*, in percent of the sectors, with all evidence:
the trace with its probes, the image before and the image after. Here are the writes; below are the reads, and what is
known without an image. On this machine (ext2 to ext4 but for quota and casefold) there are no kprobes: names of
deleted files come from fanotify alone, elsewhere from probes. *Wrong facts* counts the sectors for which a wrong
answer was given as a fact, with each of the {runs} combinations of evidence (`judge.RUNS`). *Open* are the blocks of
which the truth itself is not known: zeros, content that several files had, compressed blocks.

"""
READS = """
## Reads

What was read, held against what the disk held there at that time; where a write of the same place was under way, that
is open. *Owner* is judged where one process alone was at the file. Linux marks as readahead (`REQ_RAHEAD`) a whole
window, with the pages in it that somebody waits for: *asked, ahead* is the share of what is marked that a process had
asked for, *asked, other* that of the rest.

"""
ALONE = """
## Without an image

What a recording shows by itself, as it is of an encrypted phone, of which no image can be read: the trace, the listing
of the mounted files when it began, and the names of fanotify or probes.

"""
KERNELS = """
## By kernel

Filesystems as Android makes and mounts them (`recordings.BY_KERNEL`), in virtual machines with kernels of Debian that
are of the generations of Android's: on the architecture of phones, with pages of 4 and 16 KiB (of 16 KiB, *16k*, F2FS
has blocks of 16 KiB, ext4 of 4). *f2fs-dm-crypt* lies on dm-crypt with a cipher that leaves the content as it is;
*fscrypt* is in a directory with a policy as Android's, its blocks are decrypted (`tests/harness/encrypted.py`).
What is inferred of owners on ext4 with pages of 16 KiB (0.9 %) was stored through memory maps into files that another
process had changed before. The address of a store gives the block of the page in which it begins. Other blocks of the
page may still hold data of the other process. In compressed files F2FS makes all pages of
a cluster dirty to write one: what is inferred (0.8 to 2.1 %) is of pages that became dirty while their thread was
writing to another. Under Linux 5.10 nothing is known on dm-crypt: it submits bios of its own, and only for flushes the
kernel records from which device above they come (405 of 405; of 2,379 bios with data none; Linux 6.12 records all).
Where on the disk the target begins stands in its table, beside its key, which iotrace does not read.
Before what is encrypted in memory is queued another process may write to its page: then the owner is inferred.

"""
SPOILT = """
## Recordings as other people's are

The four recordings of `corpus/kernel`, of which the truth is known, spoilt in every way that could be thought of
(`tests/gauntlet`), with all their images: how many answers about file, name, owner and block type of each block were
right or wrong facts, inferred, or unknown, and the sentence that names what happened.
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
    yield "Under ordinary tracing (no probes), only images name files of FAT and exFAT. A fact is what both images"
    yield "state of a cluster whose entry in the allocation table was not written during the recording"
    yield "(`link/evidence/unnumbered.py`); the rest is inferred:"
    yield ""
    questions = ("file", "name", "owner", "block type")
    names = [name for name in recordings.ALL if name.startswith(("vfat", "exfat"))]
    yield from _lines(names, before, questions, lambda result: _answers(result, judge.WITHOUT_PROBES, questions))


if __name__ == "__main__":
    main()
