"""Whether a capture tells what a trigger needs: an empty answer of one that cannot tell would look like a good one."""

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
"""With less of the bytes known than this, that nothing was found says nothing."""


def lacks(trigger: Trigger, evidence: Evidence, capture: Capture) -> tuple[str, float | None]:
    """Why the trigger cannot tell (empty: it can), and of which share of the data what it needs of `io` is known."""
    for need in trigger.needs:
        table, _, column = need.partition(".")
        rows = evidence.tables.get(table)
        if rows is None or not rows.select(pl.col(column).is_not_null().any()).collect().item():
            return f"no row of table {table} has a {column}", None
    recorded = {*capture.events, *(capture.manifest.events or ())}
    if trigger.events and not recorded.intersection(trigger.events):
        return f"none of the events {', '.join(trigger.events)} was recorded", None
    columns = [need.removeprefix("io.") for need in trigger.needs if need.startswith("io.")]
    return "", _coverage(evidence, columns) if columns else None


def too_little(coverage: float | None) -> str:
    """Why nothing found means nothing (empty: it does mean something)."""
    if coverage is None or coverage >= LEAST_KNOWN:
        return ""
    return f"what it needs is known of {per_cent(coverage)} of the bytes only, and nothing was found there"


def _coverage(evidence: Evidence, columns: list[str]) -> float | None:
    """Share of the bytes read and written, but for what is known to be no data of a file, that have all columns."""
    kind = pl.col("block_type").cast(pl.String).fill_null("unknown")
    rows = measures.counted(evidence.tables["io"]).filter(
        pl.col("op").is_in(["read", "write"]), kind.is_in(["data", "unknown"])
    )
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in columns)
    whole, part = rows.select(pl.sum("bytes"), known=pl.col("bytes").filter(known).sum()).collect().row(0)
    return part / whole if whole else None
