"""Filter the rows of a table by conditions such as those of ``--where COLUMN=VALUE``.

| condition | selected rows |
|---|---|
| ``op=read`` | the value is equal; in a list column, at least one element is equal |
| ``path=*/databases/*`` | the text matches the pattern: ``*`` any characters, ``?`` one, ``[abc]`` one of these |
| ``app=`` | the value is null |
| ``app!=com.example`` | all rows that ``app=com.example`` does not select, including those with null |
| ``bytes>=64KiB`` | the number is in this range; null is not selected |
| ``time=2s..5s`` | the number is at least 2 s and less than 5 s; either end may be omitted |

The name of a column decides its unit, as in all tables:

- times (``…_ns``): ``10ms``, or a number of nanoseconds
- sizes (``bytes``, ``…_bytes``): ``64KiB``, or a number of bytes
- devices (``dev``, ``…_dev``): ``MAJOR:MINOR``
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeVar

import polars as pl

from androstep_analysis.common import quantities, units
from androstep_analysis.common.errors import InputError

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

MOST_NAMED: Final = 8
"""Maximum number of values that an error message lists."""

_CONDITION: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)(!=|>=|<=|=|>|<)(.*)", re.DOTALL)

_NUMBER: Final = re.compile(r"(-?[0-9]{1,19}(?:\.[0-9]{1,18})?)([A-Za-zµ]*)")

_COMPARISONS: Final[Mapping[str, Callable[[pl.Expr, float], pl.Expr]]] = {
    "=": lambda values, limit: values == limit,
    ">=": lambda values, limit: values >= limit,
    "<=": lambda values, limit: values <= limit,
    ">": lambda values, limit: values > limit,
    "<": lambda values, limit: values < limit,
}


class Condition(NamedTuple):
    """A parsed condition: a column, an operator (``= != >= <= > <``) and the value as text."""

    column: str
    operator: str
    value: str

    def __str__(self) -> str:
        return "".join(self)


def parse(text: str) -> Condition:
    """Parse a condition; raise `InputError` if `text` is not one."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not a condition; write COLUMN=VALUE, or != >= <= > < in place of =")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise InputError(f"{text!r} is not valid UTF-8; write the value in UTF-8")
    return Condition(*match.groups())


def matching(
    table: Frame, conditions: Iterable[Condition | str], columns: Mapping[str, pl.Expr] | None = None
) -> Frame:
    """Return the rows for which all conditions hold, in their original order.

    Parameters
    ----------
    table : DataFrame or LazyFrame
        The table. A LazyFrame is executed up to its first matching row.
    conditions : iterable of Condition or str
        The conditions, all of which must hold.
    columns : mapping of str to Expr, optional
        Additional column names for conditions, or replacements of the table's own. The output name of an expression
        decides its unit: ``{"time": (pl.col("issue_ns") - first).alias("time_ns")}``.

    Raises
    ------
    InputError
        If a column does not exist, if a value is not valid for its column, or if no row of a non-empty table matches.
        The message lists the columns or values that exist.
    """
    parsed = [parse(one) if isinstance(one, str) else one for one in conditions]
    named = {**{name: pl.col(name) for name in table.collect_schema().names()}, **(columns or {})}
    tests = [holds(table, condition, named) for condition in parsed]
    selected = table.filter(tests) if tests else table
    if tests and not _has_rows(selected) and _has_rows(table):
        raise InputError(_unmatched(table, parsed, tests, named))
    return selected


def check(columns: Iterable[str], conditions: Iterable[Condition]) -> None:
    """Raise `InputError`, listing all columns, for a condition on a column that does not exist."""
    existing = list(dict.fromkeys(columns))
    for condition in conditions:
        if condition.column not in existing:
            similar = difflib.get_close_matches(condition.column, existing, 1)
            hint = f" (did you mean {similar[0]}?)" if similar else ""
            raise InputError(
                f"where {condition}: there is no column {condition.column}{hint}; columns are {', '.join(existing)}"
            )


