"""Who moved how much of which file, and why, against plain Python that can be checked by reading."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import polars as pl
import pytest
from support import made
from support.tree import ROOT

from androstep_analysis import capture, measures, schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.measures.causes import CAUSES
from androstep_analysis.measures.tables import device_time

FLAGS = ("readahead", "meta", "swap")


def cause(row: dict[str, Any]) -> str | None:
    """Return the cause of a piece, in the words of definitions.toml."""
    if row["op"] == "discard":
        return "discard"
    if row["swap"]:
        return "swap"
    if row["block_type"] == "journal":
        return "journal"
    if row["block_type"] in ("metadata", "directory"):
        return "metadata"
    if row["meta"] and row["block_type"] in (None, "unknown"):
        return "metadata_or_journal"
    if row["op"] == "read":
        return "readahead" if row["readahead"] else "read"
    if row["block_type"] == "data" and row["owner_via"] == "submitter":
        return "direct"
    if row["sync"] is None:
        return None
    if not row["sync"]:
        return "writeback"
    is_buffered = row["block_type"] == "data" and row["owner_via"] in ("write_begin", "dirty_folio")
    return "fsync" if is_buffered else "synchronous"


def some_pieces(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return requests, and the pieces of each with everything that a cause depends on."""
    choose = random.Random(seed).choice
    requests, pieces = [], []
    for number in range(300):
        request = {
            **{"op": choose(["read", "write", "write", "discard"]), "sync": choose([True, False, None])},
            **{flag: choose([True, False, False, None]) for flag in FLAGS},
            **{"issue_ns": number * 10, "complete_ns": choose([number * 10 + number % 7, None])},
        }
        requests.append(request)
        for piece in range(choose([1, 2])):
            path = choose(["/a", "/b", None])
            pieces.append(request | {
                "request_id": number, "piece": piece, "path": path, "nr_sectors": 8, "bytes": 4096,
                "block_type": choose(["data", "data", "metadata", "directory", "journal", "unknown", None]),
                "owner_via": choose(["write_begin", "dirty_folio", "submitter", "inferred", "unknown", "handle"]),
                "map_source": choose(["tracepoint", "inferred"]),
                "owner_comm": choose(["app", "two", None]), "owner_package": choose(["com.app", None, None]),
            })  # fmt: skip
    return requests, pieces


@pytest.mark.parametrize("seed", range(5))
def test_causes_are_those_of_the_definition(seed: int) -> None:
    requests, pieces = some_pieces(seed)
    tables = made.capture(requests, pieces).tables
    sizes: Counter[tuple[Any, ...]] = Counter()
    inferred: Counter[tuple[Any, ...]] = Counter()
    spans: dict[tuple[Any, ...], dict[int, int]] = {}
    for row in pieces:
        owner = row["owner_package"] or row["owner_comm"]
        key = (owner, row["path"], row["op"], cause(row))
        sizes[key] += row["bytes"]
        is_owner_inferred = row["owner_via"] == "inferred" and owner is not None
        is_place_inferred = row["path"] is not None or row["block_type"] not in (None, "unknown")
        inferred[key] += row["bytes"] * (is_owner_inferred or (row["map_source"] == "inferred" and is_place_inferred))
        if row["complete_ns"] is not None:
            spans.setdefault(key, {})[row["request_id"]] = row["complete_ns"] - row["issue_ns"]
    dimensions = ("owner", "path", "op", "cause")
    found = measures.causes(tables).filter(metric="bytes")
    assert {tuple(row[name] for name in dimensions): row["value"] for row in found.to_dicts()} == sizes
    for row in found.to_dicts():
        key = tuple(row[name] for name in dimensions)
        assert row["inferred"] == pytest.approx(inferred[key] / sizes[key])
    of_paths = measures.largest(tables, 1000).filter(pl.col("path").is_not_null())
    for row in of_paths.to_dicts():
        key = tuple(row[name] for name in dimensions)
        assert row["bytes"] == sizes[key]
        took = sorted(spans.get(key, {}).values())
        assert row["p99_ns"] == (took[math.ceil(0.99 * len(took)) - 1] if took else None)


def test_everything_that_moved_has_one_row() -> None:
    """Writes come first. Shares are of all bytes of the operation, and discards move nothing."""
    of = capture.open(ROOT / "datasets/demo")
    whole = measures.largest(of.tables, 10**6)
    assert whole["op"].unique(maintain_order=True).to_list() == ["write", "read"]
    requests = of.requests.collect()
    for op in ("write", "read"):
        rows = whole.filter(op=op)
        assert rows["bytes"].sum() == requests.filter(op=op)["nr_sectors"].sum() * 512
        assert rows["share"].sum() == pytest.approx(1)
        assert rows["bytes"].to_list() == sorted(rows["bytes"], reverse=True)
    ratios = measures.causes(of.tables).filter(metric="bytes_ratio").group_by("op").agg(pl.col("value").sum())
    assert ratios["value"].to_list() == pytest.approx([1] * ratios.height) and "discard" in ratios["op"]


