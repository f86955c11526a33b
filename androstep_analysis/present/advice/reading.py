"""Triggers: small reads that read-ahead does not merge."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.present.advice.evidence import Evidence, owners, span
from androstep_analysis.present.advice.findings import findings
from androstep_analysis.present.advice.rewriting import is_log

_READ_AHEAD_BYTES = 131072
"""Linux's VM_READAHEAD_PAGES."""
_PAGE_BYTES = 4096
_CODE = r"\.(?:so|apk|dex|odex|vdex|oat|art|jar|ttf|pak)$"
_CODE_TYPES = ("executable", "package", "resource")


def pieces(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find files that are read sequentially in small requests. SQLite always reads its logs in pages."""
    return _small(evidence, limits, limits["bytes"], pl.col("goes_on"), ~is_log())


def pages(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find code and resource files of which single pages are read out of order."""
    is_code = pl.col("file_type").cast(pl.String).is_in(_CODE_TYPES) | pl.col("path").str.contains(_CODE)
    page = evidence.page_bytes or _PAGE_BYTES
    return _small(evidence, limits, page, ~pl.col("goes_on"), is_code.fill_null(False))


def _small(
    evidence: Evidence, limits: Mapping[str, float], most_bytes: float, in_order: pl.Expr, of_files: pl.Expr
) -> pl.DataFrame:
    """Return the findings for reads of at most `most_bytes`.

    A read continues (goes_on) if it begins where the previous read of the file ended.
    """
    reads = (
        evidence.pieces("read")
        .filter(of_files, pl.col("block_type").cast(pl.String) == "data")
        .drop_nulls(["path", "file_offset_bytes", "time"])
        .group_by("request_id", "path")
        .agg(
            pl.col("time", "took_ns", "owner_comm", "owner_package").first(),
            begin=pl.col("file_offset_bytes").min(),
            bytes=pl.col("bytes").sum(),
        )
        .sort("time", "begin")
    )
    end = (pl.col("begin") + pl.col("bytes")).shift().over("path")
    is_small = in_order & (pl.col("bytes") <= most_bytes)
    known = reads.with_columns(goes_on=(pl.col("begin") == end).fill_null(False))
    small = known.with_columns(whole=pl.len().over("path")).filter(is_small)
    rows = small.group_by("path").agg(
        **owners(),
        **span(),
        times=pl.len(),
        requests=pl.len(),
        bytes=pl.col("bytes").sum(),
        took_ns=pl.col("took_ns").sum(),
        whole=pl.col("whole").first(),
    )
    rows = rows.filter(pl.col("times") >= limits["times"], pl.col("times") >= limits["ratio"] * pl.col("whole"))
    larger = (pl.col("bytes") / _READ_AHEAD_BYTES).ceil().cast(pl.Int64)
    return findings(rows.with_columns(saved_requests=pl.col("times") - larger).collect())
