"""A model of a device: service times of requests, fitted from results of iobench.

Times are looked up by kind of access and size, for a flush by the bytes written since the previous one.

- First, sizes that took longer than a greater one are smoothed by isotonic regression: a longer request cannot take
  less time.
- Between measured sizes, times are interpolated linearly.
- Below the smallest size, a request takes as long as that size. The lower bound is in proportion to the size.
- Beyond the largest size, a request takes as long per byte as that size. The lower bound grows with the average slope
  from the smallest to the largest size.
- Kinds that were not measured are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import bench
from androstep_analysis.bench.measures import measures
from androstep_analysis.bench.summarise import medians
from androstep_analysis.bench.tables import RUN
from androstep_analysis.common import pages, schema
from androstep_analysis.common.errors import InputError

ACCESSES: Final = ("seq_read", "rand_read", "seq_write", "rand_write")

FUA: Final = {"seq_write": "seq_fua_write", "rand_write": "rand_fua_write"}
"""The kind of access of a write that is durable when it ends."""

BOUNDS: Final = ("service_ns", "lo_ns", "hi_ns")

_HOW: Final = "measure the device with `androstep model build DIRECTORY`"


def fit(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the service time of each kind and size of request on a device, from results of iobench.

    Parameters
    ----------
    tables : mapping of DataFrame
        Tables bench_runs and bench of that device (``bench.read(…).tables``). Valid runs of files with O_DIRECT are
        used. Runs with one thread and depth 1, also with O_DSYNC, give the times. Runs with several threads or depths
        give the number of requests that are served at a time. Runs with fdatasync or fsync after writes give the time
        of a flush (part sync).

    Returns
    -------
    polars.DataFrame
        Table `device_model` (docs/tables.md): access (Enum), block_bytes (Int64), service_ns, lo_ns,
        hi_ns, p50_ns, p99_ns (Int64), depth (Int32, null: not measured), repeats, operations (Int64). service_ns is the
        median over the repetitions of their mean times, with the interval of `bench.summarise`.

    Raises
    ------
    InputError
        If there is no direct read or write by one thread.

    References
    ----------
    ``schemas/definitions.toml``, device_model.

    Examples
    --------
    >>> files = [f"datasets/whatif/model_disk/{name}.rec.xz" for name in ("sizes", "depths", "flushes")]
    >>> model = whatif.fit(bench.read(*files).tables)
    >>> model.filter(block_bytes=4096).select("access", "service_ns", "depth").rows()
    [('seq_read', 60779, 3), ('rand_read', 45674, 3), ('seq_write', 62056, 4), ('rand_write', 77401, 4),
     ('flush', 90905, None)]
    """
    runs = tables["bench_runs"].filter("valid", pl.col("workload") == "file")
    test = pl.col("test").cast(pl.String)
    direct = runs.filter(pl.col("sync_mode") == "direct", test.is_in(ACCESSES))
    at_a_time = pl.col("threads") * pl.col("depth").fill_null(1)
    single = direct.filter(at_a_time == 1)
    if single.is_empty():
        raise InputError(f"the results have no direct reads or writes by one thread; {_HOW}")
    durable = runs.filter(pl.col("sync_mode") == "direct+odsync", test.is_in(FUA), at_a_time == 1)
    flushes = runs.filter(pl.col("sync_mode").is_in(["direct+fdatasync", "direct+fsync"]), at_a_time == 1)
    written = pl.col("block_bytes") * pl.col("after_every").fill_null(1)
    depths = _depths(tables, direct.with_columns(at_a_time=at_a_time))
    parts = [
        _times(tables, single.with_columns(access=test), "op"),
        _times(tables, durable.with_columns(access=test.replace_strict(FUA, return_dtype=pl.String)), "op"),
        _times(tables, flushes.with_columns(access=pl.lit("flush"), block_bytes=written), "sync"),
    ]
    rows = pl.concat(parts).with_columns(pl.col("access").cast(schema.enum("device_model", "access")))
    direction = pl.col("access").cast(pl.String).str.split("_").list.last()
    rows = rows.with_columns(direction=direction).sort("block_bytes")
    rows = rows.join_asof(
        depths.sort("block_bytes"), on="block_bytes", by="direction", strategy="backward", check_sortedness=False
    )
    return schema.conform(rows.drop("direction").sort("access", "block_bytes"), "device_model")


