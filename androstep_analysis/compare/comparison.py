"""Summaries, rankings and comparisons of groups of recordings (`compare`)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from androstep_analysis.compare.differences import Compared, compared
from androstep_analysis.compare.groups import Groups, Sample, label
from androstep_analysis.compare.measures import dimensions
from androstep_analysis.compare.verdicts import GATES, LEVEL, Correction, give_gates, give_verdicts
from androstep_analysis.measures.tables import Table, frame
from androstep_analysis.stats import blocks, exact

VERDICTS: Final = (
    *("higher", "lower", "no difference that matters", "no difference shown", "insufficient data"),
    *("only in the first", "only in the second"),
)
"""Verdicts on the second of two groups."""

REPEATS: Final = ("captures", "repetitions", "windows", "pairs")

TESTS: Final = {
    "ranks": "any distribution that is the same on both sides but for a shift",
    "signed ranks": "differences of pairs that are as likely above as below their middle",
    "blocks": "recordings that go on as they were, and blocks long enough to be nearly independent",
    "ranks, means": "as by ranks, and among questions that are too many for ranks as by means",
    "signed ranks, means": "as by signed ranks, and among questions that are too many for ranks as by means",
    "means": "repeats that are independent, and too few for a test by ranks: means that are nearly normal",
}
"""The tests, and the assumption of each."""


def summarise(measured: Table, *, by: Sequence[str]) -> pl.DataFrame:
    """Return the value of every group with its interval.

    For captures and repetitions, the value is the median, with the interval of `bench.summarise`. Below six repeats,
    this is the least and the greatest value, and confidence is the level that it reaches. For windows, the value is the
    weighted mean, with the interval of blocks (`stats.blocks`). n_effective is the number of independent windows with
    the same information.

    Parameters
    ----------
    measured : Table
        The result of `measure_all`.
    by : sequence of str
        Facts, or capture. Rows with equal values of these columns are a group.

    Returns
    -------
    polars.DataFrame
        Columns metric, the measure's dimensions, the columns `by`, value (Float64), unit, n (Int64, repeats),
        n_effective (Float64), repeats (Enum: captures, repetitions, windows), lo, hi, confidence (Float64), coverage
        and inferred (Float64, means of those of `measure_all`).

    Raises
    ------
    InputError
        If a capture lacks a fact, or a column cannot be compared by.

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
    groups = Groups.of(measured, by)
    rows = [
        {
            **key,
            **dict(zip(by, group, strict=True)),
            **_summary(sample),
            "unit": sample.unit,
            "n": sample.n,
            "n_effective": sample.mean.effective,
            "repeats": sample.repeats,
            "coverage": sample.coverage,
            "inferred": sample.inferred,
        }
        for key, samples in groups.cells()
        for group, sample in samples.items()
    ]
    dims = dimensions(measured)
    types: dict[str, Any] = {
        **{name: measured.schema[name] for name in ("metric", *dims)},
        **dict.fromkeys(by, pl.String),
        **{"value": pl.Float64, "unit": pl.String, "n": pl.Int64, "n_effective": pl.Float64},
        "repeats": pl.Enum(REPEATS),
        **dict.fromkeys(("lo", "hi", "confidence", "coverage", "inferred"), pl.Float64),
    }
    return pl.DataFrame(rows, schema=types, orient="row")


