"""Comparison of replays of one program on several filesystems, kernels or devices, each repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from androstep_analysis.bench.compare import RATIOS, ratios
from androstep_analysis.bench.summarise import Paths, medians
from androstep_analysis.replay.metrics import DIMENSIONS, UNITS, metrics
from androstep_analysis.replay.read import read
from androstep_analysis.replay.tables import ALIKE

VERDICTS: Final = ("faster", "slower", "no difference shown", "insufficient data")

COMPARED: Final = ("io_time", "latency", "elapsed")
"""The metrics for which less is better."""

_DIMS: Final = tuple(name for name in DIMENSIONS if name not in ("run_id", "fs_type"))


def summarise(sides: Mapping[str, Paths]) -> pl.DataFrame:
    """Return the median of every metric of each side over its repetitions, with its confidence interval.

    Parameters
    ----------
    sides : mapping of sequence of path-like
        The captures or files with the replays of each side, by its name, such as a filesystem.

    Returns
    -------
    polars.DataFrame
        Columns metric, place (String: the side's name), call, file_type, divergence, quantile (Enum, as in `metrics`),
        value (Float64), unit, n (Int64, repetitions), lo, hi, confidence (Float64; the interval of `bench.summarise`).

    Raises
    ------
    ValueError
        If there is no side, or replays are of different programs or modes.
    InputError
        If a file cannot be read.

    References
    ----------
    ``schemas/definitions.toml``, bench_interval.

    Examples
    --------
    >>> names = [f"replay-{number}.rec.xz" for number in range(6)]
    >>> sides = {fs: [f"datasets/replay/{fs}_disk/{name}" for name in names] for fs in ("ext4", "xfs")}
    >>> elapsed = replay.summarise(sides).filter(metric="elapsed")
    >>> elapsed.select("place", (pl.col("value", "lo", "hi") / 1e9).round(2), "n").rows()
    [('ext4', 4.41, 4.41, 4.41, 6), ('xfs', 4.41, 4.41, 4.41, 6)]
    """
    return over_repetitions(_measured(sides))


def over_repetitions(measured: pl.DataFrame) -> pl.DataFrame:
    """Return the result of `summarise` for metrics that were read already.

    Parameters
    ----------
    measured : polars.DataFrame
        Rows of `metrics`, with a column place.

    Returns
    -------
    polars.DataFrame
        As for `summarise`, with places in the order of their rows.

    Examples
    --------
    >>> tables = replay.read(*(f"datasets/replay/ext4_disk/replay-{number}.rec.xz" for number in range(6))).tables
    >>> table = replay.over_repetitions(replay.metrics(tables).with_columns(place=pl.lit("disk")))
    >>> table.filter(metric="elapsed").select("place", "n", "confidence").row(0)
    ('disk', 6, 0.96875)
    """
    place_enum = pl.Enum(measured["place"].unique(maintain_order=True))
    order = [pl.col("metric").cast(pl.Enum(list(UNITS))), pl.col("place").cast(place_enum)]
    return medians(measured, ["place", *_DIMS]).sort(*order, *_DIMS, nulls_last=False)


def compare(sides: Mapping[str, Paths]) -> pl.DataFrame:
    """Return how much more or less time each side takes than the first one.

    Parameters
    ----------
    sides : mapping of sequence of path-like
        As in `summarise`.

    Returns
    -------
    polars.DataFrame
        Columns metric (String: io_time, latency, elapsed), place (String: the side compared with the first), call,
        file_type, divergence, quantile (Enum), value (Float64 [1]: median of the side over median of the first), unit,
        n (Int64, repetitions on both sides), lo, hi (Float64), verdict (Enum: faster, slower, no difference shown,
        insufficient data), first, second (Float64 [ns], the medians), n_first, n_second (Int64). Rows that only one
        side has, such as a call that failed early, are left out.

    Raises
    ------
    ValueError, InputError
        As for `summarise`.

    Notes
    -----
    Interval and verdict are those of `bench.compare`. If there are too few repetitions for an interval, the verdict is
    insufficient data.

    References
    ----------
    ``schemas/definitions.toml``, bench_ratio.

    Examples
    --------
    >>> names = [f"replay-{number}.rec.xz" for number in range(6)]
    >>> sides = {fs: [f"datasets/replay/{fs}_disk/{name}" for name in names] for fs in ("ext4", "xfs")}
    >>> table = replay.compare(sides).filter(pl.col("call").is_null(), metric="latency", quantile="p90")
    >>> table.select("place", pl.col("value", "lo", "hi").round(2), "verdict").row(0)
    ('xfs', 1.06, 0.86, 1.28, 'no difference shown')
    """
    measured = _measured(sides).filter(pl.col("metric").is_in(COMPARED))
    values = measured.group_by("metric", "place", *_DIMS).agg("value")
    first, *others = sides
    joined = (
        values.filter(place=first)
        .drop("place")
        .join(values.filter(pl.col("place").is_in(others)), on=["metric", *_DIMS], nulls_equal=True, suffix="_second")
    )
    rows = [_row(row) for row in joined.iter_rows(named=True)]
    of_dims = {name: values.schema[name] for name in _DIMS}
    types = {"metric": pl.String, "place": pl.String, **of_dims, **RATIOS, "verdict": pl.Enum(VERDICTS)}
    result = pl.DataFrame(rows, schema=types, orient="row")
    order = [pl.col("metric").cast(pl.Enum(COMPARED)), pl.col("place").cast(pl.Enum(others))]
    return result.sort(*order, *_DIMS, nulls_last=False)


def _measured(sides: Mapping[str, Paths]) -> pl.DataFrame:
    """Return the metrics of every replay, with column place. All must be of one program and mode."""
    by_side = {name: read(*paths).tables for name, paths in sides.items()}
    if not by_side:
        raise ValueError("nothing to compare: name at least one side")
    runs = pl.concat([tables["replay_runs"] for tables in by_side.values()])
    for column in ALIKE:
        if runs[column].n_unique() > 1:
            raise ValueError(f"the replays differ in {column}: compare those of one program, replayed in one way")
    return pl.concat([metrics(tables).with_columns(place=pl.lit(name)) for name, tables in by_side.items()])


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    compared = ratios(row["value"], row["value_second"])
    verdict = _verdict(compared["lo"], compared["hi"])
    return {name: row[name] for name in ("metric", "place", *_DIMS)} | compared | {"verdict": verdict}


def _verdict(lo: float | None, hi: float | None) -> str:
    if lo is None or hi is None:
        return "insufficient data"
    if lo <= 1 <= hi:
        return "no difference shown"
    return "slower" if lo > 1 else "faster"
