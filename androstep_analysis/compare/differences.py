"""The difference of two groups in one metric: its size, and its probability under the null hypothesis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from androstep_analysis.compare.groups import Sample, label
from androstep_analysis.stats import blocks, exact
from androstep_analysis.stats.blocks import Difference, Scale

Row: TypeAlias = dict[str, Any]

GREATEST_BURST = 0.2
"""A window with a larger part of the whole is named in the note, since it dominates the result."""

NOTABLE_COVERAGE = 0.01

MUCH_LONGER = 1000
"""Longer recordings are not worth suggesting."""


@dataclass(frozen=True)
class Compared:
    """A row of `compare.compare` without its verdict, and the data for one.

    `exact_p` is the p-value of an exact test by ranks, and `attainable` the least p-value that so few repeats can give.
    `difference` is that of the means, on whose scale `smallest` is judged; None if the data do not allow one.
    """

    row: Row
    exact_p: float | None = None
    attainable: float = 1.0
    exact_test: str | None = None
    difference: Difference | None = None

    @property
    def is_open(self) -> bool:
        """Whether both groups have a sample, so that a verdict is needed."""
        return "verdict" not in self.row

    def test(self, questions: int, level: float) -> tuple[str, float] | None:
        """Return the test and its p-value for this number of questions; None if no test is possible.

        It is the test by ranks if so many repeats can show a difference at all, else the test of means.
        """
        if questions <= self.most_questions(level) and self.exact_test is not None and self.exact_p is not None:
            return self.exact_test, self.exact_p
        if self.difference is None:
            return None
        return "blocks" if self.row["repeats"] == "windows" else "means", self.difference.p()

    def most_questions(self, level: float) -> int:
        """Return the number of questions among which a test by ranks can show a difference; 0 without such a test."""
        return int(level / self.attainable) if self.exact_test is not None and self.exact_p is not None else 0

    def longer(self, p: float) -> float | None:
        """Return the factor by which more windows would show the difference at this p-value.

        This assumes that the estimated difference is true. None if the factor is too large, or for other repeats.
        """
        if self.difference is None or self.row["repeats"] != "windows" or not self.difference.value:
            return None
        times = self.difference.longer(p)
        return times if times < MUCH_LONGER else None

    def against(self, limit: float) -> tuple[bool, float] | None:
        """Return whether the change is above `limit`, and the one-sided p-value; None if the data do not allow a test.

        The limit is in points for a share, else relative to the first group.
        """
        difference = self.difference
        if difference is None:
            return None
        if self.row["repeats"] == "pairs":  # of shares in points, else on logarithms if all are positive
            if self.row["unit"] != "1" and self.row["ratio"] is None:
                return None
            limit = limit if self.row["unit"] == "1" else math.log1p(limit)
        elif difference.scale is not Scale.SHARE:
            difference, limit = difference.times(1 + limit), 0.0
        return difference.value > limit, difference.beyond(limit)


def compared(
    key: Mapping[str, Any],
    first: tuple[tuple[str, ...], Sample | None],
    second: tuple[tuple[str, ...], Sample | None],
    *,
    paired: bool,
) -> Compared:
    """Compare the second group with the first."""
    row: Row = dict(key)
    for side, (group, sample) in (("first", first), ("second", second)):
        row[f"group_{side}"] = label(group)
        if sample is not None:
            row |= {side: sample.value, f"n_{side}": sample.n, f"n_effective_{side}": sample.mean.effective}
            row[f"coverage_{side}"] = sample.coverage
    one, other = first[1], second[1]
    present = one or other
    assert present is not None, "one of the two groups has a sample"
    row |= {"unit": present.unit, "repeats": present.repeats, "note": ""}
    if one is None or other is None:
        return Compared(row | {"verdict": "only in the second" if one is None else "only in the first"})
    row["note"] = "; ".join(_notes(one, other))
    if paired:
        return _of_pairs(row, one, other)
    difference = _difference(one, other)
    row["effect"] = exact.cliffs_delta(one.every, other.every)
    if one.windows is not None and other.windows is not None:
        row |= {"difference": other.value - one.value, "ratio": other.value / one.value if one.value > 0 else None}
        return Compared(row | _intervals(difference), difference=difference)
    row["repeats"] = one.repeats if one.repeats == other.repeats else "captures"
    return _of_repeats(row, one.every, other.every, difference)


def _difference(one: Sample, other: Sample) -> Difference | None:
    scale = one.scale if one.scale is other.scale else Scale.ANY
    difference = Difference(one.mean, other.mean, scale)
    return difference if difference.is_known else None


def _intervals(difference: Difference | None) -> Row:
    if difference is None:
        return {}
    row = dict(zip(("difference_lo", "difference_hi"), difference.interval(), strict=True))
    if (ratio := difference.ratio()) is not None:
        row |= {"ratio_lo": ratio[0], "ratio_hi": ratio[1]}
    return row


def _of_repeats(row: Row, first: Sequence[float], second: Sequence[float], difference: Difference | None) -> Compared:
    """Compare medians with Moses' interval, or with that of the means if there are too few repeats."""
    attainable = exact.attainable(len(first), len(second))
    by_means = _intervals(difference)
    for name, bounds in (("difference", exact.difference(first, second)), ("ratio", exact.ratio(first, second))):
        value, lo, hi = bounds
        row[name] = value
        if lo is None and value is not None and f"{name}_lo" in by_means:
            lo, hi = min(value, by_means[f"{name}_lo"]), max(value, by_means[f"{name}_hi"])
        row |= {f"{name}_lo": lo, f"{name}_hi": hi}
    return Compared(row, exact.rank_test(first, second), attainable, "ranks", difference)


