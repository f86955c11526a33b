"""Which kinds of events the trace of a device has: what all that rests on the absence of an event asks first."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl


def has(recorded: Collection[str], *names: str) -> pl.Expr:
    """Whether the trace of an event's device has events of one of these names: one came, or was `recorded`."""
    if not set(names).isdisjoint(recorded):
        return pl.lit(True)
    return pl.col("event").is_in(names).any().over("dev")
