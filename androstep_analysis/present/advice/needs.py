"""Check that a capture has the data that a trigger needs. Without it, an empty result would look like a good one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.quantities import per_cent

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture
    from androstep_analysis.present.advice.evidence import Evidence
    from androstep_analysis.present.advice.registry import Trigger

LEAST_KNOWN: Final = 0.5
"""If less than this share of the bytes is known, an empty result means nothing."""


def lacks(trigger: Trigger, evidence: Evidence, capture: Capture) -> tuple[str, float | None]:
    """Return why a trigger is undecided (empty if it is not), and the share of the data that has the needed columns."""
    for need in trigger.needs:
        table, _, column = need.partition(".")
        rows = evidence.tables.get(table)
        if rows is None or not rows.select(pl.col(column).is_not_null().any()).collect().item():
            return f"column {column} of table {table} is empty", None
    recorded = {*capture.events, *(capture.manifest.events or ())}
    if trigger.events and not recorded.intersection(trigger.events):
        return f"none of the events {', '.join(trigger.events)} was recorded", None
    columns = [need.removeprefix("io.") for need in trigger.needs if need.startswith("io.")]
    return "", _coverage(evidence, columns) if columns else None


def too_little(coverage: float | None) -> str:
    """Return why an empty result means nothing (empty if it means something)."""
    if coverage is None or coverage >= LEAST_KNOWN:
        return ""
    return f"the needed data are known for only {per_cent(coverage)} of the bytes, and nothing was found there"


def _coverage(evidence: Evidence, columns: list[str]) -> float | None:
    """Return the share of the bytes read and written that have all columns.

    Blocks known not to be file data are ignored.
    """
    kind = pl.col("block_type").cast(pl.String).fill_null("unknown")
    rows = measures.counted(evidence.tables["io"]).filter(
        pl.col("op").is_in(["read", "write"]), kind.is_in(["data", "unknown"])
    )
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in columns)
    whole, part = rows.select(pl.sum("bytes"), known=pl.col("bytes").filter(known).sum()).collect().row(0)
    return part / whole if whole else None
