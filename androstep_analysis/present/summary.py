"""A capture in one object: the figures that `androstep summary` prints, as text or as JSON (docs/summary.md)."""

from __future__ import annotations

from typing import Any

import polars as pl

from androstep_analysis import bench, measures, perceived
from androstep_analysis.capture import Capture
from androstep_analysis.common import losses
from androstep_analysis.datasets.export import most_viewer as most
from androstep_analysis.datasets.export.most import lines
from androstep_analysis.present import headline, waits
from androstep_analysis.replay.metrics import metrics


def summary(capture: Capture, *, compat: str | None = None) -> dict[str, Any]:
    """The capture's counts, JSON-ready.

    Keys: format, first_ns, last_ns, lost_events, losses (kind, count, message, tables, dev, spans), events
    (every event in the file by the format's own name), events_by_rwbs (``"Q WS": n``, block events only), syscalls (per
    call: count, failed, duration_ns), requests (per operation: count, bytes),
    block_types and file_types (per operation and type: count, bytes), population (of which requests the numbers
    are: see `measures.population`), coverage (per operation: shares of its bytes matched, mapped, inferred and owned),
    largest (a list with the rows of `measures.largest`),
    map_sources and owners_via (per operation and kind of evidence: count, bytes; `unknown` where nothing tells),
    snapshots (a list: role, proven, agreements, contradictions and kinds of each image and listing),
    bench (None, or runs, invalid and measures: a list with the
    rows of `bench.summarise`), replay (None, or runs, fs_types, operations, done, diverged, interrupted and measures: a
    list with the rows of `replay.metrics`), waits (None, or watched, apps, inputs, stable, unstable, no_change, and as
    lists the rows of responses, classes and in_flight: see `waits.Waits`). With ``compat="most"`` block_types and
    file_types are counted as the MOST Viewer did (`most.counts`).
    """
    types = (
        most.counts(lines(capture))
        if compat == "most"
        else {
            "block_types": _nested(measures.block_types(capture.io), "block_type"),
            "file_types": _nested(measures.file_types(capture.io), "file_type"),
        }
    )
    return {
        "format": capture.format,
        "first_ns": capture.first_ns,
        "last_ns": capture.last_ns,
        "lost_events": capture.lost_events,
        "losses": [losses.as_json(loss) for loss in capture.losses],
        "events": dict(sorted(capture.events.items())),
        "events_by_rwbs": _events_by_rwbs(capture),
        "syscalls": {row.pop("call"): row for row in measures.calls(capture.syscalls).to_dicts()},
        "requests": {op: counts for op, counts in _by(measures.mix(capture.requests), "op").items() if op is not None},
        **types,
        "largest": _rows(headline.largest(capture)) if capture.about["rows"]["requests"] else [],
        "map_sources": _nested(_told(measures.evidence(capture.io, "map_source"), "map_source"), "map_source"),
        "owners_via": _nested(measures.evidence(capture.io, "owner_via"), "owner_via"),
        "snapshots": capture.about.get("snapshots", []),
        "bench": _bench(capture) if capture.about["bench"] else None,
        "replay": _replay(capture) if capture.about["replay"] else None,
        "waits": _waits(waited) if (waited := waits.of(capture)) else None,
        "population": capture.population,
        "coverage": _coverage(capture),
    }


def _bench(capture: Capture) -> dict[str, Any]:
    told = capture.about["bench"]
    measures = _rows(bench.summarise(capture.bench))
    return {"runs": told["runs"], "invalid": told["invalid"], "measures": measures}


def _replay(capture: Capture) -> dict[str, Any]:
    return {**capture.about["replay"], "measures": _rows(metrics(capture.replay))}


def _waits(waited: waits.Waits) -> dict[str, Any]:
    return {
        "watched": waited.watched,
        "apps": list(waited.apps),
        "inputs": waited.found.height,
        **waited.counts(),
        "responses": _rows(perceived.responses(waited.found)),
        "classes": _rows(perceived.classes(waited.found, by=("label",))),
        "in_flight": _rows(waited.in_flight.filter(metric="in_flight_ratio")),
    }


def _rows(measures: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows, each without the columns that are null in it."""
    rows = measures.with_columns(pl.col(pl.Enum).cast(pl.String)).iter_rows(named=True)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _events_by_rwbs(capture: Capture) -> dict[str, int]:
    events = capture.block_events.filter(pl.col("rwbs").is_not_null()).group_by("event", "rwbs").len("n").collect()
    return {f"{event} {rwbs}": n for event, rwbs, n in events.sort("event", "rwbs").iter_rows()}


def _told(table: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """The table with a null of the dimension as `unknown`."""
    return table.with_columns(pl.col(dimension).cast(pl.String).fill_null("unknown"))


def _coverage(capture: Capture) -> dict[str, dict[str, float]]:
    """The shares of each operation."""
    shares: dict[str, dict[str, float]] = {}
    for op, metric, value in capture.coverage.select(pl.col("op", "metric").cast(pl.String), "value").iter_rows():
        shares.setdefault(op, {})[metric] = value
    return shares


def _by(table: pl.DataFrame, dimension: str) -> dict[str | None, dict[str, int]]:
    """count and bytes of a tidy table, by one dimension."""
    wide = table.filter(pl.col("metric").is_in(["count", "bytes"])).pivot("metric", index=dimension, values="value")
    return {
        row[dimension]: {"count": int(row["count"]), "bytes": int(row["bytes"])} for row in wide.iter_rows(named=True)
    }


def _nested(table: pl.DataFrame, dimension: str) -> dict[str, dict[str, dict[str, int]]]:
    """count and bytes of a tidy table by operation and one dimension; rows without the dimension are left out."""
    known = table.filter(pl.col(dimension).is_not_null())
    ops = known["op"].unique(maintain_order=True)
    return {op: {str(k): v for k, v in _by(known.filter(pl.col("op") == op), dimension).items()} for op in ops}
