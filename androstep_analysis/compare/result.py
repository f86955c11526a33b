"""The result of a comparison, with its text output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from androstep_analysis.capture import population
from androstep_analysis.common.markup import visible
from androstep_analysis.compare import words
from androstep_analysis.compare.emulated import MARK, is_emulated
from androstep_analysis.compare.groups import label
from androstep_analysis.compare.measures import Measured, dimensions, measures

_EMULATED: Final = "Times of an emulated device are those of the machine below it: do not rank them with real devices."


@dataclass(frozen=True)
class Result:
    """The comparison of recordings by facts.

    `measured` is the result of `measure_all`, `ranked` of `ranking`, `compared` of `compare`, and `gated` of `gate`
    (None without a limit).
    """

    measure: str
    by: Sequence[str]
    recordings: Sequence[Measured]
    measured: pl.DataFrame
    ranked: pl.DataFrame
    compared: pl.DataFrame
    gated: pl.DataFrame | None = None

    @property
    def dims(self) -> list[str]:
        """The dimensions of the measure, besides the groups."""
        return dimensions(self.measured)

    @property
    def emulated(self) -> set[str]:
        """The labels of the groups with a recording of an emulated device."""
        ids = {one.capture_id for one in self.recordings if is_emulated(one.facts)}
        rows = self.measured.filter(pl.col("capture_id").is_in(list(ids))).select(self.by).unique()
        return {label([str(part) for part in group]) for group in rows.iter_rows()}

    def ranks(self) -> list[str]:
        """Return the ranking in words."""
        lines = words.ranks(self.ranked, self.by, self.emulated, measures()[self.measure].worse)
        return [*lines, *([_EMULATED] if any(MARK in line for line in lines) else [])]

    def caveats(self) -> list[str]:
        """Return the parts of the recordings that are not in the numbers, in words."""
        ids = set(self.measured["capture_id"])
        empty = [one.title for one in self.recordings if one.facts["capture_id"] not in ids]
        return [f"{visible(title)}: nothing of this measure is in it" for title in empty] + [
            f"{visible(one.title)}: {population.sentence(counts)}"
            for one in self.recordings
            if (counts := dict(one.population)) and not population.is_whole(counts)
        ]
