"""The steps of every bio as btt takes them, seeks, and merges (definitions.toml, step, seek, merge)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.measures.parts import batches
from androstep_analysis.measures.tables import Table, columns_as_rows, lazy, ordered
from androstep_analysis.units import SECTOR_BYTES

TIMES: Final = ("Q2Q", "Q2Q all", "Q2A", "Q2G", "S2G", "G2I", "Q2M", "I2D", "M2D", "D2C", "Q2C")
"""Steps that take time (ns); Q2Q is from bio to bio of a device, Q2Q all from bio to bio of any device."""

SEEKS: Final = ("Q2Q seek", "D2D seek")
"""Distances in sectors, from bio to bio as they are queued and from request to request as they are issued."""

ACTIVE: Final = "active at Q"
"""How many bios or requests are queued and not yet issued or merged when another bio is queued (or requeued)."""

BLOCKS: Final = "blocks"
"""Sectors of what is completed."""

STEPS: Final = (*TIMES, *SEEKS, ACTIVE, BLOCKS)
"""What a row of `rows` is of, in the order of ``enum step_name`` of native/steps/steps.c."""

_ROW: Final = np.dtype(
    [("value", np.int64), ("ts_ns", np.int64), ("dev", np.uint32), ("tid", np.int32), ("step", np.uint8)], align=True
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

_NS_PER_S: Final = 1_000_000_000

_NAMES: Final = ("block_events",)


def steps(block_events: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """How long each step of a bio took, as btt takes them.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: ts_ns, dev, tid, action, sector, nr_sectors, old_dev, old_sector; in order of time.
    by : sequence of str
        What else to group by: dev, tid (the thread that queued the bio).

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, step (Enum: Q2Q, Q2A, Q2G, S2G, G2I, Q2M, I2D, M2D, D2C, Q2C) and quantile (Enum: min, mean,
        max). Metric latency [ns]; `n` is how many bios took the step. A step of which the trace has no events has no
        rows. Q2Q is of bios of any device, by dev of that one.

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
    found = sums(block_events, [*by, "step"]).filter(pl.col("step").is_in(names))
    told = found.with_columns(
        pl.col("step").replace({other: "Q2Q"}).cast(pl.Enum([name for name in TIMES if name != "Q2Q all"])),
        mean=pl.col("total") / pl.col("n"),
    )
    long = told.with_columns(pl.col("min", "max").cast(pl.Float64)).unpivot(
        ["min", "mean", "max"], index=[*by, "step", "n"], variable_name="quantile", value_name="value"
    )
    return ordered(
        long.with_columns(
            pl.col("quantile").cast(pl.Enum(["min", "mean", "max"])),
            metric=pl.lit("latency"),
            unit=pl.lit("ns"),
            coverage=pl.lit(None, pl.Float64),
        ),
        [*by, "step", "quantile"],
    )


