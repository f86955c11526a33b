"""What a process does that serves others (a FUSE daemon, a loop device, a file server) is never said to be its own."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import androstep_analysis as androstep
from androstep_analysis.capture.capture import Capture
from androstep_analysis.ingest.tasks import serves_others

SERVERS = ["rs.media.module", "sdcard", "fuse", "ntfs-3g", "sshfs", "loop0", "nfsd", "ksmbd-io", "smbd", "virtiofsd",
           "vhost-1234", "nbd-server", "glusterfsd"]  # fmt: skip
OTHERS = ["app", "sh", "smbclient", "sdcardd-like", "loopback", "rs.media.player", "nfs-backup", "kworker/u4:1"]


def recorded(path: Path, *lines: str) -> Capture:
    path.write_text("# tracer: nop\n" + "".join(f"{line}\n" for line in lines))
    return androstep.open(path)


def moved(at: float, comm: str, tid: int, sector: int, op: str = "R") -> list[str]:
    """A request that a thread queues and issues."""
    task = f"{comm}-{tid} [000] ....."
    return [
        f"{task} {at:.6f}: block_bio_queue: 8,0 {op} {sector} + 8 [{comm}]",
        f"{task} {at + 1e-6:.6f}: block_rq_issue: 8,0 {op} 4096 () {sector} + 8 [{comm}]",
        f"<idle>-0 [000] ..s.. {at + 1e-4:.6f}: block_rq_complete: 8,0 {op} () {sector} + 8 [0]",
    ]


@pytest.mark.parametrize("name", SERVERS)
def test_what_a_server_reads_has_no_owner_and_the_summary_says_why(name: str, tmp_path: Path) -> None:
    found = recorded(tmp_path / "trace.txt", *moved(1, name, 300, 100), *moved(2, "app", 400, 200))
    rows = found.io.select("sector", "owner_comm", "owner_pid", "owner_count", pl.col("owner_via").cast(pl.String))
    (served, own) = rows.collect().rows()
    assert served == (100, None, None, 0, "unknown")
    assert own[1] == "app" and own[4] == "submitter"
    (why,) = (loss for loss in found.losses if loss.kind == "served")
    assert name in why.message and "4,096 bytes" in why.message and why.tables == ()


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_has_such_a_name_in_part_is_no_server(name: str) -> None:
    assert pl.DataFrame({"c": [name], "p": [None]}, schema={"c": pl.String, "p": pl.String}).select(
        serves_others(pl.col("c"), pl.col("p"))
    ).to_series().to_list() == [False]


def test_a_server_is_told_by_its_package_whatever_its_thread_is_called() -> None:
    rows = pl.DataFrame({"c": ["Thread-7", "Thread-7"], "p": ["com.google.android.providers.media.module", "org.x"]})
    assert rows.select(serves_others(pl.col("c"), pl.col("p"))).to_series().to_list() == [True, False]


def test_what_a_server_writes_over_is_not_of_who_wrote_before(tmp_path: Path) -> None:
    """Its page was made dirty by an app and overwritten by the daemon: the data is of neither for certain."""

    def wrote(at: float, comm: str, tid: int) -> str:
        return f"{comm}-{tid} [000] ..... {at:.6f}: ext4_da_write_begin: dev 8,0 ino 12 pos 0 len 4096 flags 0"

    mapped = "kworker/u4:1-50 [000] ..... 2.900000: ext4_es_insert_extent: dev 8,0 ino 12 es [0/1) mapped 50 status W"
    found = recorded(
        tmp_path / "trace.txt", wrote(1, "app", 400), wrote(2, "rs.media.module", 300), mapped,
        *moved(3, "kworker/u4:1", 50, 400, "W"),
    )  # fmt: skip
    assert set(found.io.select("owner_comm").collect().to_series()) == {None}
