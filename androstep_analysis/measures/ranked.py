"""Sorting and truncating the rows of a result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.measures.tables import MEASURES

_NUMBERS: Final = ("n", "coverage", "inferred")
_PREFERRED: Final = "bytes"
_RANK: Final = "_rank"


def ranked(
    result: pl.DataFrame,
    *,
    natural: Collection[str] = (),
    words: Mapping[str, str] | None = None,
    sort: str | None = None,
    is_reversed: bool = False,
    top: int | None = None,
) -> tuple[pl.DataFrame, int]:
    """Sort a tidy result by its dimensions or a value, and return its first rows.

    Parameters
    ----------
    result : polars.DataFrame
        Columns metric, dimensions, value. Rows that differ only in quantile stay together.
    natural : collection of str
        Dimensions that have an order of their own. The others are sorted by value, the largest first. The value is that
        of metric bytes if there is one, else of the first metric.
    words : mapping of str to str, optional
        Other names of dimensions that `sort` accepts.
    sort : str, optional
        Sort by this instead: value (ignoring natural dimensions), a metric, a quantile, n, coverage or inferred, the
        largest first; or a dimension, the least first.
    is_reversed : bool
        Whether to reverse the order.
    top : int, optional
        The number of combinations of dimensions to return; with windows, for each window.

    Returns
    -------
    tuple of polars.DataFrame and int
        The rows by metric, in their new order; and the number of combinations of dimensions that are left out.

    Raises
    ------
    InputError
        If `sort` names nothing in the result. The message lists the names that it accepts.
    """
    dims = [name for name in result.columns if name not in (*MEASURES, "quantile")]
    dims.sort(key="repeat".__eq__)  # Keep the repetitions of a combination together.
    if not dims or result.is_empty():
        return result, 0
    metrics = result["metric"].unique(maintain_order=True).to_list()
    first = _PREFERRED if _PREFERRED in metrics else metrics[0]
    if sort is None:
        groups = _by_value(_keyed(result, dims, pl.col("metric") == first, "value"), dims, natural)
    else:
        name = first if sort == "value" else (words or {}).get(sort, sort)
        groups = _sorted(result, dims, metrics, name)
    groups = (groups.reverse() if is_reversed else groups).select(dims).with_row_index(_RANK)
    whole = groups.height
    if top is not None:
        groups = groups.filter(pl.int_range(pl.len()).over("window") < top) if "window" in dims else groups.head(top)
    metric = pl.col("metric").replace_strict(metrics, list(range(len(metrics))), return_dtype=pl.Int64)
    rows = result.join(groups, on=dims, how="inner", nulls_equal=True, maintain_order="left")
    return rows.sort(metric, _RANK, maintain_order=True).drop(_RANK), whole - groups.height


def _keyed(result: pl.DataFrame, dims: list[str], is_meant: pl.Expr, column: str) -> pl.DataFrame:
    """Return each combination of dimensions with `_key`, the largest value of `column` in the rows with `is_meant`."""
    return result.group_by(dims, maintain_order=True).agg(pl.col(column).filter(is_meant).max().alias("_key"))


def _by_value(groups: pl.DataFrame, dims: list[str], natural: Collection[str]) -> pl.DataFrame:
    """Sort by natural dimensions in their own order, and by the others by their largest value."""
    keys: list[pl.Expr] = []
    descending: list[bool] = []
    for at, name in enumerate(dims):
        is_last = at + 1 == len(dims) or dims[at + 1] in natural
        if name in natural:
            keys.append(pl.col(name))
            descending.append(False)
        elif is_last:  # the last of consecutive dimensions
            keys.append(pl.col("_key").max().over(dims[: at + 1]))
            descending.append(True)
            # Keep groups of equal value together.
            keys += [pl.col(other) for other in dims[: at + 1]]
            descending += [False] * (at + 1)
    return groups.sort(keys, descending=descending, nulls_last=True, maintain_order=True)


def _sorted(result: pl.DataFrame, dims: list[str], metrics: list[str], name: str) -> pl.DataFrame:
    quantiles = (
        result["quantile"].cast(pl.String).unique(maintain_order=True).to_list() if "quantile" in result.columns else []
    )
    numbers = [one for one in _NUMBERS if one in result.columns]
    if name in dims:
        return result.select(dims).unique(maintain_order=True).sort(name, nulls_last=True, maintain_order=True)
    if name in metrics:
        groups = _keyed(result, dims, pl.col("metric") == name, "value")
    elif name in quantiles:
        groups = _keyed(result, dims, pl.col("quantile").cast(pl.String) == name, "value")
    elif name in numbers:
        groups = _keyed(result, dims, pl.lit(True), name)
    else:
        there = ", ".join(map(str, dict.fromkeys(["value", *metrics, *quantiles, *dims, *numbers])))
        raise InputError(f"cannot sort by {name}; there are {there}")
    return groups.sort("_key", descending=True, nulls_last=True, maintain_order=True)
