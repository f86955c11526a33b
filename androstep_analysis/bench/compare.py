"""Comparison of two sets of benchmark results: whether one is faster, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from androstep_analysis.bench.measures import UNITS, measures
from androstep_analysis.bench.tables import JOB, MACHINE
from androstep_analysis.stats.exact import ratio

VERDICTS: Final = (
    *("faster", "slower", "no difference shown", "too few repetitions"),
    *("no valid repetition in both", "only in the first", "only in the second"),
)

RATIOS: Final[Mapping[str, Any]] = {
    **{"value": pl.Float64, "unit": pl.String, "n": pl.Int64, "lo": pl.Float64, "hi": pl.Float64},
    "verdict": pl.String,
    **{"first": pl.Float64, "second": pl.Float64, "n_first": pl.Int64, "n_second": pl.Int64},
}
"""The columns of a comparison of two sides after its dimensions."""


def compare(
    first: Mapping[str, pl.DataFrame], second: Mapping[str, pl.DataFrame], *, by: Sequence[str] = JOB
) -> pl.DataFrame:
    """Return how much faster or slower the second results are than the first, for every configuration and metric.

    Parameters
    ----------
    first, second : mapping of DataFrame
        Tables bench_runs and bench of each side, such as two runs, filesystems or devices.
    by : sequence of str
        Columns of bench_runs that identify a configuration; by default all that were requested. Columns with a single
        value are left out of the result.

    Returns
    -------
    polars.DataFrame
        Columns metric (String), the configuration's, value (Float64 [1]: median of the second over median of the
        first), unit, n (Int64, valid repetitions on both sides), lo, hi (Float64), verdict (Enum, of the second:
        faster, slower, no difference shown, too few repetitions, no valid repetition in both, only in the first, only
        in the second), first, second (Float64, the medians), n_first, n_second (Int64).

    Raises
    ------
    ValueError
        If a side has results of one configuration on several machines or filesystems. Select one of them first.

    Notes
    -----
    The interval contains the ratio with 95 % confidence if the distributions of the two sides differ by a factor only.
    It runs from the k-th least to the k-th greatest ratio of a repetition of one side to one of the other, with k from
    the exact distribution of Mann and Whitney's U. A bootstrap of so few values gives intervals that are too narrow.
    With too few repetitions (less than 4 and 4, 3 and 5, 2 and 8), no interval reaches this level, and none is
    returned. The second side is faster or slower if the interval excludes 1 (more operations, less latency). Among
    twenty configurations without a difference, one is expected to show one.

    References
    ----------
    ``schemas/definitions.toml``, bench_ratio; Moses, 1953; Hollander, Wolfe and Chicken, Nonparametric Statistical
    Methods, 2014, section 4.3, on logarithms.

    Examples
    --------
    >>> ext4, xfs = (bench.read(f"datasets/bench/{fs}_disk/modes.rec.xz").tables for fs in ("ext4", "xfs"))
    >>> table = bench.compare(ext4, xfs).filter(metric="iops", test="rand_write", sync_mode="buffered")
    >>> table.select(pl.col("value", "lo", "hi").round(2), "verdict").row(0)
    (1.08, 1.04, 1.11, 'faster')
    """
    sides = [_values(tables, by) for tables in (first, second)]
    both = pl.concat([side.select(by) for side in sides])
    dims = [name for name in by if both[name].n_unique() > 1 or name == "test"]
    # Nulls in a configuration are equal to each other.
    joined = sides[0].join(sides[1], on=["metric", *by], how="full", coalesce=True, nulls_equal=True, suffix="_second")
    rows = [_row(row, dims) for row in joined.iter_rows(named=True)]
    of_dims = {name: first["bench_runs"].schema[name] for name in dims}
    types = {"metric": pl.String, **of_dims, **RATIOS, "verdict": pl.Enum(VERDICTS)}
    result = pl.DataFrame(rows, schema=types, orient="row")
    order = pl.col("metric").cast(pl.Enum(list(UNITS)))
    return result.sort(order, *dims, nulls_last=True)


def _values(tables: Mapping[str, pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    """Return a row for each configuration and metric, with the list of its valid values, which may be empty."""
    runs = tables["bench_runs"]
    machine_columns = [name for name in MACHINE if name not in by]
    several = runs.group_by(by).agg(pl.col(name).n_unique() for name in machine_columns)
    if mixed := [name for name in machine_columns if several[name].max() not in (None, 1)]:
        raise ValueError(f"one side holds results of several {', '.join(mixed)}: keep one of each, or compare by it")
    found = measures(tables)
    values = found.group_by("metric", *by).agg(values=pl.col("value").filter("valid"))
    every = runs.select("workload", *[name for name in by if name != "workload"]).unique()
    # A configuration without a valid repetition still has the metrics of its workload.
    every = every.join(found.select("metric", "workload").unique(), on="workload")
    return every.join(values, on=["metric", *by], how="left", nulls_equal=True).select(
        "metric", *by, "values", present=pl.lit(value=True)
    )


def _row(row: Mapping[str, Any], dims: Sequence[str]) -> dict[str, Any]:
    """Return a row of the result from a configuration and metric with its values on both sides."""
    compared = ratios(row["values"] or [], row["values_second"] or [])
    return {name: row[name] for name in ("metric", *dims)} | compared | {"verdict": _verdict(row, compared)}


def ratios(first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
    """Return the columns of `RATIOS` except the verdict for the values of two sides."""
    value, lo, hi = ratio(first, second)
    return {
        "value": value,
        "unit": "1",
        "n": len(first) + len(second),
        "lo": lo,
        "hi": hi,
        "first": float(np.median(first)) if first else None,
        "second": float(np.median(second)) if second else None,
        "n_first": len(first),
        "n_second": len(second),
    }


def _verdict(row: Mapping[str, Any], compared: Mapping[str, Any]) -> str:
    lo, hi = compared["lo"], compared["hi"]
    if not row["present_second"]:
        return "only in the first"
    if not row["present"]:
        return "only in the second"
    if not row["values"] or not row["values_second"]:
        return "no valid repetition in both"
    if lo is None or hi is None:
        return "too few repetitions"
    if lo <= 1 <= hi:
        return "no difference shown"
    more_is_faster = not row["metric"].startswith("latency")
    return "faster" if (lo > 1) == more_is_faster else "slower"
