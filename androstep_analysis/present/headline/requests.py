"""Headline of the requests: causes, kinds of blocks, access patterns, counts and latencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common import units
from androstep_analysis.common.losses import Losses
from androstep_analysis.measures.tables import is_interchangeable
from androstep_analysis.present import sheets
from androstep_analysis.present.headline import unknown
from androstep_analysis.present.headline.words import (
    VERBS,
    Amount,
    Grid,
    Headline,
    Part,
    Quote,
    Sentence,
    grid,
    listed,
    named,
)

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

KINDS: Final = 2
"""Maximum number of kinds of blocks and files for each direction."""

LEAST_KIND: Final = 0.05
"""Minimum share of bytes of every kind after the first."""

STEPS: Final = {
    "D2C": "from issue to completion",
    "Q2C": "from queueing to completion",
    "Q2D": "from queueing to issue",
}
"""Stages whose latency may be displayed. The first with a known value is used: that of the device, if possible."""

QUANTILES: Final = ("p50", "p99", "p99.9", "max")

CAUSES: Final = 10
"""Rows of the tables of causes."""

_FRACTIONS: Final = {"metadata": "bytes_ratio", "journal": "journal_bytes_ratio"}
"""Metrics of `measures.metadata_fraction`."""

Values = dict[tuple[str | None, ...], float]
"""Values of one metric by its dimensions."""


RESULTS: Final = (
    *("causes", "mix", "block_types", "metadata_fraction", "file_types", "processes", "files"),
    *("locality", "sync", "latency"),
)
"""The measures behind a headline, named as in a report."""


def results(capture: Capture) -> dict[str, pl.DataFrame]:
    """Compute each of `RESULTS` once."""
    requests, io = measures.counted(capture.requests), measures.counted(capture.io)
    data = io.filter(pl.col("block_type") == "data")
    return {
        "causes": largest(capture),
        "mix": measures.mix(requests),
        "block_types": (block_types := measures.block_types(io)),
        "metadata_fraction": metadata_fraction(io, block_types),
        "file_types": measures.file_types(io),
        "processes": measures.volume(io, by=("owner_comm",)),
        "files": measures.volume(data, by=("path",)),
        "locality": measures.locality(requests),
        "sync": measures.sync(io),
        "latency": measures.latency(requests),
    }


def largest(capture: Capture) -> pl.DataFrame:
    """Return the largest writes and reads by process, file and cause (`measures.largest`)."""
    lost = Losses(capture.losses, capture.lost_events)
    return measures.largest(capture.tables, CAUSES, recorded=capture.manifest.events, lost=lost)


def headline(capture: Capture, found: Mapping[str, pl.DataFrame]) -> Headline:
    """Return the headline of a capture with requests from its `results`."""
    sync = values(found["sync"], "count_ratio", "class")
    unordered = unknown.unordered(capture)
    parts = [
        *sheets.causes(found["causes"], found["mix"]),
        _swapped(capture),
        _discards(found["mix"]),
        _kinds(found["block_types"], found["file_types"]),
        _ratios(found["locality"], sync, found["metadata_fraction"]),
        _grid(found["mix"], found["latency"]),
    ]
    owners = found["processes"].drop_nulls("owner_comm")
    moves_data = not found["causes"].is_empty()
    knows_owner, knows_file = (owners["inferred"] < 1).any(), found["files"]["path"].count()
    requests = measures.counted(capture.requests)
    interchangeable = requests.filter(is_interchangeable(requests)).select(pl.len()).collect().item()
    gaps = [
        unknown.owners(capture, are_inferred=not owners.is_empty()) if moves_data and not knows_owner else None,
        unknown.writers(capture) if knows_owner else None,
        unknown.files(capture) if moves_data and not knows_file else None,
        unknown.sync() if sync.keys() == {("unknown",)} else None,
        None if found["latency"].height else unknown.times(capture),
        unknown.interchangeable(interchangeable) if interchangeable else None,
        unknown.order(unordered) if unordered is not None else None,
    ]
    return Headline(
        tuple(one for one in parts if one is not None),
        tuple(one for one in gaps if one is not None),
    )


def values(table: pl.DataFrame, metric: str, *dimensions: str, column: str = "value") -> Values:
    """Return the values (or another column) of one metric of a tidy table by these dimensions, without nulls."""
    rows = table.filter(pl.col("metric").cast(pl.String) == metric, pl.col(column).is_not_null())
    names = [pl.col(name).cast(pl.String) for name in dimensions]
    return {tuple(key): value for *key, value in rows.select(*names, column).iter_rows()}


def _largest_first(item: tuple[str | None, float]) -> tuple[float, str]:
    return -item[1], item[0] or ""


def _swapped(capture: Capture) -> Sentence | None:
    """Return the sentence on memory that was swapped out and in; None if no request is known to be of swap space."""
    swapped = measures.counted(capture.requests).filter("swap").group_by("op").agg(pl.sum("nr_sectors"))
    sectors = dict(swapped.collect().iter_rows())
    moved: list[list[Part]] = [
        [Amount(sectors[op] * units.SECTOR_BYTES, "B"), f" {direction}"]
        for op, direction in (("write", "out"), ("read", "in"))
        if sectors.get(op)
    ]
    spaces: list[list[Part]] = [[Quote(space["path"])] for space in capture.manifest.swaps]
    return Sentence("swap", (*listed(moved), *([" (", *listed(spaces), ")"] if spaces else []))) if moved else None


def _discards(mix: pl.DataFrame) -> Sentence | None:
    """Return the sentence on discards; None if there are none."""
    counts, sizes = (values(mix, metric, "op").get(("discard",), 0) for metric in ("count", "bytes"))
    if not counts:
        return None
    noun = " request, which moves no data" if counts == 1 else " requests, which move no data"
    parts = (Amount(sizes, "B"), " of freed blocks in ", Amount(counts, "requests"), noun)
    return Sentence("discarded", parts)


def _kinds(block_types: pl.DataFrame, file_types: pl.DataFrame) -> Sentence | None:
    """Return the sentence on block types, and on file types of data; None if no type is known."""
    clauses: list[list[Part]] = []
    for op, verb in VERBS.items():
        blocks, files = _shares(block_types, op, "block_type"), _shares(file_types, op, "file_type")
        if blocks:
            types = [" (of it ", *listed(_kind(*file) for file in files), ")"] if files else []
            of_op = ([*_kind(*block), *(types if block[0] == "data" else [])] for block in blocks)
            clauses.append([f"{verb} ", *listed(of_op)])
    return Sentence("types", tuple(listed(clauses, "; "))) if clauses else None


def _shares(table: pl.DataFrame, op: str, column: str) -> list[tuple[str, float, float | None]]:
    """Return the types of an operation with the largest shares of bytes, and the inferred part of each.

    The list is empty if no type is known.
    """
    shares, inferred = (values(table, "bytes_ratio", "op", column, column=what) for what in ("value", "inferred"))
    of_op = {kind or "unknown": share for (its_op, kind), share in shares.items() if its_op == op}
    if not of_op.keys() - {"unknown"}:
        return []
    first, *others = sorted(of_op.items(), key=_largest_first)[:KINDS]
    shown = [first, *(item for item in others if item[1] >= LEAST_KIND)]
    return [(kind, share, inferred.get((op, kind))) for kind, share in shown]


def _kind(kind: str, share: float, inferred: float | None) -> list[Part]:
    return named(kind.replace("_", " "), share, "1", inferred)


def metadata_fraction(io: pl.LazyFrame, block_types: pl.DataFrame) -> pl.DataFrame:
    """Return `measures.metadata_fraction` of the operations with a type, also inferred, for at least half of the bytes.

    `block_types` is the result of this measure for the same table `io`.
    """
    of_unknown = block_types.filter(pl.col("value") > 0.5, metric="bytes_ratio", block_type="unknown")
    return measures.metadata_fraction(io).filter(~pl.col("op").is_in(of_unknown["op"].implode()))


def _ratios(locality: pl.DataFrame, sync: Values, fraction: pl.DataFrame) -> Sentence | None:
    """Return the sentence on random requests, synchronous writes, and metadata among the bytes written (`fraction`)."""
    random = values(locality, "count_ratio", "op", "class")
    clauses: list[list[Part]] = [
        [Amount(random[op, "random"], "1"), f" of {noun}", *_in_known_order(random.get((op, "unknown")))]
        for op, noun in (("write", "writes"), ("read", "reads"))
        if (op, "random") in random
    ]
    clauses = [["random ", *listed(clauses)]] if clauses else []
    if ("sync",) in sync or ("buffered",) in sync:
        known: list[Part] = ["sync ", Amount(sync.get(("sync",), 0), "1"), " of writes"]
        clauses.append([*known, " (", Amount(sync[("unknown",)], "1"), " unknown)"] if ("unknown",) in sync else known)
    metadata = {of: values(fraction, name, "op") for of, name in _FRACTIONS.items()}
    shares: list[list[Part]] = [
        [f"{of} ", Amount(share["write",], "1")] for of, share in metadata.items() if ("write",) in share
    ]
    if shares:
        clauses.append([*listed(shares), " of bytes written of known type"])
    return Sentence("pattern", tuple(listed(clauses, "; "))) if clauses else None


def _in_known_order(unknown: float | None) -> list[Part]:
    """Return that a share is of the requests in known order only, from the share of the others."""
    return [] if unknown is None else [" in known order (", Amount(1 - unknown, "1"), " of them)"]


def _grid(mix: pl.DataFrame, latency: pl.DataFrame) -> Grid:
    """Return a table of counts, bytes and latencies, with one row for each operation."""
    counts, sizes = (values(mix, metric, "op") for metric in ("count", "bytes"))
    took = values(latency, "latency", "step", "op", "quantile")
    step = next((step for step in STEPS if any(key[0] == step for key in took)), None)
    quantiles = QUANTILES if step else ()
    rows = [
        (
            "other" if op is None else op,
            Amount(number, "requests"),
            Amount(sizes[(op,)], "B") if sizes.get((op,)) else None,
            *(Amount(took[step, op, q], "ns") if (step, op, q) in took else None for q in quantiles),
        )
        for (op,), number in counts.items()
    ]
    note = f"Times are {STEPS[step]} of a request." if step in ("Q2C", "Q2D") else ""
    return grid(("operation", "requests", "bytes", *quantiles), tuple(rows), note)
