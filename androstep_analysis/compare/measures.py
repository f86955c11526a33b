"""One table of a measure of many recordings, with a row for every recording, time window or repetition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import polars as pl

from androstep_analysis import bench, replay
from androstep_analysis.bench.tables import JOB
from androstep_analysis.capture import Capture
from androstep_analysis.common import losses, pages, schema
from androstep_analysis.common.conditions import Condition, check, parse
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import FACTS
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.compare.windows import Windows
from androstep_analysis.measures import REGISTRY, where
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.recording import Recording, Tables
from androstep_analysis.perceived import STARTS

KINDS: Final = ("capture", "window", "repetition")
"""Kinds of rows of `measure_all`: of a whole capture, of a time window, or of a repetition."""

COMMON: Final = (
    "capture",
    "capture_id",
    *FACTS,
    "kind",
    "repeat",
    "metric",
    "value",
    "unit",
    "n",
    "weight",
    "coverage",
    "inferred",
)
"""Columns of `measure_all` besides the measure's dimensions."""


def of_release(
    directory: str | PathLike[str], *, part: str | None = None, capture_id: str | None = None
) -> list[Recording]:
    """Return the recordings of a released dataset, in order of capture_id.

    Parameters
    ----------
    directory : path-like
        The directory of a dataset from `androstep release`.
    part : str, optional
        Read only the recordings in the file of this name below ``tables/captures``. Files of other names are not read.
    capture_id : str, optional
        Read only this recording.

    Returns
    -------
    list of Recording
        Recordings for `measure_all`.

    Raises
    ------
    InputError
        If the directory is not a released dataset.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as place:
    ...     captures = Path(place, "tables/captures")
    ...     captures.mkdir(parents=True)
    ...     pl.DataFrame([capture.facts]).write_parquet(captures / "demo.parquet")
    ...     recordings = compare.of_release(place)
    >>> recordings[0].title == capture.facts["capture_id"]
    True
    """
    directories = {path.name: path for path in (Path(directory) / "tables").glob("*") if path.name in schema.names()}
    if "captures" not in directories:
        raise InputError(f"{directory}: has no tables/captures; give a dataset made by `androstep release`")
    tables = {name: _files(path, part) for name, path in directories.items()}
    released = _typed(tables.pop("captures"), "captures").sort("capture_id")
    try:
        captures = (released if capture_id is None else released.filter(capture_id=capture_id)).collect()
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{directory}: no released tables ({str(error).partition(chr(10))[0]})") from None
    return [
        Recording(
            facts["capture_id"],
            facts,
            {name: _typed(table.filter(capture_id=facts["capture_id"]), name) for name, table in tables.items()},
            losses=losses.Losses(lost_events=facts["lost_events"] or 0),
        )
        for facts in captures.iter_rows(named=True)
    ]


def _files(directory: Path, part: str | None) -> pl.LazyFrame:
    """Return the rows of a released table, or of one of its files. The table is empty if that file does not exist."""
    found = sorted(directory.rglob("*.parquet")) if part is None else [directory / part]
    for path in (found := [path for path in found if path.exists()]):
        pages.check(path)
    if found:
        return pl.scan_parquet(found, glob=False, hive_partitioning=False)
    return schema.empty(directory.name).with_columns(capture_id=pl.lit(None, pl.String)).lazy()


def _typed(table: pl.LazyFrame, name: str) -> pl.LazyFrame:
    """Return the columns of the schema in its types.

    A release has enums as text, and lacks columns of later releases.
    """
    released = table.collect_schema().names()
    return table.select(
        (pl.col(column.name) if column.name in released or not column.nullable else pl.lit(None))
        .cast(column.polars)
        .alias(column.name)
        for column in schema.table(name).columns
    )


