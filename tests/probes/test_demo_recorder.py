"""The bundled demo capture matches its manifest, and its recorder leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from support import machine, tracing

import androstep_analysis as androstep
from androstep_analysis import ingest, units
from androstep_analysis.ingest import record

DEMO = Path(__file__).resolve().parents[2] / "datasets/demo"
sys.path.append(str(DEMO))
APPS = {".example.mail", ".example.camera", ".example.brows", "installd", ".example.game"}
IMAGES = ("before.img.zst", "after.img.zst")
ROLES = {
    "raw/trace.dat.zst": "trace",
    "raw/before.rec.zst": "listing_before",
    "raw/after.rec.zst": "listing_after",
    "raw/names.rec.zst": "names",
    "raw/recording.json": "recording",
    "raw/before.img.zst": "image_before",
    "raw/after.img.zst": "image_after",
}
KIB = 1024
WRITTEN_ONCE = {
    "/app/com.example.game-{}/base.apk": 700 * KIB,
    "/app/com.example.game-{}/lib/arm64/libgame.so": 152 * KIB,
    "/app/com.example.game-{}/oat/arm64/base.odex": 120 * KIB,
    "/app/com.example.game-{}/oat/arm64/base.vdex": 160 * KIB,
    "/media/0/DCIM/Camera/IMG_{:04}.jpg": 180 * KIB,
    "/media/0/DCIM/Camera/VID_{:04}.mp4": 512 * KIB,
}
"""What workload.py writes in each round, in whole pages of 4 KiB; the next round removes the packages."""
DELETED = {
    "/data/com.example.mail/databases/delete.db-journal": 4,
    "/data/com.example.brows/app_chrome/Default/Cookies-journal": 3,
}
"""Deletions in each round: one for each transaction."""


def manifest(capture: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((capture / "capture.json").read_text(encoding="utf-8"))
    return parsed


def recording(capture: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((capture / "raw/recording.json").read_text(encoding="utf-8"))
    return parsed


def decompressed(image: Path, to: Path) -> Path:
    with pa.CompressedInputStream(str(image), "zstd") as source, to.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return to


def check_manifest(capture: Path) -> None:
    stated = {entry["path"]: (entry["role"], entry["bytes"], entry["sha256"]) for entry in manifest(capture)["sources"]}
    found = {
        f"raw/{path.name}": (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in (capture / "raw").iterdir()
    }
    assert {path: (size, digest) for path, (_, size, digest) in stated.items()} == found
    assert {path: role for path, (role, _, _) in stated.items()} == ROLES
    assert manifest(capture)["lost_events"] == recording(capture)["lost_events"] == 0


def check_trace(capture: Path) -> None:
    """Check that no event is lost or of another device, and that every app has its threads and process."""
    trace = ingest.read(capture / "raw/trace.dat.zst")
    assert sum(trace.events.values()) == sum(cpu["events"] for cpu in recording(capture)["cpus"])
    assert (trace.lost_events, trace.losses) == (0, ())

    names = {(comm, pid) for comm, pid in trace.tasks.select("comm", "pid").iter_rows()}
    assert {comm for comm, _ in names} >= APPS | {"pool-1-thread-1"}
    (mail,) = {pid for comm, pid in names if comm == ".example.mail"}
    assert {pid for comm, pid in names if comm == "pool-1-thread-1"} == {mail}

    dev = units.parse_dev(manifest(capture)["devices"][0]["dev"])
    for table in (trace.block, trace.fs_events):
        assert set(table.collect()["dev"].drop_nulls()) == {dev}


def check_privacy(capture: Path, scratch: Path) -> None:
    """Check that the machine's processes, paths and mounts are absent; only kernel threads are present."""
    for path in (capture / "raw").iterdir():
        content = path.read_bytes() if path.suffix == ".json" else decompressed(path, scratch / "plain").read_bytes()
        assert not re.search(rb"/(home|root|tmp|work|dev/shm|usr|var|opt|etc|bin)/", content), path
    trace = ingest.read(capture / "raw/trace.dat.zst")
    known = APPS | {"pool-1-thread-1", "iotrace", "mount", "sync", "sh", "python", "python3", "other"}
    others = trace.tasks.filter(~pl.col("comm").is_in(known), pl.col("kind").is_in(["other", "server"]))
    assert others["comm"].drop_nulls().to_list() == []
    for name in ("before.rec.zst", "after.rec.zst"):
        listing = record.read(capture / "raw" / name)
        assert set(listing.tables["task"]["cmdline"]) == {"/iotrace -o /recording --device /data"}
    assert [mount["path"] for mount in recording(capture)["mounts"]] == ["/data"]
    assert recording(capture)["facts"]["device"] == "demo"


