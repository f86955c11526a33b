"""Test that I/O of a server (a FUSE daemon, a loop device, a file server) is never attributed to the server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from harness import build, host
from support import built, loops
from support.needs import needs

import androstep_analysis as androstep
from androstep_analysis import schema
from androstep_analysis.capture.capture import Capture
from androstep_analysis.ingest import tasks
from androstep_analysis.ingest.tasks import kind, serves_others
from androstep_analysis.link.owner.processes import Processes

SERVERS = ["rs.media.module", "sdcard", "fuse", "ntfs-3g", "sshfs", "loop0", "nfsd", "ksmbd-io", "smbd", "virtiofsd",
           "vhost-1234", "nbd-server", "glusterfsd"]  # fmt: skip
OTHERS = ["app", "sh", "smbclient", "sdcardd-like", "loopback", "rs.media.player", "nfs-backup", "kworker/u4:1"]


def recorded(path: Path, *lines: str) -> Capture:
    path.write_text("# tracer: nop\n" + "".join(f"{line}\n" for line in lines))
    return androstep.open(path)


def moved(at: float, comm: str, tid: int, sector: int, op: str = "R") -> list[str]:
    """Return the events of a request that a thread queues and issues."""
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
    assert name in why.message and "4 KiB" in why.message and why.tables == ()


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_has_such_a_name_in_part_is_no_server(name: str) -> None:
    assert pl.DataFrame({"c": [name], "p": [None]}, schema={"c": pl.String, "p": pl.String}).select(
        serves_others(kind(pl.col("c")), pl.col("p"))
    ).to_series().to_list() == [False]


def test_a_server_is_recognised_by_its_package_not_its_threads_name() -> None:
    rows = pl.DataFrame({"c": ["Thread-7", "Thread-7"], "p": ["com.google.android.providers.media.module", "org.x"]})
    assert rows.select(serves_others(kind(pl.col("c")), pl.col("p"))).to_series().to_list() == [True, False]


def test_a_page_overwritten_by_a_server_has_no_certain_owner(tmp_path: Path) -> None:
    """An app dirtied the page and the daemon overwrote it, so that neither is certainly the owner."""

    def wrote(at: float, comm: str, tid: int) -> str:
        return f"{comm}-{tid} [000] ..... {at:.6f}: ext4_da_write_begin: dev 8,0 ino 12 pos 0 len 4096 flags 0"

    mapped = "kworker/u4:1-50 [000] ..... 2.900000: ext4_es_insert_extent: dev 8,0 ino 12 es [0/1) mapped 50 status W"
    found = recorded(
        tmp_path / "trace.txt", wrote(1, "app", 400), wrote(2, "rs.media.module", 300), mapped,
        *moved(3, "kworker/u4:1", 50, 400, "W"),
    )  # fmt: skip
    assert set(found.io.select("owner_comm").collect().to_series()) == {None}


WORKERS = ["kswapd0", "kworker/3:1", "dmcrypt_write/25", "kcryptd/253:0", "io_wqe_worker-0", "btrfs-endio-wri",
           "kdamond.0", "nfsv4-svc", "FuseDaemon", "d.process.media"]  # fmt: skip


@pytest.mark.parametrize("name", WORKERS)
def test_io_of_servers_and_kernel_threads_has_no_owner(name: str, tmp_path: Path) -> None:
    """The names are those of kernel threads and servers in the kernel's and Android's sources."""
    found = recorded(tmp_path / "trace.txt", *moved(1, name, 300, 100))
    assert found.io.select("owner_comm", "owner_pid").collect().rows() == [(None, None)]


@pytest.mark.parametrize("worker", ["iou-wrk-400", "iou-sqp-400", "iou-mgr-400"])
def test_a_thread_of_io_uring_is_of_the_process_that_it_works_for(worker: str, tmp_path: Path) -> None:
    found = recorded(tmp_path / "trace.txt", *moved(1, "app", 400, 100), *moved(2, worker, 500, 200))
    assert found.io.select("owner_comm").collect().to_series().to_list() == ["app", "app"]


def test_a_name_alone_makes_no_process_another(tmp_path: Path) -> None:
    """The recorder knows the process of the thread. A process with the name of a worker thread is not a server."""
    threads = pl.DataFrame(
        {"ts_ns": [5, 5], "tid": [500, 500], "pid": [500, None], "comm": ["iou-wrk-1", "iou-wrk-99999999999"]},
        schema_overrides={"tid": pl.Int32, "pid": pl.Int32},
    )
    of = Processes(schema.empty("tasks")).of_threads(threads)
    assert of["owner_pid"].to_list() == [500, None]
    assert of["owner_comm"].to_list() == ["iou-wrk-1", "iou-wrk-99999999999"]


def listing(comm: str, cmdline: str | None, serves: str | None) -> Processes:
    """Return a listing's record of thread 300."""
    row = {"pid": 300, "tid": 300, "uid": 0, "comm": comm, "cmdline": cmdline, "package": None, "started_ns": 0}
    texts = dict.fromkeys(("comm", "cmdline", "package", "serves"), pl.String)
    numbers = dict.fromkeys(("pid", "tid", "uid"), pl.Int32)
    return Processes(tasks.listed(pl.DataFrame([row | {"serves": serves}], schema_overrides=texts | numbers)))