def measure_all(
    captures: Sequence[Capture | Recording],
    measure: str | Measure,
    *,
    window_ns: int | None = None,
    where: Sequence[str] = (),
) -> pl.DataFrame:
    """Return one tidy table of a measure of all captures, with their facts.

    Without `window_ns` there is a row for each capture, or for each repetition of a benchmark or replay. With it, there
    is a row for each window that has such requests. Classes such as sequential are still determined over the whole
    recording. A share of a class that one capture lacks is 0 there, if the capture has any requests of the whole.
    Counts and bytes are returned for whole captures only: in windows they are rates (measure `rate`).

    Parameters
    ----------
    captures : sequence of Capture or Recording
        The recordings to compare, each once.
    measure : str or Measure
        A name of `measures`, or a measure of your own.
    window_ns : int, optional
        Length of a window, in ns; by default there are no windows.
    where : sequence of str
        Conditions on the rows to measure, such as ``["app=com.example.*", "bytes>=64KiB"]``. All must hold
        (docs/measure.md).

    Returns
    -------
    polars.DataFrame
        Columns capture (String, the title, made unique), capture_id, the facts of table captures (`manifest.FACTS`),
        kind (Enum: capture, repetition, window), repeat (Int64: index of the window from the capture's first event on,
        or of the repetition; null for a whole capture), metric, the measure's dimensions, value (Float64), unit, n
        (Int64), weight (Float64), coverage (Float64, of the whole capture), inferred (Float64, the share of the row's
        bytes with inferred names, null without names). `weight` is the weight of the value in the mean over the
        windows. For a share it is the whole, so that this mean is the share in the whole capture. For a rate it is the
        window's seconds (empty windows have rows of 0), for the mean latency the number of requests, else 1.

    Raises
    ------
    InputError
        If there is no capture or the same recording twice, a capture lacks a table of the measure, `window_ns` is not
        positive or gives too many windows, or a condition names no column or matches nothing.

    References
    ----------
    ``schemas/definitions.toml``, compare_windows, and the entry of the measure.

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix")
    >>> measured.filter(metric="count", op="read")["value"].item()
    817.0
    """
    chosen = known(measure, window_ns)
    recordings = [one if isinstance(one, Recording) else Recording.of(one) for one in captures]
    stated = [parse(one) for one in where]
    parts = [measured(recording, chosen, window_ns, conditions=stated) for recording in recordings]
    return together(parts, chosen, window_ns)


def known(measure: str | Measure, window_ns: int | None) -> Measure:
    """Return the measure with that name, or the given one.

    Raises `InputError` for windows if it does not support them.
    """
    chosen = measures()[measure] if isinstance(measure, str) else measure
    if window_ns is not None and chosen.has_repetitions:
        raise InputError("results of benchmarks and replays have repetitions instead of windows; omit the windows")
    if window_ns is not None and not chosen.has_windows:
        raise InputError(
            f"{chosen.description}: is computed for whole recordings only; omit the windows{chosen.instead}"
        )
    return chosen


class Measured(NamedTuple):
    """The result of `measured` for one recording: its title, facts, and table.

    `population` describes the counted requests (`population.sentence`), if they were counted.
    """

    title: str
    facts: Mapping[str, Any]
    table: pl.DataFrame
    population: Mapping[str, int] = MappingProxyType({})

    @property
    def capture_id(self) -> str:
        return str(self.facts["capture_id"])


def together(parts: Sequence[Measured], chosen: Measure, window_ns: int | None) -> pl.DataFrame:
    """Return the table of `measure_all` from the results of each recording.

    Raises `InputError` for a repeated recording.
    """
    parts = _named(parts)
    unnamed = pl.lit(None, pl.Float64).alias("inferred")
    tables = [
        part.table.with_columns(*([] if "inferred" in part.table.columns else [unnamed]), capture=pl.lit(part.title))
        for part in parts
    ]
    table = pl.concat(tables, how="diagonal_relaxed")
    dims = dimensions(table)
    if chosen.has_repetitions:
        dims = [name for name in dims if table[name].n_unique() > 1 or name == "test"]
    if chosen.within is not None:
        table = _with_zeros(table, dims, chosen.within)
    if chosen.is_rate:
        table = _everywhere(table, dims)
    if window_ns is not None:
        table = table.filter(~pl.col("metric").is_in(["count", "bytes"]))
    order = {part.title: number for number, part in enumerate(parts)}
    at = pl.col("capture").replace_strict(order, return_dtype=pl.Int64)
    front = ["capture", "capture_id", *FACTS, "kind", "repeat", "metric", *dims]
    ordered = table.sort(at, "metric", *dims, "repeat", nulls_last=True)
    return ordered.select(*front, "value", "unit", "n", "weight", "coverage", "inferred")


def dimensions(measured: pl.DataFrame) -> list[str]:
    """Return the columns of a table of `measure_all` that are the measure's own."""
    return [name for name in measured.columns if name not in COMMON]


def _named(parts: Sequence[Measured]) -> list[Measured]:
    """Return the parts with unique titles."""
    if not parts:
        raise InputError("nothing to compare: give at least one capture")
    titles = Counter(part.title for part in parts)
    first: dict[str, str] = {}
    for part in parts:
        if (name := part.capture_id) in first:
            raise InputError(f"{first[name]} and {part.title} are the same recording ({name}); give each once")
        first[name] = part.title
    return [
        part if titles[part.title] == 1 else part._replace(title=f"{part.title} ({part.capture_id[:8]})")
        for part in parts
    ]


