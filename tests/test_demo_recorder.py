"""The bundled demo capture is what its manifest says, and its recorder leaves nothing behind."""

from __future__ import annotations

import fcntl
import gzip
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
import pyarrow as pa
import pytest

DEMO = Path(__file__).resolve().parents[1] / "datasets/demo"
APPS = {".example.mail", ".example.camera", ".example.brows", "installd", ".example.game"}
IMAGES = ("before.img.zst", "after.img.zst")
EVENT_LINE = re.compile(
    r" *(?P<comm>.+)-(?P<tid>\d+) +\( *(?P<tgid>\d+)\) \[\d+\] \S+ +[\d.]+: (?P<event>\w+): (?P<rest>.*)"
)


def manifest(capture: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((capture / "capture.json").read_text(encoding="utf-8"))
    return parsed


def trace_lines(capture: Path) -> list[str]:
    with gzip.open(capture / "raw/trace.txt.gz", "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


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
    assert {path: role for path, (role, _, _) in stated.items()} == {
        "raw/trace.txt.gz": "trace",
        "raw/before.img.zst": "image_before",
        "raw/after.img.zst": "image_after",
    }
    assert manifest(capture)["lost_events"] == 0


def check_trace(capture: Path) -> None:
    """Nothing missing, nothing of another device, every app there and every line with its process."""
    lines = trace_lines(capture)
    events = [line for line in lines if not line.startswith("#")]
    header = re.search(r"entries-in-buffer/entries-written: (\d+)/(\d+)", "\n".join(lines[:5]))
    assert header is not None
    assert int(header[1]) == int(header[2]) == len(events)

    parsed = [match for line in events if (match := EVENT_LINE.fullmatch(line))]
    assert len(parsed) == len(events)
    assert {match["comm"] for match in parsed} >= APPS | {"pool-1-thread-1"}
    mail = {match["tid"] for match in parsed if match["comm"] == ".example.mail"}
    assert {match["tgid"] for match in parsed if match["comm"] == "pool-1-thread-1"} == mail

    number = manifest(capture)["devices"][0]["dev"]
    comma = re.escape(number.replace(":", ","))
    of_device = re.compile(rf"{comma} |dev {comma} |dev {number} |bdi {number}: ")
    assert [match[0] for match in parsed if not of_device.match(match["rest"])] == []


def check_images(capture: Path, scratch: Path) -> None:
    if shutil.which("e2fsck") is None:
        pytest.skip("e2fsck is not installed")
    for name in IMAGES:
        image = decompressed(capture / "raw" / name, scratch / "image")
        checked = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


def check_writes(capture: Path, scratch: Path) -> None:
    """Every 4 KiB block in which the two images differ was written or discarded in the trace."""
    before, after = (
        np.fromfile(decompressed(capture / "raw" / name, scratch / "image"), dtype=np.uint8).reshape(-1, 4096)
        for name in IMAGES
    )
    traced = np.zeros(len(before), dtype=bool)
    for line in trace_lines(capture):
        done = re.search(r"block_rq_complete: \d+,\d+ [WDF]\S* \(\) (\d+) \+ (\d+) ", line)
        if done and int(done[2]):
            first, count = int(done[1]), int(done[2])
            traced[first // 8 : (first + count + 7) // 8] = True
    changed = (before != after).any(axis=1)
    assert changed.sum() > 1000
    assert np.flatnonzero(changed & ~traced).tolist() == []


def test_bundled_manifest_matches_the_files() -> None:
    check_manifest(DEMO)


def test_bundled_trace_is_whole() -> None:
    check_trace(DEMO)


def test_bundled_images_are_clean(tmp_path: Path) -> None:
    check_images(DEMO, tmp_path)


def test_bundled_trace_explains_the_images(tmp_path: Path) -> None:
    check_writes(DEMO, tmp_path)


def test_bundled_capture_is_small() -> None:
    assert sum((DEMO / entry["path"]).stat().st_size for entry in manifest(DEMO)["sources"]) < 3_000_000


def test_bundled_capture_names_no_directory_of_the_recording_machine(tmp_path: Path) -> None:
    texts = ["\n".join(trace_lines(DEMO)).encode(), (DEMO / "capture.json").read_bytes()]
    images = [decompressed(DEMO / "raw" / name, tmp_path / name).read_bytes() for name in IMAGES]
    for content in [*texts, *images]:
        assert not re.search(rb"/(home|root|tmp|work|dev/shm|usr|var)/", content)


@pytest.fixture
def tracing(tmp_path: Path) -> Iterator[Path]:
    """tracefs, mounted for the test alone; skips where recording is impossible."""
    if "tracefs" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("the kernel has no tracefs")
    if not Path("/dev/loop-control").exists() or shutil.which("mke2fs") is None:
        pytest.skip("no loop devices or no e2fsprogs")
    directory = tmp_path / "tracing"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tracefs", "nodev", directory], check=True)
    yield directory
    subprocess.run(["umount", directory], check=True)


def start(output: Path, rounds: int, path: str = os.environ.get("PATH", os.defpath)) -> subprocess.Popen[str]:
    command = [sys.executable, str(DEMO / "record.py"), "-o", str(output), "--rounds", str(rounds)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path})


def left_behind(pid: int, tracing: Path) -> list[str]:
    """Whatever of recorder `pid` is still on the system."""
    name = f"androstep-demo-{pid}"
    loops = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    directories = [str(path) for top in ("/dev/shm", tempfile.gettempdir()) for path in Path(top).glob(f"{name}*")]
    instances = [path.name for path in (tracing / "instances").iterdir()]
    return [text for text in (*loops, *mounts, *directories, *instances) if name in text]


def tgid_option(tracing: Path) -> str:
    """The global option when no recorder is at work: they hold its lock while it is theirs."""
    with (tracing / "options/record-tgid").open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return file.read()


@pytest.mark.root
def test_recording(tmp_path: Path, tracing: Path) -> None:
    tgid_before = tgid_option(tracing)
    recorder = start(tmp_path / "capture", rounds=2)
    _, errors = recorder.communicate(timeout=120)
    assert (recorder.returncode, errors) == (0, "")
    assert left_behind(recorder.pid, tracing) == []
    assert tgid_option(tracing) == tgid_before

    check_manifest(tmp_path / "capture")
    check_trace(tmp_path / "capture")
    check_images(tmp_path / "capture", tmp_path)
    check_writes(tmp_path / "capture", tmp_path)
    offset_now = time.time_ns() - time.monotonic_ns()
    assert abs(manifest(tmp_path / "capture")["realtime_offset_ns"] - offset_now) < 1_000_000_000


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_recording_leaves_nothing(number: signal.Signals, tmp_path: Path, tracing: Path) -> None:
    recorder = start(tmp_path / "capture", rounds=60)
    installed = f"androstep-demo-{recorder.pid}-*/root/data/app/com.example.game-0"
    deadline = time.monotonic() + 60
    while not any(list(Path(top).glob(installed)) for top in ("/dev/shm", tempfile.gettempdir())):
        assert recorder.poll() is None, recorder.communicate()[1]
        assert time.monotonic() < deadline, "the workload did not start"
        time.sleep(0.05)
    assert len(left_behind(recorder.pid, tracing)) >= 4  # loop, two mounts, instance: the check sees what there is

    recorder.send_signal(number)
    _, errors = recorder.communicate(timeout=60)
    assert (recorder.returncode, errors) == (128 + number, "")
    assert left_behind(recorder.pid, tracing) == []
    assert not (tmp_path / "capture").exists()


@pytest.mark.root
def test_failed_recording_says_why_and_leaves_nothing(tmp_path: Path, tracing: Path) -> None:
    """Without mke2fs it fails with tracefs already mounted."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in ("mount", "umount"):
        (programs / program).symlink_to(shutil.which(program) or "")
    recorder = start(tmp_path / "capture", rounds=1, path=str(programs))
    _, errors = recorder.communicate(timeout=60)
    assert recorder.returncode == 1
    assert errors == "record.py: mke2fs is not on this machine; install e2fsprogs and util-linux\n"
    assert left_behind(recorder.pid, tracing) == []
