"""Numbers as people read them: in the unit that suits them, and never rounded to all or to nothing."""

from __future__ import annotations

from collections.abc import Sequence


def in_unit(value: float | None, unit: str) -> str:
    """A value of a measure with its unit: ``B``, ``ns``, ``s``, ``1`` (a ratio), ``1/s``, ``B/s``; else a number."""
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
    """Divisor and name of the binary unit in which `largest` bytes read best."""
    return largest_unit(largest, ((1, "B"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB")))


def size(value: float) -> str:
    """A number of bytes in the binary unit in which it reads best ("512 KiB")."""
    divisor, name = byte_unit(value)
    return f"{value / divisor:,.4g} {name}"


def certainty(inferred: float | None) -> str:
    """How much of an answer is inferred, as words for behind it; nothing where all of it is a fact."""
    if inferred is None or inferred < 0.0005:
        return ""
    return "inferred" if inferred > 0.9995 else f"{per_cent(inferred)} inferred"


def marked(name: str, inferred: float | None) -> str:
    """Return a name with how much of it is inferred behind it, as everything shows it that shows names."""
    words = certainty(inferred)
    return f"{name} ({words})" if words else name


def per_cent(ratio: float) -> str:
    """Per cent with one decimal; what is not all is never rounded to all, what is something never to nothing."""
    if 0.9995 <= ratio < 1:
        return "> 99.9 %"
    if 0 < ratio < 0.0005:
        return "< 0.1 %"
    return f"{ratio:.1%}".replace("%", " %")


def duration(ns: float) -> str:
    """A time in ns in the unit that suits it."""
    for divisor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= divisor:
            return f"{ns / divisor:,.4g} {unit}" if ns < 10**13 else f"{ns / divisor:,.0f} {unit}"
    return f"{ns:.0f} ns"


def largest_unit(value: float, units: Sequence[tuple[int, str]]) -> tuple[int, str]:
    """The largest of `units` (divisor and name, ascending) of which `value` is at least one, else the first."""
    return next(((divisor, name) for divisor, name in reversed(units) if value >= divisor), units[0])
