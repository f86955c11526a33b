"""Division of a recording's time into windows of equal length (`Windows`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.samples import in_windows

MOST_WINDOWS: Final = 1_000_000


@dataclass(frozen=True)
class Windows:
    """The time of a recording in windows of equal length. The last one may be shorter."""

    first_ns: int
    length_ns: int
    count: int
    last_seconds: float

    @classmethod
    def of(cls, title: str, first_ns: int, last_ns: int, length_ns: int) -> Windows:
        """Divide a span of time into windows.

        Raises `InputError` if `length_ns` is not positive or there are too many windows.
        """
        if length_ns <= 0:
            raise InputError(f"windows of {length_ns} ns: the length must be positive")
        count = max(1, -(-(last_ns - first_ns) // length_ns))
        if count > MOST_WINDOWS:
            raise InputError(f"{title}: {count:,} windows of {length_ns:,} ns are too many; use longer ones")
        rest = last_ns - first_ns - (count - 1) * length_ns
        return cls(first_ns, length_ns, count, rest / NS_PER_S)

    def apart(self, tables: Mapping[str, pl.LazyFrame]) -> dict[str, pl.LazyFrame]:
        """Return the tables with column window, the index of each row's window.

        Counters also get values at its edges.
        """
        number = self.number(order_ns())
        numbered = {name: tables[name].with_columns(window=number) for name in ("requests", "io") if name in tables}
        if "samples" in tables:
            numbered["samples"] = in_windows(tables["samples"], self.first_ns, self.length_ns, self.count)
        return {**tables, **numbered}

    def number(self, time: pl.Expr) -> pl.Expr:
        """Return the index of the window of a time. Times before the first or after the last window belong to these."""
        return ((time - self.first_ns) // self.length_ns).clip(0, self.count - 1)

    def every(self) -> pl.DataFrame:
        """Return columns repeat (Int64, the index of the window) and weight (Float64, its seconds)."""
        seconds = pl.when(pl.col("repeat") < self.count - 1).then(self.length_ns / NS_PER_S)
        numbers = pl.DataFrame({"repeat": range(self.count)}, schema={"repeat": pl.Int64})
        return numbers.with_columns(weight=seconds.otherwise(self.last_seconds))
