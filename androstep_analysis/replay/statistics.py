"""Statistics of a recording and of its replay program: Table 3 of the AndroStep paper, for any trace.

Table 3 of Jeong et al., "Framework for Analyzing Android I/O Stack Behavior" (Future Internet 5(4), 2013) has six rows:
the run time, the lines of strace and those that MobiGen made of them, the number of threads, and the megabytes written
and read. Here a line is a system call (which counts once even if strace prints two lines) or an operation of the
program. Bytes are the results of reads and writes on any descriptor. Bytes of sendfile, splice and copy_file_range
count as read and as written.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.measures import syscalls as measures
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.replay.tables import COPIES, READS, WRITES

_NS = 1_000_000_000


def statistics(syscalls: Table, operations: Table | None = None) -> pl.DataFrame:
    """Return run time, lines, threads and bytes of table `syscalls`, and of the table `operations` made from it.

    Parameters
    ----------
    syscalls : Table
        Table `syscalls`.
    operations : Table, optional
        `Program.operations`; by default only statistics of the recording are returned.

    Returns
    -------
    polars.DataFrame
        Columns metric (String: run_time [s], lines, threads [1], written, read [B]), stage (String: recorded, program),
        value (Float64; null if unknown), unit, n (Int64: lines; for written and read, the calls that wrote and read).
        The run time is from the first call to the end of the last one.

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Table 3.

    Examples
    --------
    >>> recording = androstep.open("datasets/replay/app.strace.xz")
    >>> program = replay.clean(recording.syscalls, recording.tables["tasks"]).program
    >>> replay.statistics(recording.syscalls, program.operations).filter(metric="lines").select("stage", "value").rows()
    [('recorded', 1697.0), ('program', 841.0)]
    """
    stages = [_stage("recorded", _recorded(lazy(syscalls, ("syscalls",))))]
    if operations is not None:
        stages.append(_stage("program", _program(lazy(operations, ("operations",)))))
    return pl.concat(stages)


def _recorded(syscalls: pl.LazyFrame) -> pl.LazyFrame:
    """Return the columns for `_stage` from table `syscalls`."""
    copies = pl.col("call").is_in((*COPIES, "sendfile64"))
    return syscalls.filter(pl.col("state") != "resumed").select(
        *("ts_ns", "duration_ns"),
        thread=pl.col("tid"),
        failed=measures.FAILED,
        written=pl.when(pl.col("call").is_in(measures.WRITES) | copies).then(measures.MOVED),
        read=pl.when(pl.col("call").is_in(measures.READS) | copies).then(measures.MOVED),
    )


def _program(operations: pl.LazyFrame) -> pl.LazyFrame:
    """Return the columns for `_stage` from table `operations`."""
    call = pl.col("call").cast(pl.String)
    failed = pl.col("failed").fill_null(False)
    moved = pl.coalesce("result", pl.when(failed.not_()).then("bytes")).clip(lower_bound=0)
    copies = call.is_in(COPIES)
    return operations.select(
        *("ts_ns", "duration_ns", "thread"),
        failed=failed,
        written=pl.when(call.is_in(WRITES) | (copies & pl.col("descriptor2").is_not_null())).then(moved),
        read=pl.when(call.is_in(READS) | (copies & pl.col("descriptor").is_not_null())).then(moved),
    )


def _stage(stage: str, lines: pl.LazyFrame) -> pl.DataFrame:
    end = (pl.col("ts_ns") + pl.col("duration_ns").fill_null(0)).max()
    measured = lines.select(
        run_time=(end - pl.col("ts_ns").min()) / _NS,
        lines=pl.len(),
        threads=pl.col("thread").n_unique(),
        written=pl.col("written").sum(),
        read=pl.col("read").sum(),
        writes=(pl.col("written").is_not_null() & pl.col("failed").not_()).sum(),
        reads=(pl.col("read").is_not_null() & pl.col("failed").not_()).sum(),
    ).collect()
    values = measured.row(0, named=True)
    units = {"run_time": "s", "lines": "1", "threads": "1", "written": "B", "read": "B"}
    counts = {"written": values["writes"], "read": values["reads"]}
    return pl.DataFrame(
        {
            "metric": list(units),
            "stage": stage,
            "value": [values[name] for name in units],
            "unit": list(units.values()),
            "n": [counts.get(name, values["lines"]) for name in units],
        },
        {"metric": pl.String, "stage": pl.String, "value": pl.Float64, "unit": pl.String, "n": pl.Int64},
        strict=False,
    )
