"""The real adbd and the real perfetto: a phone records with and without root, also while the cable is unplugged."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from support import boxed_phone, phone_programs
from support.boxed_phone import Box
from support.devices import home, needs_probe
from support.loops import attached

import androstep_analysis as androstep
from androstep_analysis import cli, units
from androstep_analysis.capture import Capture
from androstep_analysis.device import LinkLost, connect

pytestmark = [
    pytest.mark.prove,
    pytest.mark.root,
    pytest.mark.filterwarnings("ignore:.*could not be recorded", "ignore:.*the probe counted"),
]

BLOCKS, BLOCK_BYTES = 200, 4096
ROOTED = pytest.mark.parametrize(
    "is_rooted", [pytest.param(False, id="stock"), pytest.param(True, id="rooted", marks=pytest.mark.alone)]
)
"""Run alone with root: an iotrace in the box cannot see other processes, and would remove their trace instances."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """Make a disk to which only the test writes, so that every request is known."""
    with (tmp_path / "disk.img").open("wb") as file:
        file.truncate(8 << 20)
    with attached(tmp_path / "disk.img") as device:
        yield device


def write(disk: str, blocks: range) -> None:
    """Write blocks of the disk, each by a separate request."""
    fd = os.open(disk, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as page:
            for block in blocks:
                os.pwrite(fd, page, 2 * block * BLOCK_BYTES)  # with gaps, so that none are merged
    finally:
        os.close(fd)


def number_of(device: str) -> str:
    """Return the number of a block device as ``MAJ:MIN``."""
    number = Path(device).stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def written(capture: Capture | None, disk: str) -> list[int]:
    """Return the blocks that the capture has complete writes of, in order."""
    assert capture is not None
    dev = units.parse_dev(number_of(disk))
    writes = capture.requests.filter(dev=dev, op="write").filter(pl.col("complete_ns") > pl.col("issue_ns"))
    return sorted(sector * 512 // (2 * BLOCK_BYTES) for sector in writes.collect()["sector"])


def left_behind(phone: Box) -> list[str]:
    """Return the names of all entries in the directories that a recording may use."""
    places = ("local/tmp", "misc/perfetto-traces")
    return [path.name for place in places for path in (phone.data / place).iterdir()]


@pytest.mark.alone  # perfetto records the whole machine: events of other tests may overflow the kernel's buffer
@ROOTED
def test_a_cable_that_is_pulled_during_a_recording_costs_no_request(
    tmp_path: Path, disk: str, capsys: pytest.CaptureFixture[str], is_rooted: bool
) -> None:
    needs_probe("iotrace")
    with boxed_phone.box(tmp_path, is_rooted=is_rooted) as phone, home(tmp_path):
        choices = {"trace": [number_of(disk)]} if is_rooted else {}  # iotrace records mounted and named devices
        with connect(phone.address) as device, device.record(out=tmp_path / "capture", **choices) as recorded:
            write(disk, range(BLOCKS // 2))
            with phone.cable.pulled():
                write(disk, range(BLOCKS // 2, BLOCKS))
        assert left_behind(phone) == []
    made = recorded.capture
    assert written(made, disk) == list(range(BLOCKS))
    assert made is not None and made.lost_events == 0
    assert made.facts["rooted"] is is_rooted
    said = capsys.readouterr().err
    assert "no answer" not in said, "a program that was started keeps the link"
    assert "trying again" in said and ("no root access" in said) is not is_rooted


@ROOTED
def test_what_was_written_through_adb_is_in_the_recording(tmp_path: Path, is_rooted: bool) -> None:
    """The data of a command's file reach the disk of /data during the recording."""
    needs_probe("iotrace")
    size = 1 << 20
    command = ["dd", "if=/dev/urandom", "of=/data/local/tmp/file", f"bs={size}", "count=1", "conv=fsync"]
    with boxed_phone.box(tmp_path, is_rooted=is_rooted) as phone, home(tmp_path):
        assert cli.main(["record", "--on", phone.address, "-o", str(tmp_path / "capture"), "--", *command]) == 0
        inode = (phone.data / "local/tmp/file").stat().st_ino
        dev = units.parse_dev(number_of(phone.device))
        assert left_behind(phone) == ["file"]
    made = androstep.open(tmp_path / "capture")
    writes = made.requests.filter(dev=dev, op="write").select(pl.col("nr_sectors").sum() * 512).collect().item()
    assert writes >= size
    begun = made.tables["fs_events"].filter(dev=dev, ino=inode).collect()
    assert begun.height > 0
    assert made.facts["workload"] == " ".join(command)


