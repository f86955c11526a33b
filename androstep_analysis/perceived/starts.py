"""Starts of apps: time to the first frame, wait for storage in it, and files read (definitions.toml, starts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.tables import Table, columns_as_rows, counted, lazy
from androstep_analysis.perceived import spans
from androstep_analysis.perceived.transitions import presented

SOURCES: Final = pl.Enum(["frames", "am"])

_COMM_CHARACTERS: Final = 15

_LATEST_NS: Final = 60 * 10**9
"""A first frame is expected within this time."""

_UNITS: Final = {"first_frame": "ns", "storage_wait": "ns", "storage_wait_ratio": "1", "read": "B"}


def starts(tables: Mapping[str, Table]) -> pl.DataFrame:
    """Return the completed starts of apps, a row each, in order of time.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `steps`, `tasks`, `frames`, `blocked` and `requests` of one capture (`Capture.tables`).

    Returns
    -------
    polars.DataFrame
        Columns app (String), repeat (Int32), pid (Int32; null: not found in `tasks`), start_ns and end_ns (Int64:
        request and first frame), source (Enum: frames, the frame timeline; am, the time that Android reported),
        error_ns (Int64, of start_ns), first_frame (Int64, ns), storage_wait (Int64, ns; null without table `blocked`
        or process), storage_wait_ratio (Float64), read (Int64, bytes of the read requests that were issued between
        the two times) and detail (String: why the start was not cold).

    References
    ----------
    ``schemas/definitions.toml``, starts; Android, ActivityMetricsLogger and FrameTimeline.

    Examples
    --------
    >>> steps = pl.DataFrame(schema=androstep.schema.table("steps").polars)
    >>> perceived.starts(capture.tables | {"steps": steps}).is_empty()
    True
    """
    steps = lazy(tables["steps"], ("steps",)).filter(pl.col("what") == "start", pl.col("outcome") == "completed")
    rows = steps.sort("ts_ns", "number").collect()
    rows = _with_processes(rows, lazy(tables["tasks"], ("tasks",)).collect())
    latest = pl.min_horizontal(pl.col("end_ns") - pl.col("wait_duration_ns"), "created_ns")
    rows = rows.with_columns(start_ns=pl.max_horizontal("ts_ns", latest))
    shown = pl.Series("frame_ns", _first_frames(rows, lazy(tables["frames"], ("frames",)).collect()), pl.Int64)
    by_am = pl.col("start_ns") + pl.col("shown_duration_ns")
    timed = (
        rows.with_columns(shown)
        .with_columns(
            end_ns=pl.coalesce("frame_ns", by_am),
            source=pl.when(pl.col("frame_ns").is_not_null())
            .then(pl.lit("frames"))
            .otherwise(pl.lit("am"))
            .cast(SOURCES),
        )
        .filter(pl.col("end_ns").is_not_null())
    )
    begins, ends = timed["start_ns"].to_numpy(), timed["end_ns"].to_numpy()
    requests = counted(tables["requests"]).collect()
    waits = _storage_waits(timed, lazy(tables["blocked"], ("blocked",)).collect(), requests)
    reads = requests.filter(pl.col("op") == "read", pl.col("issue_ns").is_not_null()).sort("issue_ns")
    moved = np.concatenate([[0], np.cumsum(reads["nr_sectors"].to_numpy() * SECTOR_BYTES)])
    issued = reads["issue_ns"].to_numpy()
    read = moved[np.searchsorted(issued, ends)] - moved[np.searchsorted(issued, begins)]
    first_frame = pl.col("end_ns") - pl.col("start_ns")
    return timed.select(
        *(pl.col("label").alias("app"), "repeat", "pid", "start_ns", "end_ns", "source", "error_ns"),
        first_frame=first_frame,
        storage_wait=pl.Series(waits, dtype=pl.Int64),
        storage_wait_ratio=pl.when(first_frame > 0).then(pl.Series(waits, dtype=pl.Int64) / first_frame),
        read=pl.Series(read, dtype=pl.Int64),
        detail="detail",
    )


def _with_processes(steps: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Add the process of each started app, pid, and the time of its creation, created_ns; null if not found.

    It is the last process of its name that was created or renamed in the step. The name of a process of Android is that
    of its package. The kernel keeps the last 15 characters (frameworks/base,
    core/jni/com_android_internal_os_Zygote.cpp, SetThreadName).
    """
    mains = tasks.filter(pl.col("tid") == pl.col("pid"), pl.col("valid_from_ns").is_not_null()).sort("valid_from_ns")
    found: list[tuple[int | None, int | None]] = []
    for app, begin_ns, end_ns, error_ns in steps.select("label", "ts_ns", "end_ns", "error_ns").iter_rows():
        package = app.partition("/")[0]
        of_name = (pl.col("cmdline") == package) | (pl.col("comm") == package[-_COMM_CHARACTERS:])
        is_new = pl.col("valid_from_ns").is_between(begin_ns - error_ns, end_ns + error_ns)
        new = mains.filter(is_new)
        pids = new.filter(of_name.fill_null(False))["pid"].to_list()
        # The process had another name when it was created.
        found.append((pids[-1], new.filter(pid=pids[-1])["valid_from_ns"].to_list()[0]) if pids else (None, None))
    columns = pl.DataFrame(found, schema={"pid": pl.Int32, "created_ns": pl.Int64}, orient="row")
    return pl.concat([steps, columns], how="horizontal")


