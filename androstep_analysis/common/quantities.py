"""Format numbers with units for people. Rounding never turns a ratio below 1 into 100 %, or one above 0 into 0 %."""

from __future__ import annotations

from collections.abc import Sequence


def in_unit(value: float | None, unit: str) -> str:
    """Format a value with its unit: ``B``, ``ns``, ``s``, ``1`` (a ratio), ``1/s`` or ``B/s``; else a plain number."""
    if value is None:
        return "–"
    sign, value = "-" if value < 0 else "", abs(value)
    if unit == "1/s":
        return f"{sign}{value:,.0f}/s" if value >= 100 else f"{sign}{value:,.3g}/s"
    if unit == "B/s":
        return f"{sign}{size(value)}/s"
    if unit == "s":
        return f"{sign}{duration(value * 1e9)}"
    return sign + {"B": size, "ns": duration, "1": per_cent}.get(unit, _number)(value)


def _number(value: float) -> str:
    return count(value) if float(value).is_integer() or value >= 10_000 else f"{value:,.4g}"


def count(value: float) -> str:
    return f"{value:,.0f}"


def byte_unit(largest: float) -> tuple[int, str]:
    """Return divisor and name of the largest binary unit that does not exceed `largest` bytes."""
    return largest_unit(largest, ((1, "B"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB")))


def size(value: float) -> str:
    """Format a number of bytes with a binary unit ("512 KiB")."""
    divisor, name = byte_unit(value)
    return f"{value / divisor:,.4g} {name}"


def certainty(inferred: float | None) -> str:
    """Return a note on the inferred share of a result; empty if all of it is fact."""
    if inferred is None or inferred < 0.0005:
        return ""
    return "inferred" if inferred > 0.9995 else f"{per_cent(inferred)} inferred"


def marked(name: str, inferred: float | None) -> str:
    """Return a name followed by its inferred share in parentheses, for all output that contains names."""
    words = certainty(inferred)
    return f"{name} ({words})" if words else name


def per_cent(ratio: float) -> str:
    """Format a ratio in per cent with one decimal; only 1 becomes 100 %, and only 0 becomes 0 %."""
    if 0.9995 <= ratio < 1:
        return "> 99.9 %"
    if 0 < ratio < 0.0005:
        return "< 0.1 %"
    return f"{ratio:.1%}".replace("%", " %")


def duration(ns: float) -> str:
    """Format a time in ns with a suitable unit."""
    for divisor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= divisor:
            return f"{ns / divisor:,.4g} {unit}" if ns < 10**13 else f"{ns / divisor:,.0f} {unit}"
    return f"{ns:.0f} ns"


def largest_unit(value: float, units: Sequence[tuple[int, str]]) -> tuple[int, str]:
    """Return the largest of `units` (divisor and name, ascending) that does not exceed `value`, else the first."""
    return next(((divisor, name) for divisor, name in reversed(units) if value >= divisor), units[0])
