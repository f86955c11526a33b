"""Bytes of files that processes wrote and had read, against what the same recordings say by other events."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from support import corpus

import androstep_analysis as androstep
from androstep_analysis import measures

PAGE = 4096

TRACE = """\
 writer-7   [000] .... 1.000001: ext4_da_write_begin: dev 253,0 ino 12 pos 4096 len 8192
 writer-7   [000] .... 1.000002: mm_filemap_add_to_page_cache: dev 253:0 ino c pfn=0x1 ofs=4096 order=1
 writer-7   [000] .... 1.000003: ext4_da_write_end: dev 253,0 ino 12 pos 4096 len 8192 copied 8000
 writer-7   [000] .... 1.000004: mm_filemap_add_to_page_cache: dev 253:0 ino c pfn=0x2 ofs=65536 order=2
 reader-8   [000] .... 1.000005: mm_filemap_add_to_page_cache: dev 253:0 ino c pfn=0x3 ofs=4096 order=0
 reader-8   [000] .... 1.000006: mm_filemap_add_to_page_cache: dev 253:0 ino fd00000 pfn=0x4 ofs=4096 order=0
 reader-8   [000] .... 1.000007: f2fs_write_begin: dev = (254,1), ino = 9, pos = 0, len = 100, flags = 0
 reader-8   [000] .... 1.000008: mm_filemap_add_to_page_cache: dev 254:1 ino 1 pfn=0x5 ofs=36864 order=0
"""
"""A write that copied less than it was asked to, reads, and pages of the device itself and of F2FS's nodes."""


def found(path: Path) -> dict[tuple[str, int], tuple[float, float, float]]:
    table = measures.file_io(androstep.open(path).tables, by=("owner_comm", "ino"), page_bytes=PAGE)
    wide = table.pivot("metric", index=["owner_comm", "ino"], values="value")
    rows = wide.select("owner_comm", "ino", "written", "read", "writes").iter_rows()
    return {(comm, ino): (written, read, writes) for comm, ino, written, read, writes in rows}


def test_what_was_copied_and_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "trace.txt").write_text(TRACE)
    assert found(tmp_path / "trace.txt") == {
        ("writer", 12): (8000, 4 * PAGE, 1),
        ("reader", 12): (0, PAGE, 0),
        ("reader", 9): (100, 0, 1),
    }


def test_every_byte_of_write_calls_is_counted_but_for_direct_ones() -> None:
    """F2FS has an event of its own for each write call (f2fs_datawrite_start), direct ones included."""
    capture = androstep.open(corpus.path("kernel/f2fs_guest_6.1") / "trace.dat.zst")
    events = capture.fs_events.with_columns(event=pl.col("event").cast(pl.String))
    asked = events.filter(event="f2fs_datawrite_start").group_by("ino").agg(pl.sum("nr_bytes"))
    direct = events.filter(event="f2fs_direct_IO_enter").group_by("ino").agg(direct=pl.sum("nr_bytes"))
    calls = asked.join(direct, on="ino", how="left").with_columns(pl.col("nr_bytes") - pl.col("direct").fill_null(0))
    expected = dict(calls.filter(pl.col("nr_bytes") > 0).select("ino", "nr_bytes").collect().iter_rows())
    table = measures.file_io(capture.tables, by=("ino",), page_bytes=PAGE).filter(pl.col("value") > 0)
    written = table.filter(metric="written").group_by("ino").agg(pl.sum("value"))
    assert dict(written.iter_rows()) == expected
