"""Apply the conditions of --where (`common.conditions`) to the tables of a measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common import conditions
from androstep_analysis.common.conditions import Condition
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.measure import DIMENSIONS, Applied, Measure
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.parts import REQUEST
from androstep_analysis.measures.recording import Tables

KEPT: Final = "_kept"
"""Column of a table that is classified as a whole: whether the conditions hold for the row."""

_TIMES: Final = ("issue_ns", "queue_ns", "complete_ns")


def columns(measure: Measure, tables: Tables, first_ns: int | None) -> dict[str, pl.Expr]:
    """Return the names that conditions on the table of the measure can use, with the expression of each.

    They are the words of --by, `time` (since the recording's first event, `first_ns`), `bytes`, and the columns.
    """
    return {} if measure.applied is Applied.RESULT else of_table(measure.needs[0], tables, first_ns)


def pieces(measure: Measure, tables: Tables, first_ns: int | None) -> dict[str, pl.Expr]:
    """Return further names for a measure of requests: those that only table `io` has."""
    if measure.applied is Applied.RESULT or measure.needs[0] != "requests" or "io" not in tables:
        return {}
    own = columns(measure, tables, first_ns)
    return {name: what for name, what in of_table("io", tables, first_ns).items() if name not in own}


def applied(measure: Measure, tables: Tables, stated: Sequence[Condition], first_ns: int | None) -> Tables:
    """Return the tables with the rows of the measure's own table that match, or with column `KEPT` in it.

    Raises `InputError` if no row is left.
    """
    name = measure.needs[0]
    own, of_pieces = columns(measure, tables, first_ns), pieces(measure, tables, first_ns)
    own_conditions = [one for one in stated if one.column in own]
    piece_conditions = [one for one in stated if one.column in of_pieces]
    rows = tables[name]
    conditions.matching(rows, own_conditions, own)
    holds = [conditions.holds(rows, one, own) for one in own_conditions]
    if piece_conditions:
        # A request matches if one of its pieces does.
        found = conditions.matching(tables["io"], piece_conditions, of_pieces).select(REQUEST, _matches=True).unique()
        rows = rows.join(found, on=REQUEST, how="left", maintain_order="left")
        holds.append(pl.col("_matches").fill_null(False))
    rows = rows.with_columns(pl.all_horizontal(holds).alias(KEPT)).select(pl.exclude("_matches"))
    if own_conditions and piece_conditions and rows.filter(KEPT).head(1).collect().is_empty():
        raise InputError(f"where {', '.join(map(str, stated))}: no request matches all of them")
    return {**tables, name: rows if measure.applied is Applied.AFTER else rows.filter(KEPT).drop(KEPT)}


def of_result(result: pl.DataFrame, stated: Iterable[Condition], words: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of the result that match the conditions, on its columns or on the words for them."""
    named = {word: pl.col(column) for word, column in words.items() if column in result.columns}
    return conditions.matching(result, stated, named)


def span(stated: Iterable[Condition], whole: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the part of a recording's time (ns) that conditions on `time` leave."""
    if whole is None:
        return None
    begin, end = conditions.interval(stated, "time")
    first, last = whole
    return max(first, first + (begin or 0)), last if end is None else min(last, first + end)


def of_table(name: str, tables: Tables, first_ns: int | None) -> dict[str, pl.Expr]:
    """Return the names that conditions on a table can use, with the expression of each."""
    there = tables[name].collect_schema().names()
    words = {word: pl.col(column) for word, column in DIMENSIONS.get(name, {}).items() if column in there}
    time = order_ns() if set(_TIMES) <= set(there) else pl.col("ts_ns") if "ts_ns" in there else None
    more = {}
    if time is not None and first_ns is not None:
        more["time"] = (time - first_ns).alias("time_ns")
    if "nr_sectors" in there:
        more["bytes"] = (pl.col("nr_sectors") * SECTOR_BYTES).alias("bytes")
    return {**words, **more, **{column: pl.col(column) for column in there}}
