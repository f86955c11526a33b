"""The slowest operations as blocks: a line with the result, facts about it, and a time line.

Terminal, page and notebook display the same blocks. `line` returns the first line alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.present.headline.words import Amount, Name, Part, Quote, Sentence, listed, mark

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

Row = Mapping[str, Any]
"""A row of `androstep.slow`."""

BAR: Final = 60
"""Length of a time line in characters."""

_SHARE: Final = 20
"""A stage is named in the first line if it took at least 1/20 of the duration."""

_STAGES: Final = {
    "Q2G": (":", "waiting for a free request"),
    "G2I": (".", "before the scheduler"),
    "Q2I": (".", "before the scheduler"),
    "I2D": ("-", "in the scheduler"),
    "G2D": ("-", "before the device"),
    "Q2D": ("-", "before the device"),
    "D2C": ("#", "in the device"),
    "Q2C": ("?", "from queueing to completion"),
    "requests": ("=", "its requests"),
    "journal": ("+", "journal commit"),
    "flush": ("#", "device flush"),
    "rest": (".", "unaccounted for"),
    "unknown": ("?", "stages unknown"),
}
"""Character and name of each stage."""

_VERBS: Final = {"read": "read", "write": "wrote", "discard": "discarded", "secure_erase": "erased"}

_OPERATIONS: Final = {"other": "other operation"}
"""Nouns for operations whose names are no nouns."""

_BLOCKS: Final = {"journal": "the journal", "metadata": "metadata", "free": "free blocks"}


@dataclass(frozen=True)
class Block:
    """One operation.

    The first of its `sentences` is the result; `bar` is its time line, and also one of the sentences.

    `span_ns` is its begin and end, relative to the start of the capture.
    """

    sentences: tuple[Sentence, ...]
    bar: str
    span_ns: tuple[int, int]


def blocks(table: pl.DataFrame) -> list[Block]:
    """Return a block for each row of `androstep.slow`."""
    return [_block(row) for row in table.iter_rows(named=True)]


def line(row: Row) -> tuple[Part, ...]:
    """Return an operation in one line: duration, process, file, stages, and the busiest other process."""
    return (Amount(row["duration_ns"], "ns"), " ", *_answer(row))


def nothing(capture: Capture, op: str | None) -> str:
    """Return why no operation can be listed, and which events would be needed."""
    has = capture.about["rows"]
    what = "operation" if op is None else "fsync call" if op == "fsync" else op
    if op == "fsync" and not has["requests"] + has["syscalls"] + has["fs_events"]:
        return "no fsync was recorded: there are no requests, system calls or filesystem events"
    if op not in (None, "fsync") and has["requests"] and capture.requests.filter(op=op).head(1).collect().is_empty():
        return f"no {what} is among the requests of this recording"
    how = (
        "ext4_sync_file_enter and _exit, f2fs_sync_file_enter and _exit, or system calls with their duration"
        if op == "fsync"
        else "block_rq_issue and block_rq_complete, or give a CSV with response times (docs/slow.md)"
    )
    rest = "" if op is None or not has["requests"] else "; without --op the slowest requests are listed"
    return f"no {what} has both a start and an end in this recording; record {how}{rest}"


def _block(row: Row) -> Block:
    answer = Sentence(quantities.duration(row["duration_ns"]), tuple(_answer(row)))
    bar, span_ns = _bar(row), (row["at_ns"], row["at_ns"] + row["duration_ns"])
    drawn = (Sentence("stages", (bar,)), Sentence("stages", _legend(row)))
    return Block((answer, _when(row), _process(row), _file(row), *drawn, _device(row)), bar, span_ns)


# -- the line ---------------------------------------------------------------------------------------------------------


def _answer(row: Row) -> Iterator[Part]:
    who, what = _who(row), _what(row)
    if row["op"] == "fsync":
        yield from (*who, " waited in ", *what) if who else what
    elif row["role"] == "submitter":
        yield from (*what, ", submitted by ", *who)
    else:
        yield from (*what, " for ", *who) if who else what
    times = _times(row)
    longest = sorted(
        (name for name in times if times[name] * _SHARE >= row["duration_ns"]), key=lambda name: -times[name]
    )
    # One stage with all of the time would repeat the duration.
    stages: list[Part] = (
        [f"all {_STAGES[longest[0]][1]}"]
        if len(longest) == 1 and len(times) == 1
        else listed(_took(name, times[name]) for name in longest)
    )
    if row["op"] != "fsync" and row["flush_ns"] * _SHARE >= max(row["duration_ns"], 1):
        stages += [", during a device flush of ", Amount(row["flush_ns"], "ns")]
    yield from (": ", *stages)
    if row["others_process"]:
        yield from ("; ", *_moved(row, 0), " in that time")


def _who(row: Row) -> list[Part]:
    name = row["package"] or row["comm"]
    if name is None and row["pid"] is None and row["tid"] is None:
        return []
    number = f"process {row['pid']}" if row["pid"] is not None else f"thread {row['tid']}"
    return [number if name is None else Name(name), *mark(1.0 if row["process_certainty"] == "inferred" else None)]


def _what(row: Row) -> list[Part]:
    """Return the operation and its object. Of a path only the last component is used."""
    op = row["call"] or _OPERATIONS.get(row["op"], row["op"].replace("_", " "))
    if row["path"] is not None and row["block_type"] not in _BLOCKS:
        name: list[Part] = [Name(row["path"].rstrip("/").rpartition("/")[2] or row["path"])]
        return [f"{op} of ", *name, *mark(1.0 if row["file_certainty"] == "inferred" else None)]
    if row["block_type"] in _BLOCKS:
        return [f"{op} of {_BLOCKS[row['block_type']]}"]
    if row["ino"] is not None:
        return [f"{op} of inode {row['ino']}"]
    return [op] if row["sector"] is None else [f"{op} of ", *_place(row)]


def _place(row: Row) -> list[Part]:
    return [Amount(row["bytes"], "B"), f" at sector {row['sector']:,}"]


def _times(row: Row) -> dict[str, int]:
    """Return the total time of each stage, in order of first occurrence."""
    times: dict[str, int] = {}
    for name, length_ns in zip(row["stages"], row["stages_ns"], strict=True):
        times[name] = times.get(name, 0) + length_ns
    return times


def _took(name: str, length_ns: int) -> list[Part]:
    return [Amount(length_ns, "ns"), f" {_STAGES[name][1]}"]


def _moved(row: Row, at: int) -> list[Part]:
    """Return the bytes that the process at index `at` moved during the operation."""
    name, pid, op, size = (row[f"others_{column}"][at] for column in ("process", "pid", "op", "bytes"))
    who: list[Part] = ["an unknown process"] if name is None else [Name(name)]
    if name is not None and pid is not None and name == (row["package"] or row["comm"]):
        who += [" itself"] if pid == row["pid"] else [f" (pid {pid})"]
    inferred = row["others_inferred_bytes"][at] / size if size else None
    return [*who, f" {_VERBS.get(op, f'moved by {op}')} ", Amount(size, "B"), *mark(inferred)]


# -- the rest ---------------------------------------------------------------------------------------------------------


def _when(row: Row) -> Sentence:
    kind = "fsync call" if row["op"] == "fsync" else _OPERATIONS.get(row["op"], row["op"].replace("_", " "))
    kinds = "flushes" if kind == "flush" else f"{kind}s"
    peers, faster = row["peers"], row["faster"]
    begin: list[Part] = ["at ", Amount(row["at_ns"], "ns"), "; "]
    if peers == 1:
        return Sentence("when", (*begin, f"the only {kind} of the recording"))
    others, slower = peers - 1, peers - 1 - faster
    rank = f"slower than all but {slower:,} of {others:,} other {kinds}"
    if not slower:
        rank = f"slower than all {others:,} other {kinds}" if others > 1 else f"slower than the other {kind}"
    elif not faster:
        rank = f"not slower than any of {others:,} other {kinds}" if others > 1 else f"not slower than the other {kind}"
    return Sentence("when", (*begin, rank, " (median ", Amount(row["median_ns"], "ns"), ")"))


def _process(row: Row) -> Sentence:
    who = _who(row)
    if not who:
        return Sentence("process", ("unknown",), "unknown")
    roles = {"caller": "made the call", "owner": "owner of the bytes", "submitter": "submitter"}
    number = [f" (pid {row['pid']})"] if row["pid"] is not None and (row["package"] or row["comm"]) else []
    certainty = "" if row["process_certainty"] == "inferred" else f", {row['process_certainty']}"
    owner = "; the owner is unknown" if row["role"] == "submitter" else ""
    return Sentence("process", (*who, *number, f", {roles[row['role']]}{certainty}{owner}"))


def _file(row: Row) -> Sentence:
    place = [] if row["sector"] is None else ["; ", *_place(row)]
    flags = [] if row["rwbs"] is None else [f", flags {row['rwbs']}"]
    if row["block_type"] in _BLOCKS:
        return Sentence("file", (f"none: {_BLOCKS[row['block_type']]}", *place, *flags))
    if row["op"] == "flush":
        return Sentence("file", ("none: the cache of the device", *flags))
    if row["file_certainty"] == "unknown":
        return Sentence("file", ("unknown", *place, *flags), "unknown")
    known: list[Part] = [f"inode {row['ino']}, path unknown"]
    if row["path"] is not None:
        known = [Quote(row["path"]), *([] if row["ino"] is None else [f" (inode {row['ino']})"])]
    more = [f" and {row['files'] - 1} more"] if row["files"] is not None and row["files"] > 1 else []
    return Sentence("file", (*known, *more, f", {row['file_certainty']}", *place, *flags))


def _device(row: Row) -> Sentence:
    begun = "when it began" if row["op"] == "fsync" else "at its issue, including it"
    clauses: list[list[Part]] = []
    if row["depth"] is not None:
        clauses.append([f"{_requests(row['depth'])} in the device {begun}"])
    clauses.append(
        [f"{_requests(row['others'], 'other ')} in that time" if row["others"] else "no others in that time"]
    )
    if row["flush_ns"]:
        clauses.append(["a device flush of ", Amount(row["flush_ns"], "ns")])
    clauses += [_moved(row, at) for at in range(len(row["others_process"]))]
    if row["error"]:
        clauses.append([f"it failed with error {row['error']}"])
    if row["lost"]:
        clauses.append(["events may have been lost in that time"])
    return Sentence("device", tuple(listed(clauses, "; ")), "unusual" if row["lost"] or row["error"] else "fact")


def _requests(number: int, which: str = "") -> str:
    return f"{number:,} {which}request{'' if number == 1 else 's'}"


def _bar(row: Row) -> str:
    """Return the time line. Each character is the stage at the middle of its interval."""
    whole, ends = max(row["duration_ns"], 1), _ends(row["stages_ns"])
    drawn = []
    for cell in range(BAR):
        middle = (2 * cell + 1) * whole // (2 * BAR)
        at = next((i for i, end in enumerate(ends) if middle < end), len(ends) - 1)
        drawn.append(_STAGES[row["stages"][at]][0])
    return "".join(drawn)


def _ends(lengths_ns: Sequence[int]) -> list[int]:
    ends: list[int] = []
    for length_ns in lengths_ns:
        ends.append(length_ns + (ends[-1] if ends else 0))
    return ends


def _legend(row: Row) -> tuple[Part, ...]:
    """Return the meaning of the characters, with the total time of each stage."""
    stages = listed([f"{_STAGES[name][0]} ", *_took(name, length_ns)] for name, length_ns in _times(row).items())
    return (*stages, "; inferred: the only disk") if row["stages_certainty"] == "inferred" else tuple(stages)
