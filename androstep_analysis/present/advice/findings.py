"""The columns of findings, and helpers that build them."""

from __future__ import annotations

from typing import Final

import polars as pl

from androstep_analysis import measures
from androstep_analysis.measures.tables import is_inferred

FINDING: Final = {
    **dict.fromkeys(("process", "package", "path"), pl.String),
    **dict.fromkeys(("begin_ns", "end_ns", "times", "requests", "bytes", "took_ns"), pl.Int64),
    "value": pl.Float64,
    **dict.fromkeys(("saved_times", "saved_requests", "saved_bytes"), pl.Int64),
}
"""Columns of a finding: process and file, period, occurrences, cost (requests, their bytes and time), a figure
specific to the trigger, and what a fix would avoid. Unknown values are null."""

_NOT_OF_AN_APP: Final = (
    r"^(?:/data)?/app/(?:~~[^/]+/)?(?:[\w.]+-[^/]+|vmdl\d+\.tmp)/|^(?:/data)?/(?:app-lib|system|misc|vendor)/"
    r"|^/(?:system|system_ext|vendor|product|odm|apex|usr|lib(?:64)?|bin|sbin|etc)/"
    r"|/dalvik-cache/|\.(?:apk|apex|odex|vdex|oat|art)$"
)
"""Paths of the system, and of installed packages. The developer of an app cannot change how these are used."""

CERTAINTY: Final = ("who_inferred", "file_inferred")
"""The inferred shares of a finding's process (or package), and of its file."""


def findings(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with exactly the columns `FINDING`. Missing columns are null."""
    lacking = [pl.lit(None, dtype).alias(name) for name, dtype in FINDING.items() if name not in rows.columns]
    return rows.with_columns(lacking).select(pl.col(name).cast(dtype) for name, dtype in FINDING.items())


def of_apps(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the findings with a measured cost, without those on files of the system or of packages."""
    has_cost = pl.any_horizontal(pl.col(name).fill_null(0) > 0 for name in ("took_ns", "requests", "bytes"))
    return rows.filter(has_cost, ~pl.col("path").str.contains(_NOT_OF_AN_APP).fill_null(False))


def with_cost(rows: pl.DataFrame, pieces: pl.DataFrame, on: str = "path") -> pl.DataFrame:
    """Add the cost of each row: requests, bytes and took_ns of the pieces with the same `on` in its time.

    Rows have `on`, begin_ns and end_ns; pieces have `on`, time, request_id, bytes and took_ns. The time of each request
    counts once.
    """
    keyed = rows.with_row_index("finding")
    near = keyed.select("finding", on, "begin_ns", "end_ns").join(pieces, on=on, nulls_equal=True)
    near = near.filter(pl.col("time").is_between(pl.col("begin_ns"), pl.col("end_ns")))
    of_requests = near.group_by("finding", "request_id").agg(pl.col("bytes").sum(), pl.col("took_ns").first())
    cost = of_requests.group_by("finding").agg(requests=pl.len(), bytes=pl.sum("bytes"), took_ns=pl.sum("took_ns"))
    kept = keyed.drop("requests", "bytes", "took_ns", strict=False)
    return kept.join(cost, on="finding", how="left", maintain_order="left").drop("finding")


def with_certainty(rows: pl.DataFrame, io: pl.LazyFrame) -> pl.DataFrame:
    """Add the columns `CERTAINTY` to findings (`FINDING`).

    They are shares of the bytes of table `io` from begin_ns to end_ns. who_inferred is the share with an inferred owner
    among the bytes of this file (or directory) and process. file_inferred is the share with an inferred file among the
    bytes of this file. Both are null if there are no such bytes.
    """
    columns = io.collect_schema().names()
    keyed = rows.select("path", "process", "begin_ns", "end_ns").with_row_index("finding")
    pieces = measures.counted(io).filter(
        pl.col("bytes") > 0,
        pl.col("path").is_not_null() | pl.col("owner_comm").is_in(rows["process"].drop_nulls().unique().implode()),
    )
    pieces = pieces.select(
        "path", "bytes", "owner_comm", time=pl.coalesce("queue_ns", "issue_ns", "complete_ns"),
        who=is_inferred(["owner_comm"], columns), file=is_inferred(["path"], columns),
    )  # fmt: skip
    directory = pl.col("path").str.replace(r"/[^/]*$", "/")
    names = keyed["path"].drop_nulls().unique().implode()
    of_files = pl.concat([pieces, pieces.with_columns(path=directory)]).filter(pl.col("path").is_in(names))
    of_processes = pieces.drop("path").rename({"owner_comm": "process"})
    is_then = pl.col("time") >= pl.col("begin_ns").fill_null(pl.Int64.min())
    is_then &= pl.col("time") <= pl.col("end_ns").fill_null(pl.Int64.max())
    near = pl.concat(
        [
            keyed.lazy().drop_nulls("path").join(of_files, on="path").filter(is_then),
            keyed.lazy().filter(pl.col("path").is_null()).join(of_processes, on="process").filter(is_then),
        ],
        how="diagonal",
    )
    is_own = (pl.col("owner_comm") == pl.col("process")).fill_null(pl.col("path").is_null())
    size = pl.col("bytes")
    shares = near.group_by("finding").agg(
        who_inferred=size.filter(is_own & pl.col("who")).sum() / size.filter(is_own).sum(),
        file_inferred=size.filter("file").sum() / size.sum(),
    )
    found = keyed.select("finding").join(shares.collect(), on="finding", how="left", maintain_order="left")
    return rows.with_columns(found.select(pl.col(CERTAINTY).fill_nan(None)).get_columns())
