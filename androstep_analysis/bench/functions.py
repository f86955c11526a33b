"""The functions of a benchmark that its results prove."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl


def functions(tables: Mapping[str, pl.DataFrame], tool: str) -> list[str]:
    """Return the functions of a benchmark that its results prove, by the names of Mobibench's papers.

    Parameters
    ----------
    tables : mapping of DataFrame
        Tables bench_runs and bench.
    tool : str
        The benchmark, such as iobench or fio (column tool).

    Returns
    -------
    list of str
        Functions of the papers' Table 1, in its order.

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Table 1; AndroStep (Jeong et al., ME 2013), Table 1.

    Examples
    --------
    >>> bench.functions(bench.read("datasets/bench/ext4_disk/modes.rec.xz").tables, "iobench")[:2]
    ['sequential write', 'random write']
    """
    runs = tables["bench_runs"].filter("valid", tool=tool)
    rows = tables["bench"].join(runs, on="run_id", how="semi")
    tests, modes = set(runs["test"]), set(runs["sync_mode"].drop_nulls())
    has_sqlite = "sqlite" in set(runs["workload"])
    proven = {
        "sequential write": "seq_write" in tests,
        "sequential read": "seq_read" in tests,
        "random read": "rand_read" in tests,
        "random write": "rand_write" in tests,
        "write() + fsync()": "fsync" in modes,
        "multi-thread": (runs["threads"] > 1).any(),
        "SQLite operation": has_sqlite,
        "throughput": (rows["ops"] > 0).any(),
        "CPU utilization": runs["cpu_active_ns"].is_not_null().any(),
        "number of context switches": rows["ctx_voluntary"].is_not_null().any(),
        "environment: shell": not runs.is_empty(),
        "separate file I/O operation": "file" in set(runs["workload"]),
        "separate SQLite operation": has_sqlite,
        "file sync mode": len(modes) > 1,
        "SQLite journal mode": runs["journal_mode"].drop_nulls().n_unique() > 1,
    }
    return [function for function, is_proven in proven.items() if is_proven]
