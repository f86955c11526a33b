"""Runs of workloads: their times, the CPU time and the requests during them.

A *run* is one repetition of a workload, from its first step to its last.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis import measures
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.perceived.responses import responses


def runs(steps: Table, *, named: Sequence[str] = ("workload",)) -> pl.DataFrame:
    """Return the runs in table `steps`.

    Parameters
    ----------
    steps : Table
        Table `steps`: workload, repeat, ts_ns, end_ns.
    named : sequence of str
        Names for the words of the workload's name, such as app and device for "browser card".

    Returns
    -------
    polars.DataFrame
        A row for each run in order of time: columns `named` (String), repeat, start_ns, end_ns (Int64), steps (UInt32).

    Examples
    --------
    >>> steps = pl.DataFrame({"workload": "browser card", "repeat": 0, "ts_ns": [0, 50], "end_ns": [40, 90]})
    >>> perceived.runs(steps, named=("app", "device")).row(0)
    ('browser', 'card', 0, 0, 90, 2)
    """
    return (
        _named(steps, named)
        .group_by(*named, "repeat")
        .agg(start_ns=pl.col("ts_ns").min(), end_ns=pl.col("end_ns").max(), steps=pl.len())
        .sort("start_ns")
        .collect()
    )


def run_times(runs: Table, *, by: Sequence[str] = ("workload",)) -> pl.DataFrame:
    """Return the mean time of runs.

    Parameters
    ----------
    runs : Table
        The result of `runs`.
    by : sequence of str
        Columns to group by.

    Returns
    -------
    polars.DataFrame
        Columns `by`, value (Float64), n (runs), metric (run_time), unit (s), lo and hi, which are one standard
        deviation away. Groups are in order of their first run.

    References
    ----------
    Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 4.

    Examples
    --------
    >>> rows = pl.DataFrame({"workload": "browser", "start_ns": [0, 10**9], "end_ns": [10**9, 4 * 10**9]})
    >>> perceived.run_times(rows).select("value", "unit", "n").row(0)
    (2.0, 's', 2)
    """
    seconds = (pl.col("end_ns") - pl.col("start_ns")) / 1_000_000_000
    means = lazy(runs, ()).group_by(by, maintain_order=True).agg(value=seconds.mean(), far=seconds.std(), n=pl.len())
    ends = {"lo": pl.col("value") - pl.col("far"), "hi": pl.col("value") + pl.col("far")}
    return means.select(*by, "value", "n", metric=pl.lit("run_time"), unit=pl.lit("s"), **ends).collect()


def run_responses(steps: Table, *, what: Sequence[str], named: Sequence[str] = ("workload",)) -> pl.DataFrame:
    """Return the mean time of steps, where each run counts as its mean step.

    Steps of one run are not independent: the first page of a new browser is slow.

    Parameters
    ----------
    steps : Table
        Table `steps`: workload, repeat, what, ts_ns, end_ns, outcome.
    what : sequence of str
        The steps for which a user waits, such as load and install. Only completed ones count.
    named : sequence of str
        As in `runs`.

    Returns
    -------
    polars.DataFrame
        The result of `responses` by `named`, in ns rounded to thousandths. `n` is the number of runs.

    References
    ----------
    Luo, Jiang and Cohen, Figure 3.

    Examples
    --------
    >>> steps = pl.DataFrame({"workload": "browser", "repeat": [0, 0, 1], "what": "load", "outcome": "completed",
    ...                       "ts_ns": [0, 100, 0], "end_ns": [20, 140, 60]})
    >>> perceived.run_responses(steps, what=["load"]).select("value", "n").row(0)
    (45.0, 2)
    """
    waited = (pl.col("end_ns") - pl.col("ts_ns")).mean()
    means = (
        _named(steps, named)
        .filter(pl.col("what").cast(pl.String).is_in(what), pl.col("outcome") == "completed")
        .group_by(*named, "repeat")
        .agg(latency_lo_ns=waited, latency_hi_ns=waited)
    )
    # Rounded, because sums of floats depend on their order.
    return responses(means, by=named).with_columns(pl.col("value", "lo", "hi").round(3))


def run_cpu(samples: Table, runs: pl.DataFrame, *, by: Sequence[str] = ("workload",)) -> pl.DataFrame:
    """Return the mean CPU time of runs by state, for the whole machine.

    Parameters
    ----------
    samples : Table
        Table `samples`, as for `measures.cpu`.
    runs : polars.DataFrame
        The result of `runs`.
    by : sequence of str
        Columns of `runs` to group by.

    Returns
    -------
    polars.DataFrame
        Metric cpu_time [s]. Dimensions `by` and state, as in `measures.cpu`.

    References
    ----------
    Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 5.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 5 * 10**8]}).with_columns(
    ...     counter=pl.lit("stat.user"), unit=pl.lit("ns"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> rows = pl.DataFrame({"workload": ["browser"], "start_ns": [0], "end_ns": [10**9]})
    >>> perceived.run_cpu(samples, rows).filter(state="active")["value"].item()
    0.5
    """
    parts = [
        measures.cpu(measures.clipped(lazy(samples, ("samples",)), run["start_ns"], run["end_ns"]))
        .filter(metric="cpu_time")
        .with_columns(pl.lit(run[name]).alias(name) for name in by)
        for run in runs.iter_rows(named=True)
    ]
    means = pl.concat(parts).group_by("metric", *by, "state", "unit", maintain_order=True)
    # Rounded, because sums of floats depend on their order.
    return means.agg(pl.col("value").mean().round(9), pl.col("n").sum(), pl.col("coverage").min())


def run_rates(
    requests: Table, runs: pl.DataFrame, *, by: Sequence[str] = ("workload",), bin_ns: int = 1_000_000_000
) -> pl.DataFrame:
    """Return the requests per second during each run, by the time since its start.

    Parameters
    ----------
    requests : Table
        Table `requests`, of one device. Those that completed during a run count.
    runs : polars.DataFrame
        The result of `runs`.
    by : sequence of str
        Columns of `runs` that identify a run.
    bin_ns : int
        Length of a bin, in ns.

    Returns
    -------
    polars.DataFrame
        Metric iops of `measures.rate`, with columns `by`.

    References
    ----------
    Luo, Jiang and Cohen, Figure 4.

    Examples
    --------
    >>> rows = pl.DataFrame({"workload": ["demo"], "start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> perceived.run_rates(capture.requests, rows).select("workload", "op", "ts_ns", "unit").row(0)
    ('demo', 'read', 0, '1/s')
    """
    parts = []
    for run in runs.iter_rows(named=True):
        rows = lazy(requests, ("requests",)).filter(pl.col("complete_ns").is_between(run["start_ns"], run["end_ns"]))
        since = rows.with_columns(pl.col("queue_ns", "issue_ns", "complete_ns") - run["start_ns"])
        rate = measures.rate(since, bin_ns=bin_ns).filter(metric="iops")
        parts.append(rate.with_columns(pl.lit(run[name]).alias(name) for name in by))
    return pl.concat(parts)


def _named(steps: Table, named: Sequence[str]) -> pl.LazyFrame:
    """Return the steps with a column for each word of the workload's name. The last one has all remaining words."""
    words = pl.col("workload").str.splitn(" ", len(named)).struct
    return lazy(steps, ("steps",)).with_columns(
        words.field(f"field_{index}").alias(name) for index, name in enumerate(named)
    )
