"""Shared code of the notebooks of the two AndroStep papers, whose figures are of the same kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from papers import Paper, Stated, compared

from androstep_analysis import bench

PLACES = {
    "ext4_disk": "ext4, disk",
    "xfs_disk": "xfs, disk",
    "btrfs_disk": "btrfs, disk",
    "f2fs_guest": "F2FS, emulated guest",
    "ext4_memory": "ext4, memory",
}
"""Labels of the places of datasets/bench in figures."""

PEERS = ("tool", "test", "sync_mode")


def by_place(files: Sequence[Path], by: Sequence[str]) -> pl.DataFrame:
    """Return medians for each place of datasets/bench, labelled in column `place`."""
    order = list(PLACES)
    return pl.concat(
        bench.summarise(bench.read(path).tables, by=by).with_columns(place=pl.lit(PLACES[path.parent.name]))
        for path in sorted(files, key=lambda path: order.index(path.parent.name))
    )


def over_fio(peers: dict[str, pl.DataFrame], test: str, mode: str, published: tuple[float, float]) -> Stated:
    """Return the rate of iobench relative to that of fio, with the paper's of Mobibench relative to IOzone."""
    kind, way = test.split("_")
    label = f"{ {'seq': 'sequential', 'rand': 'random'}[kind] } {'synchronous' if mode == 'osync' else mode} {way}"
    fio, ours = ({"tool": tool, "test": test, "sync_mode": mode} for tool in ("fio", "iobench"))
    return compared(f"{label}: iobench / fio", published, peers, fio, ours)


def peak(table: pl.DataFrame) -> tuple[int, float]:
    """Return the number of threads with the highest rate, and this rate relative to that of one thread."""
    best = table.filter(pl.col("value") == pl.col("value").max()).row(0, named=True)
    return best["threads"], best["value"] / table.filter(threads=1)["value"].item()


# -- tables -----------------------------------------------------------------------------------------------------------


def functions(paper: Paper, own: Sequence[Path], peers: Sequence[Path]) -> pl.DataFrame:
    """Return Table 1: the paper's columns, and for iobench and fio a yes if recorded results prove the function."""
    published = paper.published.filter(item="Table 1").select("condition", "metric", "value", "id")
    rows = published["metric"].unique(maintain_order=True)
    stated = {(row["metric"], row["condition"]): bool(row["value"]) for row in published.iter_rows(named=True)}
    results = bench.read(*own, *peers).tables
    shown = {tool: _shown(results, tool) for tool in ("iobench", "fio")}
    tools = published["condition"].unique(maintain_order=True)
    return pl.DataFrame(
        {
            "function": rows,
            **{tool: [stated[row, tool] for row in rows] for tool in tools},
            **{tool: ["yes" if row in found else None for row in rows] for tool, found in shown.items()},
        }
    )


def _shown(results: dict[str, pl.DataFrame], tool: str) -> set[str]:
    """Return the functions of Table 1 that the results of a tool prove."""
    runs = results["bench_runs"].filter("valid", tool=tool)
    rows = results["bench"].join(runs.select("run_id").unique(), on="run_id", how="semi")
    tests, modes = set(runs["test"]), set(runs["sync_mode"].drop_nulls())
    sqlite = "sqlite" in set(runs["workload"])
    found = {
        "sequential write": "seq_write" in tests,
        "sequential read": "seq_read" in tests,
        "random read": "rand_read" in tests,
        "random write": "rand_write" in tests,
        "write() + fsync()": "fsync" in modes,
        "multi-thread": (runs["threads"] > 1).any(),
        "SQLite operation": sqlite,
        "throughput": (rows["ops"] > 0).any(),
        "CPU utilization": runs["cpu_active_ns"].is_not_null().any(),
        "number of context switches": rows["ctx_voluntary"].is_not_null().any(),
        "environment: shell": not runs.is_empty(),
        "separate file I/O operation": "file" in set(runs["workload"]),
        "separate SQLite operation": sqlite,
        "file sync mode": len(modes) > 1,
        "SQLite journal mode": runs["journal_mode"].drop_nulls().n_unique() > 1,
    }
    return {function for function, shown in found.items() if shown}


def output_of_most(io: pl.LazyFrame) -> pl.DataFrame:
    """Return Table 2: MOST's fields, our columns for them, and an example of a write to a write-ahead log."""
    fields = {
        "1 I/O completion time": ("complete_ns",),
        "2 flags for read and write": ("op", "sync"),
        "3 sector address and I/O size": ("sector", "nr_sectors"),
        "4 process id and process name": ("owner_pid", "owner_comm"),
        "5 block type": ("block_type",),
        "6 file name in case of data": ("path",),
    }
    wal = io.filter(pl.col("path").str.ends_with("-wal"), pl.col("op") == "write", pl.col("complete_ns").is_not_null())
    one = wal.sort("issue_ns", "request_id", "piece").first().collect().row(0, named=True)
    return pl.DataFrame(
        [
            {
                "MOST": field,
                "table io": ", ".join(columns),
                "for example": ", ".join(_word(one[name]) for name in columns),
            }
            for field, columns in fields.items()
        ]
    )


def _word(value: object) -> str:
    return "–" if value is None else str(value)
