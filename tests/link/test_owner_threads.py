"""Tell programs of one name apart by the thread of the owner, in recordings without process numbers."""

from __future__ import annotations

from pathlib import Path

import monotony
import polars as pl
import pytest

from androstep_analysis import ingest, link
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.link import requests

WRITE = """\
 app-{tid} [000] 1.{at:06}: ext4_da_write_begin: dev 7,0 ino {ino} pos 0 len 4096
 app-{tid} [000] 1.{at:06}: writeback_dirty_folio: bdi 7:0: ino={ino} index=0
"""
WRITEBACK = """\
 kworker/u8:1-5 [000] 2.{at:06}: ext4_es_insert_extent: dev 7,0 ino {ino} es [0/1) mapped {block} status U
 kworker/u8:1-5 [000] 2.{at:06}: block_bio_queue: 7,0 W {sector} + 8 [kworker/u8:1]
"""
READ = " app-{tid} [000] 3.{at:06}: block_bio_queue: 7,0 R {sector} + 8 [app]\n"


def test_programs_of_one_name_differ_by_their_threads(tmp_path: Path) -> None:
    text = "".join(WRITE.format(tid=tid, at=tid, ino=tid) for tid in (77, 78))
    text += "".join(WRITEBACK.format(at=tid, ino=tid, block=tid, sector=tid * 8) for tid in (77, 78))
    text += "".join(READ.format(tid=tid, at=tid, sector=tid * 8) for tid in (78, 79))
    (tmp_path / "trace").write_text(text)
    read = ingest.read(tmp_path / "trace")
    tables = link.tables(read, requests.link(read.block), link.Images(), Spool(), block_bytes={7 << 20: 4096})
    io = tables["io"].collect().select("op", "sector", "owner_comm", "owner_tid", "owner_pid")
    assert io.rows() == [
        ("write", 616, "app", 77, None), ("write", 624, "app", 78, None),
        ("read", 624, "app", 78, None), ("read", 632, "app", 79, None),
    ]  # fmt: skip


@pytest.mark.parametrize("name", monotony.KERNEL[1:3])
def test_an_owner_has_a_thread_of_its_process(name: str) -> None:
    of = monotony.recording(name)
    tables = of.only(of.kinds, "tasks")
    io = tables["io"]
    assert io.filter(pl.col("owner_tid").is_null() != pl.col("owner_comm").is_null()).is_empty()
    process = tables["tasks"].select(owner_tid="tid", process="pid").drop_nulls().unique()
    rows = io.filter(pl.col("owner_pid").is_not_null()).join(process, on="owner_tid")
    assert rows.height > 100
    assert rows.filter((pl.col("process") == pl.col("owner_pid")).any().over("request_id", "piece").not_()).is_empty()
