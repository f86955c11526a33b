"""Prediction of the times of a trace's requests on a device, from its model, with queueing.

- The service time of a request is that of the model for its kind and size. It is sequential if it begins at the end of
  the previous request of the same operation, or is the first of its operation.
- Requests arrive as in `androstep replay`: from the threads of a replay program (`replay.device`), at the recorded
  times or as soon as those that they wait for have ended.
- They wait in one queue, first come, first served. The first one starts when fewer requests are in service than the
  device serves of its kind at a time.
- The time of a size that was not measured is extrapolated by `model`, and counted (`extrapolated`). A kind that was not
  measured takes no time, and is counted (`unknown`): the predicted times are then too low.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common.errors import InputError
from androstep_analysis.replay.program import Program
from androstep_analysis.whatif import model as models

Mode = Literal["as_fast", "as_recorded"]

_RWF_DSYNC: Final = 0x2
_DIRECTIONS: Final = {"pread": "read", "pwrite": "write", "pwritev": "write"}
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class Prediction:
    """The predicted times of each operation of a program, and of all together.

    Attributes
    ----------
    operations : polars.DataFrame
        Columns operation (Int64), call (Enum), access (String: of `device_model.access`; null: no kind of the model),
        bytes, service_ns (null: unknown), is_extrapolated (Boolean), ready_ns (its arrival), start_ns, end_ns (Int64,
        since the start).
    totals : polars.DataFrame
        Columns metric (String), quantile (Enum: p50, p90, p99, of latency; else null), value (Float64 [ns]), unit, n
        (Int64, operations), lo, hi (Float64 [ns]: with the ends of the model's intervals). Metrics are elapsed (until
        the last end), io_time (sum of the times from arrival to end, as in `replay.metrics`), busy (sum of the service
        times) and latency.
    """

    operations: pl.DataFrame
    totals: pl.DataFrame


def predict(program: Program, model: pl.DataFrame, mode: Mode = "as_fast") -> Prediction:
    """Predict the times of a program, made from a device's requests, on the device of a model.

    Parameters
    ----------
    program : replay.Program
        The result of `replay.device.program`.
    model : polars.DataFrame
        The result of `fit` or `read_model`.
    mode : {"as_fast", "as_recorded"}
        Requests arrive as soon as those that they wait for have ended, or at the recorded times if these are later.

    Returns
    -------
    Prediction
        Times of each operation, and totals.

    Raises
    ------
    ValueError
        If the program is of files.
    InputError
        If the program is inconsistent.

    Notes
    -----
    Requests wait in one queue, first come, first served. The first one starts when fewer requests are in service than
    the device serves of its kind at a time. A request is sequential if it begins at the end of the previous one of the
    same operation, or is the first. The time of a flush depends on the bytes written since the previous one. A write
    with REQ_FUA takes as long as one with O_DSYNC. If that was not measured, it takes as long as a write and a flush.
    The time of a size that was not measured is extrapolated: see `extrapolated` and `service`. A kind that was not
    measured takes no time: see `unknown`.

    References
    ----------
    ``schemas/definitions.toml``, device_model. docs/predictions.md compares predictions with replays.

    Examples
    --------
    >>> files = [f"datasets/whatif/model_disk/{name}.rec.xz" for name in ("sizes", "depths", "flushes")]
    >>> model = whatif.fit(bench.read(*files).tables)
    >>> requests = pl.scan_parquet("datasets/whatif/messages/requests.parquet")
    >>> predicted = whatif.predict(replay.device.program(requests), model)
    >>> elapsed = predicted.totals.filter(metric="elapsed")
    >>> elapsed.select("value", "lo", "hi").row(0)
    (52380466.0, 50030059.0, 55761483.0)
    """
    if not program.is_device:
        raise ValueError("the program is of files; predictions need a program of a device's requests")
    asked = _asked(program, set(model["access"].unique()))
    found = models.service(model, asked)
    flush = models.service(model, asked.select(access=pl.lit("flush"), block_bytes="written"))
    times = found.with_columns(
        pl.when(asked["is_flushed"]).then(pl.col(name) + flush[name]).otherwise(pl.col(name)).alias(name)
        for name in models.BOUNDS
    )
    operations = asked.with_columns(times)
    runs = {name: _queue(program, operations, operations[name], mode) for name in models.BOUNDS}
    totals = {name: _totals(run, operations[name]) for name, run in runs.items()}
    done = operations.filter("is_asked").select("operation", "call", "access", "bytes", "service_ns", "is_extrapolated")
    timed = done.join(runs["service_ns"].drop("inserted"), on="operation", how="left", maintain_order="left")
    return Prediction(timed, _tidy(totals))


def _asked(program: Program, measured: Set[str]) -> pl.DataFrame:
    """Return the operations with the columns that decide their time.

    access and block_bytes select a row of the model. written is the bytes since the last flush, including those of the
    operation itself. is_flushed is whether a flush follows the write, and is_asked whether it is a request.
    """
    call = pl.col("call").cast(pl.String)
    direction = call.replace_strict(_DIRECTIONS, default=None, return_dtype=pl.String)
    end = pl.col("offset_bytes") + pl.col("bytes")
    forced = ((pl.col("flags") & _RWF_DSYNC) != 0).fill_null(value=False) & (call == "pwritev")
    rows = program.operations.with_columns(direction=direction, is_forced=forced)
    before = rows.filter(pl.col("direction").is_not_null()).select(
        "operation", is_next=pl.col("offset_bytes") == end.shift(1).over("direction", order_by="operation")
    )
    rows = rows.join(before, on="operation", how="left", maintain_order="left")
    # The first one counts as sequential, as in a sequential run of iobench.
    prefix = pl.when(pl.col("is_next").fill_null(value=True)).then(pl.lit("seq_")).otherwise(pl.lit("rand_"))
    kind = pl.when("is_forced", (prefix + "fua_write").is_in(measured)).then(pl.lit("fua_write")).otherwise("direction")
    is_flush = call == "fdatasync"
    return rows.with_columns(
        access=pl.when(is_flush).then(pl.lit("flush")).otherwise(prefix + kind), written=_written(is_flush)
    ).select(
        "operation",
        "thread",
        "ts_ns",
        "call",
        "bytes",
        "inserted",
        "access",
        "written",
        block_bytes=pl.when(is_flush).then("written").when(pl.col("direction").is_not_null()).then("bytes"),
        is_flushed=pl.col("is_forced") & ~pl.col("access").str.contains("fua"),
        # An inserted open is no request; an inserted flush for REQ_PREFLUSH is one.
        is_asked=call != "open",
    )


def _written(is_flush: pl.Expr) -> pl.Expr:
    """Return the bytes written since the last flush that are not durable, including those of the row itself."""
    bytes_ = pl.when(pl.col("direction") == "write").then("bytes").otherwise(0)
    lasting = pl.when(pl.col("is_forced")).then(0).otherwise(bytes_).cum_sum()
    flushed = pl.when(is_flush).then(lasting).shift(1).forward_fill().fill_null(0)
    return lasting - flushed + pl.when("is_forced").then(bytes_).otherwise(0)


def _queue(program: Program, operations: pl.DataFrame, service: pl.Series, mode: Mode) -> pl.DataFrame:
    """Return columns operation, inserted, ready_ns, start_ns, end_ns of each operation, in order."""
    rows = operations.height
    _check(program)
    due = operations["ts_ns"].to_numpy() if mode == "as_recorded" else np.zeros(rows, np.int64)
    depth = pl.col("depth").fill_null(1).clip(lower_bound=1)
    limit = operations.select(pl.when("is_asked").then(depth).otherwise(0).cast(pl.Int32))
    inputs = [
        _flat(operations["thread"].to_numpy(), np.int32),
        _flat(due, np.int64),
        _flat(service.fill_null(0).to_numpy(), np.int64),
        _flat(limit.to_series().to_numpy(), np.int32),
    ]
    waits = [_flat(program.dependencies[name].to_numpy(), np.int64) for name in ("operation", "after")]
    times = {name: np.empty(rows, np.int64) for name in ("ready_ns", "start_ns", "end_ns")}
    thread, *others = (values.ctypes.data for values in inputs)
    done = _library().queue_run(
        rows,
        thread,
        program.threads.height,
        *others,
        program.dependencies.height,
        *(values.ctypes.data for values in waits),
        *(values.ctypes.data for values in times.values()),
    )
    if not done:
        raise MemoryError
    return operations.select("operation", "inserted").with_columns(**{n: pl.Series(v) for n, v in times.items()})


def _check(program: Program) -> None:
    """Raise `InputError` if operations of the program have no thread or wait for later ones, as a file may have."""
    threads, waits = program.operations["thread"], program.dependencies
    in_order = (pl.col("after") >= 0) & (pl.col("after") < pl.col("operation"))
    exists = pl.col("operation") < program.operations.height
    if (
        not threads.is_between(0, program.threads.height - 1).all()
        or not waits.select((in_order & exists).all()).item()
    ):
        raise InputError(
            "the program has operations of unknown threads, or operations that wait for later ones;"
            " make it again with `androstep program`"
        )


def _flat(values: npt.NDArray[np.generic], dtype: type[np.generic]) -> npt.NDArray[np.generic]:
    return np.ascontiguousarray(values, dtype)


def _totals(run: pl.DataFrame, service: pl.Series) -> dict[tuple[str, str | None], tuple[float | None, int]]:
    """Return value and number of operations by metric and quantile."""
    asked = run.with_columns(service=service).filter(~pl.col("inserted"))
    latency = asked["end_ns"] - asked["ready_ns"]
    found: dict[tuple[str, str | None], tuple[float | None, int]] = {
        ("elapsed", None): (float(run.select(pl.col("end_ns").max()).item() or 0), asked.height),
        ("io_time", None): (float(latency.sum()), asked.height),
        ("busy", None): (float(asked["service"].sum()), asked["service"].count()),
    }
    for name, share in QUANTILES.items():
        found["latency", name] = (latency.quantile(share, "equiprobable"), asked.height)
    return found


def _tidy(totals: Mapping[str, dict[tuple[str, str | None], tuple[float | None, int]]]) -> pl.DataFrame:
    rows = [
        {
            "metric": metric,
            "quantile": quantile,
            "value": value,
            "unit": "ns",
            "n": n,
            "lo": totals["lo_ns"][metric, quantile][0],
            "hi": totals["hi_ns"][metric, quantile][0],
        }
        for (metric, quantile), (value, n) in totals["service_ns"].items()
    ]
    types: dict[str, pl.DataType] = {"metric": pl.String(), "quantile": pl.Enum(list(QUANTILES)), "unit": pl.String()}
    numbers: dict[str, pl.DataType] = {"value": pl.Float64(), "n": pl.Int64(), "lo": pl.Float64(), "hi": pl.Float64()}
    return pl.DataFrame(rows, types | numbers).select("metric", "quantile", "value", "unit", "n", "lo", "hi")


def unknown(prediction: Prediction) -> pl.DataFrame:
    """Return the operations without a time in the model. Without them, a prediction is too low.

    Parameters
    ----------
    prediction : Prediction
        The result of `predict`.

    Returns
    -------
    polars.DataFrame
        Columns call (Enum), access (String), count (Int64), bytes (Int64); no rows if everything is known.

    Examples
    --------
    >>> model = whatif.fit(bench.read("datasets/whatif/model_disk/sizes.rec.xz").tables)
    >>> predicted = whatif.predict(replay.device.program(capture.requests), model)
    >>> whatif.unknown(predicted).rows()
    [('fdatasync', 'flush', 1195, 0), ('fallocate', None, 208, 20066304)]
    """
    return _counted(prediction, pl.col("service_ns").is_null())


def extrapolated(prediction: Prediction) -> pl.DataFrame:
    """Return the operations with sizes outside of the measured range, whose times are extrapolated.

    Parameters
    ----------
    prediction : Prediction
        The result of `predict`.

    Returns
    -------
    polars.DataFrame
        Columns as for `unknown`.

    Examples
    --------
    >>> model = whatif.fit(bench.read("datasets/whatif/model_disk/sizes.rec.xz").tables)
    >>> predicted = whatif.predict(replay.device.program(capture.requests), model)
    >>> whatif.extrapolated(predicted).rows()
    []
    """
    return _counted(prediction, pl.col("is_extrapolated") & pl.col("service_ns").is_not_null())


def _counted(prediction: Prediction, chosen: pl.Expr) -> pl.DataFrame:
    return (
        prediction.operations.filter(chosen)
        .group_by("call", "access")
        .agg(count=pl.len().cast(pl.Int64), bytes=pl.col("bytes").sum())
        .sort("call", "access")
    )


_library = native.library
