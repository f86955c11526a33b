"""Counters over time: CPU use, busy disks, and any counter as a rate or a level.

All functions take table `samples`. Between two readings, the value of a counter is interpolated linearly
(definitions.toml, samples). Readings that were dropped because they equal their neighbours, and bins in which no
reading begins, therefore do not change the result. A counter that falls has restarted: its growth in that interval is
unknown and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.recording import Tables
from androstep_analysis.measures.tables import Table, lazy, ordered

STATES = ("active", "idle", "iowait")
"""The states of a CPU. Active is everything but idle and waiting for I/O (definitions.toml, cpu)."""

_ACTIVE = ("user", "nice", "system", "irq", "softirq", "steal")  # guests are counted in user and nice already
_STATE = {f"stat.{name}": "active" for name in _ACTIVE} | {"stat.idle": "idle", "stat.iowait": "iowait"}
_OF = ("scope", "dev", "pid", "instance")
"""The columns that identify a series of a counter."""


def cpu(samples: Table, *, bin_ns: int | None = None) -> pl.DataFrame:
    """Return CPU time by `state` (`STATES`), of all CPUs together.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns; counters ``stat.user``, ``stat.idle`` and their like [ns].
    bin_ns : int, optional
        Length of a bin, in ns; by default there is one bin.

    Returns
    -------
    polars.DataFrame
        Dimension state (Enum), with `bin_ns` before it ts_ns (Int64, start of the bin). Metrics cpu_time [s] and
        cpu_share [1] of that of all states. `n` is the number of readings.

    Raises
    ------
    ValueError
        If `bin_ns` is not positive.

    References
    ----------
    ``schemas/definitions.toml``, cpu; the bars of Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 5, which count
    ticks of 10 ms.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 5 * 10**8]}).with_columns(
    ...     counter=pl.lit("stat.user"), unit=pl.lit("ns"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.cpu(samples).filter(metric="cpu_time", state="active")["value"].item()
    0.5
    """
    rows = _chosen(samples, list(_STATE))
    rows = rows.filter(pl.col("scope") == ("system" if (rows["scope"] == "system").any() else "cpu"))
    amounts = _amounts(rows, bin_ns).with_columns(
        state=pl.col("counter").replace_strict(_STATE, return_dtype=pl.Enum(STATES)), seconds=_seconds()
    )
    dimensions = [*_times(bin_ns), "state"]
    sums = amounts.group_by(dimensions).agg(pl.col("seconds").sum(), pl.col("n").sum())
    whole = pl.col("seconds").sum().over(_times(bin_ns)) if bin_ns else pl.col("seconds").sum()
    sums = sums.with_columns(share=pl.when(whole > 0).then(pl.col("seconds") / whole), coverage=pl.lit(1.0))
    return _tidy(sums, {"cpu_time": ("seconds", "s"), "cpu_share": ("share", "1")}, dimensions)


def cpu_by_process(samples: Table, *, by: Sequence[str] = ("comm",)) -> pl.DataFrame:
    """Return CPU time of processes.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns; counters ``stat.utime`` and ``stat.stime`` of processes [ns], and those of `cpu`.
    by : sequence of str
        Columns that identify a process: comm (name of the process), pid or both.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metric cpu_time [s]. The row of nulls is time without a known process: interrupts, processes
        that lived between two readings only, and the time of others after their last reading. `coverage` is the share
        of active time with a known process.

    References
    ----------
    ``schemas/definitions.toml``, cpu.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 25 * 10**7]}).with_columns(
    ...     counter=pl.lit("stat.utime"), unit=pl.lit("ns"), scope=pl.lit("process"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.cpu_by_process(samples)["value"].item()
    0.25
    """
    names = {"stat.utime", "stat.stime"}
    own = _of_processes(_amounts(_chosen(samples, sorted(names))), by, _seconds())
    is_active = (pl.col("metric") == "cpu_time") & (pl.col("state") == "active")
    active = float(cpu(samples).filter(is_active)["value"].to_numpy().sum())
    known = float(own["value"].to_numpy().sum())
    rest = pl.DataFrame({"value": [max(active - known, 0.0)], "n": [0]}, schema={"value": pl.Float64, "n": pl.Int64})
    parts = pl.concat([own, rest], how="diagonal") if active > 0 else own
    covered = min(known / active, 1.0) if active else None
    table = parts.with_columns(coverage=pl.lit(covered, pl.Float64), metric=pl.lit("cpu_time"), unit=pl.lit("s"))
    return ordered(table, by)


def process_io(samples: Table, *, by: Sequence[str] = ("comm",)) -> pl.DataFrame:
    """Return the bytes that processes read and wrote.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns; counters ``io.rchar``, ``io.read_bytes`` and their like of processes [B].
    by : sequence of str
        Columns that identify a process: comm (name of the process), pid or both.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics by the kernel's names: rchar and wchar [B] count the bytes of calls, including those
        served by caches and pipes. read_bytes [B] were fetched from storage, and write_bytes [B] were dirtied.
        cancelled_write_bytes [B] is the part of write_bytes that was truncated before writeback.

    References
    ----------
    Linux Documentation/filesystems/proc.rst, /proc/PID/io.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 4096]}).with_columns(
    ...     counter=pl.lit("io.read_bytes"), unit=pl.lit("B"), scope=pl.lit("process"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.process_io(samples).filter(metric="read_bytes")["value"].item()
    4096.0
    """
    names = [f"io.{name}" for name in ("rchar", "wchar", "read_bytes", "write_bytes", "cancelled_write_bytes")]
    amounts = _amounts(_chosen(samples, names))
    parts = [
        _of_processes(amounts.filter(pl.col("counter") == name), by, pl.col("amount").cast(pl.Float64)).with_columns(
            metric=pl.lit(name.removeprefix("io.")), unit=pl.lit("B"), coverage=pl.lit(1.0)
        )
        for name in names
    ]
    return ordered(pl.concat(parts), by)


def busyness(samples: Table, *, bin_ns: int | None = None) -> pl.DataFrame:
    """Return the share of time in which a disk had requests.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns; counter ``diskstats.io_ticks`` [ms].
    bin_ns : int, optional
        Length of a bin, in ns; by default there is one bin.

    Returns
    -------
    polars.DataFrame
        Dimensions dev (UInt32) and disk (String), with `bin_ns` before them ts_ns (Int64, start of the bin). Metric
        busy_ratio [1].

    Raises
    ------
    ValueError
        If `bin_ns` is not positive.

    References
    ----------
    ``schemas/definitions.toml``, busyness; Linux Documentation/admin-guide/iostats.rst.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 250]}).with_columns(
    ...     counter=pl.lit("diskstats.io_ticks"), unit=pl.lit("ms"), scope=pl.lit("device"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.busyness(samples)["value"].item()
    0.25
    """
    dimensions = [*_times(bin_ns), "dev", "disk"]
    amounts = _amounts(_chosen(samples, ["diskstats.io_ticks"]), bin_ns)
    ratio = pl.when(pl.col("elapsed_ns") > 0).then(pl.col("amount") * 1_000_000 / pl.col("elapsed_ns"))
    table = amounts.with_columns(disk=pl.col("instance"), ratio=ratio, coverage=pl.lit(1.0))
    return _tidy(table, {"busy_ratio": ("ratio", "1")}, dimensions)


def pressure(samples: Table, *, bin_ns: int | None = None) -> pl.DataFrame:
    """Return the share of time in which tasks waited.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns; counters ``pressure.io.some`` and its like [ns].
    bin_ns : int, optional
        Length of a bin, in ns; by default there is one bin.

    Returns
    -------
    polars.DataFrame
        Dimensions resource (String: cpu, io, memory) and tasks (String: `some` or `full`, all, of the tasks that could
        run), with `bin_ns` before them ts_ns (Int64, start of the bin). Metric stalled_ratio [1].

    Raises
    ------
    ValueError
        If `bin_ns` is not positive.

    References
    ----------
    Linux Documentation/accounting/psi.rst.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 10**8]}).with_columns(
    ...     counter=pl.lit("pressure.io.some"), unit=pl.lit("ns"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.pressure(samples).select("resource", "tasks", "value").row(0)
    ('io', 'some', 0.1)
    """
    names = [f"pressure.{resource}.{tasks}" for resource in ("cpu", "io", "memory") for tasks in ("some", "full")]
    amounts = _amounts(_chosen(samples, names), bin_ns)
    parts = pl.col("counter").str.split(".").list
    table = amounts.with_columns(
        resource=parts.get(1, null_on_oob=True),
        tasks=parts.get(2, null_on_oob=True),
        ratio=pl.when(pl.col("elapsed_ns") > 0).then(pl.col("amount") / pl.col("elapsed_ns")),
        coverage=pl.lit(1.0),
    )
    return _tidy(table, {"stalled_ratio": ("ratio", "1")}, [*_times(bin_ns), "resource", "tasks"])


def counter_rate(samples: Table, counters: Sequence[str], *, bin_ns: int = NS_PER_S) -> pl.DataFrame:
    """Return the growth rates of counters.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns.
    counters : sequence of str
        Names of counters (column counter).
    bin_ns : int
        Length of a bin, in ns.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64, start of the bin), counter, scope, dev, pid and instance. Metric rate, in the counter's
        unit per second.

    Raises
    ------
    ValueError
        If `bin_ns` is not positive.

    References
    ----------
    ``schemas/definitions.toml``, samples.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 512]}).with_columns(
    ...     counter=pl.lit("vmstat.pgpgin"), unit=pl.lit("KiB"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.counter_rate(samples, ["vmstat.pgpgin"]).select("value", "unit").row(0)
    (512.0, 'KiB/s')
    """
    amounts = _amounts(_chosen(samples, counters), bin_ns)
    table = amounts.with_columns(
        value=pl.when(pl.col("elapsed_ns") > 0).then(pl.col("amount") * NS_PER_S / pl.col("elapsed_ns")),
        unit=pl.col("unit") + "/s",
        metric=pl.lit("rate"),
        coverage=pl.lit(1.0),
    )
    return ordered(table, ["ts_ns", "counter", *_OF])


def levels(samples: Table, counters: Sequence[str]) -> pl.DataFrame:
    """Return the mean and range of counters that rise and fall, such as those of memory.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns.
    counters : sequence of str
        Names of counters (column counter).

    Returns
    -------
    polars.DataFrame
        Dimensions counter, scope, dev, pid and instance. Metrics mean (over time), least and greatest, in the counter's
        unit.

    References
    ----------
    ``schemas/definitions.toml``, samples.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 4096]}).with_columns(
    ...     counter=pl.lit("meminfo.Dirty"), unit=pl.lit("B"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.levels(samples, ["meminfo.Dirty"])["value"].to_list()
    [2048.0, 0.0, 4096.0]
    """
    rows = _chosen(samples, counters)
    key = ["counter", "unit", *_OF]
    ahead = (pl.col("ts_ns").shift(-1) - pl.col("ts_ns")).over(key)
    middle = (pl.col("value").cast(pl.Float64) + pl.col("value").shift(-1).over(key)) / 2
    sums = (
        rows.with_columns(ahead=ahead, area=middle * ahead)
        .group_by(key)
        .agg(
            n=pl.len().cast(pl.Int64),
            area=pl.col("area").sum(),
            span=pl.col("ahead").sum(),
            least=pl.col("value").min().cast(pl.Float64),
            greatest=pl.col("value").max().cast(pl.Float64),
        )
        .with_columns(
            mean=pl.when(pl.col("span") > 0).then(pl.col("area") / pl.col("span")).otherwise("least"),
            coverage=pl.lit(1.0),
        )
    )
    parts = [sums.with_columns(metric=pl.lit(metric), value=pl.col(metric)) for metric in ("mean", "least", "greatest")]
    return ordered(pl.concat(parts), ["counter", *_OF])


def clipped(samples: pl.LazyFrame, start_ns: int, end_ns: int) -> pl.LazyFrame:
    """Return table samples of ``[start_ns, end_ns)``, with the interpolated values at its edges.

    Parameters
    ----------
    samples : polars.LazyFrame
        Table `samples`, all columns.
    start_ns, end_ns : int
        Begin and end in the capture's clock, in ns.

    Returns
    -------
    polars.LazyFrame
        Table `samples`, sorted by time. Values at the edges are rounded to integers.

    References
    ----------
    ``schemas/definitions.toml``, samples.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 1000]}).with_columns(
    ...     counter=pl.lit("stat.user"), unit=pl.lit("ns"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.clipped(samples.lazy(), 25 * 10**7, 10**9).collect()["value"].to_list()
    [250, 1000]
    """
    rows = samples.sort("ts_ns", maintain_order=True)
    inside = rows.filter(pl.col("ts_ns").is_between(start_ns, end_ns, "left"))
    steps = _steps(rows)
    parts = [inside]
    for edge_ns in (start_ns, end_ns - 1):
        crossing = steps.filter(pl.col("ts_ns") < edge_ns, pl.col("next_ns") > edge_ns)
        value = pl.col("value") + _rise(pl.lit(edge_ns)).round().cast(pl.Int64)
        parts.append(crossing.with_columns(ts_ns=pl.lit(edge_ns, pl.Int64), value=value).drop("next_ns", "next_value"))
    return pl.concat(parts).sort("ts_ns", maintain_order=True).select(list(schema.table("samples").polars))


def in_windows(samples: pl.LazyFrame, first_ns: int, length_ns: int, count: int) -> pl.LazyFrame:
    """Return table samples with column window (Int64, from 0), and the interpolated values at the edges of each window.

    There are `count` windows of `length_ns` from `first_ns` on. Readings before the first and after the last belong to
    these. Column value is Float64. A reading at the start of a window also ends the previous window.
    """
    number = (pl.col("ts_ns") - first_ns) // length_ns
    rows = samples.with_columns(pl.col("value").cast(pl.Float64), window=number.clip(0, count - 1))
    ahead = (number + 1).clip(lower_bound=1)
    reached = ((pl.col("next_ns") - first_ns) // length_ns).clip(upper_bound=count - 1)
    at = first_ns + pl.col("edge") * length_ns
    crossing = (
        _steps(rows.sort("ts_ns", maintain_order=True))
        .filter(ahead <= reached)
        .with_columns(edge=pl.int_ranges(ahead, reached + 1))
        .explode("edge")
        .with_columns(ts_ns=at, value=pl.col("value") + _rise(at))
    )
    ends = crossing.with_columns(window=pl.col("edge") - 1)
    begins = crossing.filter(pl.col("ts_ns") < pl.col("next_ns")).with_columns(window="edge")
    return pl.concat([rows, *(edges.drop("next_ns", "next_value", "edge") for edges in (ends, begins))])


def _steps(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return readings in order of time with the next one of their series (null: none) as next_ns and next_value."""
    names = {"next_ns": "ts_ns", "next_value": "value"}
    return rows.with_columns(pl.col(of).shift(-1).over("counter", "unit", *_OF).alias(to) for to, of in names.items())


def _rise(time: pl.Expr) -> pl.Expr:
    """Return the growth of the counter from a row of `_steps` to a time before the next one (Float64)."""
    passed = (time - pl.col("ts_ns")) / (pl.col("next_ns") - pl.col("ts_ns"))
    return (pl.col("next_value") - pl.col("value")).cast(pl.Float64) * passed


def _chosen(samples: Table, counters: Sequence[str]) -> pl.DataFrame:
    rows = lazy(samples, ("samples",)).filter(pl.col("counter").is_in(list(counters)))
    return rows.sort("ts_ns", maintain_order=True).collect()


def _times(bin_ns: int | None) -> list[str]:
    return [] if bin_ns is None else ["ts_ns"]


def _seconds() -> pl.Expr:
    return pl.col("amount") / NS_PER_S


def _amounts(rows: pl.DataFrame, bin_ns: int | None = None) -> pl.DataFrame:
    """Return the growth of each series, in total or in each bin.

    Columns are those of a series (counter, unit, `_OF`), with bins ts_ns (start of the bin), amount (Float64, in
    `unit`), elapsed_ns (Int64) and n (Int64: readings). elapsed_ns is the time from the first to the last reading,
    within the bin. Raises `ValueError` if `bin_ns` is not positive.
    """
    if bin_ns is not None and bin_ns <= 0:
        raise ValueError(f"bin_ns is {bin_ns}: a bin must be at least 1 ns long")
    key = ["counter", "unit", *_OF]
    if bin_ns is None:
        return rows.group_by(key, maintain_order=True).agg(
            amount=pl.col("value").diff().clip(lower_bound=0).sum().cast(pl.Float64),
            elapsed_ns=pl.col("ts_ns").last() - pl.col("ts_ns").first(),
            n=pl.len().cast(pl.Int64),
        )
    parts = [
        _binned(part["ts_ns"].to_numpy(), part["value"].to_numpy(), bin_ns).with_columns(
            pl.lit(part[name][0], part.schema[name]).alias(name) for name in key
        )
        for part in rows.partition_by(key, maintain_order=True)
    ]
    names = [*key, "ts_ns", "amount", "elapsed_ns", "n"]
    if not parts:
        types = {"ts_ns": pl.Int64, "amount": pl.Float64, "elapsed_ns": pl.Int64, "n": pl.Int64}
        return rows.clear().select(key).with_columns(pl.lit(None, dtype).alias(name) for name, dtype in types.items())
    return pl.concat(parts).select(names)


def _binned(times: np.ndarray, values: np.ndarray, bin_ns: int) -> pl.DataFrame:
    """Return the growth of one series in each bin from its first to its last reading, by linear interpolation."""
    first, last = int(times[0]), int(times[-1])
    bins = np.arange(first // bin_ns, max(last - 1, first) // bin_ns + 1, dtype=np.int64)
    edges = np.clip(np.append(bins, bins[-1] + 1) * bin_ns, first, last)
    grown = np.concatenate([[0], np.cumsum(np.maximum(np.diff(values), 0))])
    # Times are relative to the first reading, since a float cannot represent nanoseconds since boot exactly.
    at = np.interp((edges - first).astype(np.float64), (times - first).astype(np.float64), grown.astype(np.float64))
    return pl.DataFrame(
        {
            "ts_ns": bins * bin_ns,
            "amount": np.diff(at),
            "elapsed_ns": np.diff(edges),
            "n": np.bincount(np.minimum(times // bin_ns, bins[-1]) - bins[0], minlength=len(bins)).astype(np.int64),
        }
    )


def _of_processes(amounts: pl.DataFrame, by: Sequence[str], value: pl.Expr) -> pl.DataFrame:
    """Return sums over processes: columns `by`, value and n."""
    rows = amounts.filter(pl.col("scope") == "process").rename({"instance": "comm"})
    return rows.group_by(list(by)).agg(value=value.sum(), n=pl.col("n").sum())


def _tidy(table: pl.DataFrame, metrics: dict[str, tuple[str, str]], dimensions: list[str]) -> pl.DataFrame:
    parts = [
        table.with_columns(metric=pl.lit(metric), value=pl.col(column).cast(pl.Float64), unit=pl.lit(unit))
        for metric, (column, unit) in metrics.items()
    ]
    return ordered(pl.concat(parts), dimensions)


def _means_and_rises(tables: Tables, by: tuple[str, ...]) -> pl.DataFrame:
    """Return the mean over time and the growth per second of every counter that does not belong to a process.

    F2FS's counters of a period (`f2fs_iostat`, `f2fs_iostat_latency`) have no growth.

    The mean of the readings would be wrong, since readings that equal their neighbours were dropped (definitions.toml,
    samples).
    """
    value, time = (pl.col(name).sort_by("ts_ns") for name in ("value", "ts_ns"))
    length = time.last() - time.first()
    area = ((value + value.shift(-1)) / 2 * (time.shift(-1) - time)).sum()
    of = ["scope", "counter", "unit", "instance", "dev"]
    rows = (
        tables["samples"]
        .filter(pl.col("scope").cast(pl.String) != "process")
        .group_by(*by, *of)
        .agg(
            n=pl.len().cast(pl.Int64),
            mean=pl.when(length > 0).then(area / length).otherwise(value.mean()),
            rise=(value.last() - value.first()).cast(pl.Float64) * NS_PER_S / length,
        )
        .collect()
    )
    long = rows.unpivot(["mean", "rise"], index=[*by, *of, "n"], variable_name="metric", value_name="value")
    is_rise = pl.col("metric") == "rise"
    of_period = pl.col("counter").str.starts_with("f2fs_iostat")
    return long.filter(pl.col("value").is_finite(), ~(is_rise & of_period)).with_columns(
        unit=pl.when(is_rise).then(pl.col("unit") + "/s").otherwise("unit")
    )


SAMPLES: Final = Measure(
    "counters over time", ("samples",), _means_and_rises, natural=("scope", "counter", "unit", "instance", "dev")
)