@pytest.mark.parametrize(
    ("written", "read", "expected"),
    [
        ([9] * 20, [1] * 20, (7, 3)),  # three rows at least of either
        ([1] * 20, [9] * 20, (3, 7)),
        ([9, 9, 9, 9, 9], [8] * 20, (5, 5)),  # the ten largest of both
        ([1], [9] * 20, (1, 9)),  # no more writes exist
        ([9] * 20, [1], (9, 1)),
        ([9] * 20, [], (10, 0)),
        ([1], [1], (1, 1)),
    ],
)
def test_small_reads_are_listed_beside_large_writes(
    written: list[int], read: list[int], expected: tuple[int, int]
) -> None:
    sizes = [("write", size) for size in written] + [("read", size) for size in read]
    rows = [
        {"sector": 100 * n, "nr_sectors": size, "op": op, "queue_ns": n, "issue_ns": n}
        for n, (op, size) in enumerate(sizes)
    ]
    requests = [{name: row[name] for name in ("sector", "nr_sectors", "op", "queue_ns", "issue_ns")} for row in rows]
    tables = made.capture(requests, [{"request_id": n, "path": f"/{n}", **row} for n, row in enumerate(rows)]).tables
    found = measures.largest(tables, 10)
    assert (found.filter(op="write").height, found.filter(op="read").height) == expected


def test_the_latency_of_equal_requests_is_unknown() -> None:
    rows = [{"op": "read", "sector": 8, "issue_ns": n, "complete_ns": 10 + n, "path": path}
            for n, path in enumerate(("/a", "/a", "/b"))]  # fmt: skip
    matched = [{"matched": "interchangeable"}] * 2 + [{"matched": "full"}]
    requests = [{**row, **kind} for row, kind in zip(rows, matched, strict=True)]
    pieces = [{"request_id": n, "bytes": 4096, **row} for n, row in enumerate(rows)]
    for row in requests:
        del row["path"]
    of = made.capture(requests, pieces)
    found = measures.largest(of.tables, 10)
    assert found.select("path", "count", "bytes", "p99_ns").rows() == [("/a", 2, 8192, None), ("/b", 1, 4096, 10)]
    assert of.requests.select(device_time(of.requests)).collect().to_series().to_list() == [None, None, 10]


@pytest.mark.parametrize(("issued", "expected"), [([1000, None], 10), ([None, None], 1010)])
def test_latencies_of_one_recording_begin_at_one_event(issued: list[int | None], expected: int) -> None:
    """A time from queueing on is no latency of the device: it could be larger than the largest of the operation."""
    rows = [{"op": "write", "sector": 8 * n, "queue_ns": 0, "issue_ns": at, "complete_ns": 1010}
            for n, at in enumerate(issued)]  # fmt: skip
    tables = made.capture(rows, [{"request_id": n, "bytes": 4096, **row} for n, row in enumerate(rows)]).tables
    assert measures.largest(tables, 10).select("count", "p99_ns").rows() == [(2, expected)]


def fault_tables(events: list[dict[str, Any]]) -> dict[str, pl.LazyFrame]:
    """Return a read of file 7 by thread 5 at 100 ns, with these events of the page cache before it."""
    request = {"op": "read", "readahead": True, "queue_ns": 100, "issue_ns": 101, "submit_tid": 5}
    piece = request | {"request_id": 0, "bytes": 4096, "block_type": "data", "ino": 7, "owner_via": "submitter"}
    tables = made.capture([request], [piece]).tables
    rows = made.table("fs_events", [{"dev": made.DEV, "ino": 7, "tid": 5, **event} for event in events])
    return {**tables, "fs_events": rows.lazy()}


FAULT, GET_PAGES = "mm_filemap_fault", "mm_filemap_get_pages"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([(FAULT, 90, {})], "fault"),
        ([(GET_PAGES, 80, {}), (FAULT, 90, {})], "fault"),
        ([(FAULT, 80, {}), (GET_PAGES, 90, {})], "readahead"),  # a read call came later
        ([(FAULT, 90, {"tid": 6})], "readahead"),
        ([(FAULT, 90, {"ino": 8})], "readahead"),
        ([(FAULT, 110, {})], "readahead"),
    ],
)
def test_a_page_fault_is_the_last_thing_that_its_thread_did(
    events: list[tuple[str, int, dict[str, Any]]], expected: str
) -> None:
    tables = fault_tables([{"event": name, "ts_ns": ts_ns, **of} for name, ts_ns, of in events])
    found = measures.causes(tables, by=(), recorded=(FAULT, GET_PAGES))
    assert found.filter(metric="bytes")["cause"].to_list() == [expected]
    lost = Losses([Loss("overwritten", 1, "lost", ("fs_events",), spans=((85, 99),))])
    doubted = measures.causes(tables, by=(), recorded=(FAULT, GET_PAGES), lost=lost)
    assert doubted["cause"].unique().to_list() == ["readahead"]


def test_without_events_of_read_calls_nothing_is_a_fault() -> None:
    tables = fault_tables([{"event": FAULT, "ts_ns": 90}])
    assert measures.causes(tables, by=())["cause"].unique().to_list() == ["readahead"]


def test_the_definition_names_every_cause() -> None:
    words = schema.definitions()["cause"]["text"]
    assert [name for name in CAUSES if name.replace("_", " ") not in words] == []
