"""Metrics of a replay: the time of its calls, their lateness, and differences from the recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.results import fit
from androstep_analysis.link.evidence import filetype
from androstep_analysis.replay.program import Program
from androstep_analysis.replay.tables import DIVERGED, READS, WRITES, lateness

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""Quantiles of latency and lateness by nearest rank, which are observed values."""

UNITS: Final = {
    **dict.fromkeys(("io_time", "recorded_io_time", "latency", "elapsed", "recorded", "lateness"), "ns"),
    **dict.fromkeys(("lateness_busy", "lateness_waited", "lateness_own"), "ns"),
    **dict.fromkeys(("elapsed_ratio", "cpu_ratio", "cpu_beyond_ratio"), "1"),
    **dict.fromkeys(("operations", "divergences", "divergences_unknown"), "operations"),
    **dict.fromkeys(("bytes_read", "bytes_written"), "B"),
}
"""The metrics and their units."""

DIMENSIONS: Final = ("run_id", "fs_type", "call", "file_type", "divergence", "quantile")
"""The dimensions of `metrics`. Null means of all, or not applicable."""

_SUMS: Final = ("operations", "io_time", "recorded_io_time", "bytes_read", "bytes_written")


def metrics(tables: Mapping[str, pl.DataFrame], program: Program | None = None) -> pl.DataFrame:
    """Return all metrics of each replay, without the operations that the cleaner inserted.

    Parameters
    ----------
    tables : mapping of DataFrame
        Tables replay_runs and replay_ops, as in ``read(…).tables`` and `Capture.replay`.
    program : Program, optional
        The replayed program. It adds recorded_io_time [ns], the sum of the recorded durations, and the sums by
        file_type (unknown: of no file, or of one without a name).

    Returns
    -------
    polars.DataFrame
        Columns metric, run_id, fs_type (String), call, file_type, divergence, quantile (Enum; null: of all, or not
        applicable), value (Float64), unit (String), n (Int64, operations). Metrics are:

        - io_time [ns], operations, bytes_read, bytes_written [B]: of all operations and by call. Bytes of sendfile,
          splice and copy_file_range count as read and as written.
        - latency [ns]: quantiles (p50, p90, p99, max; nearest ranks) of all and by call.
        - lateness [ns]: quantiles; lateness_busy, lateness_waited and lateness_own are its parts. Only of operations
          with a due time.
        - elapsed, recorded [ns], elapsed_ratio [1]: time until the last operation ended, in the replay and in the
          recording, and their ratio.
        - divergences [operations]: by kind, of all and by call; divergences_unknown: operations without a recorded
          result.
        - cpu_ratio, cpu_beyond_ratio [1]: share of one core.

    Raises
    ------
    ValueError
        If the program has other operations than the replay.

    References
    ----------
    ``schemas/definitions.toml``, replay_io_time, replay_lateness, replay_divergence and replay_cpu; Jeong et al.,
    Future Internet 5(4), 2013, Figure 16.

    Examples
    --------
    >>> tables = replay.read("datasets/replay/ext4_disk/replay-0.rec.xz").tables
    >>> table = replay.metrics(tables).filter(pl.col("metric").is_in(["io_time", "bytes_written"]), call="write")
    >>> table.select("metric", "value", "unit", "n").rows()
    [('io_time', 1100849.0, 'ns', 56), ('bytes_written', 20680.0, 'B', 56)]
    """
    runs, ops = tables["replay_runs"], _operations(tables)
    kinds = _kinds(ops)
    dimensions: list[tuple[str, ...]] = [(), ("call",)]
    if program is not None:
        kinds = kinds.join(_stated(kinds, program), on="operation", how="left", maintain_order="left")
        dimensions.append(("file_type",))
    parts = [
        *(_sums(kinds, dims) for dims in dimensions),
        *(_quantiles(ops, "latency", pl.col("latency_ns"), dims) for dims in dimensions[:2]),
        *(_quantiles(ops.filter(pl.col("due_ns").is_not_null()), name, part, ()) for name, part in _parts().items()),
        *(_divergences(ops, dims) for dims in dimensions[:2]),
        _of_runs(runs, tables["replay_ops"]),
    ]
    measured = pl.concat([_whole(part) for part in parts]).join(
        runs.select("run_id", "fs_type"), on="run_id", how="left", maintain_order="left"
    )
    order = pl.col("metric").cast(pl.Enum(list(UNITS)))
    unit = pl.col("metric").replace_strict(UNITS, return_dtype=pl.String)
    return (
        measured.sort(order, *DIMENSIONS, nulls_last=False)
        .with_columns(unit=unit)
        .select("metric", *DIMENSIONS, "value", "unit", "n")
    )