def check_images(capture: Path, scratch: Path) -> None:
    if shutil.which("e2fsck") is None:
        pytest.skip("e2fsck is not installed")
    for name in IMAGES:
        image = decompressed(capture / "raw" / name, scratch / "image")
        checked = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


def check_writes(capture: Path, scratch: Path) -> None:
    """Check that every 4 KiB block in which the two images differ was written or discarded in the trace."""
    before, after = (
        np.fromfile(decompressed(capture / "raw" / name, scratch / "image"), dtype=np.uint8).reshape(-1, 4096)
        for name in IMAGES
    )
    traced = np.zeros(len(before), dtype=bool)
    done = ingest.read(capture / "raw/trace.dat.zst").block.filter(pl.col("event") == "block_rq_complete").collect()
    for first, count in done.filter(pl.col("rwbs").str.contains("^F?[WD]")).select("sector", "nr_sectors").iter_rows():
        traced[first // 8 : (first + count + 7) // 8] = True
    changed = (before != after).any(axis=1)
    assert changed.sum() > 1000
    assert np.flatnonzero(changed & ~traced).tolist() == []


def check_names(capture: Path, rounds: int) -> None:
    """Check that all data has the workload's path, also for files that were renamed or deleted."""
    opened = androstep.open(capture)
    data = opened.io.filter(pl.col("op") == "write", pl.col("block_type") == "data").collect()
    assert data["path"].null_count() == 0
    written = dict(data.group_by("path").agg(pl.col("bytes").sum()).iter_rows())
    expected = {path.format(number): size for path, size in WRITTEN_ONCE.items() for number in range(rounds)}
    assert {path: written.get(path) for path in expected} == expected

    gone = opened.files.filter(pl.col("deleted_ns").is_not_null()).collect()
    assert {path: gone.filter(path=path).height for path in DELETED} == {
        path: rounds * times for path, times in DELETED.items()
    }
    assert {path.format(rounds - 2) for path in WRITTEN_ONCE if path.startswith("/app")} <= set(gone["path"])


def test_only_names_of_recorders_stay(tmp_path: Path) -> None:
    """Without recorders, even the apps count as other processes and lose their names."""
    from redact import redact

    trace = decompressed(DEMO / "raw/trace.dat.zst", tmp_path / "trace.dat")
    redact(trace, ())
    names = ingest.read(trace).tasks.filter(kind="other")["comm"].drop_nulls()
    assert set(names) == {"other"}


def test_programs_that_serve_others_are_none_of_the_kernel() -> None:
    from redact import of_the_kernel

    names = [
        b"kworker/0:1",
        b"jbd2/loop0-8",
        b"f2fs_gc-7:0",
        b"kswapd0",
        b"sshfs",
        b"qemu-nbd",
        b"smbd",
        b"bash",
        b"\xff",
    ]
    lines = b"".join(b"%5d %s\n" % (thread, name) for thread, name in enumerate(names))
    assert of_the_kernel(lines) == {0, 1, 2, 3}


def test_bundled_manifest_matches_the_files() -> None:
    check_manifest(DEMO)


def test_bundled_trace_is_whole() -> None:
    check_trace(DEMO)


def test_bundled_files_have_their_names() -> None:
    check_names(DEMO, rounds=8)


def test_bundled_images_are_clean(tmp_path: Path) -> None:
    check_images(DEMO, tmp_path)


def test_bundled_trace_explains_the_images(tmp_path: Path) -> None:
    check_writes(DEMO, tmp_path)


def test_bundled_capture_is_small() -> None:
    assert sum((DEMO / entry["path"]).stat().st_size for entry in manifest(DEMO)["sources"]) < 1_000_000


def test_bundled_capture_tells_nothing_of_the_recording_machine(tmp_path: Path) -> None:
    check_privacy(DEMO, tmp_path)


@pytest.fixture
def tracefs(tmp_path: Path) -> Iterator[Path]:
    """Mount tracefs for the test; skip it if recording is impossible."""
    if not Path("/dev/loop-control").exists() or shutil.which("mke2fs") is None:
        pytest.skip("no loop devices or no e2fsprogs")
    with machine.shared(machine.MOUNTS), tracing.mounted(tmp_path) as top:
        yield top


def start(output: Path, rounds: int, path: str = os.environ.get("PATH", os.defpath)) -> subprocess.Popen[str]:
    command = [sys.executable, str(DEMO / "record.py"), "-o", str(output), "--rounds", str(rounds)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path})


