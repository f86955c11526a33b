"""Groups of recordings summarised, ranked and compared (`compare`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import polars as pl

from androstep_analysis.compare.measures import dimensions
from androstep_analysis.errors import InputError
from androstep_analysis.manifest import FACTS
from androstep_analysis.measures.tables import Table, frame
from androstep_analysis.stats import blocks, exact
from androstep_analysis.stats.blocks import Resampled, Series

VERDICTS: Final = (
    *("higher", "lower", "no difference shown", "insufficient data"),
    *("only in the first", "only in the second"),
)
"""What is said of the second of two groups."""

REPEATS: Final = ("captures", "repetitions", "windows", "pairs")

Correction: TypeAlias = Literal["holm", "bh"]
"""For several comparisons: Holm (not one false difference, with 95 %) or Benjamini and Hochberg (5 % false ones)."""

LEVEL: Final = 0.05
"""How often a difference may be shown where there is none."""


def summarise(measured: Table, *, by: Sequence[str]) -> pl.DataFrame:
    """The value of every group with its interval.

    Of captures and repetitions the value is the median, its interval that of `bench.summarise`: below six it is least
    and greatest, and confidence says what that is worth. Of windows it is the weighted mean, and there is no interval
    where they are too few (`blocks.LEAST_BLOCKS`).

    Parameters
    ----------
    measured : Table
        Of `measure_all`.
    by : sequence of str
        Facts, or capture: groups are those of equal values of these columns.

    Returns
    -------
    polars.DataFrame
        Columns metric, the measure's dimensions, the columns `by`, value (Float64), unit, n (Int64, repeats), repeats
        (Enum: captures, repetitions, windows), lo, hi, confidence (Float64), coverage (Float64).

    Raises
    ------
    InputError
        For a capture that does not have a fact, and for a column that is none to compare by.

    References
    ----------
    ``schemas/definitions.toml``, bench_interval and compare_windows.

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8)
    >>> groups = compare.summarise(measured, by=["capture"])
    >>> groups["repeats"].unique().to_list()
    ['windows']
    """
    measured = frame(measured)
    groups = _Groups.of(measured, by)
    rows = [
        {
            **key,
            **dict(zip(by, group, strict=True)),
            **_summary(sample),
            "unit": sample.unit,
            "n": sample.n,
            "repeats": sample.repeats,
            "coverage": sample.coverage,
        }
        for key, samples in groups.cells()
        for group, sample in samples.items()
    ]
    dims = dimensions(measured)
    types: dict[str, Any] = {
        **{name: measured.schema[name] for name in ("metric", *dims)},
        **dict.fromkeys(by, pl.String),
        **{"value": pl.Float64, "unit": pl.String, "n": pl.Int64, "repeats": pl.Enum(REPEATS)},
        **dict.fromkeys(("lo", "hi", "confidence", "coverage"), pl.Float64),
    }
    return pl.DataFrame(rows, schema=types, orient="row")


def compare(
    measured: Table,
    *,
    by: Sequence[str],
    paired_by: Sequence[str] = (),
    correction: Correction = "holm",
) -> pl.DataFrame:
    """Every two groups side by side: is the second higher or lower, by how much, and is that more than chance?

    Captures and repetitions: difference and ratio of medians with Moses' intervals, Mann and Whitney's exact test,
    Cliff's delta as `effect` (`exact`). Pairs: Hodges and Lehmann's estimate with Tukey's interval, Wilcoxon's
    exact test, the rank-biserial correlation. Windows: difference and ratio of means by resampling blocks of windows,
    studentised (`blocks`), Cliff's delta of the windows. Intervals hold with 95 % each; `p_adjusted` is over
    all comparisons of the table, and the verdict goes by it. Where repeats are too few for any such test to show a
    difference, the verdict is ``insufficient data``, and `least_n` says how many of each side could; p is null where
    not even a single comparison could. Where the groups' coverage differs by more than a hundredth, `note` says so.

    Parameters
    ----------
    measured : Table
        Of `measure_all`.
    by : sequence of str
        Facts, or capture: groups are those of equal values of these columns, in the order of the captures.
    paired_by : sequence of str
        Facts: captures are compared only with captures of equal values of these, such as the same workload.
    correction : {"holm", "bh"}
        For several comparisons: Holm (not one false difference, with 95 %), or Benjamini and Hochberg (5 % false ones).

    Returns
    -------
    polars.DataFrame
        Columns metric, the measure's dimensions, group_first, group_second (String), unit, first, second (Float64, as
        in `summarise`), difference, difference_lo, difference_hi, ratio, ratio_lo, ratio_hi (Float64), effect, p,
        p_adjusted (Float64), n_first, n_second (Int64), least_n (Int64), repeats (Enum `REPEATS`), coverage_first,
        coverage_second (Float64), verdict (Enum `VERDICTS`), note (String).

    Raises
    ------
    InputError
        For a capture that does not have a fact, and for a column that is none to compare by.
    ValueError
        For pairs of windows.

    References
    ----------
    ``schemas/definitions.toml``, compare_verdict and compare_windows; Hollander, Wolfe and Chicken, Nonparametric
    Statistical Methods, 2014.

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8)
    >>> again = measured.with_columns(capture=pl.lit("again"), capture_id=pl.lit("0"))
    >>> table = compare.compare(pl.concat([measured, again]), by=["capture"])
    >>> table["difference"].unique().to_list()
    [0.0]
    """
    measured = frame(measured)
    if paired_by and measured["kind"].is_in(["window"]).any():
        raise ValueError("pairs are of captures: measure without windows")
    groups = _Groups.of(measured, by, paired_by)
    rows = [
        _compared(key, (first, samples.get(first)), (second, samples.get(second)), paired=bool(paired_by))
        for key, samples in groups.cells()
        for first, second in itertools.combinations(groups.names, 2)
        if first in samples or second in samples
    ]
    _adjust(rows, correction)
    return pl.DataFrame(rows, schema=_schema(measured), orient="row")


def ranking(measured: Table, *, by: Sequence[str] = ("device", "android_release")) -> pl.DataFrame:
    """The groups by rank in every metric, the highest value first; those that no comparison tells apart share ranks.

    By default a device with another Android release is another device, as on the Mobibench server. Of times (unit ns)
    the shortest is first.

    Parameters
    ----------
    measured : Table
        Of `measure_all`.
    by : sequence of str
        Facts, or capture: groups are those of equal values of these columns.

    Returns
    -------
    polars.DataFrame
        The columns of `summarise`, and before value: place (Int64, by value alone), rank_from, rank_to (Int64): one
        more than the groups that `compare` shows to come before, and as many as there are less those it shows to come
        after. They hold for all groups at once with 95 %, by Holm's correction within each metric and dimension.

    Raises
    ------
    InputError
        For a capture that does not have a fact, and for a column that is none to compare by.

    References
    ----------
    ``schemas/definitions.toml``, compare_rank; Mogstad, Romano, Shaikh and Wilhelm, Review of Economic Studies 91(1),
    2024; Future Internet 5(4), 2013, Figure 3b.

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8)
    >>> again = measured.with_columns(capture=pl.lit("again"), capture_id=pl.lit("0"))
    >>> table = compare.ranking(pl.concat([measured, again]), by=["capture"]).filter(metric="count_ratio", op="read")
    >>> table.select("rank_from", "rank_to").rows()
    [(1, 2), (1, 2)]
    """
    measured = frame(measured)
    summary = summarise(measured, by=by)
    keys = ["metric", *dimensions(measured)]
    parts = []
    for _, rows in summary.group_by(keys, maintain_order=True):
        least_first = rows["unit"][0] == "ns"
        cell = measured.join(rows.select(keys).unique(), on=keys, how="semi", nulls_equal=True)
        before, after = _shown(compare(cell, by=by), least_first=least_first)
        names = [_label(group) for group in rows.select(by).iter_rows()]
        parts.append(
            rows.with_columns(
                pl.col("value").rank("min", descending=not least_first).cast(pl.Int64).alias("place"),
                pl.Series("rank_from", [1 + after.count(name) for name in names], pl.Int64),
                pl.Series("rank_to", [len(names) - before.count(name) for name in names], pl.Int64),
            ).sort("place", "rank_from", maintain_order=True)
        )
    places = ("place", "rank_from", "rank_to")
    ranked = pl.concat(parts) if parts else summary.with_columns(pl.lit(None, pl.Int64).alias(name) for name in places)
    front = [*keys, *by, *places]
    return ranked.select(*front, *(name for name in ranked.columns if name not in front))


def _shown(compared: pl.DataFrame, *, least_first: bool) -> tuple[list[str], list[str]]:
    """Of every two groups that differ, the one that comes first, and the one that comes after it."""
    before, after = [], []
    for first, second, verdict in compared.select("group_first", "group_second", "verdict").iter_rows():
        if verdict in ("higher", "lower"):
            order = (second, first) if (verdict == "higher") is not least_first else (first, second)
            before.append(order[0])
            after.append(order[1])
    return before, after


# -- samples ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sample:
    """The repeats of one group in one metric and dimensions.

    `values` are those of independent repeats, `pairs` the same by what they are paired by, `windows` the resampled
    windows, and `every` the values of all repeats, for the effect size.
    """

    repeats: str
    unit: str
    every: Sequence[float]
    coverage: float | None
    clocks: frozenset[str]
    windows: Resampled | None = None
    pairs: Mapping[tuple[Any, ...], float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.every)

    @property
    def is_share(self) -> bool:
        """No value can lie below 0 or above 1."""
        return self.unit == "1" and min(self.every) >= 0 and max(self.every) <= 1

    @property
    def value(self) -> float:
        return float(np.median(self.every)) if self.windows is None else self.windows.mean


@dataclass(frozen=True)
class _Groups:
    """A table of `measure_all` by groups: what each is called, and which columns tell it."""

    measured: pl.DataFrame
    by: Sequence[str]
    paired_by: Sequence[str]
    names: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, measured: pl.DataFrame, by: Sequence[str], paired_by: Sequence[str] = ()) -> _Groups:
        known = ("capture", *FACTS)
        for name in (*by, *paired_by):
            if name not in known:
                raise InputError(f"{name!r} is nothing to compare by; there are {', '.join(known)}")
            if (without := measured.filter(pl.col(name).is_null())).height:
                raise InputError(
                    f"{without['capture'][0]}: its {name} is not known; add it with `androstep ingest --fact {name}=…`"
                )
        if shared := sorted(set(by) & set(paired_by)):
            raise InputError(f"{shared[0]} is what is compared; pair by something else")
        if not by:
            raise InputError("compare by at least one fact, or by capture")
        text = measured.with_columns(pl.col(name).cast(pl.String) for name in dict.fromkeys((*by, *paired_by)))
        names = text.select(by).unique(maintain_order=True).rows()
        labels = [_label(name) for name in names]
        if doubled := next((label for label in labels if labels.count(label) > 1), None):
            raise InputError(f"two groups would be called {doubled!r}; name one of them otherwise")
        return cls(text, by, paired_by, names)

    def cells(self) -> Iterator[tuple[dict[str, Any], dict[tuple[str, ...], _Sample]]]:
        """Every metric and dimensions with the sample of each group that has any."""
        keys = ["metric", *dimensions(self.measured)]
        for key, rows in self.measured.group_by(keys, maintain_order=True):
            found = {
                tuple(group): sample
                for group, of in rows.group_by(self.by, maintain_order=True)
                if (sample := self._sample(of)) is not None
            }
            if found:
                yield dict(zip(keys, key, strict=True)), found

    def _sample(self, rows: pl.DataFrame) -> _Sample | None:
        rows = rows.filter(pl.col("value").is_finite(), pl.col("weight") > 0)
        if rows.is_empty():
            return None
        told = {
            "unit": rows["unit"][0],
            "coverage": rows["coverage"].mean(),
            "clocks": frozenset(rows["clock"].drop_nulls()),
        }
        every = rows["value"].to_list()
        if rows["kind"][0] == "window":
            recordings = rows.sort("repeat").partition_by("capture_id", maintain_order=True)
            series = [Series(one["value"].to_numpy(), one["weight"].to_numpy()) for one in recordings]
            # Not of the metric: what makes up a whole is resampled alike, so that shares still add up.
            seed = " ".join(sorted(rows["capture_id"].unique()))
            return _Sample("windows", **told, every=every, windows=blocks.resampled(series, name=seed))
        pairs = dict(_medians(rows, self.paired_by)) if self.paired_by else {}
        if rows["kind"][0] == "repetition" and rows["capture"].n_unique() == 1:
            return _Sample("repetitions", **told, every=every, pairs=pairs)
        return _Sample("captures", **told, every=[value for _, value in _medians(rows, ["capture"])], pairs=pairs)


def _medians(rows: pl.DataFrame, by: Sequence[str]) -> list[tuple[tuple[Any, ...], float]]:
    found = rows.group_by(by, maintain_order=True).agg(pl.col("value").median())
    return [(tuple(key), value) for *key, value in found.iter_rows()]


def _summary(sample: _Sample) -> dict[str, float | None]:
    if sample.windows is not None:
        lo, hi = blocks.interval(sample.windows) or (None, None)
        if lo is not None and hi is not None and sample.is_share:
            lo, hi = max(0.0, lo), min(1.0, hi)
        return {"value": sample.value, "lo": lo, "hi": hi, "confidence": None if lo is None else 1 - LEVEL}
    place, confidence = exact.rank(sample.n)
    ordered = sorted(sample.every)
    lo, hi = (None, None) if sample.n == 1 else (ordered[place - 1], ordered[-place])
    return {"value": sample.value, "lo": lo, "hi": hi, "confidence": confidence}


# -- two groups -------------------------------------------------------------------------------------------------------

_Row: TypeAlias = dict[str, Any]


def _compared(
    key: Mapping[str, Any],
    first: tuple[tuple[str, ...], _Sample | None],
    second: tuple[tuple[str, ...], _Sample | None],
    *,
    paired: bool,
) -> _Row:
    """A row of the result, its p-value not adjusted yet and its verdict open where there is one."""
    row: _Row = dict(key)
    for side, (group, sample) in (("first", first), ("second", second)):
        row[f"group_{side}"] = _label(group)
        if sample is not None:
            row |= {side: sample.value, f"n_{side}": sample.n, f"coverage_{side}": sample.coverage}
    one, other = first[1], second[1]
    present = one or other
    assert present is not None, "one of the two groups has a sample"
    row |= {"unit": present.unit, "repeats": present.repeats, "note": ""}
    if one is None or other is None:
        return row | {"verdict": "only in the second" if one is None else "only in the first"}
    row["note"] = "; ".join(_notes(one, other))
    if paired:
        return row | _of_pairs(one, other, row["note"])
    if one.windows is not None and other.windows is not None:
        return row | _of_windows(one, other, one.windows, other.windows)
    return row | {"repeats": one.repeats if one.repeats == other.repeats else "captures"} | _of_repeats(one, other)


def _of_repeats(one: _Sample, other: _Sample) -> _Row:
    first, second = one.every, other.every
    enough = exact.attainable(len(first), len(second))
    return {
        **_bounds("difference", exact.difference(first, second)),
        **_bounds("ratio", exact.ratio(first, second)),
        "effect": exact.cliffs_delta(first, second),
        "p": exact.rank_test(first, second) if enough <= LEVEL else None,
        "attainable": lambda n: exact.attainable(n, n),
        "best": enough,
    }


def _of_pairs(one: _Sample, other: _Sample, note: str) -> _Row:
    both = [pair for pair in one.pairs if pair in other.pairs]
    first, second = [one.pairs[pair] for pair in both], [other.pairs[pair] for pair in both]
    alone = len(one.pairs) + len(other.pairs) - 2 * len(both)
    lonely = f"{alone} of them {'have' if alone > 1 else 'has'} no counterpart" if alone else ""
    enough = exact.attainable_paired(len(both))
    return {
        **_bounds("difference", exact.paired_difference(first, second)),
        **_bounds("ratio", exact.paired_ratio(first, second)),
        "first": float(np.median(first)) if both else one.value,
        "second": float(np.median(second)) if both else other.value,
        "n_first": len(both),
        "n_second": len(both),
        "effect": exact.rank_biserial(first, second) if both else None,
        "p": exact.signed_rank_test(first, second) if enough <= LEVEL else None,
        "attainable": exact.attainable_paired,
        "best": enough,
        "repeats": "pairs",
        "note": "; ".join(part for part in (note, lonely) if part),
    }


def _of_windows(one: _Sample, other: _Sample, first: Resampled, second: Resampled) -> _Row:
    difference, ratio = blocks.difference(first, second), blocks.ratio(first, second)
    row: _Row = {"difference": second.mean - first.mean, "effect": exact.cliffs_delta(one.every, other.every)}
    row["ratio"] = second.mean / first.mean if first.mean > 0 else None
    if difference is not None:
        row |= {"difference_lo": difference.lo, "difference_hi": difference.hi, "p": difference.p}
    if ratio is not None:
        row |= {"ratio_lo": ratio.lo, "ratio_hi": ratio.hi}
    short = [side.least_windows for side in (first, second) if side.blocks < blocks.LEAST_BLOCKS]
    return row | {"least_n": max(short, default=None), "best": 1 / (1 + blocks.RESAMPLES)}


def _bounds(name: str, bounds: exact.Bounds) -> _Row:
    return dict(zip((name, f"{name}_lo", f"{name}_hi"), bounds, strict=True))


def _notes(one: _Sample, other: _Sample) -> Iterator[str]:
    first, second = one.coverage, other.coverage
    if first is not None and second is not None and abs(first - second) > 0.01:
        yield f"known of {first:.0%} and {second:.0%} of the bytes"
    if one.windows is not None and one.clocks != other.clocks and "mono" in one.clocks | other.clocks:
        yield "other clocks: mono does not count the time in which the device sleeps"


def _adjust(rows: Sequence[_Row], correction: Correction) -> None:
    """Gives every row its adjusted p-value and its verdict."""
    both = sum("verdict" not in row for row in rows)
    tested = [row for row in rows if row.get("p") is not None]
    adjusted = _adjusted([row["p"] for row in tested], correction)
    for row, value in zip(tested, adjusted, strict=True):
        row["p_adjusted"] = value
    for row in rows:
        enough, best = row.pop("attainable", None), row.pop("best", 1.0)
        if "verdict" in row:
            continue
        if (p := row.get("p_adjusted")) is not None and p <= LEVEL:
            row["verdict"] = "higher" if row["difference"] > 0 else "lower"
        elif row.get("p") is not None and best * len(tested) <= LEVEL:
            row["verdict"] = "no difference shown"
        else:
            row["verdict"] = "insufficient data"
            if enough is not None:
                row["least_n"] = _least(enough, both)


def _least(attainable: Callable[[int], float], comparisons: int) -> int:
    """The fewest repeats on each side that can show a difference among so many comparisons."""
    return next(n for n in itertools.count(1) if attainable(n) * comparisons <= LEVEL)


def _adjusted(values: Sequence[float], correction: Correction) -> list[float]:
    """The p-values, adjusted for their number."""
    if not values:
        return []
    if correction == "bh":
        from scipy import stats  # takes a second that nothing else needs

        return [float(p) for p in stats.false_discovery_control(values, method="bh")]
    order = sorted(range(len(values)), key=lambda at: values[at])
    found, most = [0.0] * len(values), 0.0
    for place, at in enumerate(order):
        most = max(most, min(1.0, values[at] * (len(values) - place)))
        found[at] = most
    return found


def _label(group: Sequence[str]) -> str:
    return " / ".join(group)


def _schema(measured: pl.DataFrame) -> dict[str, Any]:
    bounds = [f"{name}{end}" for name in ("difference", "ratio") for end in ("", "_lo", "_hi")]
    return {
        **{name: measured.schema[name] for name in ("metric", *dimensions(measured))},
        **dict.fromkeys(("group_first", "group_second", "unit"), pl.String),
        **dict.fromkeys(("first", "second", *bounds, "effect", "p", "p_adjusted"), pl.Float64),
        **dict.fromkeys(("n_first", "n_second", "least_n"), pl.Int64),
        "repeats": pl.Enum(REPEATS),
        **dict.fromkeys(("coverage_first", "coverage_second"), pl.Float64),
        "verdict": pl.Enum(VERDICTS),
        "note": pl.String,
    }
