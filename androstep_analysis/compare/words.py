"""Comparisons in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any, Final

import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.common.markup import visible
from androstep_analysis.compare.comparison import TESTS
from androstep_analysis.compare.emulated import MARK
from androstep_analysis.compare.groups import label
from androstep_analysis.measures.measure import Worse

_REPEATED: Final = {
    "captures": "A repeat is a capture: what is shown holds for other captures like these.",
    "repetitions": "A repeat is a repetition: what is shown holds for these machines.",
    "windows": "A repeat is a window of time: what is shown holds for these recordings, had they gone on longer; for"
    " others like them where a group has three or more.",
    "pairs": "A repeat is a pair of captures: what is shown holds for other such pairs.",
}
"""The population to which a result applies, for each kind of repeat."""

_LACKING: Final = {
    "captures": ": at least 3 captures on each side, and values that vary",
    "repetitions": ": at least 3 repetitions on each side, and values that vary",
    "windows": ": more windows, and values that vary",
    "pairs": ": at least 3 pairs, and values that vary",
}

METRICS: Final = {
    "count_ratio": "share of requests",
    "bytes_ratio": "share of bytes",
    "iops": "operations",
    "tps": "transactions",
    "io_time": "I/O time",
}
"""Names of metrics in sentences and figures. Other metrics keep their names."""

_MOST_SENTENCES: Final = 12


def sentences(compared: pl.DataFrame, dims: Sequence[str]) -> list[str]:
    """Return sentences for the differences that are shown, the largest effects first."""
    shown = compared.filter(pl.col("verdict").is_in(["higher", "lower"])).sort(pl.col("effect").abs(), descending=True)
    lines = [_sentence(row, dims) for row in shown.head(_MOST_SENTENCES).iter_rows(named=True)]
    return lines + ([f"… and {shown.height - len(lines):,} more"] if shown.height > len(lines) else [])


def _sentence(row: dict[str, Any], dims: Sequence[str]) -> str:
    unit = row["unit"]
    of = " ".join(part for part in key(row, dims)[1:] if part != "–")
    what = ", ".join(part for part in (METRICS.get(row["metric"], row["metric"].replace("_", " ")), of) if part)
    first, second = (visible(row[f"group_{side}"]) for side in ("first", "second"))
    values = f"{first} {quantities.in_unit(row['first'], unit)}, {second} {quantities.in_unit(row['second'], unit)}"
    if unit == "1":
        points = 100 if row["verdict"] == "higher" else -100
        lo, hi = sorted(points * row[name] for name in ("difference_lo", "difference_hi"))
        apart = f"{points * row['difference']:.3g} points {row['verdict']} [{lo:.3g} to {hi:.3g}]"
    elif row["ratio"] is not None and row["ratio_lo"] is not None:
        apart = f"{row['ratio']:.3g} times as much [{row['ratio_lo']:.3g} to {row['ratio_hi']:.3g}]"
    else:
        apart = f"{quantities.in_unit(abs(row['difference']), unit)} {row['verdict']}"
    return f"{what}: {values}: {apart}"


def verdict(row: dict[str, Any]) -> str:
    """Return the verdict in words, with its note."""
    text = row["verdict"]
    if row["longer"] is not None:
        text += f": {row['longer']:.2g} times as long would, if it is what it seems"
    elif text == "insufficient data":
        text += _LACKING[row["repeats"]]
    return f"{text} ({row['note']})" if row["note"] else text


def counts(compared: pl.DataFrame) -> str:
    """Return the number of comparisons with each verdict."""
    of_verdicts = compared.group_by("verdict").len().sort("verdict")
    return ", ".join(f"{count:,} {verdict}" for verdict, count in of_verdicts.iter_rows())


def assumptions(compared: pl.DataFrame) -> list[str]:
    """Return what a repeat is, and the assumptions of the tests."""
    repeats, tests = (compared[name].drop_nulls().unique(maintain_order=True) for name in ("repeats", "tested_by"))
    return [_REPEATED[name] for name in repeats] + [f"Tested by {name}, which takes: {TESTS[name]}." for name in tests]


def key(row: dict[str, Any], dims: Sequence[str]) -> list[str]:
    """Return the metric of a row and its value of each dimension."""
    return [row["metric"], *("–" if row[name] is None else str(row[name]) for name in dims)]


def rank(row: dict[str, Any]) -> str:
    """Return the range of ranks of a group."""
    first, last = row["rank_from"], row["rank_to"]
    return f"{first}" if first == last else f"{first} to {last}"


def ranks(ranked: pl.DataFrame, by: Sequence[str], emulated: Set[str], worse: Worse) -> list[str]:
    """Return a sentence for each metric: the first group, and the groups that cannot be distinguished.

    `emulated` are the groups with a recording of an emulated device, `worse` is `Measure.worse`.
    """
    dims = [name for name in ranked.columns[1 : ranked.columns.index(by[0])] if name not in by]
    distinguishing = [name for name in dims if ranked[name].n_unique() > 1]
    lines = []
    for _, rows in ranked.group_by("metric", *dims, maintain_order=True):
        of = " ".join(part for part in key(rows.row(0, named=True), distinguishing)[1:] if part != "–")
        metric = METRICS.get(rows["metric"][0], rows["metric"][0].replace("_", " "))
        first = "fastest" if rows["unit"][0] == "ns" or worse == "lower" else "highest"
        names = [label([str(part) for part in group]) for group in rows.select(by).iter_rows()]
        marked = [visible(name) + (MARK if name in emulated else "") for name in names]
        text = "; ".join(_phrases(marked, rows.select("rank_from", "rank_to").rows(), first))
        lines.append(f"{', '.join(part for part in (metric, of) if part)}: {text}")
    return lines


def _phrases(names: Sequence[str], ranges: Sequence[tuple[int, int]], first: str) -> Iterator[str]:
    """Yield a phrase for each group in order: its rank, and the groups that cannot be distinguished from it."""
    begin = 0
    while begin < len(names):
        end = begin + 1
        while end < len(names) and ranges[end][0] <= max(last for _, last in ranges[begin:end]):
            end += 1
        together = names[begin:end]
        where = first if begin == 0 else "next"
        if len(together) == 1:
            yield f"{together[0]} is {where if begin == 0 or end < len(names) else 'last'}"
        else:
            listed = f"{', '.join(together[:-1])} and {together[-1]}"
            is_all = len(set(ranges[begin:end])) == 1
            cannot = "cannot be distinguished" if is_all else "cannot all be distinguished"
            yield f"{listed} {cannot}"
        begin = end