def left_behind(pid: int) -> list[str]:
    """Return everything of recorder `pid` that is still on the system."""
    name = f"androstep-demo-{pid}"
    loops = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    directories = [str(path) for top in ("/dev/shm", tempfile.gettempdir()) for path in Path(top).glob(f"{name}*")]
    return [text for text in (*loops, *mounts, *directories) if name in text]


def instances(pid: int, tracefs: Path) -> list[Path]:
    """Return the trace instances of the child processes of `pid`."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [tracefs / "instances" / name for child in children for name in tracing.instances_of(tracefs, int(child))]


@pytest.mark.prove  # record.py takes a static iotrace
@pytest.mark.root
def test_recording(tmp_path: Path, tracefs: Path) -> None:
    # A root process without capabilities: even a tracer with hardly any may inspect it. Its name is not UTF-8.
    shell = tmp_path / os.fsdecode(b"\xff")
    shell.symlink_to("/bin/sh")
    busy = [shell, "-c", "while sleep 0.05; do :; done"]
    with subprocess.Popen(["setpriv", "--bounding-set", "-all", *busy]) as bystander:
        recorder = start(tmp_path / "capture", rounds=2)
        _, errors = recorder.communicate(timeout=120)
        bystander.kill()
    assert (recorder.returncode, errors) == (0, "")
    assert left_behind(recorder.pid) == []
    assert not (tracefs / "instances" / recording(tmp_path / "capture")["instance"]).exists()

    check_manifest(tmp_path / "capture")
    check_trace(tmp_path / "capture")
    check_names(tmp_path / "capture", rounds=2)
    check_images(tmp_path / "capture", tmp_path)
    check_writes(tmp_path / "capture", tmp_path)
    check_privacy(tmp_path / "capture", tmp_path)
    offset_now = time.time_ns() - time.monotonic_ns()
    assert abs(manifest(tmp_path / "capture")["realtime_offset_ns"] - offset_now) < 1_000_000_000


@pytest.mark.prove  # record.py takes a static iotrace
@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_recording_leaves_nothing(number: signal.Signals, tmp_path: Path, tracefs: Path) -> None:
    recorder = start(tmp_path / "capture", rounds=60)
    installed = f"androstep-demo-{recorder.pid}-*/root/data/app/com.example.game-0"
    while not any(list(Path(top).glob(installed)) for top in ("/dev/shm", tempfile.gettempdir())):
        assert recorder.poll() is None, recorder.communicate()[1]
        time.sleep(0.05)
    assert len(left_behind(recorder.pid)) >= 4  # loop, mounts, directory: the check sees what exists
    (instance,) = instances(recorder.pid, tracefs)

    recorder.send_signal(number)
    _, errors = recorder.communicate(timeout=60)
    assert (recorder.returncode, errors) == (128 + number, "")
    assert left_behind(recorder.pid) == []
    assert not instance.exists()
    assert not (tmp_path / "capture").exists()


@pytest.mark.prove  # record.py takes a static iotrace
@pytest.mark.root
def test_failed_recording_says_why_and_leaves_nothing(tmp_path: Path, tracefs: Path) -> None:
    """Without mke2fs it fails after its own /proc was mounted."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in ("mount", "umount"):
        (programs / program).symlink_to(shutil.which(program) or "")
    recorder = start(tmp_path / "capture", rounds=1, path=str(programs))
    _, errors = recorder.communicate(timeout=60)
    assert recorder.returncode == 1
    assert errors == "record.py: mke2fs is not on this machine; install e2fsprogs and util-linux\n"
    assert left_behind(recorder.pid) == []


def test_without_iotrace_it_says_so(tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO / "record.py"), "-o", str(tmp_path / "capture"), "--iotrace", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "record.py: nowhere: there is no iotrace; run make probes, or name one with --iotrace\n"
