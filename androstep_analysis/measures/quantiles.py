"""Exact quantiles of data that does not fit into memory, by counting it repeatedly in ever narrower buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

MOST: Final = 1 << 20
"""The most values in memory at once, and the most buckets that are counted at once."""

EACH: Final = 256
"""Values in memory for each group at least. With very many groups the result itself is as large."""

_BITS: Final = 64
_SAME: Final = 6
"""Leading bits of a float (sign and exponent) that carry no information: 64-bit integers have only 65 exponents."""


def quantiles(
    values: pl.LazyFrame, column: str, groups: pl.DataFrame, shares: Mapping[str, float], *, weight: str | None = None
) -> pl.DataFrame:
    """Return quantiles of a column of Int64 by nearest rank.

    The nearest rank is the least value that at least this share of its group does not exceed. `groups` has a row for
    each group: the grouping columns, n (number of values) and least (minimum). The result has the grouping columns,
    quantile (String, a key of `shares`) and value (Int64). It equals the quantile of all values in order. If column
    `weight` is given, each row counts that many times.

    Few values are sorted. Otherwise each pass counts the values in buckets, and the next pass divides only those
    buckets that contain a wanted rank. When few enough values are left, every value is a bucket. Buckets are spaced
    like floating-point numbers: they are wider for larger values.
    """
    by = [name for name in groups.columns if name not in ("n", "least")]
    stands_for = pl.lit(1, pl.Int64) if weight is None else pl.col(weight).cast(pl.Int64)
    left = int(groups["n"].sum()) if weight is None else values.select(pl.len()).collect().item()
    if left <= max(MOST, EACH * groups.height):
        ordered = (
            values.select(*by, _value=column, _n=stands_for)
            .sort("_value")
            .with_columns(_end=pl.col("_n").cum_sum().over(by))
        )
        ranks = {name: _rank(share, pl.col("_n").sum()) for name, share in shares.items()}
        reached = {name: pl.col("_value").filter(pl.col("_end") > rank).first() for name, rank in ranks.items()}
        found = ordered.group_by(by).agg(**reached)
        return found.collect().unpivot(list(shares), index=by, variable_name="quantile", value_name="value")
    least = int(groups["least"].to_numpy().min())
    offset = (pl.col(column) - least).reinterpret(signed=False)
    rows = values.select(*by, _n=stands_for, _offset=offset, _key=offset.cast(pl.Float64).reinterpret(dtype=pl.UInt64))
    wanted = pl.concat(
        groups.select(*by, quantile=pl.lit(name), _rank=_rank(share, pl.col("n")), _inside=pl.lit(0, pl.UInt64))
        for name, share in shares.items()
    )
    width, bits = max(1, (MOST // wanted.height).bit_length() - 1), _BITS
    while bits:
        before = bits
        bits = 0 if left <= MOST else max(0, before - width - (_SAME if before == _BITS else 0))
        inside = rows.with_columns(_inside=pl.lit(0, pl.UInt64) if before == _BITS else _bucket(before))
        if before < _BITS:
            inside = inside.join(wanted.lazy(), on=[*by, "_inside"], how="semi", nulls_equal=True)
        counts = (
            inside.group_by(*by, "_inside", _bucket=_bucket(bits)).agg(pl.col("_n").sum(), _rows=pl.len()).collect()
        )
        wanted, left = _reached(wanted, counts.sort("_bucket"), by)
    value = (pl.col("_inside") + pl.lit(least % (1 << _BITS), pl.UInt64)).reinterpret(signed=True)
    return wanted.select(*by, "quantile", value=value)


def _rank(share: float, count: pl.Expr) -> pl.Expr:
    """Return the number of values of a group that precede the wanted one."""
    return ((count * share).ceil() - 1).clip(lower_bound=0).cast(pl.Int64)


def _bucket(bits: int) -> pl.Expr:
    """Return the bucket of a value that leaves this many bits undecided; the value itself for 0 bits."""
    return pl.col("_key") // pl.lit(1 << bits, pl.UInt64) if bits else pl.col("_offset")


def _reached(wanted: pl.DataFrame, counts: pl.DataFrame, by: list[str]) -> tuple[pl.DataFrame, int]:
    """Return the buckets that contain the wanted ranks, with the ranks within them, and the number of rows in them.

    `counts` is in order of buckets.
    """
    running = counts.with_columns(_end=pl.col("_n").cum_sum().over(*by, "_inside"))
    found = (
        wanted.join(running, on=[*by, "_inside"], nulls_equal=True, maintain_order="right")
        .filter(pl.col("_end") > pl.col("_rank"))
        .group_by(*by, "quantile", maintain_order=True)
        .first()
    )
    left = int(found.unique([*by, "_bucket"])["_rows"].sum())
    rank = pl.col("_rank") - (pl.col("_end") - pl.col("_n"))
    return found.select(*by, "quantile", _rank=rank, _inside="_bucket"), left