def _first_frames(steps: pl.DataFrame, frames: pl.DataFrame) -> list[int | None]:
    """Return when the first frame of each started process was presented; None without frames."""
    found: list[int | None] = []
    for pid, start_ns in steps.select("pid", "start_ns").iter_rows():
        shown = None
        if pid is not None:
            views = presented(frames, until_ns=start_ns + _LATEST_NS, pids=[pid])
            shown = views.filter(pl.col("from_lo_ns") > start_ns)["from_lo_ns"].min()
        found.append(shown if isinstance(shown, int) else None)
    return found


def _storage_waits(starts: pl.DataFrame, blocked: pl.DataFrame, requests: pl.DataFrame) -> list[int | None]:
    """Return how long the main thread of each start slept uninterruptibly while a request was in flight [ns]."""
    if blocked.is_empty():
        return [None] * starts.height
    flights = requests.select(begin=pl.coalesce("queue_ns", "issue_ns"), end="complete_ns").drop_nulls()
    flights = flights.filter(pl.col("end") >= pl.col("begin"))
    found: list[int | None] = []
    for pid, start_ns, end_ns in starts.select("pid", "start_ns", "end_ns").iter_rows():
        own = blocked.filter(pl.col("tid") == pid, pl.col("is_io").fill_null(True))
        parts = (own.select(begin="ts_ns", end="end_ns"), flights)
        # |A ∩ B| = |A| + |B| - |A ∪ B|
        lengths = [_covered(one, start_ns, end_ns) for one in (*parts, pl.concat(parts))]
        found.append(None if pid is None else lengths[0] + lengths[1] - lengths[2])
    return found


def _covered(rows: pl.DataFrame, start_ns: int, end_ns: int) -> int:
    window = np.array([start_ns]), np.array([end_ns])
    return int(spans.covered(rows["begin"].to_numpy(), rows["end"].to_numpy(), *window)[0])


def read_files(io: Table, starts: pl.DataFrame) -> pl.DataFrame:
    """Return the files that were read from storage between request and first frame, by any process.

    Parameters
    ----------
    io : Table
        Table `io`: path, block_type, bytes, op, issue_ns, complete_ns, map_source.
    starts : polars.DataFrame
        The result of `starts`.

    Returns
    -------
    polars.DataFrame
        Columns path (String; null: no file or unknown), block_type (Enum), bytes, lowest and highest (Int64: median,
        smallest and largest number of bytes in a start), starts (Int64: starts with such reads) and inferred (Float64:
        share of the bytes with an inferred path), the most bytes first.

    References
    ----------
    ``schemas/definitions.toml``, starts.

    Examples
    --------
    >>> windows = pl.DataFrame({"start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> perceived.read_files(capture.io, windows)["bytes"].sum() > 0
    True
    """
    windows = starts.select("start_ns", "end_ns").with_row_index("start").lazy()
    reads = counted(io).filter(pl.col("op") == "read", pl.col("issue_ns").is_not_null()).sort("issue_ns")
    within = (
        reads.join_asof(windows.sort("start_ns"), left_on="issue_ns", right_on="start_ns")
        .filter(pl.col("issue_ns") < pl.col("end_ns"))
        .collect()
    )
    by = ["path", "block_type"]
    in_start = within.group_by("start", *by).agg(pl.col("bytes").sum())
    # A start without reads of the file has 0 bytes of it.
    every = in_start.select(by).unique().join(windows.select("start").collect(), how="cross")
    full = every.join(in_start, on=["start", *by], how="left", nulls_equal=True).with_columns(
        pl.col("bytes").fill_null(0)
    )
    table = full.group_by(by).agg(
        bytes=pl.col("bytes").median().round().cast(pl.Int64),
        lowest=pl.col("bytes").min(),
        highest=pl.col("bytes").max(),
        starts=(pl.col("bytes") > 0).sum().cast(pl.Int64),
        total=pl.col("bytes").sum(),
    )
    certain = with_inferred(table.select(by), within)["inferred"]
    return (
        table.with_columns(certain)
        .sort("total", *by, descending=[True, False, False], nulls_last=True)
        .select(*by, "bytes", "lowest", "highest", "starts", "inferred")
    )


def _measured(tables: Mapping[str, Table], _: Sequence[str]) -> pl.DataFrame:
    """Return the starts as a result of a measure: a repetition for each start of an app."""
    rows = starts(tables)
    kinds = ["app", "source"]
    numbered = rows.with_columns(
        repeat=pl.int_range(pl.len(), dtype=pl.Int64).over(*kinds),
        n=pl.lit(1, pl.Int64),
        coverage=pl.lit(None, pl.Float64),
    )
    return columns_as_rows(numbered, [*kinds, "repeat"], _UNITS)


STARTS: Final = Measure(
    "cold starts: time to the first frame, wait for storage, bytes read",
    ("steps", "tasks", "frames", "blocked", "requests"),
    _measured,
    own=("app", "source"),
    has_repetitions=True,
    applied=Applied.RESULT,
    worse="higher",
)
