"""names.rec on an ext4 loop device: files that exist for a millisecond have names, whatever these are."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from support import built, loops
from support.loops import Mounted

import androstep_analysis as androstep
from androstep_analysis.common import manifest
from androstep_analysis.common.errors import LossWarning
from androstep_analysis.ingest import record, recording

HOSTILE = b'a "name"\\ with\nall, {sorts}: \xff\xe2\x82 of \x1b[2Jbytes \x01'
SHOWN = 'a "name"\\ with\nall, {sorts}: \\xff\\xe2\\x82 of \x1b[2Jbytes \x01'

WORK = r"""
import os, sqlite3, sys
os.chdir(sys.argv[1])

def write(name, bytes_):
    fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(fd, bytes_ * 8192)
    os.fsync(fd)
    os.close(fd)

database = sqlite3.connect("app.db")
database.execute("create table t (a)")
for number in range(20):
    database.execute("insert into t values (?)", ("x" * 5000,))
    database.commit()
database.close()
write("settings.tmp", b"n")
os.rename("settings.tmp", "settings")  # over one that is there
os.unlink("settings")
name = os.fsencode(sys.argv[2]) if len(sys.argv) > 2 else b""
write(name, b"h")
os.unlink(name)
os.mkdir("one")
write("one/first", b"1")
os.rename("one", "two")
write("two/second", b"2")
os.link("two/second", "kept")
os.unlink("two/first")
os.unlink("two/second")
os.unlink("kept")
os.rmdir("two")
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mounted]:
    image = tmp_path / "image"
    loops.make_ext4(image)
    with loops.mounted(image) as mounted:
        (mounted.top / "settings").write_bytes(b"old" * 5000)
        yield mounted


def recorded(disk: Mounted, out: Path, preset: str = "block+fs") -> Path:
    command = [built.program("iotrace"), "-o", out, "--device", disk.device, "--preset", preset, "--"]
    built.run(*command, sys.executable, "-c", WORK, disk.top, HOSTILE)
    return out


@pytest.mark.root
def test_deleted_files_have_their_names(disk: Mounted, tmp_path: Path) -> None:
    out = recorded(disk, tmp_path / "out")
    names = record.read(out / "names.rec")
    assert names.complete and names.losses == () and names.tables["watch"]["reason"].to_list() == [None]
    capture = androstep.open(out)
    io, files = capture.table("io").collect(), capture.table("files").collect().filter(pl.col("source") == "tracepoint")
    assert not [kind.title for kind in capture.lacking if kind.title == "names of files"]
    by_path = {row["path"]: row["names"] for row in files.iter_rows(named=True)}
    assert files.filter(path="/app.db-journal").height == 20 + 1
    assert by_path["/settings"] == ["/settings.tmp", "/settings"]
    assert f"/{SHOWN}" in by_path
    assert by_path["/two/first"] == ["/one/first", "/two/first"]
    # The order of its two unlinks is unknown if creation and removal were merged into one event.
    assert {"/two/second", "/kept"} in (set(by_path.get("/kept", ())), set(by_path.get("/two/second", ())))
    data = io.filter(pl.col("block_type") == "data", pl.col("op") == "write")
    assert data.height > 40 and data["path"].null_count() == 0


@pytest.mark.root
def test_a_recording_without_names_goes_on_working(disk: Mounted, tmp_path: Path) -> None:
    out = recorded(disk, tmp_path / "out")
    (out / "names.rec").unlink()
    io = androstep.open(out).table("io").collect()
    assert io.filter(pl.col("block_type") == "data").height > 40


@pytest.mark.root
def test_names_are_a_part_of_the_capture_that_is_made(disk: Mounted, tmp_path: Path) -> None:
    out = recorded(disk, tmp_path / "out")
    assert [source.role for source in recording.described(out).sources].count("names") == 1
    capture = androstep.create([out], tmp_path / "capture")
    assert "/app.db-journal" in capture.table("files").collect()["path"].to_list()
    assert manifest.read(tmp_path / "capture").of_role("names")


@pytest.mark.root
def test_blocks_alone_need_no_names(disk: Mounted, tmp_path: Path) -> None:
    assert not (recorded(disk, tmp_path / "out", "block") / "names.rec").exists()


@pytest.mark.root
@pytest.mark.alone  # the next iotrace saves the remains of a killed recorder
def test_what_a_killed_recorder_had_read_stays(disk: Mounted, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        [built.program("iotrace"), "-o", out, "--device", disk.device], stderr=subprocess.DEVNULL
    )
    while not (out / "before.rec").exists():
        assert process.poll() is None
        time.sleep(0.02)
    subprocess.run([sys.executable, "-c", WORK, disk.top, HOSTILE], check=True)
    process.kill()
    process.wait(60)
    built.run(built.program("iotrace"), "--finish", out)
    names = record.read(out / "names.rec")
    assert names.complete
    assert names.tables["name"].filter(pl.col("name") == "app.db-journal", (pl.col("kinds") & 1) != 0).height == 20 + 1


def processes_of(command: list[object]) -> set[int]:
    """Return the processes that were started as this command, or forked from it without a command of their own."""
    line, found = b"\0".join(os.fsencode(str(word)) for word in command), set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if line in (process / "cmdline").read_bytes():
                found.add(int(process.name))
    return found


@pytest.mark.root
def test_its_reader_is_none_of_the_recorded_programs(disk: Mounted, tmp_path: Path) -> None:
    out, seen = tmp_path / "out", set[int]()
    command = [built.program("iotrace"), "-o", out, "--device", disk.device, "--preset", "block+fs+syscalls", "--"]
    with subprocess.Popen([*command, sys.executable, "-c", WORK, disk.top, HOSTILE], stderr=subprocess.DEVNULL) as it:
        while it.poll() is None:
            seen |= processes_of(command)
            time.sleep(0.01)
    assert it.returncode == 0 and len(seen) >= 2  # the recorder and its reader of names
    with warnings.catch_warnings():  # some program of this machine may be in a call when the recording ends
        warnings.simplefilter("ignore", LossWarning)
        capture = androstep.open(out)
    calls = capture.table("syscalls").filter(pl.col("comm") == "iotrace").collect()
    assert "execve" in calls["call"].to_list()  # by the program that is recorded, which has this name until then
    # Another test may run another iotrace meanwhile.
    assert set(calls.filter(pl.col("tid").is_in(seen))["call"]) <= {"execve"}
