"""Rules for unusual findings in a capture, with a limit each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common import losses
from androstep_analysis.present.headline.requests import values
from androstep_analysis.present.headline.words import VERBS, Amount, Name, Part, Quote, Sentence, listed

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


class Rule(NamedTuple):
    """A finding is unusual above `limit`, if it is based on at least `least` requests."""

    what: str
    limit: float
    least: int


RULES: Final = {
    "failed": Rule("requests that failed", 0, 1),
    "unfinished": Rule("share of requests without a completion, where completions are recorded", 0.01, 100),
    "unissued": Rule("share of requests queued and never issued", 0.01, 100),
    "process": Rule("share of one process in the bytes read and written", 0.5, 100),
    "file": Rule("share of one file in the bytes of data read and written", 0.5, 100),
    "sync": Rule("share of synchronous writes", 0.95, 100),
    "discards": Rule("share of discards in the requests other than flushes", 0.05, 100),
    "tail": Rule("latency p99.9 as a multiple of the median", 1000, 1000),
}
"""Every rule, in the order of the findings (the same table as in docs/summary.md)."""


def sentences(capture: Capture, found: Mapping[str, pl.DataFrame] | None) -> Iterator[Sentence]:
    """Yield the unusual findings, or that there are none, and the messages that are only notes."""
    parts = [*_doubts(capture), *(_of_requests(capture, found) if found is not None else ())]
    if parts:
        yield Sentence("unusual", tuple(listed(parts, "; ")), "unusual")
    elif found is not None:
        yield Sentence("unusual", ("nothing above the limits in docs/summary.md",))
    noted = [loss for loss in capture.losses if not losses.is_missing(loss) and not losses.is_of_time(loss)]
    if noted:
        yield Sentence("noted", tuple(listed([[Quote(loss.message)] for loss in noted], "; ")))


def _doubts(capture: Capture) -> Iterator[list[Part]]:
    """Yield messages on clocks, and on snapshots that may belong to another filesystem."""
    for loss in capture.losses:
        if losses.is_of_time(loss):
            yield [Quote(loss.message)]
    doubted = [
        one["role"].replace("_", " ") for one in capture.about.get("snapshots", ()) if one["proven"] != "content"
    ]
    if doubted:
        yield [
            f"the trace does not prove that the {' and the '.join(doubted)} fits it; facts from that alone are inferred"
        ]


def _of_requests(capture: Capture, found: Mapping[str, pl.DataFrame]) -> Iterator[list[Part]]:
    counts = capture.population
    number, queued = counts["count"], counts["queued"]
    failed = int(measures.counted(capture.requests).select((pl.col("error") != 0).sum()).collect().item() or 0)
    if _is("failed", failed, number):
        yield [Amount(failed, "requests"), " of ", Amount(number, "requests"), " requests failed"]
    unfinished = number - counts["completed"]
    if counts["completed"] and _is("unfinished", unfinished / number, number):
        yield [Amount(unfinished, "requests"), " of ", Amount(number, "requests"), " requests have no completion"]
    if _is("unissued", queued / max(1, number + queued), number + queued):
        size = Amount(counts["queued_bytes"], "B")
        yield [
            Amount(queued, "requests"),
            " more requests (",
            size,
            ") were queued and never issued (not counted)",
        ]
    for rule, result, column in (("process", "processes", "owner_comm"), ("file", "files", "path")):
        yield from _dominant(rule, found[result], column, number)
    sync = values(found["sync"], "count_ratio", "class").get(("sync",), 0)
    if _is("sync", sync, sum(values(found["sync"], "count", "class").values())):
        yield [Amount(sync, "1"), " of the writes are synchronous"]
    discards = values(found["mix"], "count_ratio", "op").get(("discard",), 0)
    if _is("discards", discards, number):
        yield [Amount(discards, "1"), " of the requests other than flushes are discards (mount option discard?)"]
    yield from _tails(found["latency"])


def _dominant(rule: str, volume: pl.DataFrame, column: str, number: int) -> Iterator[list[Part]]:
    """Yield the name with a share of the bytes above the limit of the rule, if there is one."""
    total: dict[str | None, float] = {}
    for (name, op), size in values(volume, "bytes", column, "op").items():
        if op in VERBS:
            total[name] = total.get(name, 0) + size
    whole = sum(total.values())
    for name, size in total.items():
        if name is not None and _is(rule, size / whole, number):
            what = " of data" if rule == "file" else ""
            yield [Name(name), " has ", Amount(size, "B"), " of the ", Amount(whole, "B"), f"{what} read and written"]


def _tails(latency: pl.DataFrame) -> Iterator[list[Part]]:
    """Yield operations whose p99.9 device latency is far above the median."""
    of_device = latency.filter(pl.col("step").cast(pl.String) == "D2C")
    took = values(of_device, "latency", "op", "quantile")
    number = dict(of_device.select(pl.col("op").cast(pl.String), "n").unique(maintain_order=True).iter_rows())
    findings: list[list[Part]] = []
    for op, count in number.items():
        middle, tail = (took.get((op, name), 0) for name in ("p50", "p99.9"))
        if middle and _is("tail", tail / middle, count):
            findings.append([f"{op} latency: median ", Amount(middle, "ns"), ", p99.9 ", Amount(tail, "ns")])
    yield from findings


def _is(rule: str, value: float, number: float) -> bool:
    """Return whether a value exceeds the limit of a rule and is based on enough requests."""
    return value > RULES[rule].limit and number >= RULES[rule].least