def measured(
    recording: Recording,
    measure: Measure,
    window_ns: int | None,
    by: tuple[str, ...] = (),
    conditions: Sequence[Condition] = (),
) -> Measured:
    """Measure one recording. The table has the columns of `measure_all`, with those of the dimensions last.

    `by` are further columns of the measure's table (`Measure.needs`) to group by. Column `inferred`, if the measure has
    it, is the share of a row's bytes with inferred names. `conditions` select the rows to measure (`Measure.applied`).
    Those on columns that only the result has, such as metric or class, select rows of the result.
    """
    if missing := [name for name in measure.needs if name not in recording.tables]:
        has = ", ".join(recording.tables)
        raise InputError(f"{recording.title}: has no table {missing[0]}, which the measure needs; it has {has}")
    span = recording.span
    windows = None if window_ns is None or span is None else Windows.of(recording.title, *span, window_ns)
    words = measure.dimensions
    asked = [words.get(one.column, one.column) for one in conditions]
    by = by or measure.by
    if measure.applied is Applied.RESULT:
        by = (*by, *(name for name in dict.fromkeys(asked) if name in words.values() and name not in by))
    tables = recording.by((*by, *asked))
    first_ns = None if span is None else span[0]
    of_rows = {**where.columns(measure, tables, first_ns), **where.pieces(measure, tables, first_ns)}
    of_table = [one for one in conditions if one.column in of_rows]
    if windows is not None and any(one.column == "time" for one in of_table):
        raise InputError("where time: windows cover the whole recording; omit either the windows or the time")
    mask: tuple[str, ...] = ()
    if of_table:
        tables = where.applied(measure, tables, of_table, first_ns)
        span = where.span(of_table, span)
        mask = (where.KEPT,) if measure.applied is Applied.AFTER else ()
    by = (*mask, *by)
    of = partial(measure.of, recording=recording) if measure.asks_recording else measure.of
    if measure.cuts_time:
        result = of(tables, by, window_ns=windows and windows.length_ns)
        if windows is not None:
            result = result.with_columns(repeat=windows.number(pl.col("ts_ns"))).drop("ts_ns")
    elif windows is None:
        result = of(tables, by)
    else:
        result = of(windows.apart(tables), ("window", *by)).rename({"window": "repeat"})
    if mask:
        result = result.filter(where.KEPT).drop(where.KEPT)
    if measure.is_rate:
        seconds = None if span is None or span[1] == span[0] else (span[1] - span[0]) / NS_PER_S
        result = _rates(result, seconds) if windows is None else _window_rates(result, windows)
    of_result = [one for one in conditions if one not in of_table]
    check([*of_rows, *words, *result.columns], of_result)
    if of_result:
        result = where.of_result(result, of_result, words)
    kind = "repetition" if measure.has_repetitions else "window" if windows is not None else "capture"
    added = {"repeat": pl.Int64, "n": pl.Int64, "weight": pl.Float64, "coverage": pl.Float64}
    facts = {name: recording.facts[name] for name in ("capture_id", *FACTS)}
    types = schema.table("captures").polars
    table = result.with_columns(
        *(pl.lit(None, dtype).alias(name) for name, dtype in added.items() if name not in result.columns),
        *(pl.lit(value, types[name]).alias(name) for name, value in facts.items()),
        kind=pl.lit(kind, pl.Enum(KINDS)),
    ).with_columns(pl.col("weight").fill_null(1.0), pl.col("repeat").cast(pl.Int64))
    return Measured(recording.title, recording.facts, table)


