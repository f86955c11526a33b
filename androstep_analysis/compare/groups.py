"""The groups of a table of `measure_all`, and the repeats in each (`compare.comparison`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import FACTS
from androstep_analysis.compare.measures import dimensions
from androstep_analysis.stats import blocks
from androstep_analysis.stats.blocks import Mean, Scale, Series


@dataclass(frozen=True)
class Sample:
    """The repeats of one group in one metric and dimensions.

    `every` has the value of every repeat, and `pairs` those of captures by the columns that they are paired by.
    `windows` is the mean of the windows of time if these are the repeats. `inferred` is the share of the bytes with
    inferred names.
    """

    repeats: str
    unit: str
    every: Sequence[float]
    coverage: float | None
    inferred: float | None
    clocks: frozenset[str]
    windows: Mean | None = None
    pairs: Mapping[tuple[Any, ...], float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.every)

    @cached_property
    def mean(self) -> Mean:
        """The mean of all repeats."""
        return blocks.of_repeats(self.every) if self.windows is None else self.windows

    @property
    def scale(self) -> Scale:
        return blocks.scale(np.asarray(self.every), is_share=are_shares(self.unit, self.every))

    @property
    def value(self) -> float:
        return float(np.median(self.every)) if self.windows is None else self.windows.value


@dataclass(frozen=True)
class Groups:
    """A table of `measure_all` by groups, with their names and the columns that identify them."""

    measured: pl.DataFrame
    by: Sequence[str]
    paired_by: Sequence[str]
    names: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, measured: pl.DataFrame, by: Sequence[str], paired_by: Sequence[str] = ()) -> Groups:
        """Divide a table into groups.

        Raises `InputError` if a column cannot be compared by, or if a capture lacks a fact.
        """
        known = ("capture", *FACTS)
        for name in (*by, *paired_by):
            if name not in known:
                raise InputError(f"cannot compare by {name!r}; choose from {', '.join(known)}")
            if (without := measured.filter(pl.col(name).is_null())).height:
                raise InputError(
                    f"{without['capture'][0]}: its {name} is unknown; add it with `androstep ingest --fact {name}=…`"
                )
        if shared := sorted(set(by) & set(paired_by)):
            raise InputError(f"cannot pair by {shared[0]}, because the groups are compared by it; pair by another fact")
        if not by:
            raise InputError("compare by at least one fact, or by capture")
        text = measured.with_columns(pl.col(name).cast(pl.String) for name in dict.fromkeys((*by, *paired_by)))
        names = text.select(by).unique(maintain_order=True).rows()
        labels = [label(name) for name in names]
        if doubled := next((one for one in labels if labels.count(one) > 1), None):
            raise InputError(f"two groups would be called {doubled!r}; rename one of them")
        return cls(text, by, paired_by, names)

    def named(self, text: str) -> tuple[str, ...]:
        """Return the group with that label. Raises `InputError` if there is none."""
        labels = {label(name): name for name in self.names}
        if text not in labels:
            raise InputError(f"there is no group {text!r}; groups are {', '.join(labels)}")
        return labels[text]

    def cells(self) -> Iterator[tuple[dict[str, Any], dict[tuple[str, ...], Sample]]]:
        """Yield every combination of metric and dimensions with the sample of each group that has one."""
        keys = ["metric", *dimensions(self.measured)]
        for key, rows in self.measured.group_by(keys, maintain_order=True):
            samples = {
                tuple(group): sample
                for group, of in rows.group_by(self.by, maintain_order=True)
                if (sample := self._sample(of)) is not None
            }
            if samples:
                yield dict(zip(keys, key, strict=True)), samples

    def _sample(self, rows: pl.DataFrame) -> Sample | None:
        rows = rows.filter(pl.col("value").is_finite(), pl.col("weight") > 0)
        if rows.is_empty():
            return None
        about = {
            "unit": rows["unit"][0],
            "coverage": rows["coverage"].mean(),
            "inferred": rows["inferred"].mean(),
            "clocks": frozenset(rows["clock"].drop_nulls()),
        }
        every = rows["value"].to_list()
        if rows["kind"][0] == "window":
            recordings = rows.sort("repeat").partition_by("capture_id", maintain_order=True)
            series = [Series(one["value"].to_numpy(), one["weight"].to_numpy()) for one in recordings]
            windows = blocks.mean(series, is_share=are_shares(about["unit"], every))
            return Sample("windows", **about, every=every, windows=windows)
        pairs = dict(_medians(rows, self.paired_by)) if self.paired_by else {}
        if rows["kind"][0] == "repetition" and rows["capture"].n_unique() == 1:
            return Sample("repetitions", **about, every=every, pairs=pairs)
        return Sample("captures", **about, every=[value for _, value in _medians(rows, ["capture"])], pairs=pairs)


def are_shares(unit: str, values: Sequence[float]) -> bool:
    """Return whether values are parts of a whole. Other ratios, such as write amplification, are not."""
    return unit == "1" and min(values) >= 0 and max(values) <= 1


def label(group: Sequence[str]) -> str:
    return " / ".join(group)


def _medians(rows: pl.DataFrame, by: Sequence[str]) -> list[tuple[tuple[Any, ...], float]]:
    medians = rows.group_by(by, maintain_order=True).agg(pl.col("value").median())
    return [(tuple(key), value) for *key, value in medians.iter_rows()]
