"""Test that removing repeated page events does not change any result."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import built

import androstep_analysis as androstep
from androstep_analysis import link, schema
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest import spool
from androstep_analysis.link import owner, requests
from androstep_analysis.link.evidence import names
from androstep_analysis.link.owner import handles
from androstep_analysis.link.owner.processes import Processes

TYPES = schema.table("fs_events").polars

OTHERS = {
    "births": ("ext4_allocate_inode", "f2fs_new_inode"),
    "ends": ("ext4_evict_inode", "ext4_free_inode", "f2fs_evict_inode"),
    "paths": (*tracepoints.PATHS, "name_open", "name_open", "ext4_unlink_enter", "bio_page", "name_found"),
    "rest": ("ext4_es_insert_extent", "ext4_free_blocks", "iomap_dio_rw_begin", "jbd2_start_commit"),
}
PATHS = OTHERS["paths"]
FOLLOWING = ("ext4_allocate_inode", "ext4_unlink_enter")
SAID_AGAIN = (*tracepoints.PAGES, "ext4_es_lookup_extent_exit", "jbd2_handle_stats")


def recording(seed: int) -> pl.DataFrame:
    """Return events of a few files on two devices, mostly about pages; some traces lack creations or deletions."""
    draw = random.Random(seed)
    told = [kind for kind in OTHERS if draw.random() < 0.7]
    foreign = draw.choice(["f2fs_", "f2fs_", "ext4_", "none"])
    others = [name for kind in told for name in OTHERS[kind] if not name.startswith(foreign)]
    again = [name for name in SAID_AGAIN if not name.startswith(foreign)]
    share = draw.choice([0.8, 0.8, 0.3])
    rows: list[dict[str, Any]] = []
    for _ in range(draw.randrange(100)):
        name = draw.choice(again) if draw.random() < share or not others else draw.choice(others)
        row = {
            "event": name, "dev": draw.choice([1, 2, None]), "ino": draw.choice([2, 8, 12, 13, None]),
            "tid": draw.randrange(3), "pid": draw.choice([None, 1]), "comm": "app",
            "page_order": draw.choice([None, 0, 0, 1]), "nlink": draw.choice([0, 1]),
            "error": draw.choice([None, 0, 5]),
            "mode": draw.choice([None, 0o100644, 0o40755]) if name in OTHERS["births"] else None,
            "parent": draw.choice([None, 2, 12]) if name in OTHERS["births"] else None,
            "file_block": draw.randrange(3), "block": draw.randrange(1, 4), "nr_blocks": draw.randrange(2),
            "name": draw.choice([*["/data/a"] * 4, "/data/c", "/data/b/a", "a", None]) if name in PATHS else None,
            "new_name": draw.choice(["/data/d", "/data/b/a", None]) if name in PATHS else None,
            "bio_dev": draw.choice([1, 2]) if name == "bio_page" else None,
            "status": draw.choice(["W", "D", ""]), "transaction": draw.choice([None, 7, 8, 9]),
        }  # fmt: skip
        if name in tracepoints.PATHS:  # without an inode, as for handles
            row |= {"dev": None, "ino": None}
        elif name == tracepoints.HANDLE:
            row["ino"] = None
        rows += [{**row, "page": at} for at in range(draw.choice([1, 1, 2, 20]))]
        if name in tracepoints.PATHS and foreign == "f2fs_" and draw.random() < 0.5:
            follows = {"event": draw.choice(FOLLOWING), "dev": 1, "ino": draw.randrange(14, 90), "parent": 2}
            rows.append({"tid": row["tid"], **follows})
    return pl.DataFrame([{name: row.get(name) for name in TYPES} | {"ts_ns": at} for at, row in enumerate(rows)], TYPES)


@pytest.mark.prove
def test_lives_and_numbers_are_those_of_all_events(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = rows = named = 0
    for seed in range(60):
        monkeypatch.setattr(tracepoints, "_BATCH", (7, 1 << 17)[seed % 2])
        events = recording(seed)
        recorded = random.Random(seed).choice([(), ("ext4_allocate_inode", "f2fs_evict_inode")])
        kept = pl.concat(tracepoints.without_repetitions(events.lazy()))
        fewer, rows = fewer + events.height - kept.height, rows + events.height
        whole = tracepoints.numbered(events, recorded)
        kept = tracepoints.numbered(kept, recorded)
        assert kept.equals(whole.join(kept.select("ts_ns"), on="ts_ns", how="semi")), seed
        for fs_types in ({}, {1: "ext4", 2: "vfat"}):
            lives = tracepoints.lifetimes(kept.lazy(), fs_types)
            assert lives.equals(tracepoints.lifetimes(whole.lazy(), fs_types)), seed
            of_kept, of_all = (
                names.files(numbered.lazy(), lives, schema.empty("files"), {1: "/data", 2: "/data"}, None, recorded)
                for numbered in (kept, whole)
            )
            named += of_all.height
            assert of_kept.sort(pl.all().exclude("names")).equals(of_all.sort(pl.all().exclude("names"))), seed
            of_kept, of_all = (
                tracepoints.statements(numbered.lazy(), lives, {1: 4096, 2: 1024}) for numbered in (kept, whole)
            )
            assert of_kept.equals(of_all), seed
        of_all, of_kept = (
            handles.transactions(rows.lazy(), Processes(schema.empty("tasks"))) for rows in (whole, kept)
        )
        assert of_kept.commits.equals(of_all.commits), seed
        assert of_kept.participants.sort("dev", "transaction").equals(of_all.participants.sort("dev", "transaction"))
        process, is_large = pl.coalesce("pid", -pl.col("tid")), (pl.col("page_order") > 0).fill_null(False)
        of_pages = pl.col("event").is_in(tracepoints.PAGES)
        for of, told in ((True, ["dev"]), (of_pages, ["dev", "ino", "incarnation", process, is_large])):
            of_all, of_kept = (
                numbered.filter(of).select("event", *told).unique().sort(pl.all()) for numbered in (whole, kept)
            )
            assert of_kept.equals(of_all), seed
    assert fewer > rows / 3 and named > 50


@pytest.mark.sanitized
@pytest.mark.parametrize("at_once", [3, 1 << 17])
def test_opens_that_show_names_remain(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Some paths are opened again directly before the file is created, or before its pages are read."""
    monkeypatch.setattr(tracepoints, "_BATCH", at_once)
    opens = [{"event": "name_open", "tid": 1, "pid": 1, "name": f"/data/{name}"} for name in ("a", "b", "a")]
    page = {"dev": 2, "ino": 30, "tid": 1, "pid": 1, "page": 0}
    rows = [
        *opens,
        {"event": "ext4_allocate_inode", "tid": 1, "dev": 1, "ino": 20, "parent": 2, "mode": 0o100644},
        *opens[1:],
        {"event": tracepoints.CACHED, **page},
        {"event": "bio_page", "bio_dev": 2, "name": "b", **page},
    ]
    events = pl.DataFrame(
        [{name: row.get(name) for name in TYPES} | {"ts_ns": at} for at, row in enumerate(rows)], TYPES
    )
    kept = tracepoints.numbered(pl.concat(tracepoints.without_repetitions(events.lazy()))).lazy()
    lives = tracepoints.lifetimes(kept, {2: "vfat"})
    files = names.files(kept, lives, schema.empty("files"), {1: "/data", 2: ""})
    assert dict(files.select("ino", "path").iter_rows()) == {20: "/a", 30: "/data/b"}


@pytest.mark.prove
def test_tables_are_the_same_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of batches of requests, pieces, events and writebacks do not change the tables."""
    demo = built.ROOT / "datasets" / "demo"
    for name in ("whole", "parts"):
        shutil.copytree(demo, tmp_path / name, ignore=shutil.ignore_patterns("tables"))
    whole = androstep.open(tmp_path / "whole")
    for module, name in (
        *((requests, "WINDOW"), (owner, "BATCH"), (tracepoints, "_BATCH")),
        *((spool, "ON_DISK_ROWS"), (link, "_PARTITION_SECTORS")),
    ):
        monkeypatch.setattr(module, name, 389)
    parts = androstep.open(tmp_path / "parts")
    for name, table in whole.tables.items():
        assert parts.tables[name].collect().equals(table.collect()), name
