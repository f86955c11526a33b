"""Numbers as an explorer shows them."""

from __future__ import annotations


def duration(ns: float) -> str:
    """A time in the unit that suits it, with three digits."""
    for unit, length in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if abs(ns) >= length:
            return f"{ns / length:,.0f} {unit}" if abs(ns) >= 1000 * length else f"{ns / length:.3g} {unit}"
    return f"{ns:.0f} ns"


def size(nr_bytes: float) -> str:
    """A number of bytes in the binary unit that suits it, with four digits at most."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nr_bytes < 1024:
            return f"{nr_bytes:.4g} {unit}"
        nr_bytes /= 1024
    return f"{nr_bytes:,.4g} TiB"