def _times(tables: Mapping[str, pl.DataFrame], runs: pl.DataFrame, part: str) -> pl.DataFrame:
    """Return the rows of the model without depth, for runs with a column access."""
    dims = ["access", "block_bytes"]
    of_runs = tables["bench"].filter(pl.col("thread") == -1, pl.col("part").cast(pl.String) == part, pl.col("ops") > 0)
    measured = (
        of_runs.drop("block_bytes")
        .join(runs.select(*RUN, *dims), on=RUN)
        .select(
            *RUN, *dims, "ops", value=pl.col("latency_sum_ns") / pl.col("ops"), unit=pl.lit("ns"), metric=pl.lit("mean")
        )
    )
    found = medians(measured, dims)
    counted = measured.group_by(dims).agg(operations=pl.col("ops").sum())
    known = {"bench_runs": runs.with_columns(access=pl.col("access").cast(pl.String)), "bench": tables["bench"]}
    spread = bench.latencies(known, by=dims).filter(pl.col("part").cast(pl.String) == part)
    quantiles = [
        spread.filter(pl.col("quantile").cast(pl.String) == name).select(*dims, pl.col("value").alias(f"{name}_ns"))
        for name in ("p50", "p99")
    ]
    for other in (counted, *quantiles):
        found = found.join(other, on=dims, how="left", nulls_equal=True)
    return found.select(
        *dims,
        *(
            pl.col(value).round().cast(pl.Int64).alias(name)
            for name, value in {"service_ns": "value", "lo_ns": "lo", "hi_ns": "hi"}.items()
        ),
        *(pl.col(name).round().cast(pl.Int64) for name in ("p50_ns", "p99_ns")),
        repeats="n",
        operations="operations",
    )


def _depths(tables: Mapping[str, pl.DataFrame], direct: pl.DataFrame) -> pl.DataFrame:
    """Return columns direction, block_bytes, depth (Int32).

    The depth is the highest rate divided by that of one request at a time, rounded.
    """
    several = direct.filter(pl.col("at_a_time") > 1)
    keys = ["test", "block_bytes"]
    compared = direct.join(several.select(keys).unique(), on=keys)
    dims = [*keys, "at_a_time"]
    rates = measures({"bench_runs": compared, "bench": tables["bench"]}).filter(pl.col("metric") == "iops")
    median = rates.group_by(dims).agg(pl.col("value").median())
    # A device that serves requests serially may seem to serve fewer if many are queued.
    ratio = (
        pl.col("value").filter(pl.col("at_a_time") > 1).max() / pl.col("value").filter(pl.col("at_a_time") == 1).max()
    )
    return (
        median.group_by(keys)
        .agg(ratio=ratio)
        .filter(pl.col("ratio").is_not_null())
        .with_columns(direction=pl.col("test").cast(pl.String).str.split("_").list.last())
        .group_by("direction", "block_bytes")
        .agg(depth=pl.col("ratio").max().round().clip(lower_bound=1).cast(pl.Int32))
    )


def read(path: str | Path) -> pl.DataFrame:
    """Return table `device_model` from a file.

    Parameters
    ----------
    path : path-like
        A Parquet file with the result of `fit`.

    Returns
    -------
    polars.DataFrame
        As for `fit`.

    Raises
    ------
    InputError
        If the file holds another table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> model = whatif.fit(bench.read("datasets/whatif/model_disk/sizes.rec.xz").tables)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     model.write_parquet(Path(place, "disk.parquet"))
    ...     again = whatif.read_model(Path(place, "disk.parquet"))
    >>> again.equals(model)
    True
    """
    pages.check(Path(path))
    try:
        return schema.conform(pl.read_parquet(path, glob=False), "device_model")
    except (pl.exceptions.PolarsError, schema.SchemaError) as error:
        raise InputError(
            f"{path}: no table device_model ({str(error).splitlines()[0]}); give a file with the result of whatif.fit"
        ) from None


