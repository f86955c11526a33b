"""Recordings, benchmarks, replays and samples of devices are complete, even after faults, and leave nothing there.

The expected contents are known: each test writes sectors of its own loop device with direct I/O.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import polars as pl
import pytest
from adbd import LOCKED, PIXEL, FakePhone, Faults, Model, phone
from support.devices import home, needs_probe
from support.loops import attached, make_ext4, mounted
from support.needs import left_to_prove
from support.replay_programs import opened, program
from support.tracing import needs_tracefs

from androstep_analysis import capture, units
from androstep_analysis.capture import Capture, derivation, tables
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.device import Device, DeviceError, LinkLost, connect
from androstep_analysis.device.record import recording
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.present.live import Live

pytestmark = [pytest.mark.root, pytest.mark.filterwarnings("ignore:.*the probe counted")]

BLOCK_SECTORS, BLOCKS = 8, 200
EXT4_IOC_CLEAR_ES_CACHE = 0x6628
"""Linux 5.4 and later: drop the cached extents of a file."""
HOSTILE = "a; rm -rf / '$(reboot)'\n<b>"


@pytest.fixture(autouse=True)
def recorder() -> None:
    needs_probe("iotrace")
    needs_tracefs()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    with (tmp_path / "image").open("wb") as file:
        file.truncate(8 << 20)
    with attached(tmp_path / "image") as device:
        yield device


def write(loop: str, blocks: range) -> None:
    """Write blocks of the device, each by a separate request."""
    fd = os.open(loop, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK_SECTORS * 512) as page:
            for block in blocks:
                os.pwrite(fd, page, 2 * block * BLOCK_SECTORS * 512)  # with gaps, so that none are merged
    finally:
        os.close(fd)


def written(capture: Capture | None, loop: str) -> list[int]:
    """Return the blocks that the capture has writes of, in order."""
    assert capture is not None
    number = Path(loop).stat().st_rdev
    dev = units.parse_dev(f"{os.major(number)}:{os.minor(number)}")
    writes = capture.requests.filter(pl.col("dev") == dev, pl.col("op") == "write", pl.col("queue_ns").is_not_null())
    return sorted(sector // (2 * BLOCK_SECTORS) for sector in writes.collect()["sector"])


@contextmanager
def connected(
    place: Path, *, model: Model = PIXEL, faults: Faults | None = None, patience_s: float = 60
) -> Iterator[tuple[Device, FakePhone]]:
    """Connect a phone with a separate directory for recordings; no recording remains there at the end."""
    faults = faults or Faults()
    faults.disk_bytes = 256 << 20
    with (
        home(place) as patch,
        phone(place, model=model, faults=faults) as fake,
        connect(fake.address, patience_s=patience_s) as device,
    ):
        patch.setattr(recording, "MEMORY", ("/data/local/tmp",))
        yield device, fake


def nothing_left(fake: FakePhone) -> bool:
    return not list(fake.tmp.iterdir()) and not {"iotrace", "procmon", "iobench"} & set(fake.processes().values())


# -- recordings -------------------------------------------------------------------------------------------------------


def test_a_recording_of_this_machine_knows_whose_file_it_was(tmp_path: Path) -> None:
    make_ext4(tmp_path / "fs.img", nr_mib=16)
    memory = tmp_path / "memory"
    memory.mkdir()
    with mounted(tmp_path / "fs.img") as fs, connect("local") as device:
        choices = {"trace": [str(fs.top)], "memory": str(memory), "workload": HOSTILE}
        with device.record(out=tmp_path / "capture", **choices) as recorded:
            (fs.top / "kept").write_bytes(os.urandom(100_000))
            os.sync()
        assert not list(memory.iterdir())
    assert recorded.capture is not None
    data = recorded.capture.io.filter(path="/kept", op="write").collect()
    assert data["bytes"].sum() >= 100_000
    assert recorded.capture.facts["workload"] == HOSTILE
    assert recorded.capture.facts["kernel"] == os.uname().release
    assert recorded.capture.facts["rooted"] is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["capture", "fs.img", "memory"]


@pytest.mark.parametrize("forgotten", [False, True])
def test_of_a_device_that_is_only_read_the_files_are_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    """Without writes ext4 may have no event. Because its events were recorded, the layout has not changed.

    The kernel may at any time drop a file's extents, and reports them when it reads them again.
    """
    make_ext4(tmp_path / "fs.img", nr_mib=16)
    with mounted(tmp_path / "fs.img") as fs:
        (fs.top / "read").write_bytes(os.urandom(500_000))
    with (
        mounted(tmp_path / "fs.img") as fs,
        connect("local") as device,
        device.record(out=tmp_path / "capture", trace=[str(fs.top)]) as recorded,
    ):
        if forgotten:
            with (fs.top / "read").open("rb") as file:
                fcntl.ioctl(file, EXT4_IOC_CLEAR_ES_CACHE)
        (fs.top / "read").read_bytes()

    def read(made: Capture) -> pl.DataFrame:
        rows = made.io.filter(path="/read", op="read").collect()
        assert rows["bytes"].sum() >= 500_000
        return rows

    assert recorded.capture is not None
    assert set(read(recorded.capture)["map_source"]) <= {"fiemap", "tracepoint"}
    monkeypatch.setattr(tables, "derive", _derived_without_events)
    raw = tmp_path / "capture" / "raw"
    assert set(read(capture.create([raw], tmp_path / "silent"))["map_source"]) == {"fiemap"}
    # For an untraced device, such as another partition, the absence of events proves nothing.
    described = json.loads((raw / "recording.json").read_text())
    devices = [row | {"traced": False} for row in described["devices"]]
    (raw / "recording.json").write_text(json.dumps(described | {"devices": devices}))
    assert set(read(capture.create([raw], tmp_path / "untraced"))["map_source"]) == {"inferred"}


def _derived_without_events(recorded: Staging, evidence: derivation.Evidence, spool: Spool) -> Any:
    """Derive tables without filesystem events. The kernel cannot be made to emit none, because memory is shared."""
    is_own = pl.col("event").cast(pl.String).str.starts_with("ext4_")
    silent = recorded.with_tables(fs_events=recorded.fs_events.filter(~is_own))
    return derivation.derive(silent, evidence, spool)


@pytest.mark.parametrize("options", [[], ["-zlz4hc"], ["-zlz4hc", "-C65536"]], ids=["plain", "4 KiB", "64 KiB"])
def test_files_of_an_erofs_are_facts(tmp_path: Path, options: list[str]) -> None:
    """Like a phone's system partition: read-only, compressed, and without events of its own."""
    if shutil.which("mkfs.erofs") is None:
        pytest.skip("mkfs.erofs is not installed")
    (tmp_path / "tree").mkdir()
    for name in ("a", "b"):
        words = [os.urandom(400) for _ in range(200)]
        (tmp_path / "tree" / name).write_bytes(b"".join(random.choices(words, k=5000)))
    subprocess.run(["mkfs.erofs", "--quiet", *options, tmp_path / "fs.img", tmp_path / "tree"], check=True)
    with (
        mounted(tmp_path / "fs.img", "ro") as fs,
        connect("local") as device,
        device.record(out=tmp_path / "capture", trace=[str(fs.top)]) as recorded,
    ):
        (fs.top / "b").read_bytes()
    assert recorded.capture is not None
    assert recorded.capture.facts["fs_type"] == "erofs"
    data = recorded.capture.io.filter(block_type="data").collect()
    assert data["path"].unique().to_list() == ["/b"]
    assert set(data["map_source"]) == {"fiemap"}
    size = (tmp_path / "fs.img").stat().st_size
    # Readahead past /b finds nothing; before it, in /a, nothing was read.
    assert size * 0.4 < data["bytes"].sum() < size * 0.6