def compare(
    measured: Table,
    *,
    by: Sequence[str],
    paired_by: Sequence[str] = (),
    baseline: str | None = None,
    smallest: float | None = None,
    correction: Correction = "holm",
) -> pl.DataFrame:
    """Compare every two groups: whether the second is higher or lower, by how much, and whether that is significant.

    The estimate, the test and the effect depend on the repeats:

    - captures and repetitions: medians with Moses' intervals (`exact`), Mann and Whitney's exact test, Cliff's delta
    - pairs: Hodges and Lehmann's estimate with Tukey's interval, Wilcoxon's exact test, rank-biserial correlation
    - windows: means and a test by blocks (`stats.blocks`), Cliff's delta of the windows

    If there are too few repeats for an exact test to show a difference of any size, Student's t compares the means
    instead. It assumes that they are nearly normal. `tested_by` names the test. Each interval holds with 95 %.
    `p_adjusted` is corrected for all questions of the table and decides the verdict. A share and the remainder of the
    whole are one question. `note` reports if the groups' coverage differs by more than a hundredth, or if one window
    makes up a fifth of the whole.

    Parameters
    ----------
    measured : Table
        The result of `measure_all`.
    by : sequence of str
        Facts, or capture. Rows with equal values of these columns are a group. Groups are in the order of the captures.
    paired_by : sequence of str
        Facts. Captures are compared only with captures of equal values of these, such as the same workload.
    baseline : str, optional
        The label of one group, its values joined by ``" / "``. It is then the first group of every comparison.
    smallest : float, optional
        The smallest difference that matters: for a share in points (0.05: five points), else relative to the first
        group. If a difference is shown to be smaller, the verdict is ``no difference that matters``.
    correction : {"holm", "bh"}
        Correction for several comparisons: Holm (no false difference, with 95 %), or Benjamini and Hochberg (5 % false
        ones).

    Returns
    -------
    polars.DataFrame
        Columns metric, the measure's dimensions, group_first, group_second (String), unit, first, second (Float64, as
        in `summarise`), difference, difference_lo, difference_hi, ratio, ratio_lo, ratio_hi (Float64), effect, p,
        p_adjusted, p_smaller (Float64), n_first, n_second (Int64), n_effective_first, n_effective_second (Float64),
        repeats (Enum `REPEATS`), tested_by (Enum: keys of `TESTS`), coverage_first, coverage_second (Float64), verdict
        (Enum `VERDICTS`), longer (Float64: factor by which the number of windows would have to grow to show the
        difference, if the estimate is true; null if the verdict needs none), note (String).

    Raises
    ------
    InputError
        If a capture lacks a fact, a column cannot be compared by, or `baseline` is not a group.
    ValueError
        If `paired_by` is given for windows.

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
    rows = _compared(measured, by, paired_by, baseline)
    give_verdicts(rows, correction, smallest)
    return pl.DataFrame([one.row for one in rows], schema=_schema(measured), orient="row")


def gate(
    measured: Table,
    *,
    by: Sequence[str],
    limit: float,
    paired_by: Sequence[str] = (),
    baseline: str | None = None,
    correction: Correction = "holm",
) -> pl.DataFrame:
    """Test whether the change from the first group to the second stays within a limit, for use in a test lab.

    ``within`` and ``beyond`` each hold with 95 % for all questions of the table at once. Otherwise the result is
    ``undecided``, and more repeats are needed.

    Parameters
    ----------
    measured, by : Table, sequence of str
        As for `compare`.
    limit : float
        The largest increase of the second group (0.05: less than 5 % of the first, for a share five points). A
        negative limit is the largest decrease.
    paired_by, baseline, correction : sequence of str, str, str
        As for `compare`.

    Returns
    -------
    polars.DataFrame
        The columns of `compare` up to n_effective_second without p, p_adjusted and p_smaller, then p_gate (Float64,
        adjusted), gate (Enum: within, beyond, undecided) and note.

    Raises
    ------
    InputError
        As for `compare`.

    References
    ----------
    ``schemas/definitions.toml``, compare_gate.

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8).filter(metric="count_ratio")
    >>> again = measured.with_columns(capture=pl.lit("again"), capture_id=pl.lit("0"))
    >>> table = compare.gate(pl.concat([measured, again]), by=["capture"], limit=0.5)
    >>> table["gate"].unique().to_list()
    ['within']
    """
    measured = frame(measured)
    rows = _compared(measured, by, paired_by, baseline)
    give_gates(rows, limit, correction)
    types = {name: dtype for name, dtype in _schema(measured).items() if name not in _OF_VERDICTS}
    types |= {"p_gate": pl.Float64, "gate": pl.Enum(GATES), "note": types.pop("note")}
    return pl.DataFrame([one.row for one in rows], schema=types, orient="row")


def _compared(
    measured: pl.DataFrame, by: Sequence[str], paired_by: Sequence[str], baseline: str | None
) -> list[Compared]:
    """Compare every two groups, or the baseline with each other group, in every metric and dimensions of either."""
    if paired_by and measured["kind"].is_in(["window"]).any():
        raise ValueError("pairs need whole captures: measure without windows")
    groups = Groups.of(measured, by, paired_by)
    pairs = list(itertools.combinations(groups.names, 2))
    if baseline is not None:
        first = groups.named(baseline)
        pairs = [(first, name) for name in groups.names if name != first]
    return [
        compared(key, (first, samples.get(first)), (second, samples.get(second)), paired=bool(paired_by))
        for key, samples in groups.cells()
        for first, second in pairs
        if first in samples or second in samples
    ]


def ranking(measured: Table, *, by: Sequence[str] = ("device", "android_release")) -> pl.DataFrame:
    """Rank the groups in every metric, the highest value first. Groups that no comparison distinguishes share ranks.

    By default, a device with another Android release is another device, as on the Mobibench server. For times (unit
    ns), the shortest is first.

    Parameters
    ----------
    measured : Table
        The result of `measure_all`.
    by : sequence of str
        Facts, or capture. Rows with equal values of these columns are a group.

    Returns
    -------
    polars.DataFrame
        The columns of `summarise`, and before value: place, rank_from and rank_to (Int64). place is the rank by value
        alone. rank_from is one more than the number of groups that `compare` shows to come before. rank_to is the
        number of groups minus those that it shows to come after. The ranks hold for all groups at once with 95 %, by
        Holm's correction within each metric and dimension.

    Raises
    ------
    InputError
        If a capture lacks a fact, or a column cannot be compared by.

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
        names = [label(group) for group in rows.select(by).iter_rows()]
        parts.append(
            rows.with_columns(
                pl.col("value").rank("min", descending=not least_first).cast(pl.Int64).alias("place"),
                pl.Series("rank_from", [1 + after.count(name) for name in names], pl.Int64),
                pl.Series("rank_to", [len(names) - before.count(name) for name in names], pl.Int64),
            ).sort("place", "rank_from", maintain_order=True)
        )
    rank_columns = ("place", "rank_from", "rank_to")
    ranked = (
        pl.concat(parts) if parts else summary.with_columns(pl.lit(None, pl.Int64).alias(name) for name in rank_columns)
    )
    front = [*keys, *by, *rank_columns]
    return ranked.select(*front, *(name for name in ranked.columns if name not in front))


