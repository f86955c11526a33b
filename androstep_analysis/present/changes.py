"""Differences between the two sides of a comparison, in words and as a table, for both terminal and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.common.markup import visible
from androstep_analysis.compare.estimates import AMOUNT, CACHED, PER_REQUEST, REPEATS, SHARE, TIME
from androstep_analysis.compare.overview import LEVEL, RECOMMENDED, TOO_FEW_RUNS, TOO_SHORT, Overview
from androstep_analysis.compare.questions import BUSY, UNEVEN_LENGTHS
from androstep_analysis.present.sheets import Column, Sheet

MOST_ROWS: Final = 12

_LACKS: Final[Mapping[str, tuple[str, str]]] = {
    TOO_FEW_RUNS: (
        "{} could be decided by more runs",
        f"fewer than {REPEATS} recordings of a side do not show how much runs vary: record {RECOMMENDED} of each, and"
        " give the two directories",
    ),
    TOO_SHORT: (
        "{} vary too much within the recordings",
        f"record for longer, or {RECOMMENDED} times each",
    ),
    "repeats": ("{} vary too much between the recordings", "record more of each"),
}
"""For each reason why questions are undecided: a sentence with their number, and what would decide them."""


_SHOWN: Final = ("worse", "better", "different")
"""Verdicts that state a difference."""

_COUNTED: Final = {
    **{name: name for name in _SHOWN},
    "same": "the same within their intervals",
    "cannot be decided": "cannot be decided",
}


def sheet(overview: Overview) -> Sheet:
    """Return the table of the most important differences."""
    rows = overview.table.head(MOST_ROWS)
    texts = [_texts(row) for row in rows.iter_rows(named=True)]
    columns = {
        "what": Column("What"),
        "said_verdict": Column("Verdict", pick=True),
        "said_difference": Column("Difference", by="difference"),
        "said_first": Column("A", by="first"),
        "said_second": Column("B", by="second"),
        "said_interval": Column("Interval", is_minor=True),
    }
    is_shown = rows["verdict"].cast(pl.String).is_in(_SHOWN).any()
    title = "What is different" if is_shown else "Differences that are not shown to be more than chance"
    return Sheet(title, rows.with_columns(pl.DataFrame(texts, dict.fromkeys([*columns][1:], pl.String))), columns)


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the numbers and the verdict of a row as text."""
    is_share = row["unit"] == "1"
    difference, low, high = row["difference"], row["lo"], row["hi"]
    return {
        "said_first": _value(row["first"], row["unit"]),
        "said_second": _value(row["second"], row["unit"]),
        "said_difference": _one_sided(row) if difference is None else _difference(difference, is_share=is_share),
        "said_interval": "–" if low is None else _interval(low, high, is_share=is_share),
        "said_verdict": verdict(row),
    }


def _one_sided(row: Mapping[str, Any]) -> str:
    return "only in A" if row["first"] else "only in B" if row["second"] else "–"


def verdict(row: Mapping[str, Any]) -> str:
    """Return the verdict on the second side in words."""
    if row["verdict"] != "same":
        return str(row["verdict"])
    within = row["within"]
    return f"same within {within * 100:.2g} points" if row["unit"] == "1" else f"same within {within * 100:.2g} %"


def _value(value: float, unit: str) -> str:
    """Format a value with three digits. The intervals are too wide for more."""
    divisor = quantities.byte_unit(value)[0] if unit.startswith("B") else 1
    return quantities.in_unit(float(f"{value / divisor:.3g}") * divisor, unit)


def _difference(value: float, *, is_share: bool) -> str:
    """Format a difference: percentage points of shares, else per cent, or a factor outside of 0.5 to 2."""
    if is_share:
        return f"{value * 100:+.3g} points"
    return _times(value) if not 0.5 < value < 2 else f"{_signed((value - 1) * 100)} %"


def _interval(low: float, high: float, *, is_share: bool) -> str:
    if is_share:
        return f"{low * 100:+.3g} to {high * 100:+.3g}"
    if low < 0.5 or high > 2:
        return f"× {_number(low)} to {_number(high)}"
    return f"{_signed((low - 1) * 100)} to {_signed((high - 1) * 100)} %"


def _signed(per_cent: float) -> str:
    """Format a difference in per cent. Rounding errors of logarithms are no difference."""
    return "0" if abs(per_cent) < 1e-6 else f"{per_cent:+.2g}"


def _times(value: float) -> str:
    return f"× {_number(value)}"


def _number(value: float) -> str:
    """Format a factor. Factors without a bound become 0 or ∞."""
    if value < 0.001:
        return "0"
    return "∞" if value > 10_000 else f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def first_lines(overview: Overview) -> Iterator[str]:
    """Yield what was compared, and the result in one sentence."""
    sides = zip("AB", (overview.first, overview.second), overview.recordings, overview.seconds, strict=True)
    for letter, name, count, seconds in sides:
        length = "" if seconds is None else f", {quantities.duration(seconds * 1e9)}"
        yield f"{letter}: {visible(name)}, {_counted(count, 'recording')}{length}"
    counts = dict(overview.table["verdict"].cast(pl.String).value_counts().iter_rows())
    phrases = [f"{counts[name]} {words}" for name, words in _COUNTED.items() if name in counts]
    is_shown = not counts.keys().isdisjoint(_SHOWN)
    answer = "B compared with A: " if is_shown else "No difference is shown: "
    yield f"{answer}of {_counted(overview.table.height, 'number')} {', '.join(phrases)}."


def last_lines(overview: Overview) -> Iterator[str]:
    """Yield what could not be decided or compared, and the assumptions behind the verdicts."""
    reasons = overview.table.filter(verdict="cannot be decided").group_by("reason", maintain_order=True).len()
    for reason, count in reasons.sort("len", descending=True).iter_rows():
        problem, cure = _LACKS[reason]
        names = overview.table.filter(pl.col("verdict") == "cannot be decided", pl.col("reason") == reason)["what"]
        yield f"{problem.format(_counted(count, 'number'))} ({_listed(names.to_list())}): {cure}."
    for line in overview.not_compared:
        yield f"Not compared: {visible(line)}."
    if overview.are_busy:
        yield (
            f"Both sides waited for storage for at least {BUSY:.0%} of the time, so amounts per second depend on its"
            " speed: more is neither worse nor better."
        ).replace("%", " %")
    if overview.lengths and max(overview.lengths) > UNEVEN_LENGTHS * min(overview.lengths):
        yield (
            "The recordings have different lengths. Of amounts per second and total amounts, those that differ less are"
            " compared."
        )
    yield (
        f"Worse and better assume that both sides did the same work. All intervals together hold with"
        f" {1 - LEVEL:.0%}".replace("%", " %")
        + _assumed(overview.recordings)
    )


def _assumed(recordings: Sequence[int]) -> str:
    if min(recordings) >= REPEATS:
        return "."
    return (
        f"; if a side has fewer than {REPEATS} recordings, runs are assumed to differ by {AMOUNT.run_spread:.0%} in"
        f" amounts ({CACHED.run_spread:.0%} in reads), {PER_REQUEST.run_spread:.0%} in values per request,"
        f" {SHARE.run_spread * 100:.0f} points in shares and {TIME.run_spread:.0%} in times (standard deviations)."
    ).replace("%", " %")


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = [visible(name) for name in names[:most]]
    return ", ".join(shown if len(names) <= most else [*shown, "…"])


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