def interval(conditions: Iterable[Condition], column: str) -> tuple[int | None, int | None]:
    """Return the smallest and the largest time in ns that the conditions on a time column allow, or None for no limit.

    Conditions with ``!=`` are ignored, so that values between the limits need not match.
    """
    least: list[int] = []
    greatest: list[int] = []
    for condition in conditions:
        if condition.column != column or condition.operator == "!=":
            continue
        begin, dots, end = condition.value.partition("..")
        if condition.operator == "=":
            end = end if dots else begin
        least += [math.floor(_number(condition, "_ns", begin))] if begin and condition.operator in "=>=" else []
        upper = end if condition.operator == "=" else begin
        greatest += [math.ceil(_number(condition, "_ns", upper))] if upper and condition.operator in "=<=" else []
    return max(least, default=None), min(greatest, default=None)


def holds(table: pl.DataFrame | pl.LazyFrame, condition: Condition, named: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return the condition as a polars expression that is true or false, never null."""
    check(named, [condition])
    values = named[condition.column]
    name, dtype = next(iter(table.lazy().select(values).collect_schema().items()))
    if not condition.value and condition.operator in ("=", "!="):
        test = values.is_null()
    elif isinstance(dtype, pl.List):
        test = values.list.eval(_holds(condition, pl.element(), name, dtype.inner)).list.any().fill_null(False)
    else:
        test = _holds(condition, values, name, dtype)
    return ~test if condition.operator == "!=" else test


def like(text: pl.Expr, glob: str) -> pl.Expr:
    """Return whether text equals a pattern or matches it: ``*`` any characters, ``?`` one, ``[abc]`` one of these."""
    return (text == glob) | text.str.contains(_pattern(glob))


def _holds(condition: Condition, values: pl.Expr, name: str, dtype: Any) -> pl.Expr:
    """Return an expression that tests each value, with ``!=`` treated as ``=``; null values give false."""
    if isinstance(dtype, pl.String | pl.Enum | pl.Categorical):
        _only_equal(condition, "text")
        categories = dtype.categories.to_list() if isinstance(dtype, pl.Enum) else None
        if categories is not None and not any(_is_like(one, condition.value) for one in categories):
            raise InputError(f"where {condition}: {condition.column} is {' or '.join(categories)}")
        return like(values.cast(pl.String), condition.value).fill_null(False)
    if dtype == pl.Boolean:
        _only_equal(condition, "true or false")
        if condition.value not in ("true", "false"):
            raise InputError(f"where {condition}: {condition.column} is true or false")
        return (values == (condition.value == "true")).fill_null(False)
    if not dtype.is_numeric():
        raise InputError(f"where {condition}: values of {condition.column} cannot be compared ({dtype})")
    begin, dots, end = condition.value.partition("..")
    if dots and condition.operator in ("=", "!="):
        limits = [(">=", begin), ("<", end)]
        tests = [_compared(condition, values, name, dtype, how, limit) for how, limit in limits if limit]
        return pl.all_horizontal(values.is_not_null(), *tests)
    how = "=" if condition.operator == "!=" else condition.operator
    return _compared(condition, values, name, dtype, how, condition.value)


def _only_equal(condition: Condition, kind: str) -> None:
    if condition.operator not in ("=", "!="):
        raise InputError(f"where {condition}: {condition.column} is {kind}; it takes = and !=")


def _compared(condition: Condition, values: pl.Expr, name: str, dtype: Any, how: str, text: str) -> pl.Expr:
    limit = _number(condition, name, text)
    if dtype.is_float():
        return _COMPARISONS[how](values, float(limit)).fill_null(False)
    # Compare integers with integers: as floats both would be rounded.
    whole = math.floor(limit) if how in (">", "<=") else math.ceil(limit)
    if how == "=" and whole != limit:
        return values.is_null() & values.is_not_null()
    if not -(1 << 63) <= whole < 1 << 63:
        raise InputError(f"where {condition}: {text} is too large")
    return _COMPARISONS[how](values, whole).fill_null(False)


def _number(condition: Condition, name: str, text: str) -> Fraction:
    """Convert `text` to a number in the unit of column `name`."""
    unit = _unit(name)
    try:
        if unit == "dev":
            return Fraction(units.parse_dev(text)) if not text.isdecimal() else Fraction(text)
        if match := _NUMBER.fullmatch(text):
            return Fraction(match[1]) * {"": 1, **_FACTORS.get(unit, {})}[match[2]]
    except (KeyError, ValueError):
        pass
    takes = {"ns": "a time such as 10ms", "B": "a size such as 64KiB", "dev": "a device MAJOR:MINOR"}
    raise InputError(f"where {condition}: {condition.column} takes {takes.get(unit, 'a number')}, not {text!r}")


_FACTORS: Final[Mapping[str, Mapping[str, int]]] = {"ns": units.NS, "B": units.BYTES}


def _unit(name: str) -> str:
    """Return the unit that a column's name implies: ``ns``, ``B``, ``dev`` or an empty string."""
    if name.endswith("_ns"):
        return "ns"
    if name == "bytes" or name.endswith("_bytes"):
        return "B"
    return "dev" if name == "dev" or name.endswith("_dev") else ""


def _pattern(glob: str) -> str:
    """Translate the glob to a regular expression in Rust's syntax, as polars expects."""
    parts = re.findall(r"\[!?\][^\]]*\]|\[(?!!\])!?[^\]]+\]|.", glob, re.DOTALL)
    return f"(?s)^{''.join(map(_part, parts))}$"


def _part(part: str) -> str:
    if part in ("*", "?"):
        return {"*": ".*", "?": "."}[part]
    if len(part) == 1:
        return re.escape(part)
    is_not = part[1] == "!"
    # Write each character as its code point: Rust gives characters such as && a meaning within brackets.
    ranges = re.findall(r"(.)-(.)|(.)", part[2 if is_not else 1 : -1], re.DOTALL)
    pairs = [(first or one, last or one) for first, last, one in ranges]
    inside = "".join(f"\\x{{{ord(first):x}}}-\\x{{{ord(last):x}}}" for first, last in pairs if first <= last)
    if not inside:  # An empty range such as [z-a] matches no character; negated, it matches any.
        return "." if is_not else r"[^\x{0}-\x{10ffff}]"
    return f"[{'^' if is_not else ''}{inside}]"


def _is_like(value: str, glob: str) -> bool:
    return value == glob or pl.Series([value]).str.contains(_pattern(glob)).item()


def _has_rows(table: pl.DataFrame | pl.LazyFrame) -> bool:
    return not table.lazy().head(1).collect().is_empty()


def _unmatched(
    table: Frame, stated: Sequence[Condition], tests: Sequence[pl.Expr], named: Mapping[str, pl.Expr]
) -> str:
    """Return why no row matches: the first condition that selects no row alone, or their combination."""
    for condition, test in zip(stated, tests, strict=True):
        if not _has_rows(table.filter(test)):
            return f"where {condition}: no row matches; {_values(table, condition, named[condition.column])}"
    return f"where {', '.join(map(str, stated))}: each matches some rows, and no row matches all of them"


def _values(table: pl.DataFrame | pl.LazyFrame, condition: Condition, values: pl.Expr) -> str:
    """Describe the values in the column of a condition: their range, or the most frequent ones."""
    column = values.alias("value")
    rows = table.lazy().select(column).filter(pl.col("value").is_not_null())
    rows = rows.explode("value") if isinstance(rows.collect_schema()["value"], pl.List) else rows
    name, dtype = values.meta.output_name(), rows.collect_schema()["value"]
    if dtype.is_numeric() and _unit(name) != "dev":
        least, most = rows.select(pl.col("value").min(), pl.col("value").max().alias("most")).collect().row(0)
        if least is None:
            return f"{condition.column} has no values"
        first, last = (quantities.in_unit(value, _unit(name)) for value in (least, most))
        return f"{condition.column} is {first} to {last}"
    counts = rows.group_by("value").agg(n=pl.len()).sort("n", "value", descending=[True, False]).collect()
    texts = [units.format_dev(value) if _unit(name) == "dev" else str(value) for value in counts["value"]]
    if not texts:
        return f"{condition.column} has no values"
    similar = difflib.get_close_matches(condition.value, texts, 3)
    listed = list(dict.fromkeys([*similar, *texts]))[:MOST_NAMED]
    nr_more = len(texts) - len(listed)
    return f"{condition.column} is {', '.join(listed)}{f' and {nr_more:,} more' if nr_more else ''}"
