"""Owner and file of requests, from the pieces of table `io`, with their certainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_FILE: Final = ("block_type", "ino", "incarnation", "path", "is_inferred_file")
_OWNER: Final = ("owner_pid", "owner_comm", "owner_package", "owner_via")
_PIECE: Final = ("request_id", "piece", "dev", "ino", "incarnation", "path", "block_type", "bytes", "map_source")
_SUBMITTER: Final = ("submit_tid", "submit_pid", "submit_comm")


def pieces(capture: Capture, request_ids: pl.Series) -> pl.DataFrame:
    """Return the pieces of these requests with their process (`processes`), those of a request by size and location."""
    wanted = request_ids.implode()
    # Whoever frees memory submits the writes of swap: their owner, whose memory it is, is unknown.
    is_swapped_out = (pl.col("swap") & (pl.col("op") == "write")).fill_null(False)
    submitter = [pl.when(~is_swapped_out).then(name).alias(name) for name in _SUBMITTER]
    of_requests = capture.requests.filter(pl.col("request_id").is_in(wanted)).select("request_id", *submitter)
    rows = capture.io.filter(pl.col("request_id").is_in(wanted)).select(*_PIECE, *_OWNER)
    named = rows.join(of_requests, on="request_id", how="left").with_columns(processes())
    return named.sort("request_id", "bytes", "piece", descending=[False, True, False]).collect()


def processes() -> list[pl.Expr]:
    """Return pid, comm, package, role and process_certainty of a piece: of its owner, else of its submitter."""
    owner = [pl.col(name).is_not_null() for name in _OWNER[:3]]
    # The filesystem's own thread moves data of other processes: it is no owner.
    has_owner = ~pl.col("owner_via").is_in(["unknown", "filesystem"]) & pl.any_horizontal(owner)
    has_submitter = pl.any_horizontal(pl.col(name).is_not_null() for name in _SUBMITTER)
    is_inferred = pl.col("owner_via") == "inferred"
    return [
        pl.when(has_owner).then("owner_pid").otherwise("submit_pid").alias("pid"),
        pl.when(has_owner).then("owner_comm").otherwise("submit_comm").alias("comm"),
        pl.when(has_owner).then("owner_package").alias("package"),
        pl.when(has_owner).then(pl.lit("owner")).when(has_submitter).then(pl.lit("submitter")).alias("role"),
        pl.when(has_owner & is_inferred)
        .then(pl.lit("inferred"))
        .when(has_owner | has_submitter)
        .then(pl.lit("fact"))
        .otherwise(pl.lit("unknown"))
        .alias("process_certainty"),
    ]


def of_requests(capture: Capture, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the requests `rows` with sector, flags, process and file.

    Process and file are those of most of their bytes.
    """
    wanted = rows["request_id"].implode()
    recorded = capture.requests.filter(pl.col("request_id").is_in(wanted))
    own = recorded.select("request_id", "sector", "nr_sectors", "rwbs", "insert_ns", "error").collect()
    parts = pieces(capture, rows["request_id"])
    owners = _most(parts, ("pid", "comm", "package", "role", "process_certainty"))
    files = _most(parts.with_columns(is_inferred_file=pl.col("map_source") == "inferred"), _FILE)
    is_file = pl.col("ino").is_not_null() | pl.col("path").is_not_null()
    number = parts.group_by("request_id").agg(
        files=pl.struct("ino", "incarnation", "path").filter(is_file).n_unique().cast(pl.Int32)
    )
    found = rows
    for table in (own, owners, files, number):
        found = found.join(table, on="request_id", how="left", maintain_order="left")
    certainty = pl.when(~is_file).then(pl.lit("unknown")).when("is_inferred_file").then(pl.lit("inferred"))
    return found.with_columns(
        bytes=pl.col("nr_sectors") * 512,
        tid=pl.col("submit_tid"),
        block_type=pl.col("block_type").cast(pl.String),
        file_certainty=certainty.otherwise(pl.lit("fact")),
        process_certainty=pl.col("process_certainty").fill_null("unknown"),
    )


def _most(parts: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return the values of these columns that cover most bytes of each request."""
    sums = parts.group_by("request_id", *columns, maintain_order=True).agg(pl.col("bytes").sum())
    ranked = sums.sort("bytes", descending=True, maintain_order=True)
    return ranked.unique("request_id", keep="first", maintain_order=True).drop("bytes")
