"""The differences between two recordings, or two sets of them, as `androstep compare A B` reports them.

A question is one number of both sides, such as bytes written per second. All questions that both sides can answer are
asked at once. The intervals are so wide that all of them together hold with 95 % (Bonferroni).

- With at least three recordings on each side, these are the repeats, and their spread is measured.
- With fewer, windows of time are the repeats (`stats.blocks`). They cannot show how runs of one workload differ from
  each other. An assumed spread between runs (`Kind.run_spread`) therefore widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.compare.estimates import AMOUNT, CACHED, REPEATS, Estimate, Question
from androstep_analysis.compare.observed import Observed, observe
from androstep_analysis.compare.questions import Sides, not_compared, questions
from androstep_analysis.measures.recording import Recording
from androstep_analysis.stats import distributions
from androstep_analysis.stats.blocks import Difference, Scale
from androstep_analysis.stats.quantiles import Quantile

LEVEL: Final = 0.05
"""Probability that any verdict of an overview is false."""

RECOMMENDED: Final = 5
"""Recommended number of recordings on each side. With three, an interval is several times as wide."""

_MANY: Final = 1e9
"""Degrees of freedom that are practically infinite."""

VERDICTS: Final = ("worse", "better", "different", "cannot be decided", "same")


@dataclass(frozen=True)
class Overview:
    """The differences between two sides (`overview`).

    Attributes
    ----------
    first, second : str
        The names of the sides.
    table : polars.DataFrame
        A row for each question: first what differs, in descending order of importance, then what cannot be decided,
        beginning with what only one side has and then the nearest to a verdict, then what is the same. Columns: what,
        unit, first, second, difference, lo, hi (Float64: second over first, for shares second minus first; null if one
        is 0), verdict (Enum `VERDICTS`), within (Float64: "the same within"), reason (String: what is missing for a
        decision), weight (Float64: importance).
    not_compared : tuple of str
        Data that only one side recorded, in words.
    recordings : tuple of int
        The number of recordings on each side.
    seconds : tuple
        The total recorded time of each side; None if no times are known.
    are_busy : bool
        Whether both sides always waited for storage.
    """

    first: str
    second: str
    table: pl.DataFrame
    not_compared: tuple[str, ...]
    recordings: tuple[int, int]
    seconds: tuple[float | None, float | None]
    are_busy: bool

    @property
    def lengths(self) -> list[float]:
        """The mean length of the recordings of each side, in seconds; empty where one is not known."""
        known = [one for one in self.seconds if one is not None]
        return [one / count for one, count in zip(known, self.recordings, strict=False)] if len(known) == 2 else []


_SCHEMA: Final[dict[str, Any]] = {
    **{"what": pl.String, "unit": pl.String},
    **dict.fromkeys(("first", "second", "difference", "lo", "hi"), pl.Float64),
    **{"verdict": pl.Enum(VERDICTS), "within": pl.Float64, "reason": pl.String, "weight": pl.Float64},
}

TOO_FEW_RUNS: Final = "runs"
"""Reason: windows show a difference, but it may be a difference between runs."""
TOO_SHORT: Final = "length"
"""Reason: the windows vary too much."""
TOO_FEW_REPEATS: Final = "repeats"
"""Reason: the recordings vary too much."""


def overview(
    first: Sequence[Capture | Recording], second: Sequence[Capture | Recording], *, names: tuple[str, str] | None = None
) -> Overview:
    """Return the differences between two sides.

    Parameters
    ----------
    first, second : sequence of Capture or Recording
        At least one recording of each side. At least three are necessary to measure the spread between runs; five are
        recommended.
    names : tuple of str, optional
        The names of the sides; by default the titles of their first recordings.

    Returns
    -------
    Overview

    Raises
    ------
    InputError
        If a side has nothing to compare, the sides have nothing in common, or both have the same recording.

    References
    ----------
    ``schemas/definitions.toml``, compare_overview.

    Examples
    --------
    >>> import dataclasses
    >>> again = dataclasses.replace(compare.Recording.of(capture), facts={**capture.facts, "capture_id": "0"})
    >>> set(compare.overview([capture], [again]).table["verdict"]) <= {"same", "cannot be decided"}
    True
    """
    sides = [
        [observe(one if isinstance(one, Recording) else Recording.of(one)) for one in side] for side in (first, second)
    ]
    return of_observed(sides[0], sides[1], names)


def of_observed(
    first: Sequence[Observed], second: Sequence[Observed], names: tuple[str, str] | None = None
) -> Overview:
    """Return the `overview` of observed recordings."""
    sides = (first, second)
    titles = names or (first[0].title, second[0].title)
    for title, side in zip(titles, sides, strict=True):
        if all(one.is_empty for one in side):
            raise InputError(f"{title}: has no requests, benchmark results or replays, so there is nothing to compare")
    both = Sides(first, second)
    asked = list(questions(both))
    if not asked:
        raise InputError(f"{titles[0]} and {titles[1]}: no measure has enough data in both, so nothing was compared")
    rows = [_row(one, LEVEL / len(asked)) for one in asked]
    order = pl.col("verdict").to_physical().replace_strict({0: 0, 1: 0, 2: 0, 3: 1, 4: 2}, return_dtype=pl.Int8)
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    table = table.sort(order, -_nearness(), -pl.col("weight"), maintain_order=True)
    is_share = pl.col("unit") == "1"  # whose difference is at most 1
    table = table.with_columns(pl.when(is_share).then(pl.col("lo", "hi").clip(-1, 1)).otherwise(pl.col("lo", "hi")))
    lengths = [[one.seconds for one in side] for side in sides]
    return Overview(
        *titles,
        table,
        tuple(not_compared(titles, sides)),
        (len(first), len(second)),
        (_sum(lengths[0]), _sum(lengths[1])),
        both.are_busy,
    )


def _nearness() -> pl.Expr:
    """Return how near an undecided row is to a verdict: the difference over half of its interval. Others have 0.

    What only one side has comes first. The largest other differences are those of the numbers that vary most.
    """
    low, high, middle = (
        pl.when(pl.col("unit") == "1").then(pl.col(name)).otherwise(pl.col(name).log())
        for name in ("lo", "hi", "difference")
    )
    nearness = (2 * middle / (high - low)).abs()
    is_one_sided = (pl.col("unit") != "1") & (pl.min_horizontal("first", "second") <= 0)
    nearness = pl.when(is_one_sided).then(math.inf).otherwise(nearness)
    return pl.when(pl.col("verdict") == "cannot be decided").then(nearness).fill_null(0).fill_nan(0)


def _sum(lengths: Sequence[float | None]) -> float | None:
    known = [length for length in lengths if length is not None]
    return sum(known) if len(known) == len(lengths) else None


def _row(asked: Question, level: float) -> dict[str, Any]:
    """Return the question with its interval, which fails to hold with probability `level`, and its verdict."""
    first, second = asked.first.mean.value, asked.second.mean.value
    row: dict[str, Any] = {"what": asked.what, "unit": asked.unit, "first": first, "second": second}
    is_ratio = not asked.kind.is_share
    if is_ratio and min(first, second) <= 0:
        return row | _only_on_one_side(asked, level)
    row["difference"] = _difference(asked)
    bounds = _bounds(asked, level)
    if bounds is None:
        return row | _open(asked, _lacking(asked))
    low, high = (math.exp(min(max(bound, -700.0), 700.0)) if is_ratio else bound for bound in bounds)
    return row | {"lo": low, "hi": high} | _verdict(asked, bounds, level)


def _bounds(asked: Question, level: float, *, widened: bool = True) -> tuple[float, float] | None:
    """Return the interval of the difference on the scale of `_size`; None if the data do not allow one.

    The errors of both sides and the assumed spread between runs are added as independent (Welch and Satterthwaite). An
    error from few blocks reduces the degrees of freedom only if it is a large part of the total.
    """
    sides = (asked.first, asked.second)
    runs = [asked.kind.run_spread**2 / one.recordings for one in sides if one.recordings < REPEATS]
    if isinstance(asked.first.mean, Quantile) or isinstance(asked.second.mean, Quantile):
        return _of_quantiles(asked, level, math.sqrt(sum(runs)) if widened else 0.0)
    if not all(one.mean.is_known for one in sides):
        return None
    errors = [(_error(one, is_share=asked.kind.is_share), one.mean.freedom) for one in sides]
    variance = sum(error**2 for error, _ in errors) + (sum(runs) if widened else 0.0)
    few = sum(error**4 / freedom for error, freedom in errors)
    freedom = variance**2 / few if few > 0 else math.inf
    middle = _size(asked, _difference(asked))
    far = distributions.student(distributions.deviates(level), min(freedom, _MANY)) * math.sqrt(variance)
    return middle - far, middle + far


def _difference(asked: Question) -> float:
    first, second = asked.first.mean.value, asked.second.mean.value
    return second - first if asked.kind.is_share else second / first


def _error(one: Estimate, *, is_share: bool) -> float:
    """Return the standard error: for a share in points, else relative to the value.

    A share that is 0 or 1 in all observed windows may differ in a window that was not observed.
    """
    if not is_share:
        return one.mean.relative_error(Scale.POSITIVE)
    is_sure = one.recordings < REPEATS and one.mean.value in (0.0, 1.0)
    return 1 / (one.mean.effective + 1) if is_sure else one.mean.error


def _of_quantiles(asked: Question, level: float, spread: float) -> tuple[float, float] | None:
    """Return the interval of the logarithm of a ratio of quantiles, whose own intervals are not symmetric."""
    difference = Difference(asked.first.mean, asked.second.mean, Scale.POSITIVE)
    middle = math.log(_difference(asked))
    if difference.is_known:
        found = difference.ratio(1 - level)
    else:
        found = (_difference(asked),) * 2 if asked.first.mean.error == asked.second.mean.error == 0 else None
    if found is None or found[0] <= 0:
        return None
    far = distributions.deviates(level) * spread
    return middle - math.hypot(middle - math.log(found[0]), far), middle + math.hypot(math.log(found[1]) - middle, far)


def _verdict(asked: Question, bounds: tuple[float, float], level: float) -> dict[str, Any]:
    size, (low, high) = _size(asked, _difference(asked)), bounds
    is_shown = low > 0 or high < 0
    smallest = asked.kind.smallest if asked.kind.is_share else math.log1p(asked.kind.smallest)
    if is_shown and abs(size) >= smallest:
        is_worse = (asked.worse == "higher") == (size > 0)
        verdict = "different" if asked.worse is None else "worse" if is_worse else "better"
        return {"verdict": verdict, "weight": _weight(asked, low if low > 0 else high)}
    within = _within(asked, bounds)
    if within <= asked.kind.most_same:
        return {"verdict": "same", "within": within, "weight": _weight(asked, size)}
    return _open(asked, _reason(asked, level))


def _open(asked: Question, reason: str) -> dict[str, Any]:
    """Return the verdict of a question that cannot be decided."""
    is_one_sided = not asked.kind.is_share and min(asked.first.mean.value, asked.second.mean.value) <= 0
    size = None if is_one_sided else _size(asked, _difference(asked))
    return {"verdict": "cannot be decided", "reason": reason, "weight": _weight(asked, size)}


def _reason(asked: Question, level: float) -> str:
    """Return what is missing for a decision: runs, or longer recordings, or more of them."""
    if min(asked.first.recordings, asked.second.recordings) >= REPEATS:
        return TOO_FEW_REPEATS
    bounds = _bounds(asked, level, widened=False)
    if bounds is None:
        return TOO_SHORT
    is_decided = bounds[0] > 0 or bounds[1] < 0 or _within(asked, bounds) <= asked.kind.most_same
    return TOO_FEW_RUNS if is_decided else TOO_SHORT


def _lacking(asked: Question) -> str:
    """Return what is missing for an interval. A number of a whole recording has none without further recordings."""
    sides = (asked.first, asked.second)
    if min(one.recordings for one in sides) >= REPEATS:
        return TOO_FEW_REPEATS
    return TOO_SHORT if all(one.mean.windows >= REPEATS for one in sides) else TOO_FEW_RUNS


def _only_on_one_side(asked: Question, level: float) -> dict[str, Any]:
    """Return the verdict of an event that did not occur at all on one side.

    If it were as frequent on both sides, each block in which it occurred would be on either side by chance, in
    proportion to their lengths. A single run does not show whether the page cache would hold the data in another. Nor
    does it show whether a small part of the whole, such as a file that the kernel writes back or not, is in every run.
    """
    is_in_second = asked.second.mean.value > 0
    there, other = (asked.second, asked.first) if is_in_second else (asked.first, asked.second)
    weight = asked.share
    if min(there.recordings, other.recordings) >= REPEATS:
        bounds = there.mean.bounds(distributions.deviates(level), there.mean.freedom, Scale.ANY)
        is_shown = there.mean.is_known and bounds[0] > 0
    elif asked.kind is CACHED:
        return _open(asked, TOO_FEW_RUNS)
    else:
        is_frequent = 2 * (there.seconds / (there.seconds + other.seconds)) ** there.occupied <= level
        spread = AMOUNT.run_spread * math.sqrt(1 / there.recordings + 1 / other.recordings)
        if is_frequent and asked.share < distributions.deviates(level) * spread:
            return _open(asked, TOO_FEW_RUNS)
        is_shown = is_frequent
    if not is_shown:
        return _open(asked, _lacking(asked))
    is_worse = (asked.worse == "higher") == is_in_second
    return {"verdict": "different" if asked.worse is None else "worse" if is_worse else "better", "weight": weight}


def _size(asked: Question, value: float) -> float:
    """Return a difference as a number that is 0 for equal sides."""
    return value if asked.kind.is_share else math.log(value)


def _within(asked: Question, bounds: tuple[float, float]) -> float:
    """Return the largest deviation in the interval: in points, or relative to the lower value."""
    size = max(-bounds[0], bounds[1])
    return size if asked.kind.is_share else math.expm1(min(size, 700.0))


def _weight(asked: Question, size: float | None) -> float:
    """Return the importance of a difference.

    A factor of two counts as 25 points. It is multiplied by the share of the whole.
    """
    if size is None:
        return asked.share
    return asked.share * (4 * abs(size) if asked.kind.is_share else abs(size) / math.log(2))
