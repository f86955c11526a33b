"""Make captures from rows that a test lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import polars as pl

from androstep_analysis import measures, schema
from androstep_analysis.capture import Capture, derivation, tool_results
from androstep_analysis.common.manifest import Manifest, Source

DEV = 8 << 20

_DEFAULTS: dict[str, Any] = {
    **{"dev": DEV, "part_dev": DEV, "op": "write", "nr_sectors": 8, "nr_bios": 1, "matched": "full", "piece": 0},
    **dict.fromkeys(("sync", "meta", "fua", "preflush", "readahead"), False),
    **{"owner_via": "unknown", "request_id": 0, "bytes": 4096, "event": "Q", "action": "queue", "ts_ns": 0},
}


def table(name: str, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Complete rows of table `name` with defaults."""
    columns = schema.table(name).columns
    full = [{c.name: row.get(c.name, None if c.nullable else _DEFAULTS.get(c.name)) for c in columns} for row in rows]
    return schema.conform(pl.DataFrame(full, schema=schema.table(name).polars), name)


def capture(
    requests: Iterable[dict[str, Any]] = (),
    io: Iterable[dict[str, Any]] | None = None,
    events: Iterable[dict[str, Any]] = (),
    **about: Any,
) -> Capture:
    """Make a capture of these requests (numbered in order), their pieces (default: one each) and block events."""
    numbered = [{"request_id": number, **row} for number, row in enumerate(requests)]
    shared = [column.name for column in schema.table("io").columns if column.name in schema.table("requests").polars]
    one_each = [{name: row[name] for name in shared if name in row} for row in numbered]
    pieces = [
        {"bytes": row.get("nr_sectors", _DEFAULTS["nr_sectors"]) * 512, **row}
        for row in (one_each if io is None else io)
    ]
    tables = {name: schema.empty(name) for name in derivation.TABLES} | {
        "requests": table("requests", numbered),
        "io": table("io", pieces),
        "block_events": table("block_events", events),
    }
    return of_tables(tables, **about)


def named(name: str, requests: Iterable[dict[str, Any]], **facts: Any) -> Capture:
    """Make a capture of these requests with these facts. Its id is derived from its name."""
    plain = capture(requests)
    source = Source(name, "trace", 0, name.encode().hex().zfill(64)[-64:])
    return Capture(name, replace(plain.manifest, sources=(source,), facts=facts), plain.tables, plain.about)


def of_tables(tables: dict[str, pl.DataFrame], **about: Any) -> Capture:
    """Make a capture of these tables."""
    times = tables["requests"].select(pl.col("queue_ns", "issue_ns", "complete_ns")).unpivot()["value"].drop_nulls()
    facts = {
        "format": "made",
        "events": {},
        "first_ns": times.min(),
        "last_ns": times.max(),
        "clock": "unknown",
        "realtime_offset_ns": None,
        "fs_type": None,
        "lost_events": 0,
        "losses": [],
        "jumps": [],
        "rows": {name: rows.height for name, rows in tables.items()},
        "coverage": [],
        "population": measures.population(tables["requests"]),
        **dict.fromkeys(tool_results.KINDS),
    }
    source = Source("made", "trace", 0, "0" * 64)
    return Capture("made", Manifest(sources=(source,)), {n: t.lazy() for n, t in tables.items()}, facts | about)