def seeks(block_events: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """How far apart what follows each other on a device lies, as bios are queued and as requests are issued.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: ts_ns, dev, tid, action, sector, nr_sectors; in order of time.
    by : sequence of str
        What else to group by: dev, tid (the thread that queued or issued it).

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and step (Enum: Q2Q, D2D). Metrics count [bios, requests], seek_ratio [1] (share that does not
        touch or overlap what came before it on the device), seek_rate [1/s] (such seeks per second, between the first
        and the last of the group; none where that is no time), mean_distance and max_distance [B] (of all, those
        without a seek being 0).

    References
    ----------
    ``schemas/definitions.toml``, seek; blktrace, btt.

    Examples
    --------
    >>> table = measures.seeks(capture.block_events)
    >>> table.filter(step="D2D", metric="count")["value"].item()
    3360.0
    """
    found = sums(block_events, [*by, "step"]).filter(pl.col("step").is_in(SEEKS))
    seconds = (pl.col("last_ns") - pl.col("first_ns")) / _NS_PER_S
    wide = found.select(
        *by,
        "n",
        step=pl.col("step").str.strip_suffix(" seek").cast(pl.Enum(["Q2Q", "D2D"])),
        count=pl.col("n").cast(pl.Float64),
        seek_ratio=pl.col("above_0") / pl.col("n"),
        seek_rate=pl.when(seconds > 0).then(pl.col("above_0") / seconds),
        mean_distance=pl.col("total") / pl.col("n") * SECTOR_BYTES,
        max_distance=pl.col("max").cast(pl.Float64) * SECTOR_BYTES,
    )
    units = {"count": "seeks", "seek_ratio": "1", "seek_rate": "1/s", "mean_distance": "B", "max_distance": "B"}
    return columns_as_rows(wide, [*by, "step"], units)


def merges(block_events: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """How many bios became one request, and how many were split.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: dev, action, sector, nr_sectors.
    by : sequence of str
        What else to group by: dev, tid.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics queued, issued [count], bios_per_request, merge_ratio and split_ratio [1]: bios queued
        per request issued, and the share of bios that were merged into a request of others, or split. Empty flushes
        are in none. What the trace has no events for is null: bios where none is queued, merges and splits where there
        is no such event at all.

    References
    ----------
    ``schemas/definitions.toml``, merge.

    Examples
    --------
    >>> table = measures.merges(capture.block_events)
    >>> table.filter(metric="issued")["value"].item()
    3360.0
    """
    rows = lazy(block_events, _NAMES).filter(pl.col("sector").is_not_null(), pl.col("nr_sectors") > 0)
    names = {"queued": ["queue"], "issued": ["issue"], "merged": ["backmerge", "frontmerge"], "split": ["split"]}
    of = {name: pl.col("action").cast(pl.String).is_in(actions) for name, actions in names.items()}
    counts = (
        rows.group_by(by).agg(**{name: is_one.sum() for name, is_one in of.items()})
        if by
        else rows.select(**{name: is_one.sum() for name, is_one in of.items()})
    )
    found = counts.collect()
    # A recorder that shows no merge at all may only not have been asked for them.
    told = {name: bool(found[name].sum()) for name in ("merged", "split")}
    queued, issued = pl.col("queued"), pl.col("issued")
    wide = found.select(
        *by,
        n=queued.cast(pl.Int64),
        bios_per_request=pl.when((issued > 0) & (queued > 0)).then(queued / issued),
        merge_ratio=pl.when(pl.lit(told["merged"]) & (queued > 0)).then(pl.col("merged") / queued),
        split_ratio=pl.when(pl.lit(told["split"]) & (queued > 0)).then(pl.col("split") / queued),
        queued=pl.when(queued > 0).then(queued).cast(pl.Float64),
        issued=pl.when(issued > 0).then(issued).cast(pl.Float64),
    )
    units = {"queued": "count", "issued": "count", "bios_per_request": "1", "merge_ratio": "1", "split_ratio": "1"}
    return columns_as_rows(wide.filter(pl.any_horizontal(pl.col("queued", "issued").is_not_null())), list(by), units)


def sums(block_events: Table, groups: Sequence[str]) -> pl.DataFrame:
    """Of `rows`, by `groups`: n, min, max, total, how many are above_0, first_ns and last_ns, as they come."""
    value, time = pl.col("value"), pl.col("ts_ns")
    known = pl.DataFrame(schema={**{name: _TYPES[name] for name in groups}, **dict.fromkeys(_SUMS, pl.Int64)})
    for batch in rows(block_events):
        found = batch.group_by(groups, maintain_order=True).agg(
            n=pl.len().cast(pl.Int64),
            min=value.min(),
            max=value.max(),
            total=value.sum(),
            above_0=(value > 0).sum().cast(pl.Int64),
            first_ns=time.min(),
            last_ns=time.max(),
        )
        known = (
            pl.concat([known, found])
            .group_by(groups, maintain_order=True)
            .agg(
                pl.col("n").sum(),
                pl.col("min").min(),
                pl.col("max").max(),
                pl.col("total", "above_0").sum(),
                pl.col("first_ns").min(),
                pl.col("last_ns").max(),
            )
        )
    return known


_SUMS: Final = ("n", "min", "max", "total", "above_0", "first_ns", "last_ns")

_TYPES: Final = {"dev": pl.UInt32(), "tid": pl.Int32(), "step": pl.String(), "value": pl.Int64()}


def rows(block_events: Table) -> Iterator[pl.DataFrame]:
    """Columns step, dev, tid, ts_ns and value of every step, in order of the events that end them, some at a time."""
    state = _Steps()
    for batch in batches(events(block_events).select(*_COLUMNS)):
        yield state.add(
            batch.with_columns(
                pl.col("action").to_physical(),
                pl.col("sector", "nr_sectors", "old_sector", "old_dev").fill_null(0),
                pl.col("tid").fill_null(_NO_TID),
            )
        )


def events(block_events: Table) -> pl.LazyFrame:
    """The events that steps are made of: those of sectors, and requeues."""
    action = pl.col("action").cast(pl.String)
    is_placed = pl.col("sector").is_not_null() & (pl.col("nr_sectors") > 0)
    return lazy(block_events, _NAMES).filter(
        action.is_in(_ACTIONS) & pl.col("dev").is_not_null() & (is_placed | (action == "requeue"))
    )


class _CEvents(ctypes.Structure):
    """``struct events`` of native/steps/steps.c."""

    _fields_ = (("count", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in _COLUMNS))


class _Steps:
    """What is known of the bios that are not complete (native/steps/steps.c)."""

    def __init__(self) -> None:
        pointer = ctypes.c_void_p
        self._library = native.declared(
            ("bio_steps_new", pointer, ()),
            ("bio_steps_free", None, (pointer,)),
            ("bio_steps_add", ctypes.c_int64, (pointer, ctypes.POINTER(_CEvents))),
            ("bio_steps_rows", pointer, (pointer,)),
        )
        self._handle = self._library.bio_steps_new()
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, self._library.bio_steps_free, self._handle)

    def add(self, batch: pl.DataFrame) -> pl.DataFrame:
        columns: dict[str, npt.NDArray[Any]] = {
            name: np.ascontiguousarray(batch[name].to_numpy(), dtype) for name, dtype in _COLUMNS.items()
        }
        given = _CEvents(batch.height, **{name: column.ctypes.data for name, column in columns.items()})
        count = self._library.bio_steps_add(self._handle, ctypes.byref(given))
        if count < 0:
            raise MemoryError
        found = np.empty(count, _ROW)
        if count:
            ctypes.memmove(found.ctypes.data, self._library.bio_steps_rows(self._handle), found.nbytes)
        table = pl.DataFrame({name: np.ascontiguousarray(found[name]) for name in ("dev", "tid", "ts_ns", "value")})
        names = pl.Series("step", STEPS).gather(pl.Series(found["step"].astype(np.uint32)))
        return table.with_columns(names, tid=pl.when(pl.col("tid") != _NO_TID).then("tid"))
