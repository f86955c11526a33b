"""What the letters of `rwbs` mean: operation and flags of a block event (Linux, kernel/trace/blktrace.c)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from androstep_analysis.common import schema

FLAGS = ("sync", "meta", "fua", "preflush", "readahead")

# F (or B, the barrier before Linux 2.6.37) in front of the operation asks for a flush first; F alone, FF or FN is a
# flush and nothing else; an F behind the operation is FUA. DE is a secure erase, ZR, ZA, … are zone commands. WZ writes
# zeroes without data (N before Linux 6.19).
_GRAMMAR = re.compile(r"(?P<pre>F(?=[A-Z]))?(?P<op>Z[A-Z]?|DE|WZ|[WRDFN])?(?P<flags>[A-Z]*)")

_WORD = "word "
"""Stands before letters that come from a word for an operation, which states no flags (`Staging.words`)."""

_OPERATIONS = {"W": "write", "R": "read", "D": "discard", "DE": "secure_erase", "F": "flush"}


@dataclass(frozen=True)
class Meaning:
    """One distinct rwbs string, decoded."""

    op: str
    sync: bool
    meta: bool
    fua: bool
    preflush: bool
    readahead: bool


def meaning(rwbs: str) -> Meaning:
    """Decode one rwbs string; letters that no kernel documents are ignored, an unknown operation is `other`."""
    match = _GRAMMAR.match(rwbs.removeprefix(_WORD))
    assert match is not None  # every part of the grammar is optional
    op, flags, pre = match["op"] or "", match["flags"], match["pre"] is not None
    name = "zone" if op.startswith("Z") else _OPERATIONS.get(op, "other")
    if pre and name == "other":  # FN: a flush whose bio carries no data
        name = "flush"
    return Meaning(
        op=name,
        sync="S" in flags,
        meta="M" in flags,
        fua="F" in flags,
        preflush=pre or "B" in flags or name == "flush",
        readahead="A" in flags and name == "read",
    )


def with_words(block: pl.LazyFrame, words: Collection[str]) -> pl.LazyFrame:
    """Return table block_events with `_WORD` before the letters of events that are words for an operation."""
    is_word = pl.col("event").is_in(list(words))
    return block.with_columns(rwbs=pl.when(is_word).then(_WORD + pl.col("rwbs")).otherwise("rwbs"))


def with_recorded_flags(requests: schema.Frame, recorded_flags: frozenset[str]) -> schema.Frame:
    """Return table requests with null for flags that were not recorded: by the format, or for rows without letters."""
    has_letters = pl.col("rwbs").is_not_null() & ~pl.col("rwbs").str.starts_with(_WORD)
    return requests.with_columns(
        *(pl.when(has_letters & pl.lit(flag in recorded_flags)).then(flag).alias(flag) for flag in FLAGS),
        rwbs=pl.col("rwbs").str.strip_prefix(_WORD),
    )


def decode(rwbs: pl.Series) -> pl.DataFrame:
    """Return columns `op` (the enum of table requests) and a Boolean for each flag, by string; null is `other`."""
    letters = rwbs.fill_null("").alias("rwbs").to_frame()
    distinct = letters["rwbs"].unique()
    meanings = [meaning(text) for text in distinct]
    decoded = pl.DataFrame(
        {"rwbs": distinct, "op": [m.op for m in meanings]}
        | {flag: [getattr(m, flag) for m in meanings] for flag in FLAGS},
        schema_overrides={"op": schema.enum("requests", "op")},
    )
    return letters.join(decoded, on="rwbs", how="left", maintain_order="left").drop("rwbs")
