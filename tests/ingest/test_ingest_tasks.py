"""The kind of a thread according to its name."""

from __future__ import annotations

import polars as pl

from androstep_analysis.ingest import tasks

KINDS = {
    "jbd2/sda1-8": "journal",
    "jbd2/loop0-8": "journal",
    "f2fs_gc-254:4": "gc",
    "flush-179:0": "writeback",
    "kworker/u16:3": "writeback",
    "kworker/6:1H": "kernel",
    "f2fs_ckpt-254:4": "kernel",
    "<idle>": "kernel",
    "swapper/0": "kernel",
    "mmcqd/0": "kernel",
    "loop22": "server",
    "kdamond.0": "kernel",
    "btrfs-endio-wri": "kernel",
    "io_wqe_worker-0": "kernel",
    "FuseDaemon": "server",
    "smbd": "server",
    "iou-wrk-4944": "other",
    "loopback_app": "other",
    "RenderThread": "other",
    "my_jbd2/x": "other",
    "": "other",
}


def test_kind() -> None:
    found = pl.DataFrame({"comm": [*KINDS]}).select("comm", kind=tasks.kind(pl.col("comm")))
    assert dict(found.iter_rows()) == KINDS
