"""What is written to be written again, or to be deleted."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.advice.evidence import Evidence, owners, span
from androstep_analysis.advice.findings import findings

_BLOCK_SECTORS, _BLOCK_BYTES = 8, 4096
_LARGE_BYTES = 1 << 20
"""Larger pieces are no blocks that are written again and again; cutting them would cost memory."""


def rewrites(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Files, or devices where no file is known, of which blocks of 4 KiB are written again soon.

    The filesystem's journal is left out: it goes round.
    """
    kind = pl.col("block_type").cast(pl.String).fill_null("unknown")
    written = evidence.pieces("write").filter(pl.col("bytes").is_between(1, _LARGE_BYTES), kind != "journal")
    first = pl.col("sector") // _BLOCK_SECTORS
    last = (pl.col("sector") + pl.col("nr_sectors") - 1) // _BLOCK_SECTORS
    blocks = written.drop_nulls(["sector", "time"]).select(
        *("request_id", "dev", "ino", "path", "owner_comm", "owner_package", "time", "took_ns"),
        kind=kind,
        block=pl.int_ranges(first, last + 1),
    )
    soon = pl.col("time") - pl.col("time").shift().over("dev", "block", "ino") <= limits["within"] * 1e9
    again = blocks.explode("block").sort("time").with_columns(again=soon.fill_null(False)).collect()
    whole = again.group_by("dev", "path", "kind").agg(whole=pl.len())
    rows = again.filter("again").group_by("dev", "path", "kind").agg(
        **owners(),
        **span(),
        times=pl.len(),
        requests=pl.col("request_id").n_unique(),
        took_ns=pl.col("took_ns").filter(pl.col("request_id").is_first_distinct()).sum(),
    )  # fmt: skip
    rows = rows.join(whole, on=["dev", "path", "kind"], nulls_equal=True).filter(
        pl.col("times") >= limits["times"], pl.col("times") >= limits["ratio"] * pl.col("whole")
    )
    size = pl.col("times") * _BLOCK_BYTES
    return findings(rows.with_columns(bytes=size, saved_bytes=size))


def temporary(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Directories with files that reached the device, were not read from it and were deleted.

    SQLite deletes its journals by design (`sqlite.rollback`).
    """
    files = evidence.tables["files"].drop_nulls(["path", "deleted_ns"]).filter(
        ~pl.col("path").str.contains(r"-(?:journal|wal|shm)$")
    )  # fmt: skip
    known = files.select("dev", "ino", "deleted_ns", "valid_from_ns", "created_ns", file="path", life="incarnation")
    used = evidence.pieces("read", "write").filter(pl.col("block_type").cast(pl.String) == "data").drop("path")
    near = used.join(known.rename({"dev": "part_dev"}), on=["part_dev", "ino"])
    begin = pl.coalesce("created_ns", "valid_from_ns").fill_null(-(1 << 62))
    near = near.filter(pl.col("time") >= begin, pl.col("time") <= pl.col("deleted_ns"))
    unread = near.filter(~(pl.col("op") == "read").any().over("part_dev", "ino", "life"))
    rows = unread.group_by(path=pl.col("file").str.replace(r"/[^/]*$", "/")).agg(
        **owners(),
        **span(),
        times=pl.struct("part_dev", "ino", "life").n_unique(),
        requests=pl.col("request_id").n_unique(),
        bytes=pl.col("bytes").sum(),
        took_ns=pl.col("took_ns").filter(pl.col("request_id").is_first_distinct()).sum(),
    )
    rows = rows.filter(pl.col("bytes") >= limits["bytes"])
    return findings(rows.with_columns(saved_bytes="bytes", saved_requests="requests").collect())
