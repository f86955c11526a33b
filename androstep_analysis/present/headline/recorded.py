"""Sentences on what was recorded, and how complete it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis.common import losses
from androstep_analysis.ingest import clock
from androstep_analysis.present.headline.words import VERBS, Amount, Name, Part, Quote, Sentence, listed

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_FACTS: Final = ("storage_model", "fs_type")
"""Facts about the machine that are displayed after its name."""

_LEAST_INFERRED: Final = 0.01
"""Inferred shares up to this limit are not reported."""

_MESSAGES: Final = 2
"""Maximum number of loss messages that are displayed in full."""

_ROWS: Final = {
    "requests": ("request", "requests"),
    "syscalls": ("system call", "system calls"),
    "commands": ("command to the device", "commands to the device"),
    "samples": ("reading of counters", "readings of counters"),
}
"""Rows of tables, in the singular and plural."""


def recorded(capture: Capture) -> Sentence:
    """Return the sentence on the amount, the duration and the device of the recording."""
    facts = capture.facts
    what = listed(_contents(capture)) or _events(capture)
    machine: list[list[Part]] = [[Name(str(facts["device"] or capture.title))]]
    machine += [[Name(str(facts[name]))] for name in _FACTS if facts[name] is not None]
    machine += [] if facts["device"] else [[Name(capture.format)]]
    return Sentence("recorded", (*what, *_window(capture), "; ", *listed(machine)))


def amount_of(value: int, one: str, several: str) -> list[Part]:
    """Return a count and its noun in the singular or plural."""
    return [Amount(value, several), f" {one if value == 1 else several}"]


def _contents(capture: Capture) -> Iterator[list[Part]]:
    rows = capture.about["rows"]
    for table, words in _ROWS.items():
        if table == "requests" and rows[table]:
            counts = capture.population
            yield [*amount_of(counts["count"], *words), ", ", Amount(counts["bytes"], "B")]
        elif rows[table]:
            yield amount_of(_height(capture.tables[table]), *words)
    if capture.about["bench"]:
        yield amount_of(capture.about["bench"]["runs"], "repetition of a benchmark", "repetitions of benchmarks")
    if capture.about["replay"]:
        yield amount_of(capture.about["replay"]["runs"], "replay", "replays")
    if capture.about["steps"]:
        yield amount_of(capture.about["steps"]["steps"], "step of a workload", "steps of a workload")
    if capture.about["gui"]:
        yield amount_of(capture.about["gui"]["snapshots"], "snapshot of a screen", "snapshots of a screen")


def _events(capture: Capture) -> list[Part]:
    where = "" if capture.recorded_ns is None else " of the window"
    none = f", none of them a request or a system call{where}"
    return [*amount_of(sum(capture.events.values()), "event", "events"), none]


def _window(capture: Capture) -> list[Part]:
    if capture.first_ns is None or capture.last_ns is None:
        return [", without times"]
    window = clock.continued(capture.last_ns, capture.jumps) - capture.first_ns
    parts = len(capture.jumps) + 1
    duration: list[Part] = [", in ", Amount(window, "ns")]
    if capture.jumps:
        duration += [" in ", Amount(parts, "parts"), " parts"]
    if capture.recorded_ns is not None:
        duration += [" (of ", Amount(capture.recorded_ns, "ns"), " recorded)"]
    return duration


def _height(table: pl.LazyFrame) -> int:
    return int(table.select(pl.len()).collect().item())


def complete(capture: Capture) -> Sentence:
    """Return the sentence on losses, and on the share of the I/O that the results cover."""
    missing = [loss for loss in capture.losses if losses.is_missing(loss)]
    lost: list[list[Part]] = []
    if capture.lost_events:
        share = capture.lost_events / (capture.lost_events + sum(capture.events.values()))
        lost.append(
            [Amount(capture.lost_events, "events"), " events are lost (", Amount(share, "1"), " of all events)"]
        )
    lost += [[Quote(loss.message)] for loss in missing[:_MESSAGES]]
    if len(missing) > _MESSAGES:
        lost.append([Amount(len(missing) - _MESSAGES, "losses"), " more in `androstep summary --all`"])
    has_requests = bool(capture.about["rows"]["requests"])
    is_other = not (has_requests or any(capture.about[part] for part in ("bench", "replay", "steps", "gui")))
    clauses: list[list[Part]] = lost or [["no block requests" if is_other else "no loss reported"]]
    if has_requests:
        clauses += [*_seen(capture.population), *_known(capture)]
    is_empty = is_other and not any(capture.about["rows"][table] for table in _ROWS)
    about = "missing" if is_other or lost else "complete"
    return Sentence(about, tuple(listed(clauses, "; ")), "unusual" if lost or is_empty else "fact")


def _seen(counts: dict[str, int]) -> Iterator[list[Part]]:
    """Yield whether issue and completion of the requests were recorded."""
    count, issued, completed = (counts[name] for name in ("count", "issued", "completed"))
    if count == issued == completed:
        yield ["every request has issue and completion"]
    elif not issued and not completed:
        yield ["one timestamp per request, without issue and completion"]
    else:
        for name, number in (("completion", completed), ("issue", issued)):
            if not number:
                yield [f"no {name} is recorded"]
            elif number < count:
                yield [Amount(number, "requests"), " of ", Amount(count, "requests"), f" requests have their {name}"]


def _known(capture: Capture) -> Iterator[list[Part]]:
    """Yield the shares of bytes whose block type or owner is proven, and the shares that are only inferred."""
    shares: dict[str, dict[str, float]] = {}
    for op, metric, value in capture.coverage.select(pl.col("op", "metric").cast(pl.String), "value").iter_rows():
        if op in ("write", "read"):
            shares.setdefault(metric, {})[op] = value
    known = {noun: shares.get(metric, {}) for metric, noun in (("mapped", "type"), ("owned", "owner"))}
    known = {noun: of_op for noun, of_op in known.items() if any(of_op.values())}
    clauses: list[list[Part]] = []
    for op, words in VERBS.items():
        of_op: list[list[Part]] = [[f"{noun} ", Amount(share[op], "1")] for noun, share in known.items() if op in share]
        if of_op:
            clauses.append([f"{words}: ", *listed(of_op)])
    if clauses:
        yield ["proven share of bytes ", *listed(clauses, "; ")]
    inferred: list[list[Part]] = [
        [Amount(share, "1"), f" of bytes {words}"]
        for op, words in VERBS.items()
        if (share := shares.get("inferred", {}).get(op, 0)) > _LEAST_INFERRED
    ]
    if inferred:
        yield ["type or file only inferred for ", *listed(inferred)]