def _window_rates(result: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """Return the rates of counts and bytes in all windows. Windows without a row have rate 0."""
    dims = [name for name in result.columns if name not in (*COMMON, "window")]
    kinds = result.select("metric", "unit", *dims).unique(maintain_order=True)
    known = result.select("repeat", "metric", *dims, "value", "n")
    every = windows.every().join(kinds, how="cross")
    full = every.join(known, on=["repeat", "metric", *dims], how="left", nulls_equal=True)
    return _rates(full.with_columns(pl.col("value", "n").fill_null(0), coverage=pl.lit(1.0)), None)


def _rates(result: pl.DataFrame, seconds: float | None) -> pl.DataFrame:
    """Return the rates of counts and bytes in this many seconds, by default in `weight` of each row."""
    length = pl.col("weight") if seconds is None and "weight" in result.columns else pl.lit(seconds, pl.Float64)
    names, units = {"count": "iops", "bytes": "bandwidth"}, {"count": "1/s", "bytes": "B/s"}
    counts = result.filter(pl.col("metric").is_in(list(names)), pl.col("op") != "flush").with_columns(weight=length)
    return counts.filter(pl.col("weight") > 0).with_columns(
        value=pl.col("value") / pl.col("weight"),
        unit=pl.col("metric").replace_strict(units, return_dtype=pl.String),
        metric=pl.col("metric").replace_strict(names, return_dtype=pl.String),
    )


def _everywhere(table: pl.DataFrame, dims: Sequence[str]) -> pl.DataFrame:
    """Add rates of 0 for kinds that only other captures have."""
    captures = table.select("capture", "capture_id", *FACTS, "kind", "repeat", "weight", "coverage").unique()
    kinds = table.select("metric", "unit", *dims).unique()
    keys = ["capture", "repeat", "metric", *dims]
    known = table.select(*keys, "value", "n", "inferred")
    every = captures.join(kinds, how="cross").join(known, on=keys, how="left", nulls_equal=True)
    return every.with_columns(pl.col("value", "n").fill_null(0)).select(table.columns)


def _with_zeros(table: pl.DataFrame, dims: Sequence[str], within: Sequence[str]) -> pl.DataFrame:
    """Return the table with the weights of its shares, and with rows of 0 for missing kinds.

    A kind is missing if only some captures or windows have it.
    """
    is_share = pl.col("metric").str.ends_with("_ratio")
    keys = ["capture", "repeat"]
    counted = table.filter(~is_share).select(*keys, *dims, "value", "n", "unit", "inferred", of="metric")
    shares = table.filter(is_share).with_columns(of=pl.col("metric").str.strip_suffix("_ratio"))
    both = shares.join(
        counted.drop("n", "unit", "inferred"), on=[*keys, *dims, "of"], nulls_equal=True, suffix="_counted"
    )
    # Counts and bytes are integers, and so is their sum. Rounding makes it exact.
    whole = (pl.col("value_counted") / pl.col("value")).round()
    groups = both.filter(pl.col("value") > 0).group_by(*keys, "of", *within).agg(weight=whole.max())
    kinds = both.select("of", *dims).unique()
    every = groups.join(kinds, on=["of", *within], nulls_equal=True).join(
        counted, on=[*keys, *dims, "of"], how="left", nulls_equal=True
    )
    every = every.with_columns(pl.col("value", "n").fill_null(0)).join(
        table.unique("capture").select("capture", "capture_id", *FACTS, "kind", "coverage"), on="capture"
    )
    units = dict(counted.select("of", "unit").unique().iter_rows())
    parts = [
        every.with_columns(metric=pl.col("of") + "_ratio", value=pl.col("value") / pl.col("weight"), unit=pl.lit("1")),
        every.with_columns(
            metric="of", unit=pl.col("of").replace_strict(units, return_dtype=pl.String), weight=pl.lit(1.0)
        ),
        # Rows that are part of no share, such as empty flushes.
        table.filter(~is_share).join(
            kinds, left_on=["metric", *dims], right_on=["of", *dims], how="anti", nulls_equal=True
        ),
    ]
    return pl.concat([part.select(*COMMON, *dims) for part in parts])


# -- the measures -----------------------------------------------------------------------------------------------------


def measures() -> dict[str, Measure]:
    """Return the measures by name.

    Returns
    -------
    dict of Measure
        The measures that `measure_all` accepts.

    Examples
    --------
    >>> compare.measures().keys() >= {"bench", "latency", "locality"}
    True
    """
    return {**REGISTRY, "bench": BENCH, "replay": REPLAY, "starts": STARTS}


def _bench(tables: Tables, _: tuple[str, ...]) -> pl.DataFrame:
    """Return results of benchmarks.

    Results on several disks are separate, since they are not repetitions of each other.
    """
    found = bench.measures({name: tables[name].collect() for name in ("bench_runs", "bench")}).filter("valid")
    # `test` already identifies the run. `workload` and `device` are facts of the capture here.
    dims = [name for name in JOB if name != "workload"]
    if found["device"].n_unique() > 1:
        found, dims = found.rename({"device": "disk"}), [*dims, "disk"]
    numbered = pl.int_range(pl.len(), dtype=pl.Int64).over("metric", *dims)
    return found.select("metric", *dims, "value", "unit", repeat=numbered)


def _replay(tables: Tables, _: tuple[str, ...]) -> pl.DataFrame:
    found = replay.metrics({name: tables[name].collect() for name in ("replay_runs", "replay_ops")})
    return (
        found.drop("fs_type").rename({"run_id": "repeat"}).with_columns(pl.col("repeat").rank("dense").cast(pl.Int64))
    )


BENCH: Final = Measure(
    "results of benchmarks",
    ("bench_runs", "bench"),
    _bench,
    has_repetitions=True,
    applied=Applied.RESULT,
    worse="lower",
)

REPLAY: Final = Measure(
    "results of replays", ("replay_runs", "replay_ops"), _replay, has_repetitions=True, applied=Applied.RESULT
)
