"""Test the page size: reported by the recording, else proven by its events, else unknown."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from support import perfetto_messages, tracedat_files
from support.blocks import DEV
from support.owned import all_owned
from support.tracedat_files import Machine, event_format

from androstep_analysis import ingest, schema
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import pagesize
from androstep_analysis.link.requests import link

NUMBER = 700


def fs_events(*rows):
    """Return table fs_events from (event, columns), one each microsecond by thread 1 on inode 12."""
    full = [
        {"ts_ns": 1000 * at, "tid": 1, "pid": 1, "comm": "app1", "dev": DEV, "ino": 12, "event": event, **row}
        for at, (event, row) in enumerate(rows)
    ]
    return schema.conform(pl.DataFrame(full, schema=schema.table("fs_events").polars), "fs_events")


def wrote(offset, nr_bytes=1000):
    return "ext4_da_write_begin", {"offset_bytes": offset, "nr_bytes": nr_bytes}


def dirty(page, **more):
    return "writeback_dirty_folio", {"page": page, **more}


@pytest.mark.parametrize("size", pagesize.SIZES)
def test_writes_prove_how_large_the_pages_are_that_they_make_dirty(size):
    rows = [row for at in (0, 5, 9, 20, 33) for row in (wrote(at * size + 700), dirty(at))]
    assert pagesize.proven(None, fs_events(*rows).lazy()) == size


def test_the_first_page_of_a_folio_is_no_page_of_another_size():
    for order in range(1, 9):
        pages = [(at, at >> order << order) for at in range(3, 2000, 7)]
        rows = [row for at, first in pages for row in (wrote(at * 4096), dirty(first))]
        assert pagesize.proven(None, fs_events(*rows).lazy()) in (4096, None)


def test_what_nothing_proves_is_unknown_and_what_is_no_size_is_not_believed():
    assert pagesize.proven(None, fs_events().lazy()) is None
    assert pagesize.proven(None, fs_events(*[row for _ in range(9) for row in (wrote(0), dirty(0))]).lazy()) is None
    other = [row for at in range(1, 9) for row in (wrote(at * 4096), dirty(at, tid=2))]
    assert pagesize.proven(None, fs_events(*other).lazy()) is None
    assert [pagesize.proven(told, fs_events().lazy()) for told in (16384, 512, 5000, 1 << 30)] == [
        16384,
        None,
        None,
        None,
    ]


def pieces(*blocks):
    """Return writes of these 4 KiB blocks of inode 12, submitted by a kernel thread."""
    types = {name: dtype for table in ("requests", "io") for name, dtype in schema.table(table).polars.items()}
    full = [
        {"request_id": at, "part_dev": DEV, "dev": DEV, "sector": 8 * block, "part_sector": 8 * block, "op": "write",
         "nr_sectors": 8, "block_type": "data", "ino": 12, "file_offset_bytes": 4096 * block, "time": 10**9,
         "queue_ns": 10**9, "map_source": "tracepoint", "meta": False, "submit_tid": 90, "submit_comm": "kworker/u8:1"}
        for at, block in enumerate(blocks)
    ]  # fmt: skip
    schema_of = {name: types.get(name, pl.Int64) for name in full[0]} | {"submit_pid": pl.Int32}
    return pl.DataFrame(full, schema=schema_of)


@pytest.mark.parametrize(
    ("page_bytes", "dirtied"), [(4096, [1]), (16384, [4, 5, 6, 7]), (65536, list(range(16, 20))), (None, [])]
)
def test_a_dirty_page_is_all_its_blocks(page_bytes, dirtied):
    events = fs_events(dirty(1), ("ext4_evict_inode", {"ino": 9}))
    tasks = schema.empty("tasks")
    # Folios without such an event have one page. No process wrote to a page that was already dirty.
    sized = frozenset({tracepoints.CACHED, "ext4_write_begin", "ext4_da_write_begin"})
    got = all_owned(pieces(*range(20)), events, tasks, {DEV: 4096}, recorded=sized, page_bytes=page_bytes)
    assert got.filter(pl.col("owner_via") == "dirty_folio")["sector"].sort().to_list() == [8 * at for at in dirtied]
    assert set(got["owner_via"]) <= {"dirty_folio", "unknown"}


@pytest.mark.parametrize("version", [6, 7])
@pytest.mark.parametrize("page_bytes", [4096, 16384, 65536])
def test_trace_dat_reports_it(page_bytes, version, tmp_path: Path):
    machine = Machine(page_bytes=page_bytes)
    fields = [("char name[32]", 8, 32, 0), ("ino_t ino", 40, 8, 0), ("pgoff_t index", 48, 8, 0)]
    form = event_format("writeback_dirty_folio", NUMBER, fields)
    data = machine.fields(NUMBER, 5, b"7:0".ljust(32, b"\0") + machine.pack("QQ", 12, 1))
    page = machine.page(1000, machine.record(1, data))
    file = tracedat_files.File(machine, [("writeback", form)], [page], "5 app\n", [(4, b"local [mono]")])
    path = tmp_path / "trace.dat"
    path.write_bytes(file.v6() if version == 6 else file.v7())
    read = ingest.read(path)
    assert read.facts["page_bytes"] == page_bytes
    assert read.fs_events.collect()["page"].to_list() == [1]


def test_perfetto_reports_it(tmp_path: Path):
    path = tmp_path / "trace.pftrace"
    path.write_bytes(perfetto_messages.trace({"system_info": {"page_size": 16384}}))
    assert ingest.read(path).facts["page_bytes"] == 16384


TEXT = """# tracer: nop
 app-5 [000] .... 1.000001: mm_filemap_add_to_page_cache: dev 7:0 ino c pfn=0x1 ofs=65536 order=0
 app-5 [000] .... 1.000002: writeback_dirty_folio: bdi 7:0: ino=12 index=4
 app-5 [000] .... 1.000003: block_rq_issue: 7,0 W 4096 () 8 + 8 none,0,0 [app]
"""


def test_text_reports_none_and_tells_offsets_of_pages_in_bytes(tmp_path: Path):
    path = tmp_path / "trace.txt"
    path.write_text(TEXT)
    read = ingest.read(path)
    assert "page_bytes" not in read.facts and link(read.block).requests.collect().height == 1
    events = read.fs_events.collect()
    assert events.select("page", "offset_bytes").rows() == [(None, 65536), (4, None)]
    assert pagesize.counted(events.lazy(), 16384).collect()["page"].to_list() == [4, 4]
    assert pagesize.counted(events.lazy(), None).collect()["page"].to_list() == [None, 4]
