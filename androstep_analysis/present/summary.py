"""The figures of `androstep summary` as one object, for JSON (docs/summary.md)."""

from __future__ import annotations

from typing import Any

import polars as pl

from androstep_analysis import bench, measures, perceived
from androstep_analysis.capture import Capture
from androstep_analysis.common import losses
from androstep_analysis.present import headline, waits
from androstep_analysis.replay.metrics import metrics


def summary(capture: Capture, *, compat: str | None = None) -> dict[str, Any]:
    """Return the counts of a capture, ready for JSON.

    Keys: format, first_ns, last_ns, lost_events, losses (kind, count, message, tables, dev, spans), events (count of
    each event of the trace, by its name in the format), events_by_rwbs (``"Q WS": n``, block events only), syscalls (by
    call: count, failed, duration_ns), requests (by operation: count, bytes), block_types and file_types (by operation
    and type: count, bytes), population (the requests behind the numbers, see `measures.population`), coverage (by
    operation: shares of bytes matched, mapped, inferred and owned), largest (the rows of `measures.largest`),
    map_sources and owners_via (by operation and kind of evidence: count, bytes; `unknown` without evidence), snapshots
    (role, proven, agreements, contradictions and kinds of each image and extent listing), bench (None, or runs,
    invalid, and measures: the rows of `bench.summarise`), replay (None, or runs, fs_types, operations, done, diverged,
    interrupted, and measures: the rows of `replay.metrics`), waits (None, or watched, apps, inputs, stable, unstable,
    no_change, and the rows of responses, classes and in_flight, see `waits.Waits`).

    With ``compat="most"``, block_types and file_types are counted like the MOST Viewer does (`most_viewer.counts`).
    """
    if compat == "most":
        from androstep_analysis.datasets.export import most, most_viewer  # imports what fetches over a network

        types = most_viewer.counts(most.lines(capture))
    else:
        types = {
            "block_types": _nested(measures.block_types(capture.io), "block_type"),
            "file_types": _nested(measures.file_types(capture.io), "file_type"),
        }
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
        "map_sources": _nested(_with_unknown(measures.evidence(capture.io, "map_source"), "map_source"), "map_source"),
        "owners_via": _nested(measures.evidence(capture.io, "owner_via"), "owner_via"),
        "snapshots": capture.about.get("snapshots", []),
        "bench": _bench(capture) if capture.about["bench"] else None,
        "replay": _replay(capture) if capture.about["replay"] else None,
        "waits": _waits(waited) if (waited := waits.of(capture)) else None,
        "population": capture.population,
        "coverage": _coverage(capture),
    }


def _bench(capture: Capture) -> dict[str, Any]:
    counts = capture.about["bench"]
    measures = _rows(bench.summarise(capture.bench))
    return {"runs": counts["runs"], "invalid": counts["invalid"], "measures": measures}


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
    """Return the rows as dictionaries, without null values."""
    rows = measures.with_columns(pl.col(pl.Enum).cast(pl.String)).iter_rows(named=True)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _events_by_rwbs(capture: Capture) -> dict[str, int]:
    events = capture.block_events.filter(pl.col("rwbs").is_not_null()).group_by("event", "rwbs").len("n").collect()
    return {f"{event} {rwbs}": n for event, rwbs, n in events.sort("event", "rwbs").iter_rows()}


def _with_unknown(table: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """Return the table with null in `dimension` replaced by `unknown`."""
    return table.with_columns(pl.col(dimension).cast(pl.String).fill_null("unknown"))


def _coverage(capture: Capture) -> dict[str, dict[str, float]]:
    """Return the shares of each operation."""
    shares: dict[str, dict[str, float]] = {}
    for op, metric, value in capture.coverage.select(pl.col("op", "metric").cast(pl.String), "value").iter_rows():
        shares.setdefault(op, {})[metric] = value
    return shares


def _by(table: pl.DataFrame, dimension: str) -> dict[str | None, dict[str, int]]:
    """Return count and bytes of a tidy table by one dimension."""
    wide = table.filter(pl.col("metric").is_in(["count", "bytes"])).pivot("metric", index=dimension, values="value")
    return {
        row[dimension]: {"count": int(row["count"]), "bytes": int(row["bytes"])} for row in wide.iter_rows(named=True)
    }


def _nested(table: pl.DataFrame, dimension: str) -> dict[str, dict[str, dict[str, int]]]:
    """Return count and bytes of a tidy table by operation and one dimension. Rows without the dimension are omitted."""
    known = table.filter(pl.col(dimension).is_not_null())
    ops = known["op"].unique(maintain_order=True)
    return {op: {str(k): v for k, v in _by(known.filter(pl.col("op") == op), dimension).items()} for op in ops}