def _shown(compared: pl.DataFrame, *, least_first: bool) -> tuple[list[str], list[str]]:
    """Return, for every two groups that differ, the one that comes first and the one that comes after it."""
    before, after = [], []
    for first, second, verdict in compared.select("group_first", "group_second", "verdict").iter_rows():
        if verdict in ("higher", "lower"):
            order = (second, first) if (verdict == "higher") is not least_first else (first, second)
            before.append(order[0])
            after.append(order[1])
    return before, after


def _summary(sample: Sample) -> dict[str, float | None]:
    if sample.windows is not None:
        lo, hi = blocks.interval(sample.windows, sample.scale) or (None, None)
        return {"value": sample.value, "lo": lo, "hi": hi, "confidence": None if lo is None else 1 - LEVEL}
    position, confidence = exact.rank(sample.n)
    ordered = sorted(sample.every)
    lo, hi = (None, None) if sample.n == 1 else (ordered[position - 1], ordered[-position])
    return {"value": sample.value, "lo": lo, "hi": hi, "confidence": confidence}


_OF_VERDICTS = ("p", "p_adjusted", "p_smaller", "tested_by", "verdict", "longer")


def _schema(measured: pl.DataFrame) -> dict[str, Any]:
    bounds = [f"{name}{end}" for name in ("difference", "ratio") for end in ("", "_lo", "_hi")]
    return {
        **{name: measured.schema[name] for name in ("metric", *dimensions(measured))},
        **dict.fromkeys(("group_first", "group_second", "unit"), pl.String),
        **dict.fromkeys(("first", "second", *bounds, "effect", "p", "p_adjusted", "p_smaller"), pl.Float64),
        **dict.fromkeys(("n_first", "n_second"), pl.Int64),
        **dict.fromkeys(("n_effective_first", "n_effective_second"), pl.Float64),
        "repeats": pl.Enum(REPEATS),
        "tested_by": pl.Enum(list(TESTS)),
        **dict.fromkeys(("coverage_first", "coverage_second"), pl.Float64),
        "verdict": pl.Enum(VERDICTS),
        "longer": pl.Float64,
        "note": pl.String,
    }
