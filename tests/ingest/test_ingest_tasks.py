"""The kind of a thread according to its name."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

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
    "nand-dev-rw": "kernel",
    "usb-storage": "kernel",
    "ubi_bgt0d": "kernel",
    "segctord": "writeback",
    "loop22": "server",
    "kdamond.0": "kernel",
    "btrfs-endio-wri": "kernel",
    "io_wqe_worker-0": "kernel",
    "FuseDaemon": "server",
    "smbd": "server",
    "iou-wrk-4944": "other",
    "loopback_app": "other",
    "usb-storage-tool": "other",
    "nandroid": "other",
    "RenderThread": "other",
    "my_jbd2/x": "other",
    "": "other",
}


def test_kind() -> None:
    found = pl.DataFrame({"comm": [*KINDS]}).select("comm", kind=tasks.kind(pl.col("comm")))
    assert dict(found.iter_rows()) == KINDS


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([None, 1, 2])), min_size=1, max_size=12),
    st.integers(0, 12),
)
def test_a_thread_id_has_the_process_of_its_time(rows: list[tuple[str, int | None]], cut: int) -> None:
    """Each event that states a process finds it again; no process is known that is not the nearest stated one."""
    columns = {"ts_ns": pl.Int64, "tid": pl.Int32, "comm": pl.String, "pid": pl.Int32}
    events = pl.DataFrame([(at, 7, comm, pid) for at, (comm, pid) in enumerate(rows)], columns, orient="row")
    seen = tasks.Seen()
    seen.add(events.head(cut))
    seen.add(events.slice(cut))
    table = seen.table().sort("valid_from_ns")
    assert table.equals(tasks.seen(events).sort("valid_from_ns"))
    found = events.join_asof(
        table.select(ts_ns=pl.col("valid_from_ns").fill_null(-1), known_comm="comm", known="pid"), on="ts_ns"
    )
    assert found["known_comm"].to_list() == events["comm"].to_list()
    stated = found.drop_nulls("pid")
    assert stated["known"].to_list() == stated["pid"].to_list()
