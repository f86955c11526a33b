"""Exact quantiles of what does not fit into memory, by counting it again and again, ever more finely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

MOST: Final = 1 << 20
"""Values that are in memory at once, and buckets that are counted at once."""

EACH: Final = 256
"""For each group as many at the least: where groups are very many, so is what they come to."""

_BITS: Final = 64
_SAME: Final = 6
"""Of the bits of a float's sign and exponent so many tell nothing: whole numbers of 64 bits have 65 exponents."""


def quantiles(
    values: pl.LazyFrame, column: str, groups: pl.DataFrame, shares: Mapping[str, float], *, weight: str | None = None
) -> pl.DataFrame:
    """The nearest rank of a column of Int64: the least value that at least such a share of its group did not exceed.

    `groups` has a row for each group: the columns that tell groups apart, n (its values) and least. Gives those
    columns, quantile (String, a name of `shares`) and value (Int64): exactly what all values in order would give.
    Column `weight` tells how many values a row stands for, if not for one.

    Few values are put in order. Else a pass over them counts how many lie in which bucket, the next one does so within
    the buckets in which a wanted rank lies, in narrower ones. Where few enough are left, every value is a bucket.
    Buckets are as those of floating point: the wider the larger the values.
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
        places = {name: _rank(share, pl.col("_n").sum()) for name, share in shares.items()}
        reached = {name: pl.col("_value").filter(pl.col("_end") > rank).first() for name, rank in places.items()}
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
    """How many values of a group of so many come before the wanted one in order."""
    return ((count * share).ceil() - 1).clip(lower_bound=0).cast(pl.Int64)


def _bucket(bits: int) -> pl.Expr:
    """The bucket of a value that leaves so many bits open; without any the value itself."""
    return pl.col("_key") // pl.lit(1 << bits, pl.UInt64) if bits else pl.col("_offset")


def _reached(wanted: pl.DataFrame, counts: pl.DataFrame, by: list[str]) -> tuple[pl.DataFrame, int]:
    """The buckets (`counts`, in order) that the wanted ranks lie in, with the ranks in these, and how much is there."""
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
