"""Check which kinds of events the trace of a device contains, before concluding anything from a missing event."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl


def has(recorded: Collection[str], *names: str) -> pl.Expr:
    """Return whether one of these events was recorded on the event's device: it was `recorded` by name, or occurs."""
    if not set(names).isdisjoint(recorded):
        return pl.lit(True)
    return pl.col("event").is_in(names).any().over("dev")