@pytest.mark.parametrize(
    ("cmdline", "serves", "expected"),
    [("mydaemon", "/dev/fuse", (False, True)), ("mydaemon", None, (True, False)), (None, None, (False, False))],
    ids=["has /dev/fuse open", "a process", "a kernel thread"],
)  # fmt: skip
def test_a_listing_identifies_servers_and_kernel_threads_of_any_name(
    cmdline: str | None, serves: str | None, expected: tuple[bool, bool]
) -> None:
    thread = pl.DataFrame({"ts_ns": [5], "tid": [300], "pid": [None], "comm": ["mydaemon"]})
    thread = thread.cast({"tid": pl.Int32, "pid": pl.Int32})
    of = listing("mydaemon", cmdline, serves).of_threads(thread)
    assert of.select("is_process", "is_server").row(0) == expected


READS_AND_WRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for number in range(32):
    os.pread(fd, 65536, number * 65536)
    os.pwrite(fd, b"z" * 65536, (32 + number) * 65536)
os.fsync(fd)
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[loops.Mounted, Path]]:
    """Provide an ext4 file that a FUSE daemon with an unknown name serves, and its path below the mountpoint."""
    if lacking := host.missing():
        pytest.skip(lacking)
    loops.make_ext4(tmp_path / "disk.img")
    with loops.mounted(tmp_path / "disk.img") as disk:
        (disk.top / "inner").write_bytes(bytes(8 << 20))
        mountpoint = tmp_path / "fuse"
        mountpoint.mkdir()
        server = subprocess.Popen([build.disklog(), disk.top / "inner", tmp_path / "log", mountpoint])
        try:
            while not (mountpoint / "disk").exists():
                assert server.poll() is None
                time.sleep(0.02)
            yield disk, mountpoint / "disk"
        finally:
            subprocess.run(["umount", mountpoint], check=False)
            server.wait(60)


@needs("root")
def test_a_daemon_of_fuse_is_no_owner_whatever_its_name(served: tuple[loops.Mounted, Path], tmp_path: Path) -> None:
    """The process that reads and writes below the mountpoint never accesses the disk itself."""
    disk, file = served
    subprocess.run(["sync", "-f", disk.top], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")
    command = [built.program("iotrace"), "-o", tmp_path / "recording", "--device", disk.device]
    built.run(*command, "--", sys.executable, "-c", READS_AND_WRITES, file)
    found = androstep.open(tmp_path / "recording")
    io = found.io.filter(pl.col("path") == "/inner").collect()
    assert {"read", "write"} == set(io["op"].cast(pl.String))
    assert io["owner_comm"].unique().to_list() == [None]
    assert any(loss.kind == "served" and "disklog" in loss.message for loss in found.losses)
