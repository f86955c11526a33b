"""Findings as sentences that keep numbers and names as values (`headline.words`)."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis.present.headline.words import Amount, Headline, Name, Part, Quote, Sentence, mark

if TYPE_CHECKING:
    from androstep_analysis.present.advice.registry import Trigger

_UNITS: Final = {
    **dict.fromkeys(("bytes", "saved_bytes"), "B"),
    "took_ns": "ns",
    **dict.fromkeys(("times", "requests", "saved_times", "saved_requests"), "requests"),
}
_ALIASES: Final = {"took": "took_ns"}


def evidence_of(trigger: Trigger, row: Mapping[str, Any]) -> str:
    """Return the evidence of a finding as text. Names are not escaped."""
    return "".join(map(str, filled(trigger.says, trigger, row)))


def filled(template: str, trigger: Trigger, row: Mapping[str, Any]) -> list[Part]:
    """Return a template with the values of the row inserted. Unknown values become `unknown`."""
    parts: list[Part] = []
    for text, name, _, _ in string.Formatter().parse(template):
        parts += [text] if text else []
        parts += _named(name, row) if name in ("who", "file") else [_value(name, trigger, row)] if name else []
    return parts


def _named(name: str, row: Mapping[str, Any]) -> list[Part]:
    called = (row["package"] or row["process"]) if name == "who" else row["path"]
    if not called:
        return ["an unknown process" if name == "who" else "unknown files"]
    return [Name(called), *mark(row.get(f"{name}_inferred"))]


def _value(name: str, trigger: Trigger, row: Mapping[str, Any]) -> Part:
    if name == "span":
        known = row["begin_ns"] is not None and row["end_ns"] is not None
        return Amount(row["end_ns"] - row["begin_ns"], "ns") if known else "an unknown time"
    column = _ALIASES.get(name, name)
    if row[column] is None:
        return "unknown"
    if column == "value":
        return f"{row[column]:.3g}" if "/" in trigger.unit else Amount(row[column], trigger.unit)
    return Amount(row[column], _UNITS[column])


def headline(advice: pl.DataFrame, triggers: tuple[Trigger, ...], first_ns: int | None, *, every: bool) -> Headline:
    """Return the table of `advise` in sentences, the trigger with the most costly finding first.

    For each trigger these are the `MOST` most costly findings, and what to do. With `every`, all findings are included,
    and why the other triggers found nothing or are undecided.
    """
    named = {trigger.name: trigger for trigger in triggers}
    found = advice.filter(status="found")
    sentences = [
        sentence
        for (name,), rows in found.group_by("trigger", maintain_order=True)
        for sentence in _of_trigger(named[str(name)], rows, first_ns, None if every else MOST)
    ] or [Sentence("found", ("nothing above the limits in docs/advise.md",))]
    rest = advice.filter(pl.col("status") != "found")
    if every:
        return Headline((*sentences, *(_without(named[row["trigger"]], row) for row in rest.iter_rows(named=True))))
    for status in ("nothing", "cannot tell"):
        names = rest.filter(status=status)["trigger"].to_list()
        why = " (--all states what each lacks)" if status == "cannot tell" else ""
        sentences += [Sentence(_LABELS[status], (f"{', '.join(names)}{why}",), _KINDS[status])] if names else []
    return Headline(tuple(sentences))


MOST: Final = 3
"""Maximum number of findings of one trigger, unless all are asked for."""

_LABELS: Final = {"nothing": "nothing", "cannot tell": "unknown"}
_KINDS: Final[dict[str, Any]] = {"nothing": "fact", "cannot tell": "unknown"}


def _of_trigger(trigger: Trigger, rows: pl.DataFrame, first_ns: int | None, most: int | None) -> Iterator[Sentence]:
    shown = rows.head(most or rows.height)
    for row in shown.iter_rows(named=True):
        yield Sentence(trigger.name, tuple(_finding(trigger, row, first_ns)), "unusual")
    if more := rows.height - shown.height:
        yield Sentence(trigger.name, ("and ", Amount(more, "findings"), " more that cost less (--all)"), "unusual")
    yield Sentence(trigger.name, (f"→ {trigger.do}",))


def _finding(trigger: Trigger, row: Mapping[str, Any], first_ns: int | None) -> Iterator[Part]:
    if row["begin_ns"] is not None and first_ns is not None:
        end_ns = row["begin_ns"] if row["end_ns"] is None else row["end_ns"]
        yield from ("from ", Amount(row["begin_ns"] - first_ns, "ns"), " to ", Amount(end_ns - first_ns, "ns"), ": ")
    yield from finding(trigger, row)


def finding(trigger: Trigger, row: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the evidence of a finding, and what a fix would save."""
    yield from filled(trigger.says, trigger, row)
    yield "; "
    yield from filled(trigger.saves, trigger, row)
    if row["saved_ns"] is not None:
        saved, low, high = (Amount(row[name], "ns") for name in ("saved_ns", "saved_lo_ns", "saved_hi_ns"))
        yield from ("; predicted: ", saved, " (from ", low, " to ", high, ")")


def _without(trigger: Trigger, row: Mapping[str, Any]) -> Sentence:
    if row["status"] == "nothing":
        known = row["coverage"]
        part: list[Part] = [] if known is None else [", in the ", Amount(known, "1"), " of bytes that are known"]
        return Sentence(trigger.name, ("nothing: ", trigger.title, *part))
    return Sentence(trigger.name, ("cannot tell: ", trigger.title, " (", Quote(row["lacks"]), ")"), "unknown")
