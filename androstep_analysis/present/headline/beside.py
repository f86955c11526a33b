"""Headlines of system calls, device commands and counters, and of the events of a capture that has none of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common import units
from androstep_analysis.present.headline import unknown
from androstep_analysis.present.headline.words import Amount, Headline, Name, Part, Sentence, grid, listed, named

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

ROWS: Final = 6
"""Maximum number of rows of a table."""

NAMED: Final = 2
"""Maximum number of names in a sentence."""


def headlines(capture: Capture) -> Iterator[Headline]:
    """Yield a headline for each of these that the capture has."""
    has = capture.about["rows"]
    if has["syscalls"]:
        yield _calls(capture.syscalls)
    if has["commands"]:
        yield _commands(capture.commands)
    if has["samples"]:
        yield _sampled(capture.samples)
    if not has["requests"] and (has["syscalls"] or has["commands"] or has["samples"] or capture.events):
        yield Headline((), (unknown.requests(capture),))
    if not any(has[name] for name in ("requests", "syscalls", "commands", "samples")) and capture.events:
        counts = sorted(capture.events.items(), key=lambda item: (-item[1], item[0]))
        rows = tuple((Name(name), Amount(count, "events")) for name, count in counts[:ROWS])
        yield Headline((grid(("event", "events"), rows, _more(len(counts), "kinds of events")),))


def _more(number: int, what: str) -> str:
    return f"The first {ROWS} of {number:,} {what}." if number > ROWS else ""


def _calls(syscalls: pl.LazyFrame) -> Headline:
    calls, paths = measures.calls(syscalls), measures.called_paths(syscalls)
    rows = tuple(
        (
            Name(call),
            Amount(count, "calls"),
            Amount(failed, "calls"),
            None if size is None else Amount(size, "B"),
            None if ns is None else Amount(ns, "ns"),
        )
        for call, count, failed, size, ns in calls.head(ROWS).iter_rows()
    )
    moved = _paths(paths)
    sentences = [moved] if moved else []
    gaps = [] if moved else [unknown.paths()]
    if (calls["duration_ns"] > 0).any():
        most = _most(calls, "duration_ns", "ns", "call")
        by = _most(measures.callers(syscalls), "duration_ns", "ns", "comm")
        on = _most(paths, "duration_ns", "ns")
        parts = [*most, *(["; by ", *by] if by else []), *(["; on ", *on] if on else [])]
        sentences.append(Sentence("times", ("most spent in ", *parts)))
    else:
        gaps.append(unknown.call_times())
    header = ("call", "calls", "failed", "bytes", "time")
    return Headline((*sentences, grid(header, rows, _more(calls.height, "system calls"))), tuple(gaps))


def _most(table: pl.DataFrame, column: str, unit: str, name: str = "path") -> list[Part]:
    """Return the names with the largest values, and these; empty if no name or no value above 0 is known."""
    first = table.filter(pl.col(column) > 0).sort(column, name, descending=[True, False]).head(NAMED)
    return listed(named(found, value, unit) for found, value in first.select(name, column).iter_rows())


def _paths(paths: pl.DataFrame) -> Sentence | None:
    """Return the files with the most bytes written and read. If no bytes are known, the files with the most calls."""
    moved = {column: _most(paths, column, "B") for column in ("written", "read")}
    clauses = [[f"most {column}: ", *names] for column, names in moved.items() if names]
    if not clauses and (names := _most(paths, "count", "calls")):
        clauses = [["most calls: ", *names]]
    return Sentence("files", tuple(listed(clauses, "; "))) if clauses else None


def _commands(commands: pl.LazyFrame) -> Headline:
    counted = measures.commands(commands)
    rows = tuple(
        (
            None if device is None else Name(device),
            Name(event),
            None if step is None else str(step),
            None if opcode is None else f"0x{opcode:02x}",
            Amount(count, "commands"),
            None if size is None else Amount(size, "B"),
        )
        for device, event, step, opcode, count, size in counted.head(ROWS).iter_rows()
    )
    header = ("device", "event", "step", "opcode", "events", "bytes")
    return Headline((grid(header, rows, _more(counted.height, "kinds of commands")),))


def _sampled(samples: pl.LazyFrame) -> Headline:
    """Return who used the CPUs, how busy the disks were, and the ranges of counters."""
    users = _first(measures.cpu_by_process(samples), "comm")
    disks = _first(measures.busyness(samples), "disk")
    sentences = []
    if users:
        names = listed(named(name, seconds * 1e9, "ns") for name, seconds in users)
        sentences.append(Sentence("who", ("most CPU time by ", *names)))
    if disks:
        names = listed([*named(name, ratio, "1"), " of the time"] for name, ratio in disks)
        sentences.append(Sentence("disks", ("busiest: ", *names)))
    counters = measures.counters(samples)
    rows = tuple(
        (
            Name(row["counter"]),
            _of(row["dev"], row["instance"], row["pid"]),
            *(Amount(row[name], row["unit"]) for name in ("least", "greatest", "last")),
        )
        for row in counters.head(ROWS).iter_rows(named=True)
    )
    small = grid(("counter", "of", "least", "greatest", "last"), rows, _more(counters.height, "counters"))
    return Headline((*sentences, small))


def _of(dev: int | None, instance: str | None, pid: int | None) -> Part | None:
    """Return the object that a counter belongs to."""
    if dev is not None:
        return units.format_dev(dev)
    if instance is not None:
        return Name(instance)
    return None if pid is None else f"process {pid}"


def _first(table: pl.DataFrame, column: str) -> list[tuple[str, float]]:
    """Return the names with the largest values. Rows without a name or a value are ignored."""
    known = table.filter(pl.col("value") > 0, pl.col(column).is_not_null())
    rows = known.sort("value", column, descending=[True, False]).head(NAMED)
    return list(rows.select(column, "value").iter_rows())