def lateness_distribution(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the cumulative distribution of lateness of each replay with due times.

    Parameters
    ----------
    tables : mapping of DataFrame
        As for `metrics`.

    Returns
    -------
    polars.DataFrame
        Columns metric (cumulative_ratio), run_id, fs_type (String), part (Enum: lateness, lateness_busy,
        lateness_waited, lateness_own), lateness_ns (Int64), value (Float64 [1]: share of the operations for which this
        part of the lateness is at most lateness_ns), unit, n (Int64, operations with this value). Inserted operations
        do not count.

    References
    ----------
    ``schemas/definitions.toml``, replay_lateness.

    Examples
    --------
    >>> tables = replay.read("datasets/replay/ext4_disk/replay-0.rec.xz").tables
    >>> table = replay.lateness_distribution(tables)
    >>> round(table.filter(pl.col("lateness_ns") <= 10**6, part="lateness_own")["value"].max(), 2)
    1.0
    """
    due = _operations(tables).filter(pl.col("due_ns").is_not_null())
    parts = _parts()
    long = due.select("run_id", **parts).unpivot(
        list(parts), index="run_id", variable_name="part", value_name="lateness_ns"
    )
    keys = ["run_id", "part"]
    rows = (
        long.with_columns(pl.col("part").cast(pl.Enum(list(parts))))
        .group_by(*keys, "lateness_ns")
        .agg(n=pl.len().cast(pl.Int64))
        .sort(*keys, "lateness_ns")
        .with_columns(
            value=pl.col("n").cum_sum().over(keys) / pl.col("n").sum().over(keys),
            metric=pl.lit("cumulative_ratio"),
            unit=pl.lit("1"),
        )
        .join(tables["replay_runs"].select("run_id", "fs_type"), on="run_id", how="left", maintain_order="left")
    )
    return rows.select("metric", "run_id", "fs_type", "part", "lateness_ns", "value", "unit", "n")


def _operations(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return replay_ops without inserted operations, with free_ns.

    free_ns is the end of the thread's previous operation (0: none).
    """
    ends = pl.col("start_ns") + pl.col("latency_ns")
    ops = tables["replay_ops"].sort("run_id", "thread", "operation")
    free = ends.shift(1).over("run_id", "thread", order_by="operation").fill_null(0)
    return ops.with_columns(free_ns=free).filter(~pl.col("inserted"))


def _parts() -> dict[str, pl.Expr]:
    """Return lateness and its parts: the thread was busy, it waited for other threads, and the rest."""
    total = lateness()
    busy = (pl.col("free_ns") - pl.col("due_ns")).clip(0, total)
    waited = pl.col("waited_ns").clip(0, total - busy)
    return {
        "lateness": total,
        "lateness_busy": busy,
        "lateness_waited": waited,
        "lateness_own": total - busy - waited,
    }


def _kinds(ops: pl.DataFrame) -> pl.DataFrame:
    """Return the operations with their contributions to the sums."""
    call = pl.col("call").cast(pl.String)
    moved = pl.col("bytes").fill_null(0)
    return ops.select(
        "run_id",
        "operation",
        "call",
        operations=pl.lit(1, pl.Int64),
        io_time="latency_ns",
        bytes_read=pl.when(~call.is_in(WRITES)).then(moved).otherwise(0),
        bytes_written=pl.when(~call.is_in(READS)).then(moved).otherwise(0),
    )


def _stated(ops: pl.DataFrame, program: Program) -> pl.DataFrame:
    """Return the program's data on its operations: columns operation, recorded_io_time, file_type."""
    known = program.operations.select("operation", "call", "file", "path", recorded_io_time="duration_ns")
    done = ops.select("operation", "call").unique()
    if done.join(known, on=["operation", "call"], how="anti").height:
        raise ValueError("the replay has other operations than this program; give the program that was replayed")
    types = file_types(program)
    unknown = pl.lit("unknown", types.schema["file_type"])
    return known.join(types, on="file", how="left", maintain_order="left").select(
        "operation", "recorded_io_time", pl.col("file_type").fill_null(unknown)
    )


def file_types(program: Program) -> pl.DataFrame:
    """Return the type of every file of a program, by its name alone.

    Parameters
    ----------
    program : Program
        A program of files.

    Returns
    -------
    polars.DataFrame
        Columns file (Int32), file_type (Enum). If a file has several names, the first one decides. Files that were
        created or used as a directory or a link have that type.

    References
    ----------
    ``schemas/definitions.toml``, file_type.

    Examples
    --------
    >>> recording = androstep.open("datasets/replay/app.strace.xz")
    >>> program = replay.clean(recording.syscalls, recording.tables["tasks"]).program
    >>> replay.file_types(program).filter(file_type="sqlite_wal").height
    2
    """
    named = pl.concat([program.files.select("file", "path"), program.operations.select("file", "path")]).drop_nulls()
    first = named.unique("file", keep="first", maintain_order=True)
    # A generated name of the cleaner has no information.
    path = pl.when(~pl.col("path").str.starts_with(".unnamed/")).then("/" + pl.col("path"))
    directories, links = (_inodes(program, kind, calls) for kind, calls in _NOT_REGULAR.items())
    kind = (
        pl.when(pl.col("file").is_in(directories.implode()))
        .then(pl.lit("directory"))
        .when(pl.col("file").is_in(links.implode()))
        .then(pl.lit("symlink"))
        .otherwise(pl.lit("unknown"))
    )
    rows = first.select(
        ino=pl.col("file").cast(pl.Int64),
        path=path,
        dev=pl.lit(0, pl.UInt32),
        incarnation=pl.lit(0, pl.Int32),
        names=pl.concat_list(path),
        name_encrypted=pl.lit(value=False),
        file_type=kind,
        source=pl.lit("recorded"),
    )
    typed = filetype.classify(fit(rows, "files"))
    return typed.select(file=pl.col("ino").cast(pl.Int32), file_type="file_type")


_NOT_REGULAR: Final = {"directory": ("mkdir", "rmdir", "getdents"), "symlink": ("symlink", "readlink")}
"""Calls that apply only to files of such a type."""


def _inodes(program: Program, kind: str, calls: Sequence[str]) -> pl.Series:
    """Return the files of this type, from table replay_files and the operations."""
    listed = program.files.filter(pl.col("inode_type").cast(pl.String) == kind)
    by_call = pl.col("call").cast(pl.String).is_in(calls) & ~pl.col("failed").fill_null(True)
    # A path that had this type at the start keeps it until an operation changes names.
    first = program.operations.unique("file", keep="first", maintain_order=True)
    parts = [
        listed["file"],
        program.operations.filter(by_call)["file"],
        first.filter(pl.col("path").is_in(listed["path"].implode()))["file"],
    ]
    return pl.concat(parts).drop_nulls().unique()


def _sums(kinds: pl.DataFrame, dims: Sequence[str]) -> pl.DataFrame:
    """Return the sums of the runs, with a row for each run and value of `dims`."""
    present = [name for name in _SUMS if name in kinds.columns]
    sums = kinds.group_by("run_id", *dims).agg(pl.col(present).sum().cast(pl.Float64), n=pl.len().cast(pl.Int64))
    return sums.unpivot(present, index=["run_id", *dims, "n"], variable_name="metric", value_name="value")


def _quantiles(ops: pl.DataFrame, metric: str, value: pl.Expr, dims: Sequence[str]) -> pl.DataFrame:
    rows = ops.group_by("run_id", *dims).agg(
        n=pl.len().cast(pl.Int64),
        **{name: value.quantile(share, "equiprobable").cast(pl.Float64) for name, share in QUANTILES.items()},
    )
    return rows.unpivot(
        list(QUANTILES), index=["run_id", *dims, "n"], variable_name="quantile", value_name="value"
    ).with_columns(metric=pl.lit(metric))


def _divergences(ops: pl.DataFrame, dims: Sequence[str]) -> pl.DataFrame:
    """Return the number of operations that diverged by kind, and of those without a recorded result."""
    counted = ops.group_by("run_id", *dims, "divergence").agg(value=pl.len().cast(pl.Float64))
    of_all = ops.group_by("run_id", *dims).agg(n=pl.len().cast(pl.Int64))
    kinds = pl.DataFrame({"divergence": [*DIVERGED, "unknown"]}, schema={"divergence": ops.schema["divergence"]})
    every = of_all.join(kinds, how="cross").join(
        counted, on=["run_id", *dims, "divergence"], how="left", nulls_equal=True, maintain_order="left"
    )
    unknown = pl.col("divergence").cast(pl.String) == "unknown"
    return every.select(
        "run_id",
        *dims,
        "n",
        pl.when(~unknown).then("divergence").alias("divergence"),
        pl.col("value").fill_null(0.0),
        metric=pl.when(unknown).then(pl.lit("divergences_unknown")).otherwise(pl.lit("divergences")),
    )


def _of_runs(runs: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return the metrics of a replay as a whole."""
    in_calls = ops.group_by("run_id").agg(in_calls_ns=pl.col("latency_ns").sum())
    known = runs.join(in_calls, on="run_id", how="left", maintain_order="left").with_columns(
        pl.col("in_calls_ns").fill_null(0)
    )
    elapsed = pl.when(pl.col("duration_ns") > 0).then("duration_ns")
    outside = (pl.col("cpu_system_ns") - pl.col("in_calls_ns")).clip(lower_bound=0)
    wide = known.select(
        "run_id",
        n="done",
        elapsed=pl.col("duration_ns").cast(pl.Float64),
        recorded=pl.col("recorded_ns").cast(pl.Float64),
        elapsed_ratio=pl.when(pl.col("recorded_ns") > 0).then(pl.col("duration_ns") / pl.col("recorded_ns")),
        cpu_ratio=(pl.col("cpu_user_ns") + pl.col("cpu_system_ns")) / elapsed,
        cpu_beyond_ratio=(pl.col("cpu_user_ns") + outside) / elapsed,
    )
    long = wide.unpivot(wide.columns[2:], index=["run_id", "n"], variable_name="metric", value_name="value")
    return long.filter(pl.col("value").is_not_null())


def _whole(part: pl.DataFrame) -> pl.DataFrame:
    """Return the part with every dimension except fs_type; those that it lacks are null."""
    types: dict[str, pl.DataType | type[pl.DataType]] = {
        "metric": pl.String,
        "run_id": pl.String,
        "call": schema.enum("replay_ops", "call"),
        "file_type": schema.enum("files", "file_type"),
        "divergence": schema.enum("replay_ops", "divergence"),
        "quantile": pl.Enum(list(QUANTILES)),
        "value": pl.Float64,
        "n": pl.Int64,
    }
    return part.select(
        (pl.col(name) if name in part.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in types.items()
    )


def timeline(tables: Mapping[str, pl.DataFrame], program: Program) -> pl.DataFrame:
    """Return the time of each operation in the recording and in a replay.

    Parameters
    ----------
    tables : mapping of DataFrame
        As for `metrics`, of one replay.
    program : Program
        The one that was replayed.

    Returns
    -------
    polars.DataFrame
        Columns source (Enum: recorded, replayed), operation (Int64), thread (Int32), comm (String, the thread's name),
        call (Enum), start_ns, end_ns (Int64, since the start; equal if no duration was recorded). Inserted operations
        are left out.

    Raises
    ------
    ValueError
        If there are several replays.

    Examples
    --------
    >>> recording = androstep.open("datasets/replay/app.strace.xz")
    >>> program = replay.clean(recording.syscalls, recording.tables["tasks"]).program
    >>> tables = replay.read("datasets/replay/ext4_disk/replay-0.rec.xz").tables
    >>> replay.timeline(tables, program).filter(operation=0).select("source", "call", "start_ns", "end_ns").rows()
    [('recorded', 'mkdir', 57111000, 106852000), ('replayed', 'mkdir', 57181732, 57304514)]
    """
    if tables["replay_runs"].height != 1:
        raise ValueError(f"these are {tables['replay_runs'].height} replays: keep one run_id")
    columns = ["operation", "thread", "call", "start_ns"]
    recorded = program.operations.filter(~pl.col("inserted")).select(
        *columns[:3], start_ns="ts_ns", end_ns=pl.col("ts_ns") + pl.col("duration_ns").fill_null(0)
    )
    replayed = (
        tables["replay_ops"]
        .filter(~pl.col("inserted"))
        .select(*columns, end_ns=pl.col("start_ns") + pl.col("latency_ns"))
    )
    source = pl.Enum(["recorded", "replayed"])
    both = pl.concat(
        part.with_columns(source=pl.lit(name, source))
        for name, part in zip(source.categories, (recorded, replayed), strict=True)
    )
    named = both.join(program.threads.select("thread", "comm"), on="thread", how="left", maintain_order="left")
    return named.select("source", "operation", "thread", "comm", "call", "start_ns", "end_ns")
