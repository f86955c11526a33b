"""Dot plots in rows: places, apps or ratios below each other, with intervals and the papers' numbers.

Labels of any length stay readable, and unlike bars, dots are valid on a logarithmic axis. Our values are round, and
blue and filled if there is a single series. A paper's value is an orange diamond, recognisable by its shape in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from papers import Paper, against, number

from androstep_analysis import bench
from androstep_analysis.stats.exact import ratio

OURS, THEIRS = "#0072B2", "#D55E00"


# -- numbers of the papers' texts and ours -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Stated:
    """A number or range from a paper's text, and ours: `value` with its interval, if there is one."""

    label: str
    published: tuple[float, float]
    value: float
    lo: float | None
    hi: float | None
    n: int

    @property
    def said(self) -> str:
        """Our value with its interval, and whether the paper's number lies in it."""
        interval = "" if self.lo is None or self.hi is None else f" [{number(self.lo)}, {number(self.hi)}]"
        return f"{number(self.value)}{interval} ({against(self.value, self.lo, self.hi, *self.published)})"


def compared(
    label: str,
    published: tuple[float, float],
    tables: Mapping[str, pl.DataFrame],
    first: Mapping[str, str],
    second: Mapping[str, str],
) -> Stated:
    """Return the rate of the runs `second` relative to that of the runs `first` (values of columns of bench_runs)."""
    measured = bench.measures(dict(tables)).filter("valid", pl.col("metric").is_in(["iops", "tps"]))
    base, other = (measured.filter(**side)["value"].to_list() for side in (first, second))
    value, lo, hi = ratio(base, other)
    assert value is not None, f"{label}: no runs"
    return Stated(label, published, value, lo, hi, len(base) + len(other))


def table_of(found: Sequence[Stated], unit: str = "1") -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "what": row.label,
                "published_least": row.published[0],
                "published_most": row.published[1],
                "value": row.value,
                "lo": row.lo,
                "hi": row.hi,
                "unit": unit,
                "n": row.n,
            }
            for row in found
        ],
        schema_overrides={"lo": pl.Float64, "hi": pl.Float64},
    )


def between(paper: Paper, least: str, most: str | None = None) -> tuple[float, float]:
    """Return the published numbers with these ids as minimum and maximum."""
    values = paper.stated(*dict.fromkeys((least, most or least)))["value"]
    return float(values[0]), float(values[-1])