@pytest.mark.parametrize("keeps", left_to_prove([True, False], bool))
def test_a_recording_is_seen_while_it_goes_on(tmp_path: Path, loop: str, keeps: bool) -> None:
    """Segments arrive from a phone as they end, and together make the capture. Without `keeps` nothing is left."""
    out = tmp_path / "capture"
    with connected(tmp_path) as (device, fake):
        with Live(device, interval_s=1, keep=out if keeps else None, trace=[loop]) as live:
            moments = iter(live)
            seen = [next(moments)]
            for first in range(0, BLOCKS, BLOCKS // 2):
                write(loop, range(first, first + BLOCKS // 2))
                seen += [next(moments), next(moments)]
        device.close()
        assert nothing_left(fake)
    dev = Path(loop).stat().st_rdev
    requests = pl.concat(moment.requests for moment in seen).filter(dev=os.major(dev) << 20 | os.minor(dev), op="write")
    assert sorted(sector // (2 * BLOCK_SECTORS) for sector in requests["sector"]) == list(range(BLOCKS))
    assert out.exists() == keeps
    if keeps:
        assert written(live.capture, loop) == list(range(BLOCKS))
    assert [path.name for path in tmp_path.glob("*capture*")] == (["capture"] if keeps else [])


def test_a_command_is_run_and_waited_for(tmp_path: Path, loop: str, capsys: pytest.CaptureFixture[str]) -> None:
    with connected(tmp_path) as (device, fake):
        command = ["sh", "-c", f"dd if=/dev/zero of={loop} bs=4096 count=50 oflag=direct && echo all written"]
        with device.record(out=tmp_path / "capture", preset="block", trace=[loop], command=command) as recorded:
            pass
        assert recorded.capture is not None
        requests = recorded.capture.requests.filter(op="write", submit_comm="dd").collect()
        assert requests.filter(pl.col("nr_sectors") == 8)["sector"].sort().to_list() == list(range(0, 400, 8))
        assert recorded.capture.facts["workload"] == " ".join(command)
        said = capsys.readouterr().err
        assert "androstep: all written\n" in said and "50+0 records out" in said
        assert recorded.capture.facts["device"] == fake.model.properties["ro.product.model"]


def test_a_command_that_cannot_be_run_is_a_sentence(tmp_path: Path, loop: str) -> None:
    choices = {"out": tmp_path / "capture", "preset": "block", "trace": [loop]}
    with connected(tmp_path) as (device, fake):
        with pytest.raises(DeviceError, match="no-such-program"), device.record(command=["no-such-program"], **choices):
            pass
        device.close()
        assert nothing_left(fake)
    assert not (tmp_path / "capture").exists()


def test_what_the_block_raises_is_raised_when_the_capture_is_made(tmp_path: Path, loop: str) -> None:
    with connected(tmp_path) as (device, fake):
        recorded = device.record(out=tmp_path / "capture", preset="block", trace=[loop])
        with pytest.raises(KeyboardInterrupt), recorded:
            write(loop, range(BLOCKS))
            raise KeyboardInterrupt
        assert written(recorded.capture, loop) == list(range(BLOCKS))
        device.close()
        assert nothing_left(fake)


def test_a_recording_that_has_ended_before_anybody_looks_is_one(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the recording may end before its start is checked."""
    until_recording = recording.Recording._until_recording

    def late(recorded: recording.Recording) -> None:
        recorded._jobs[recording.IOTRACE].wait()
        until_recording(recorded)

    monkeypatch.setattr(recording.Recording, "_until_recording", late)
    with connected(tmp_path) as (device, fake):
        with device.record(out=tmp_path / "capture", preset="block", trace=[loop], seconds=1) as recorded:
            write(loop, range(BLOCKS))
        assert written(recorded.capture, loop) == []
        device.close()
        assert nothing_left(fake)


def test_samples_come_with_the_recording(tmp_path: Path, loop: str) -> None:
    needs_probe("procmon")
    with connected(tmp_path) as (device, fake):
        choices = {"out": tmp_path / "capture", "preset": "block", "trace": [loop], "monitor_hz": 50}
        with device.record(**choices) as recorded:
            write(loop, range(BLOCKS))
        assert written(recorded.capture, loop) == list(range(BLOCKS))
        device.close()
        assert nothing_left(fake)
    assert recorded.capture is not None
    counters = recorded.capture.samples.select("counter").unique().collect()["counter"].to_list()
    assert any(counter.startswith("diskstats.") for counter in counters)
    assert (tmp_path / "capture" / "raw" / "samples.rec").is_file()


# -- when something breaks --------------------------------------------------------------------------------------------


def test_a_link_lost_while_recording_loses_nothing(tmp_path: Path, loop: str) -> None:
    with connected(tmp_path) as (device, fake):
        with device.record(out=tmp_path / "capture", preset="block", trace=[loop]) as recorded:
            write(loop, range(50))
            fake.disconnect()
            write(loop, range(50, BLOCKS))
            fake.disconnect()
        assert written(recorded.capture, loop) == list(range(BLOCKS))
        device.close()
        assert nothing_left(fake)


def test_a_link_lost_again_and_again_while_fetching_loses_nothing(tmp_path: Path, loop: str) -> None:
    with connected(tmp_path) as (device, fake):
        with device.record(out=tmp_path / "capture", preset="block", trace=[loop]) as recorded:
            write(loop, range(BLOCKS))
            fake.faults.cut_shell_after, fake.faults.times = 5_000, 3
        assert written(recorded.capture, loop) == list(range(BLOCKS))
        device.close()
        assert nothing_left(fake)


def test_a_recording_without_the_samples_that_were_asked_for_tells_why(tmp_path: Path, loop: str) -> None:
    needs_probe("procmon")
    with connected(tmp_path) as (device, _):
        recorded = device.record(out=tmp_path / "capture", preset="block", trace=[loop], monitor_hz=10**8)
        with pytest.warns(LossWarning, match="procmon failed: .*100000000"), recorded:
            write(loop, range(BLOCKS))
        assert written(recorded.capture, loop) == list(range(BLOCKS))


@pytest.mark.alone
def test_a_killed_recorder_loses_nothing_that_the_kernel_still_holds(tmp_path: Path, loop: str) -> None:
    """This runs on this machine, where an iotrace of another test might save the remaining events."""
    memory = tmp_path / "memory"
    memory.mkdir()
    with connect("local") as device:
        choices = {"preset": "block", "trace": [loop], "memory": str(memory)}
        recorded = device.record(out=tmp_path / "capture", **choices)
        with pytest.warns(LossWarning, match="iotrace did not finish"), recorded:
            write(loop, range(BLOCKS))
            (pid,) = (int(path.read_text()) for path in memory.glob("*/iotrace/pid"))
            os.kill(pid, signal.SIGKILL)
    assert written(recorded.capture, loop) == list(range(BLOCKS))
    assert not list(memory.iterdir())


def test_a_recorder_killed_without_counters_is_told(tmp_path: Path, loop: str) -> None:
    with connect("local") as device, device.record(out=tmp_path / "x", preset="block", trace=[loop]):
        pass
    raw = tmp_path / "x" / "raw"
    text = (raw / "recording.json").read_text()
    (raw / "recording.json").write_text(text.replace('"lost_events": 0', '"lost_events": null'))
    with pytest.warns(LossWarning, match="the number of lost events is unknown"):
        assert capture.create([raw], tmp_path / "capture").lost_events == 0


def test_a_device_that_goes_for_good_is_told_with_what_to_do(
    tmp_path: Path, loop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        connected(tmp_path, patience_s=0) as (device, fake),
        pytest.raises(LinkLost, match=r"127\.0\.0\.1"),
        device.record(out=tmp_path / "capture", preset="block", trace=[loop]),
    ):
        fake.reboot()
    said = capsys.readouterr().err
    assert "--recover" in said and fake.address in said
    assert not (tmp_path / "capture").exists()


_DIES = """
import os, signal, sys
from androstep_analysis.device import connect
from androstep_analysis.device.record import recording
recording.MEMORY = ("/data/local/tmp",)
device = connect(sys.argv[1])
with device.record(out="never", preset="block", trace=[sys.argv[2]], workload=sys.argv[3]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_program_recorded_is_fetched_by_the_next(tmp_path: Path, loop: str) -> None:
    with connected(tmp_path) as (device, fake):
        died = subprocess.run([sys.executable, "-c", _DIES, fake.address, loop, HOSTILE], cwd=tmp_path, timeout=300)
        assert died.returncode == -signal.SIGKILL
        write(loop, range(BLOCKS))
        (capture,) = device.recover(tmp_path / "capture")
        assert written(capture, loop) == list(range(BLOCKS))
        assert capture.facts["workload"] == HOSTILE
        assert "iotrace" not in fake.processes().values()
        with pytest.raises(DeviceError, match="no recording was found"):
            device.recover(tmp_path / "another")


_DIES_AT_WORK = """
import os, signal, sys
from androstep_analysis.device import connect
device = connect(sys.argv[1])
program = f"{device.directory}/program"
device.push("/bin/sleep", program, mode=0o755)
device.start([program, "1000"])
print(device.directory, flush=True)
if sys.argv[2] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
device.close()
"""


def test_what_a_killed_program_left_is_removed_by_the_next(tmp_path: Path) -> None:
    with connected(tmp_path) as (device, fake):
        words = [sys.executable, "-c", _DIES_AT_WORK, fake.address]
        died = subprocess.run([*words, "dies"], stdout=subprocess.PIPE, text=True, timeout=300)
        assert died.returncode == -signal.SIGKILL
        with subprocess.Popen([*words, "waits"], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as other:
            assert other.stdout is not None
            theirs = other.stdout.readline().strip()
            assert "program" in fake.processes().values()
            own = device.directory
            assert {path.name for path in fake.tmp.glob("androstep-*")} == {Path(path).name for path in (own, theirs)}
            _, said = other.communicate("", timeout=300)
        assert other.returncode == 0
        assert "program" not in fake.processes().values()
    assert f"removed {died.stdout.strip()}, which a program that was killed had left" in said


_WAITS = """
import sys
from androstep_analysis.device import connect
from androstep_analysis.device.record import recording
recording.MEMORY = ("/data/local/tmp",)
device = connect(sys.argv[1])
with device.record(out=sys.argv[3], preset="block", trace=[sys.argv[2]]):
    print("records", flush=True)
    sys.stdin.read()
"""


def test_what_another_program_still_records_is_left_alone(tmp_path: Path, loop: str) -> None:
    with connected(tmp_path) as (device, fake):
        words = [sys.executable, "-c", _WAITS, fake.address, loop, str(tmp_path / "theirs")]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "records\n"
            with pytest.raises(DeviceError, match="a program on this computer is still recording"):
                device.recover(tmp_path / "capture")
            write(loop, range(BLOCKS))
            other.communicate("", timeout=300)
        assert other.returncode == 0
        assert written(capture.open(tmp_path / "theirs"), loop) == list(range(BLOCKS))


def test_what_others_put_where_recordings_are_is_none(tmp_path: Path) -> None:
    """Otherwise a process that it names would be killed as root, and a linked file copied."""
    with connected(tmp_path) as (device, fake):
        there = fake.tmp / "androstep-others"
        (there / "recording").mkdir(parents=True)
        (there / "about.json").write_text("{}")
        (there / "recording" / "trace.dat").symlink_to("/etc/shadow")
        (fake.tmp / "androstep-linked").symlink_to("androstep-others")
        os.chown(there, 2000, 2000)
        with pytest.raises(DeviceError, match="no recording was found"):
            device.recover(tmp_path / "capture")


def test_what_is_left_of_another_recording_stays_out(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two recordings with the same output name: files of the first are already here."""

    def lost(*_: object, **__: object) -> None:
        raise LinkLost("cut")

    def record(monitor_hz: int | None) -> None:
        with device.record(out=tmp_path / "capture", preset="block", trace=[loop], monitor_hz=monitor_hz):
            write(loop, range(BLOCKS))

    with connected(tmp_path) as (device, _):
        with monkeypatch.context() as patch, pytest.raises(LinkLost):
            patch.setattr(device, "remove", lost)
            patch.setattr(device, "patience_s", 0)
            record(monitor_hz=10)
        [before] = tmp_path.glob("capture.*")
        assert (before / "samples.rec").exists()
        device.remove(f"/data/local/tmp/{before.suffix.removeprefix('.')}", root=True)
        record(monitor_hz=None)
        made = capture.open(tmp_path / "capture")
        assert written(made, loop) == list(range(BLOCKS))
        assert not made.about["rows"]["samples"]


def test_nothing_is_begun_where_the_capture_cannot_be_made(tmp_path: Path, loop: str) -> None:
    (tmp_path / "capture").mkdir()
    with connected(tmp_path) as (device, fake):
        with pytest.raises(InputError, match="exists already"), device.record(out=tmp_path / "capture"):
            pass
        assert not list(fake.tmp.iterdir())


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"preset": "block; reboot"}, "--preset block; reboot: expected one of"),
        ({"trace": ["/no/such"]}, "/no/such"),
        ({"trace": ["-x"]}, "-x"),
        ({"memory": "/no/such"}, "/no/such"),
    ],
)
def test_what_iotrace_refuses_is_its_sentence(tmp_path: Path, choices: dict[str, object], said: str) -> None:
    with connected(tmp_path) as (device, fake):
        with pytest.raises(DeviceError, match=said), device.record(out=tmp_path / "capture", **choices):
            pass
        device.close()
        assert nothing_left(fake)


def test_without_tracefs_a_sentence_says_so(tmp_path: Path) -> None:
    with connected(tmp_path, faults=Faults(no_tracefs=True)) as (device, fake):
        with pytest.raises(DeviceError, match="tracefs"), device.record(out=tmp_path / "capture"):
            pass
        device.close()
        assert nothing_left(fake)


def test_without_root_a_sentence_says_so(tmp_path: Path) -> None:
    with connected(tmp_path, model=LOCKED) as (device, fake):
        with pytest.raises(DeviceError, match="no root"), device.record(out=tmp_path / "capture"):
            pass
        device.close()
        assert nothing_left(fake)


# -- benchmarks, replays, samples -------------------------------------------------------------------------------------

QUICK = ("--rw", "write", "--size", "256k", "--cache", "any", "--repeats", "2")


def test_a_benchmark_on_the_device(tmp_path: Path) -> None:
    needs_probe("iobench")
    with connected(tmp_path) as (device, fake):
        ran = device.bench(QUICK, tmp_path / "capture")
        assert (ran.status, ran.capture is not None) == (0, True)
        assert ran.capture is not None
        assert ran.capture.bench["bench_runs"]["valid"].to_list() == [True, True]
        assert ran.capture.facts["device"] == fake.model.properties["ro.product.model"]
        device.close()
        assert nothing_left(fake)


def test_several_benchmarks_are_one_capture(tmp_path: Path) -> None:
    """As for a model of the device."""
    needs_probe("iobench")
    with connected(tmp_path) as (device, fake):
        ran = device.bench({"writes": QUICK, "reads": (*QUICK, "--rw", "read")}, tmp_path / "capture")
        assert ran.status == 0
        assert ran.capture is not None
        assert ran.capture.bench["bench_runs"]["test"].to_list() == ["seq_write", "seq_write", "seq_read", "seq_read"]
        assert ran.capture.facts["workload"] == f"iobench {' '.join(QUICK)}; {' '.join(QUICK)} --rw read"
        device.close()
        assert nothing_left(fake)


def test_a_benchmark_goes_on_while_the_link_is_lost(tmp_path: Path) -> None:
    needs_probe("iobench")
    with connected(tmp_path, faults=Faults(cut_shell_after=500, times=3)) as (device, fake):
        assert device.bench(QUICK, tmp_path / "capture").status == 0
        device.close()
        assert nothing_left(fake)


def test_a_killed_benchmark_is_told_by_its_status(tmp_path: Path) -> None:
    needs_probe("iobench")
    with connected(tmp_path, faults=Faults(kill="iobench")) as (device, fake):
        ran = device.bench(["--rw", "write", "--size", "1m", "--cache", "any", "--runtime", "60"], tmp_path / "capture")
        assert ran.status == 128 + signal.SIGKILL
        device.close()
        assert nothing_left(fake)


def test_an_interrupted_benchmark_ends_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_probe("iobench")
    with connected(tmp_path) as (device, fake):
        poll = recording.Job.poll

        def interrupted(job: recording.Job) -> list[str]:
            lines = poll(job)
            if "iobench" in fake.processes().values():
                monkeypatch.undo()
                raise KeyboardInterrupt
            return lines

        monkeypatch.setattr(recording.Job, "poll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.bench(["--rw", "write", "--size", "1m", "--cache", "any", "--runtime", "60"], tmp_path / "capture")
        assert "iobench" not in fake.processes().values()
        device.close()
        assert nothing_left(fake)


def test_options_of_iobench_are_words_on_the_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_probe("iobench")
    with connected(tmp_path) as (device, _):
        ran = device.bench(["--rw", "; reboot"], tmp_path / "capture")
    assert ran.status == 1
    assert "; reboot" in capsys.readouterr().err


def test_a_replay_on_the_device(tmp_path: Path) -> None:
    needs_probe("ioreplay")
    write_4k = {"call": "write", "descriptor": 1, "bytes": 4096, "result": 4096}
    made = program([opened(1, "d/; rm -rf x"), write_4k, {"call": "close", "descriptor": 1}])
    made.write(tmp_path / "a program.rec")
    with connected(tmp_path) as (device, fake):
        place = "/data/local/tmp/re play'd"
        ran = device.replay(tmp_path / "a program.rec", place, tmp_path / "capture", ["--mode", "as-fast"], repeats=2)
        assert ran.capture is not None
        assert ran.capture.replay["replay_runs"]["done"].to_list() == [3, 3]
        device.close()
        assert nothing_left(fake)


def test_samples_of_the_device(tmp_path: Path) -> None:
    needs_probe("procmon")
    with connected(tmp_path) as (device, fake):
        with device.monitor(tmp_path / "capture", hz=50) as monitoring:
            device.sh(["sleep", "1"])
        assert monitoring.capture is not None
        ticks = monitoring.capture.samples.select(pl.col("ts_ns").max() - pl.col("ts_ns").min()).collect().item()
        assert ticks >= 900_000_000
        assert monitoring.capture.facts["device"] == fake.model.properties["ro.product.model"]
        device.close()
        assert nothing_left(fake)


def test_sampling_has_begun_when_the_block_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, simulated by a sleep, procmon might begin after the block has ended."""
    needs_probe("procmon")
    with connect("local") as device:
        slow = tmp_path / "slow"
        slow.write_text(f'#!/bin/sh\nsleep 1\nexec {device.probe("procmon")} "$@"\n')
        slow.chmod(0o755)
        monkeypatch.setattr(device, "probe", lambda _: str(slow))
        with device.monitor(tmp_path / "capture", hz=50) as monitoring:
            pass
    assert monitoring.capture is not None
    assert monitoring.capture.samples.collect().height


def test_where_no_capture_can_be_made_the_files_are_kept_here(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> Capture:
        raise InputError("broken")

    with connected(tmp_path) as (device, fake):
        monkeypatch.setattr(recording.capture, "create", broken)
        with (
            pytest.raises(InputError, match="broken"),
            device.record(out=tmp_path / "capture", preset="block", trace=[loop]),
        ):
            write(loop, range(BLOCKS))
        monkeypatch.undo()
        device.close()
        assert nothing_left(fake)
    [kept] = tmp_path.glob("capture.androstep-*")
    assert str(kept) in capsys.readouterr().err
    assert written(capture.create([kept], tmp_path / "capture"), loop) == list(range(BLOCKS))
