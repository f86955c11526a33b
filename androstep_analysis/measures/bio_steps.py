"""Time between the events of each bio, as in btt (definitions.toml, step), and distances between bios and requests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.measures.lost import Lost, touched
from androstep_analysis.measures.measure import of_events
from androstep_analysis.measures.parts import batches
from androstep_analysis.measures.tables import Table, lazy, ordered

TIMES: Final = ("Q2Q", "Q2Q all", "Q2A", "Q2G", "S2G", "G2I", "Q2M", "I2D", "M2D", "D2C", "Q2C")
"""Steps that take time (ns). Q2Q runs from one bio of a device to its next, Q2Q all from one bio of any device to the
next."""

SEEKS: Final = ("Q2Q seek", "D2D seek")
"""Distances in sectors: between bios as they are queued, and between requests as they are issued. Negative means
backward."""

ACTIVE: Final = "active at Q"
"""Number of bios or requests that are queued and not yet issued or merged when another bio is queued or requeued."""

BLOCKS: Final = "blocks"
"""Sectors of each completion."""

STEPS: Final = (*TIMES, *SEEKS, ACTIVE, BLOCKS)
"""Values of column step of `rows`, in the order of ``enum step_name`` of native/steps/steps.c."""

_NUMBERS: Final = ("value", "from_ns", "ts_ns")

_ROW: Final = np.dtype(
    [
        *((name, np.int64) for name in _NUMBERS),
        *(("dev", np.uint32), ("tid", np.int32), ("step", np.uint8)),
    ],
    align=True,
)

_COLUMNS: Final = {
    "ts_ns": np.int64,
    "sector": np.int64,
    "nr_sectors": np.int64,
    "old_sector": np.int64,
    "dev": np.uint32,
    "old_dev": np.uint32,
    "tid": np.int32,
    "action": np.uint8,
}

_NO_TID: Final = native.none("int32")

_ACTIONS: Final = (
    *("queue", "remap", "getrq", "sleep", "insert", "backmerge", "frontmerge", "issue", "requeue", "complete"),
)

_NAMES: Final = ("block_events",)


def steps(block_events: Table, *, by: Sequence[str] = (), lost: Lost = ()) -> pl.DataFrame:
    """Return the time that each step of a bio took, as btt reports it.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: ts_ns, dev, tid, action, sector, nr_sectors, old_dev, old_sector; in order of time.
    by : sequence of str
        Further columns to group by: dev, tid (the thread that queued the bio).
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`). A step is left out if any lost time lies between
        the queueing of its bio and its end.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, step (Enum: Q2Q, Q2A, Q2G, S2G, G2I, Q2M, I2D, M2D, D2C, Q2C) and quantile (Enum: min, mean,
        max). Metric latency [ns]. `n` is the number of bios that took the step, `coverage` the share of them that is
        not left out. A step without events in the trace has no rows. Q2Q compares bios of all devices; if `by` has dev,
        those of one device.

    References
    ----------
    ``schemas/definitions.toml``, step; blktrace, btt.

    Examples
    --------
    >>> table = measures.steps(capture.block_events)
    >>> table.filter(step="D2C", quantile="min")["n"].item()
    5454
    """
    one, other = ("Q2Q all", "Q2Q") if "dev" in by else ("Q2Q", "Q2Q all")
    names = [name for name in TIMES if name != one]
    found = sums(rows(block_events, lost), [*by, "step"]).filter(pl.col("step").is_in(names), pl.col("n") > 0)
    with_means = found.with_columns(
        pl.col("step").replace({other: "Q2Q"}).cast(pl.Enum([name for name in TIMES if name != "Q2Q all"])),
        mean=pl.col("total") / pl.col("n"),
    )
    long = with_means.with_columns(pl.col("min", "max").cast(pl.Float64)).unpivot(
        ["min", "mean", "max"], index=[*by, "step", "n", "coverage"], variable_name="quantile", value_name="value"
    )
    return ordered(
        long.with_columns(
            pl.col("quantile").cast(pl.Enum(["min", "mean", "max"])),
            metric=pl.lit("latency"),
            unit=pl.lit("ns"),
        ),
        [*by, "step", "quantile"],
    )


def sums(of: Iterable[pl.DataFrame], groups: Sequence[str]) -> pl.DataFrame:
    """Aggregate the known rows of `rows` by `groups`: n, and min, max, total and above_0 of the absolute values.

    Column seen counts the rows, known or not; first_ns and last_ns are the times of the first and the last of them.
    coverage is the known share. Groups are in order of appearance.
    """
    size, time, is_known = pl.col("value").abs(), pl.col("ts_ns"), pl.col("is_known")
    known = pl.DataFrame(schema={**{name: _TYPES[name] for name in groups}, **dict.fromkeys(_SUMS, pl.Int64)})
    for batch in of:
        found = batch.group_by(groups, maintain_order=True).agg(
            seen=pl.len().cast(pl.Int64),
            n=is_known.sum().cast(pl.Int64),
            min=size.filter(is_known).min(),
            max=size.filter(is_known).max(),
            total=size.filter(is_known).sum(),
            above_0=(is_known & (size > 0)).sum().cast(pl.Int64),
            first_ns=time.min(),
            last_ns=time.max(),
        )
        known = (
            pl.concat([known, found])
            .group_by(groups, maintain_order=True)
            .agg(
                pl.col("seen", "n", "total", "above_0").sum(),
                pl.col("min", "first_ns").min(),
                pl.col("max", "last_ns").max(),
            )
            .select(*groups, *_SUMS)
        )
    return known.with_columns(coverage=pl.col("n") / pl.col("seen"))


_SUMS: Final = ("seen", "n", "min", "max", "total", "above_0", "first_ns", "last_ns")

_TYPES: Final = {"dev": pl.UInt32(), "tid": pl.Int32(), "step": pl.String(), "distance_up_to_sectors": pl.Int64()}


def rows(block_events: Table, lost: Lost = ()) -> Iterator[pl.DataFrame]:
    """Yield batches with columns step, dev, tid, from_ns, ts_ns, value and is_known, a row for each step.

    Rows are in order of the events that end the steps. A step is not known if lost time lies between from_ns and ts_ns.
    """
    state = _Steps()
    for batch in batches(events(block_events).select(*_COLUMNS)):
        yield state.add(
            batch.with_columns(
                pl.col("action").to_physical(),
                pl.col("sector", "nr_sectors", "old_sector", "old_dev").fill_null(0),
                pl.col("tid").fill_null(_NO_TID),
            )
        ).with_columns(is_known=~touched("from_ns", "ts_ns", lost))


def events(block_events: Table) -> pl.LazyFrame:
    """Return the events that steps are computed from: those with sectors, and requeues."""
    action = pl.col("action").cast(pl.String)
    is_placed = pl.col("sector").is_not_null() & (pl.col("nr_sectors") > 0)
    return lazy(block_events, _NAMES).filter(
        action.is_in(_ACTIONS) & pl.col("dev").is_not_null() & (is_placed | (action == "requeue"))
    )


class _Steps:
    """State of the bios that are not complete (native/steps/steps.c)."""

    def __init__(self) -> None:
        self._library = native.library()
        self._handle = native.owned(self, self._library.bio_steps_free, self._library.bio_steps_new())

    def add(self, batch: pl.DataFrame) -> pl.DataFrame:
        columns = [np.ascontiguousarray(batch[name].to_numpy(), dtype) for name, dtype in _COLUMNS.items()]
        count = self._library.bio_steps_add(self._handle, native.columns(batch.height, columns))
        if count < 0:
            raise MemoryError
        found = np.empty(count, _ROW)
        if count:
            ctypes.memmove(found.ctypes.data, self._library.bio_steps_rows(self._handle), found.nbytes)
        table = pl.DataFrame({name: np.ascontiguousarray(found[name]) for name in (*_NUMBERS, "dev", "tid")})
        names = pl.Series("step", STEPS).gather(pl.Series(found["step"].astype(np.uint32)))
        return table.with_columns(names, tid=pl.when(pl.col("tid") != _NO_TID).then("tid"))


BIO_STEPS: Final = of_events("steps of bios, as in btt", steps, natural=("step", "quantile"))
