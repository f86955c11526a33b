"""Triggers: data that is written again soon, or deleted without being read."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.link.evidence import inodes
from androstep_analysis.present.advice.evidence import Evidence, owners, span
from androstep_analysis.present.advice.findings import findings

_BLOCK_SECTORS, _BLOCK_BYTES = 8, 4096
_LARGE_BYTES = 1 << 20
"""Larger pieces are not blocks that are rewritten often, and splitting them into blocks would cost memory."""


def rewrites(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find files whose 4 KiB blocks are rewritten within a short time.

    A piece is split into blocks from its begin; a shorter rest is ignored. Filesystem metadata and SQLite logs are
    rewritten by design, so blocks that are not known to be file data are left out.
    """
    file = [*inodes.FILE, "path"]
    is_data = (pl.col("block_type").cast(pl.String) == "data") & pl.col("ino").is_not_null()
    written = evidence.pieces("write").filter(pl.col("bytes").is_between(1, _LARGE_BYTES), is_data, ~is_log())
    end = pl.col("sector") + pl.col("nr_sectors") - _BLOCK_SECTORS + 1
    blocks = written.drop_nulls(["sector", "time"]).select(
        *("request_id", *inodes.FILE, "path", "owner_comm", "owner_package", "time", "took_ns"),
        block=pl.int_ranges("sector", end, _BLOCK_SECTORS),
    )
    soon = pl.col("time") - pl.col("time").shift().over("block", *inodes.FILE) <= limits["within"] * 1e9
    again = blocks.explode("block").drop_nulls("block").sort("time").with_columns(again=soon.fill_null(False)).collect()
    whole = again.group_by(file).agg(whole=pl.len())
    rows = again.filter("again").group_by(file).agg(
        **owners(),
        **span(),
        times=pl.len(),
        requests=pl.col("request_id").n_unique(),
        took_ns=pl.col("took_ns").filter(pl.col("request_id").is_first_distinct()).sum(),
    )  # fmt: skip
    rows = rows.join(whole, on=file, nulls_equal=True).filter(
        pl.col("times") >= limits["times"], pl.col("times") >= limits["ratio"] * pl.col("whole")
    )
    size = pl.col("times") * _BLOCK_BYTES
    return findings(rows.with_columns(bytes=size, saved_bytes=size))


def is_log() -> pl.Expr:
    """Return whether a path is that of a log or shared memory of SQLite."""
    return pl.col("path").str.contains(r"-(?:journal|wal|shm)$").fill_null(False)


def temporary(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find processes whose files were written to the device and deleted without being read from it.

    The path is a directory.

    SQLite deletes its journals by design (`sqlite.rollback`). A file without a name may be one and is left out.
    """
    files = evidence.tables["files"].drop_nulls(["deleted_ns", "path"]).filter(~is_log())
    begin = pl.coalesce("created_ns", "valid_from_ns").fill_null(-(1 << 62))
    known = files.select("ino", "incarnation", "deleted_ns", part_dev="dev", file="path", begin=begin)
    used = evidence.pieces("read", "write").filter(pl.col("block_type").cast(pl.String) == "data")
    life = ("part_dev", "ino", "incarnation")
    near = used.join(known, on=life).filter(pl.col("time").is_between("begin", "deleted_ns"))
    unread = near.filter(~(pl.col("op") == "read").any().over(life))
    directory = pl.col("file").str.replace(r"/[^/]*$", "/")
    rows = unread.group_by("owner_comm", "owner_package").agg(
        begin_ns=pl.col("time").min(),
        end_ns=pl.col("deleted_ns").max(),
        path=directory.sort_by(pl.col("bytes").sum().over(directory), directory).last(),
        times=pl.struct(life).n_unique(),
        requests=pl.col("request_id").n_unique(),
        bytes=pl.col("bytes").sum(),
        took_ns=pl.col("took_ns").filter(pl.col("request_id").is_first_distinct()).sum(),
    )
    rows = rows.filter(pl.col("bytes") >= limits["bytes"]).rename({"owner_comm": "process", "owner_package": "package"})
    return findings(rows.with_columns(saved_bytes="bytes", saved_requests="requests").collect())