def service(model: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    """Return the service times of single requests on the device of a model.

    Parameters
    ----------
    model : polars.DataFrame
        The result of `fit` or `read_model`.
    wanted : polars.DataFrame
        A row for each request: access (Enum or String: of `device_model.access`), block_bytes (Int64; for a flush, the
        bytes written since the previous one).

    Returns
    -------
    polars.DataFrame
        Columns service_ns, lo_ns, hi_ns (Int64), depth (Int32), is_extrapolated (Boolean: the size is outside of the
        measured range), in the order of `wanted`. They are null for kinds that were not measured.

    Notes
    -----
    Between measured sizes, times are interpolated linearly, after isotonic regression of sizes that took longer than a
    greater one. Below the smallest size, the time is that of the smallest, and lo_ns is in proportion to the size.
    Beyond the largest size, the time is in proportion to the size, and lo_ns grows with the average slope from the
    smallest to the largest.

    References
    ----------
    ``schemas/definitions.toml``, device_model.

    Examples
    --------
    >>> model = whatif.fit(bench.read("datasets/whatif/model_disk/sizes.rec.xz").tables)
    >>> wanted = pl.DataFrame({"access": "rand_write", "block_bytes": [4096, 6144, 8192, 512]})
    >>> whatif.service(model, wanted)["service_ns"].to_list()
    [80420, 80496, 80571, 80420]
    """
    access = wanted["access"].cast(pl.String)
    sizes = wanted["block_bytes"].cast(pl.Float64).to_numpy()
    times = {name: np.full(len(wanted), np.nan) for name in BOUNDS}
    depth = np.full(len(wanted), np.nan)
    extrapolated = np.zeros(len(wanted), np.bool_)
    for (kind,), rows in model.with_columns(pl.col("access").cast(pl.String)).group_by("access"):
        of_kind = (access == kind).fill_null(value=False).to_numpy()
        rows = rows.sort("block_bytes")
        for name in BOUNDS:
            known = rows[name].fill_null(rows["service_ns"])
            times[name][of_kind] = _at(rows, known, sizes[of_kind], is_least=name == "lo_ns")
        least, most = rows["block_bytes"].to_numpy()[[0, -1]]
        # A flush after fewer bytes does not take longer.
        extrapolated[of_kind] = ((sizes[of_kind] < least) & (kind != "flush")) | (sizes[of_kind] > most)
        at = np.searchsorted(rows["block_bytes"].to_numpy(), sizes[of_kind], side="right") - 1
        served = rows["depth"].cast(pl.Float64).to_numpy()[np.clip(at, 0, None)]
        depth[of_kind] = 1 if kind == "flush" else served
    found = pl.DataFrame({**times, "depth": depth, "is_extrapolated": extrapolated}).fill_nan(None)
    return found.with_columns(pl.col(BOUNDS).round().cast(pl.Int64), pl.col("depth").cast(pl.Int32))


def _at(
    rows: pl.DataFrame, times: pl.Series, sizes: npt.NDArray[np.float64], *, is_least: bool
) -> npt.NDArray[np.float64]:
    """Return the time of each size, or its lower bound."""
    known = rows["block_bytes"].cast(pl.Float64).to_numpy()
    weights = rows["operations"].cast(pl.Float64).to_numpy()
    evened = _isotonic(times.cast(pl.Float64).to_numpy(), weights)
    found: npt.NDArray[np.float64] = np.interp(sizes, known, evened)
    below, beyond = sizes < known[0], sizes > known[-1]
    if is_least and len(known) > 1:
        found[below] *= sizes[below] / known[0]
        found[beyond] += (sizes[beyond] - known[-1]) * (evened[-1] - evened[0]) / (known[-1] - known[0])
    elif is_least:
        found[below] *= sizes[below] / known[0]
    else:
        found[beyond] *= sizes[beyond] / known[-1]
    return found


def _isotonic(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the non-decreasing values that are nearest to these by weighted least squares.

    This is the pool-adjacent-violators algorithm: a value below the previous one is averaged with it, and the mean with
    earlier ones.
    """
    means: list[float] = []
    pooled: list[tuple[float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, total, count = value, weight, 1
        while means and means[-1] > mean:
            before, (weight_before, count_before) = means.pop(), pooled.pop()
            mean = (before * weight_before + mean * total) / (weight_before + total)
            total, count = total + weight_before, count + count_before
        means.append(mean)
        pooled.append((total, count))
    return np.repeat(means, [count for _, count in pooled])


def curve(model: pl.DataFrame) -> pl.DataFrame:
    """Return requests per second by size, for `plot.bench_sizes`. Flushes are left out.

    Parameters
    ----------
    model : polars.DataFrame
        The result of `fit` or `read_model`.

    Returns
    -------
    polars.DataFrame
        Columns metric (iops [1/s]), test (String, the access), block_bytes (Int64), value (Float64), unit, n (Int64,
        repetitions), lo, hi (Float64).

    References
    ----------
    Dumitru, Optimizing Storage Performance on Android, EasyCo, slides, 2012, slide 5.

    Examples
    --------
    >>> model = whatif.fit(bench.read("datasets/whatif/model_disk/sizes.rec.xz").tables)
    >>> table = whatif.curve(model).filter(test="rand_write", block_bytes=4096)
    >>> table.select(pl.col("value", "lo", "hi").round()).row(0)
    (12435.0, 11927.0, 13196.0)
    """
    return (
        model.filter(pl.col("access") != "flush", pl.col("service_ns") > 0)
        .select(
            pl.lit("iops").alias("metric"),
            test=pl.col("access").cast(pl.String),
            block_bytes="block_bytes",
            value=1e9 / pl.col("service_ns"),
            unit=pl.lit("1/s"),
            n="repeats",
            lo=1e9 / pl.col("hi_ns"),
            hi=1e9 / pl.col("lo_ns"),
        )
        .sort("test", "block_bytes")
    )
