"""Results of PostMark as its own program prints them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.common.units import NS_PER_S


def postmark(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the times and rates of iobench's postmark as PostMark prints them.

    Parameters
    ----------
    tables : mapping of DataFrame
        Table bench with one run of postmark.

    Returns
    -------
    polars.DataFrame
        One row: total_s, transactions_s, transactions_per_s, read_mb_per_s, written_mb_per_s (Float64). The total
        includes creating and removing the files. Bytes are those of all files, divided by the total.

    References
    ----------
    Dumitru, Optimizing Storage Performance on Android, EasyCo, slides, 2012, slides 6 and 13.

    Examples
    --------
    >>> results = bench.read("datasets/whatif/postmark_disk/sync.rec.xz").tables
    >>> bench.postmark(results).columns[0]
    'total_s'
    """
    parts = tables["bench"].filter(pl.col("thread") == -1).group_by(pl.col("part").cast(pl.String))
    sums = {
        part: (ops, moved or 0, took_ns / NS_PER_S)
        for part, ops, moved, took_ns in parts.agg(
            pl.col("ops").sum(), pl.col("bytes").sum(), pl.col("latency_sum_ns").sum()
        ).iter_rows()
    }
    transactions, _, seconds = sums["op"]
    total = seconds + sums["fill"][2] + sums["clear"][2]
    written = sum(sums[part][1] for part in ("fill", "create", "append"))
    return pl.DataFrame(
        {
            "total_s": total,
            "transactions_s": seconds,
            "transactions_per_s": transactions / seconds,
            "read_mb_per_s": sums["read"][1] / total / 1e6,
            "written_mb_per_s": written / total / 1e6,
        }
    )