def _of_pairs(row: Row, one: Sample, other: Sample) -> Compared:
    both = [pair for pair in one.pairs if pair in other.pairs]
    first, second = [one.pairs[pair] for pair in both], [other.pairs[pair] for pair in both]
    unpaired = len(one.pairs) + len(other.pairs) - 2 * len(both)
    unpaired_note = f"{unpaired} of them {'have' if unpaired > 1 else 'has'} no counterpart" if unpaired else ""
    row |= {
        **_bounds("difference", exact.paired_difference(first, second)),
        **_bounds("ratio", exact.paired_ratio(first, second)),
        "first": float(np.median(first)) if both else one.value,
        "second": float(np.median(second)) if both else other.value,
        **dict.fromkeys(("n_first", "n_second"), len(both)),
        **dict.fromkeys(("n_effective_first", "n_effective_second"), float(len(both))),
        "effect": exact.rank_biserial(first, second) if both else None,
        "repeats": "pairs",
        "note": "; ".join(part for part in (row["note"], unpaired_note) if part),
    }
    if len(both) < 2:
        return Compared(row)
    is_positive = min(*first, *second) > 0
    plain = _apart(np.subtract(second, first))
    logarithms = _apart(np.log(second) - np.log(first)) if is_positive else None
    if row["difference_lo"] is None and plain is not None:
        row |= dict(zip(("difference_lo", "difference_hi"), plain.interval(), strict=True))
    if row["ratio_lo"] is None and logarithms is not None:
        row |= dict(zip(("ratio_lo", "ratio_hi"), map(math.exp, logarithms.interval()), strict=True))
    difference = logarithms if is_positive and row["unit"] != "1" else plain
    signed = exact.signed_rank_test(first, second)
    return Compared(row, signed, exact.attainable_paired(len(both)), "signed ranks", difference)


def _apart(differences: npt.NDArray[np.float64]) -> Difference | None:
    """Return the mean of the differences of pairs as a difference from zero."""
    difference = Difference(blocks.ZERO, blocks.of_repeats(differences), Scale.ANY)
    return difference if difference.is_known else None


def _bounds(name: str, bounds: exact.Bounds) -> Row:
    return dict(zip((name, f"{name}_lo", f"{name}_hi"), bounds, strict=True))


def _notes(one: Sample, other: Sample) -> Iterator[str]:
    first, second = one.coverage, other.coverage
    if first is not None and second is not None and abs(first - second) > NOTABLE_COVERAGE:
        yield f"known of {first:.0%} and {second:.0%} of the bytes"
    if names := [f"{sample.inferred or 0:.0%}" for sample in (one, other)] if one.inferred or other.inferred else []:
        yield f"names only inferred of {' and '.join(names)} of the bytes"
    for side, sample in (("first", one), ("second", other)):
        if sample.windows is not None and sample.windows.burst > GREATEST_BURST:
            yield f"one window makes {sample.windows.burst:.0%} of the {side}"
    if one.windows is not None and one.clocks != other.clocks and "mono" in one.clocks | other.clocks:
        yield "other clocks: mono does not count the time in which the device sleeps"
