"""Findings as sentences, whose numbers and names are still numbers and names (`headline.words`)."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis.headline.words import Amount, Headline, Name, Part, Quote, Sentence, listed

if TYPE_CHECKING:
    from androstep_analysis.advice.triggers import Trigger

_UNITS: Final = {
    **dict.fromkeys(("bytes", "saved_bytes"), "B"),
    "took_ns": "ns",
    **dict.fromkeys(("times", "requests", "saved_times", "saved_requests"), "requests"),
}
_ALIASES: Final = {"took": "took_ns"}


def evidence_of(trigger: Trigger, row: Mapping[str, Any]) -> str:
    """What a finding says, as text. Names are as recorded: hostile."""
    return "".join(map(str, filled(trigger.says, trigger, row)))


def filled(template: str, trigger: Trigger, row: Mapping[str, Any]) -> list[Part]:
    """The template with the row's values in place of what stands in braces; what is not known is `unknown`."""
    parts: list[Part] = []
    for text, name, _, _ in string.Formatter().parse(template):
        parts += [text] if text else []
        parts += [_value(name, trigger, row)] if name else []
    return parts


def _value(name: str, trigger: Trigger, row: Mapping[str, Any]) -> Part:
    if name == "who":
        who = row["package"] or row["process"]
        return Name(who) if who else "an unknown process"
    if name == "file":
        return Name(row["path"]) if row["path"] else "unknown files"
    if name == "span":
        known = row["begin_ns"] is not None and row["end_ns"] is not None
        return Amount(row["end_ns"] - row["begin_ns"], "ns") if known else "an unknown time"
    column = _ALIASES.get(name, name)
    if row[column] is None:
        return "unknown"
    if column == "value":
        return f"{row[column]:.3g}" if "/" in trigger.unit else Amount(row[column], trigger.unit)
    return Amount(row[column], _UNITS[column])


def told(advice: pl.DataFrame, triggers: tuple[Trigger, ...], first_ns: int | None, *, every: bool) -> Headline:
    """The table of `advise` in sentences: findings, and with `every` also what found nothing or cannot tell."""
    named = {trigger.name: trigger for trigger in triggers}
    said = [
        sentence
        for row in advice.filter(status="found").iter_rows(named=True)
        for sentence in _finding(named[row["trigger"]], row, first_ns)
    ]
    rest = advice.filter(pl.col("status") != "found")
    if not said:
        said.append(Sentence("found", ("nothing by the limits of docs/advise.md",)))
    if every:
        return Headline((*said, *(_without(named[row["trigger"]], row) for row in rest.iter_rows(named=True))))
    for status in ("nothing", "cannot tell"):
        names = rest.filter(status=status)["trigger"].to_list()
        said += [Sentence(_LABELS[status], (", ".join(names),), _KINDS[status])] if names else []
    return Headline(tuple(said))


_LABELS: Final = {"nothing": "nothing", "cannot tell": "can't say"}
_KINDS: Final[dict[str, Any]] = {"nothing": "fact", "cannot tell": "unknown"}


def _finding(trigger: Trigger, row: Mapping[str, Any], first_ns: int | None) -> Iterator[Sentence]:
    said = filled(trigger.says, trigger, row)
    if row["begin_ns"] is not None and first_ns is not None:
        said += [", from ", Amount(row["begin_ns"] - first_ns, "ns"), " on"]
    yield Sentence(trigger.name, tuple(said), "unusual")
    saves = filled(trigger.saves, trigger, row)
    if row["saved_ns"] is not None:
        times = [[Amount(row[name], "ns")] for name in ("saved_ns", "saved_lo_ns", "saved_hi_ns")]
        saves += ["; predicted: ", *times[0], " (from ", *times[1], " to ", *times[2], ")"]
    yield Sentence(trigger.name, tuple(listed([saves, [f"do: {trigger.do}"]], ". ")))


def _without(trigger: Trigger, row: Mapping[str, Any]) -> Sentence:
    if row["status"] == "nothing":
        known = row["coverage"]
        part: list[Part] = [] if known is None else [", in the ", Amount(known, "1"), " of bytes that are known"]
        return Sentence(trigger.name, ("nothing: ", trigger.title, *part))
    return Sentence(trigger.name, ("cannot tell: ", trigger.title, " (", Quote(row["lacks"]), ")"), "unknown")