def test_a_recording_whose_recorder_is_gone_is_recovered(tmp_path: Path, disk: str) -> None:
    with boxed_phone.box(tmp_path) as phone, home(tmp_path):
        with (
            pytest.raises(LinkLost),
            connect(phone.address, patience_s=0) as device,
            contextlib.ExitStack() as later,
            device.record(out=tmp_path / "lost"),
        ):
            write(disk, range(BLOCKS // 2))
            later.enter_context(phone.cable.pulled())
        write(disk, range(BLOCKS // 2, BLOCKS))
        with connect(phone.address) as device:
            (made,) = device.recover(tmp_path / "capture")
        assert left_behind(phone) == []
    assert written(made, disk) == list(range(BLOCKS))
    assert not (tmp_path / "lost").exists()


def test_events_that_the_kernel_refuses_are_left_out_and_named(tmp_path: Path) -> None:
    with boxed_phone.box(tmp_path) as phone, home(tmp_path), connect(phone.address) as device:
        with device.record(out=tmp_path / "capture", seconds=1) as recorded:
            recorded.wait()
        assert recorded.capture is not None
    (message,) = [loss.message for loss in recorded.capture.losses if loss.kind == "missing"]
    assert boxed_phone.REFUSED.rpartition("/")[2] in message


@ROOTED
def test_doctor_says_how_the_phone_records(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_rooted: bool) -> None:
    needs_probe("extmap")
    with boxed_phone.box(tmp_path, is_rooted=is_rooted) as phone, home(tmp_path):
        assert cli.main(["doctor", "--on", phone.address]) == 0
        assert left_behind(phone) == []
    said = capsys.readouterr().out
    assert ("ok  root" in said) is is_rooted
    assert ("ok  perfetto, which records without root" in said) is not is_rooted


@ROOTED
def test_nothing_of_the_box_is_left_also_after_a_failure(tmp_path: Path, is_rooted: bool) -> None:
    with pytest.raises(ZeroDivisionError), boxed_phone.box(tmp_path, is_rooted=is_rooted) as phone:
        assert phone.processes in namespaces()
        raise ZeroDivisionError
    assert phone.processes not in namespaces()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    with home(tmp_path), pytest.raises(LinkLost):
        connect(phone.address, patience_s=0)


def namespaces() -> set[str]:
    """Return the namespaces of all processes."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/pid"):
        with contextlib.suppress(OSError):  # the process may have just ended
            found.add(str(link.readlink()))
    return found


@ROOTED
def test_benchmarks_and_samples(tmp_path: Path, is_rooted: bool) -> None:
    for name in ("iobench", "procmon"):
        needs_probe(name)
    with boxed_phone.box(tmp_path, is_rooted=is_rooted) as phone, home(tmp_path):
        words = [
            "bench",
            "--on",
            phone.address,
            "/data/local/tmp",
            "-o",
            str(tmp_path / "bench"),
            "--",
            "--rw",
            "write",
        ]
        assert cli.main([*words, "--size", "1m", "--cache", "any", "--repeats", "2"]) == 0
        assert cli.main(["monitor", "--on", phone.address, "-o", str(tmp_path / "samples"), "--time", "1"]) == 0
        assert left_behind(phone) == []
    runs = androstep.open(tmp_path / "bench").bench["bench_runs"]
    assert runs.select("valid", "fs_type").rows() == [(True, "ext4")] * 2
    assert androstep.open(tmp_path / "samples").samples.collect().height > 0


def test_files_that_the_shell_may_list_have_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nearly all bytes that a command reads from /data and writes there are of files with a path."""
    app, closed = "org.example.app", "org.example.closed"
    with boxed_phone.box(tmp_path) as phone, home(tmp_path):
        apks = phone_programs.install(phone, tmp_path, {app: True, closed: False})
        mail, odd = phone.data / "data" / app / "mail.db", phone.data / "local/tmp/two\nlines"
        for path, user in ((mail, phone_programs.UID), (odd, boxed_phone.SHELL_UID)):
            path.write_bytes(os.urandom(1 << 20))
            os.chown(path, user, user)
        os.sync()
        for path in apks.values():
            drop_pages(path)
        words = " ".join(f"/data/{apk.relative_to(phone.data)}" for apk in apks.values())
        dd = "dd if=/dev/urandom bs=256k count=2 conv=notrunc,fsync"
        lines = [f"cat {words} >/dev/null", f"{dd} of='/data/local/tmp/two\nlines'"]
        lines += [f"run-as {app} {dd} of={name}" for name in ("mail.db", "new.db")]
        packages = [word for name in (app, closed, "org.example.none") for word in ("--package", name)]
        command = [
            "--on",
            phone.address,
            "-o",
            str(tmp_path / "capture"),
            *packages,
            "--",
            "sh",
            "-c",
            "\n".join(lines),
        ]
        assert cli.main(["record", *command]) == 0
        dev = units.parse_dev(number_of(phone.device))
        assert left_behind(phone) == [odd.name]
    said = capsys.readouterr().err
    assert f"files of {closed} are not listed: run-as: package not debuggable: {closed}" in said
    assert "files of org.example.none are not listed: run-as: unknown package: org.example.none" in said
    made = androstep.open(tmp_path / "capture")
    data = made.io.filter(dev=dev, block_type="data").collect()
    moved = dict(data.group_by("path").agg(pl.sum("bytes")).iter_rows())
    assert moved.pop(None, 0) <= 0.01 * sum(moved.values())
    expected = {"/local/tmp/two\nlines": 1 << 19, f"/data/{app}/mail.db": 1 << 19, f"/data/{app}/new.db": 1 << 19}
    assert expected.items() <= moved.items()
    files = made.tables["files"].filter(dev=dev).filter(pl.col("path").is_in(list(moved))).collect()
    facts = files.filter(pl.col("source") != "inferred")
    assert sorted(facts["path"]) == sorted(f"/{apk.relative_to(phone.data)}" for apk in apks.values())
    assert set(files["package"].drop_nulls()) == {app, closed}


def drop_pages(path: Path) -> None:
    """Drop the pages of a file from the cache, so that they are read from the disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_cold_starts_of_an_app(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each start reads the APK from the disk, and its main thread waits for that."""
    app = "org.example.app"
    with boxed_phone.box(tmp_path) as phone, home(tmp_path):
        apk = phone_programs.install_app(phone, tmp_path, app)
        command = ["coldstart", app, "--on", phone.address, "--repeat", "2", "-o", str(tmp_path / "capture"), "--json"]
        assert cli.main(command) == 0
        assert left_behind(phone) == []
    found = json.loads(capsys.readouterr().out)
    assert found["caches_dropped"] and len(found["starts"]) == 2
    for start in found["starts"]:
        assert start["source"] == "am"
        assert 0 < start["storage_wait"] < start["first_frame"]
    size = 1 << 20
    of_apk = [row for row in found["files"] if row["path"] == f"/{apk.relative_to(phone.data)}"]
    assert [(row["lowest"], row["highest"], row["starts"]) for row in of_apk] == [(size, size, 2)]


@pytest.mark.alone  # it drops the caches of this machine, and iotrace in the box cannot see other recorders
def test_both_recorders_of_a_rooted_phone_make_one_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests, files and owners come from iotrace, sleeps from Perfetto, all in one clock."""
    needs_probe("iotrace")
    app = "org.example.app"
    with boxed_phone.box(tmp_path, is_rooted=True) as phone, home(tmp_path):
        apk = phone_programs.install_app(phone, tmp_path, app)
        out = str(tmp_path / "capture")
        assert cli.main(["coldstart", app, "--on", phone.address, "--repeat", "2", "-o", out, "--json"]) == 0
        assert left_behind(phone) == []
    found = json.loads(capsys.readouterr().out)
    assert found["caches_dropped"] and len(found["starts"]) == 2
    for start in found["starts"]:
        assert 0 < start["storage_wait"] < start["first_frame"]
    path = f"/{apk.relative_to(phone.data)}"
    of_apk = [row for row in found["files"] if row["path"] == path]
    assert [(row["lowest"], row["highest"], row["starts"], row["inferred"]) for row in of_apk] == [
        (1 << 20, 1 << 20, 2, 0)
    ]
    made = androstep.open(out)
    assert made.facts["clock"] == "boot" and made.facts["rooted"]
    assert (tmp_path / "capture/raw/phone.pftrace").is_file()
    assert made.events["block_bio_queue"] > 0 and made.events["sched_switch"] > 0
