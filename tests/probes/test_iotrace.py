"""iotrace on an ext4 loop device: its files against trace-cmd and the reader, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import calls_oracle
import polars as pl
import pytest
import ziglang
from harness import build, guest, kernel
from support import built, compiling, loops, tracing
from support.tracing import FLAGS, instances_of
from support.tree import ROOT

import androstep_analysis
from androstep_analysis.ingest import record, source
from androstep_analysis.ingest.ftrace import binary, tracedat_file

HOSTILE = b'a "name"\\ with\nall, {sorts}: \xff\xe2\x82 of \xf0\x9f\x92\xbe bytes \x01'

WRITES = """
import os, sys
for number in range(int(sys.argv[2])):
    fd = os.open(os.path.join(sys.argv[1], f"file{number % 50}"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for page in range(number % 4 + 1):
        os.write(fd, b"x" * 4096)
    os.fsync(fd)
    os.close(fd)
"""


@dataclass
class Disk:
    """An ext4 on a loop device, and a directory elsewhere to record into."""

    device: str
    top: Path
    out: Path

    def iotrace(self, *arguments: str | Path | bytes, status: int = 0, **options: Any) -> str:
        """Record this device into `out` and return the messages."""
        command = (built.program("iotrace"), "-o", self.out, "--device", self.device, *arguments)
        return built.run(*command, status=status, **options).stderr.decode("utf-8", "replace")

    def begun(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a recording and return after it has listed its files."""
        command: list[str | Path] = [built.program("iotrace"), "-o", self.out, "--device", self.device, *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        while not (self.out / "before.rec").exists() or not record_is_whole(self.out / "before.rec"):
            assert process.poll() is None
            time.sleep(0.02)
        return process

    def write(self, nr: int) -> None:
        subprocess.run(self.writes(nr), check=True, timeout=60)

    def writes(self, nr: int) -> list[str]:
        return ["python3", "-c", WRITES, str(self.top), str(nr)]

    def recording(self) -> dict[str, Any]:
        recording: dict[str, Any] = json.loads((self.out / "recording.json").read_text("utf-8"))
        return recording


def pages(nr: int) -> int:
    """Return the number of pages that WRITES writes."""
    return sum(number % 4 + 1 for number in range(nr))


def record_is_whole(path: Path) -> bool:
    """Return whether a listing has its trailer; without it, it counts as truncated."""
    try:
        return not record.read(path).losses
    except Exception:
        return False


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    image = tmp_path / "image"
    loops.make_ext4(image, ["-b", "1024"])
    with loops.mounted(image) as mounted:
        yield Disk(mounted.device, mounted.top, tmp_path / "out")


@pytest.fixture
def tracefs(tmp_path: Path) -> Iterator[Path]:
    with tracing.mounted(tmp_path) as top:
        yield top


def reported(trace: Path) -> tuple[Counter[int], Counter[str], int]:
    """Return events by CPU and by name, and lost events, as trace-cmd prints them."""
    if shutil.which("trace-cmd") is None:
        pytest.skip("no trace-cmd")
    done = subprocess.run(["trace-cmd", "report", trace], capture_output=True, timeout=120)
    assert done.returncode == 0 and done.stderr == b""
    text = done.stdout.decode("utf-8", "surrogateescape")
    rows = re.findall(r"^.*?-\d+\s+\[(\d{3})\]\s+" + FLAGS + r"\s*\d+\.\d+: +(\w+):", text, re.M)
    lost = sum(map(int, re.findall(r"^CPU:\d+ \[(\d+) EVENTS DROPPED\]", text, re.M)))
    return Counter(int(cpu) for cpu, _ in rows), Counter(name for _, name in rows), lost


def decoded(trace: Path) -> binary.Census:
    container = tracedat_file.open_container(source.load(trace))
    return binary.census(container, binary.formats(container))


def per_cpu(recording: dict[str, Any], key: str) -> dict[int, int]:
    return {row["cpu"]: row[key] for row in recording["cpus"] if row[key]}


@pytest.mark.root
@pytest.mark.parametrize("preset", ["block", "block+fs", "block+fs+syscalls"])
def test_trace_cmd_and_the_reader_see_what_was_recorded(disk: Disk, preset: str) -> None:
    said = disk.iotrace("--preset", preset, "--", *disk.writes(200))
    recording = disk.recording()
    cpus, names, _ = reported(disk.out / "trace.dat")
    read = decoded(disk.out / "trace.dat")
    assert per_cpu(recording, "events") == per_cpu(recording, "read_events") == cpus == read.per_cpu
    assert names == read.events
    assert names["print"] == 1  # the end marker
    assert set(names) - {"print"} <= {row["event"].split("/")[1] for row in recording["events"]}
    assert recording["complete"] and recording["stopped_by"] == "command" and recording["command_status"] == 0
    assert recording["lost_events"] == 0 and f"{cpus.total()} events" in said
    assert names["block_bio_queue"] >= 200
    assert ("ext4_da_write_begin" in names) == (preset != "block")
    assert ("sys_enter_fsync" in names) == (preset == "block+fs+syscalls")
    if preset != "block":
        assert names["ext4_da_write_begin"] == pages(200)


@pytest.mark.root
def test_listings_are_of_the_start_and_the_end(disk: Disk) -> None:
    (disk.top / "first").write_bytes(b"x" * 5000)
    disk.iotrace("--", "sh", "-c", f"rm '{disk.top}/first'; echo y > '{disk.top}/last'")
    names = []
    for listing in ("before.rec", "after.rec"):
        records = record.read(disk.out / listing)
        assert not records.losses
        names.append({Path(name).name for name in records.tables["file"]["path"].to_list() if name})
        assert os.getpid() in records.tables["task"]["tid"].to_list()
    assert names[0] == {*names[0], "first"} - {"last"}
    assert names[1] == {*names[1], "last"} - {"first"}


@pytest.mark.root
@pytest.mark.parametrize("end", [("--time", "1"), ("--", "false")])
def test_the_window_lies_between_the_listings(disk: Disk, end: tuple[str, ...]) -> None:
    (disk.top / "first").write_bytes(b"x" * 5000)
    disk.iotrace(*end)
    window = disk.recording()["window"]
    listed = [record.read(disk.out / name) for name in ("before.rec", "after.rec")]
    first, last = (one.tables["file"]["listed_ns"].to_numpy() + one.header["monotonic_offset_ns"] for one in listed)
    assert first.max() < window["start_ns"] < window["end_ns"] < last.min()
    assert window["end_ns"] - window["start_ns"] > 1e9 or "--time" not in end


@pytest.mark.root
def test_the_window_has_what_the_last_sync_writes_and_nothing_of_the_listings(disk: Disk) -> None:
    (disk.top / "first").mkdir()
    (disk.top / "first/second").write_bytes(b"x" * 5000)
    subprocess.run(["umount", disk.top], check=True)
    subprocess.run(["mount", disk.device, disk.top], check=True)  # so that a listing has to read
    disk.iotrace("--", "sh", "-c", f"head -c 300000 /dev/urandom > '{disk.top}/last'")
    opened = androstep_analysis.open(disk.out)
    data = opened.io.filter(block_type="data", op="write").select("owner_comm", "bytes").collect()
    assert set(data["owner_comm"]) == {"head"} and data["bytes"].sum() == -(-300_000 // 1024) * 1024
    assert opened.requests.filter(op="read", submit_comm="iotrace").collect().is_empty()
    events = decoded(disk.out / "trace.dat").events["block_rq_issue"]
    assert events > opened.block_events.filter(event="block_rq_issue").collect().height


@pytest.mark.root
def test_a_recording_that_ends_during_its_first_listing_has_no_window(disk: Disk) -> None:
    command = [built.program("iotrace"), "-o", disk.out, "--device", disk.device, "--time", "9"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not (disk.out / "unfinished").exists():
        assert process.poll() is None
    process.terminate()
    process.communicate(timeout=60)
    window = disk.recording()["window"]
    assert process.returncode == 0 and disk.recording()["stopped_by"] == "signal"
    assert window["start_ns"] <= window["end_ns"]


@pytest.mark.root
def test_a_filesystem_that_is_gone_at_the_end_is_not_listed(disk: Disk) -> None:
    (disk.top / "inside").touch()
    outside = disk.top.parent / "outside"
    outside.mkdir()
    script = f"umount '{disk.top}' && touch '{disk.top}/beneath'"
    try:
        disk.iotrace("--", "sh", "-c", script)
    finally:
        (disk.top / "beneath").unlink(missing_ok=True)
        subprocess.run(["mount", disk.device, disk.top], check=True)
    assert "inside" in str(record.read(disk.out / "before.rec").tables["file"]["path"].to_list())
    assert record.read(disk.out / "after.rec").tables["file"].height == 0


REMOUNTS = """
set -e
mkdir "$0/old"; echo 1 >"$0/old/kept"; sync
umount "$0"; mount "$1" "$0"
for i in $(seq 1000); do grep -qs "fanotify sdev:$2 " /proc/[0-9]*/fdinfo/* && break; sleep 0.02; done
mkdir "$0/new"; for name in gone new/gone old/gone; do echo 2 >"$0/$name"; done; sync
rm "$0/gone" "$0/new/gone" "$0/old/gone"; sync
"""


@pytest.mark.root
def test_names_are_recorded_again_after_a_remount(disk: Disk) -> None:
    """The old directory may have been renamed before the first recorded name. A file in it has no certain path."""
    status = Path(disk.device).stat()
    device = f"{os.major(status.st_rdev) << 20 | os.minor(status.st_rdev):x}"
    disk.iotrace("--", "sh", "-c", REMOUNTS, disk.top, disk.device, device)
    names = record.read(disk.out / "names.rec").tables["name"]
    assert names.filter(pl.col("kinds") & 8 != 0).height == 1
    found = androstep_analysis.open(disk.out)
    assert [loss.kind for loss in found.losses if "files" in loss.tables] == ["names_overflow"]
    deleted = found.files.filter(pl.col("deleted_ns").is_not_null()).sort("created_ns").collect()
    assert deleted["path"].to_list() == ["/gone", "/new/gone", None]


@pytest.mark.root
@pytest.mark.usefixtures("hang_up_ends")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_recording_whole(disk: Disk, tracefs: Path, number: signal.Signals) -> None:
    process = disk.begun()
    assert len(instances_of(tracefs, process.pid)) == 1
    disk.write(20)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert disk.recording()["stopped_by"] == "signal" and disk.recording()["complete"]
    assert reported(disk.out / "trace.dat")[1]["ext4_da_write_begin"] >= 20
    assert instances_of(tracefs, process.pid) == []
    assert sorted(path.name for path in disk.out.iterdir()) == [
        "after.rec",
        "before.rec",
        "names.rec",
        "recording.json",
        "trace.dat",
    ]


@pytest.mark.root
@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("true", "command"),
        ("exit 3", "command, which failed with status 3"),
        ("kill $$", "command, which signal 15 ended"),
    ],
)
def test_a_command_that_fails_is_reported(disk: Disk, command: str, ended: str) -> None:
    assert disk.iotrace("--", "sh", "-c", command).rstrip().endswith(f"ended by: {ended}")


@pytest.mark.root
def test_time_and_size_end_a_recording_and_its_command(disk: Disk, tmp_path: Path) -> None:
    endless = f"while :; do echo x > '{disk.top}/file'; sync '{disk.top}/file'; done"
    said = disk.iotrace("--size", "1", "--", "sh", "-c", endless)
    assert disk.recording()["stopped_by"] == "size" and said.rstrip().endswith("ended by: size")
    assert (disk.out / "trace.dat").stat().st_size > 1_000_000
    assert disk.recording()["command_status"] == -signal.SIGTERM
    disk.out = tmp_path / "again"
    disk.iotrace("--time", "1")
    recording = disk.recording()
    assert recording["stopped_by"] == "time" and recording["command_status"] is None
    assert recording["clock_at_end"]["mono_ns"] - recording["clock_at_start"]["mono_ns"] > 1e9


LEAVES_A_DEAD_RECORDER = pytest.mark.alone
"""Run alone: the next iotrace saves the remains of a killed recorder, and must not be that of another test."""


@pytest.mark.root
@LEAVES_A_DEAD_RECORDER
def test_what_a_killed_recorder_left_is_finished_without_loss(disk: Disk, tracefs: Path) -> None:
    process = disk.begun()
    disk.write(100)
    process.kill()
    process.communicate(timeout=60)
    assert len(instances_of(tracefs, process.pid)) == 1
    assert not disk.recording()["complete"] and disk.recording()["lost_events"] is None
    built.run(built.program("iotrace"), "--finish", disk.out)
    assert instances_of(tracefs, process.pid) == []
    recording = disk.recording()
    assert recording["stopped_by"] == "killed" and not recording["complete"]
    assert recording["window"]["start_ns"] > recording["clock_at_start"]["mono_ns"]
    assert recording["window"]["end_ns"] is None
    cpus, names, _ = reported(disk.out / "trace.dat")
    assert per_cpu(recording, "events") == cpus
    assert names["ext4_da_write_begin"] == pages(100) and recording["lost_events"] == 0


@pytest.mark.root
@LEAVES_A_DEAD_RECORDER
@pytest.mark.parametrize("start", ["recording", "--cleanup"])
def test_the_next_start_saves_what_a_killed_recorder_left(
    disk: Disk, tracefs: Path, tmp_path: Path, start: str
) -> None:
    disk.out = tmp_path / "out of % and 100.5 \xfc"
    process = disk.begun()
    disk.write(100)
    process.kill()
    process.communicate(timeout=60)
    (stale,) = instances_of(tracefs, process.pid)
    left, disk.out = disk.out, tmp_path / "next"
    if start == "recording":
        live = disk.begun()
        live.terminate()
        said = live.communicate(timeout=60)[1].decode()
    else:
        said = built.run(built.program("iotrace"), "--cleanup").stderr.decode()
    assert f"removed trace instance {stale}" in said and f"iotrace --finish {left} makes" in said
    assert instances_of(tracefs, process.pid) == []
    assert not (left / "trace.dat").exists()
    disk.out = left
    built.run(built.program("iotrace"), "--finish", left)
    cpus, names, _ = reported(left / "trace.dat")
    recording = disk.recording()
    assert per_cpu(recording, "events") == cpus and names["ext4_da_write_begin"] == pages(100)
    assert recording["lost_events"] == 0 and not recording["complete"]


@pytest.mark.root
@LEAVES_A_DEAD_RECORDER
def test_what_a_killed_recorder_lost_is_counted(disk: Disk, tracefs: Path) -> None:
    process = disk.begun("--buffer", "64")
    process.send_signal(signal.SIGSTOP)
    disk.write(1000)
    process.kill()
    process.communicate(timeout=60)
    built.run(built.program("iotrace"), "--cleanup")
    built.run(built.program("iotrace"), "--finish", disk.out)
    cpus, _, lost = reported(disk.out / "trace.dat")
    recording = disk.recording()
    assert per_cpu(recording, "events") == cpus
    overruns = list(per_cpu(recording, "overrun").values())
    assert recording["lost_events"] == sum(overruns) > 0
    # The kernel's lost-events flag in a CPU's pages may be absent after a kill; the counters in recording.json never
    # are.
    assert lost in {sum(marked) for number in range(len(overruns) + 1) for marked in combinations(overruns, number)}


@pytest.mark.root
@LEAVES_A_DEAD_RECORDER
def test_a_killed_recording_whose_directory_is_gone_is_removed(disk: Disk, tracefs: Path, tmp_path: Path) -> None:
    process = disk.begun()
    disk.write(20)
    process.kill()
    process.communicate(timeout=60)
    disk.out.rename(tmp_path / "moved")
    said = built.run(built.program("iotrace"), "--cleanup").stderr.decode()
    assert re.search(r"removed trace instance .* with [1-9][0-9]* unread events", said)
    assert instances_of(tracefs, process.pid) == []
    disk.out = tmp_path / "moved"
    built.run(built.program("iotrace"), "--finish", disk.out)
    assert per_cpu(disk.recording(), "events") == reported(disk.out / "trace.dat")[0]
    assert disk.recording()["lost_events"] is None


@pytest.mark.prove
@pytest.mark.root
def test_a_command_that_ignores_the_signal_is_left_running(disk: Disk, tmp_path: Path) -> None:
    stubborn = f"exec >/dev/null 2>&1; trap '' TERM; echo $$ > '{tmp_path}/pid'; while :; do sleep 0.1; done"
    try:
        said = disk.iotrace("--time", "1", "--", "sh", "-c", stubborn)
        assert "goes on after SIGTERM" in said
        assert disk.recording()["stopped_by"] == "time" and disk.recording()["command_status"] is None
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.root
def test_a_recording_in_use_is_neither_cleaned_nor_finished(disk: Disk, tracefs: Path) -> None:
    process = disk.begun()
    try:
        built.run(built.program("iotrace"), "--cleanup")
        done = built.run(built.program("iotrace"), "--finish", disk.out, status=1)
        assert b"is being recorded" in done.stderr
        assert len(instances_of(tracefs, process.pid)) == 1
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0 and disk.recording()["complete"]


@pytest.mark.root
def test_every_lost_event_is_counted(disk: Disk) -> None:
    burst = f"import os; fd = os.open({str(disk.top / 'x')!r}, os.O_CREAT | os.O_RDWR)\n"
    burst += "for i in range(30000): os.pwrite(fd, b'x' * 4096, i % 900 * 4096)"
    disk.iotrace("--buffer", "8", "--", "python3", "-c", burst)
    recording = disk.recording()
    overrun = sum(per_cpu(recording, "overrun").values())
    read = decoded(disk.out / "trace.dat")
    cpus, _, lost = reported(disk.out / "trace.dat")
    assert overrun > 10_000 and recording["lost_events"] == overrun == read.lost == lost
    assert per_cpu(recording, "events") == read.per_cpu == cpus


@pytest.mark.root
def test_names_may_be_anything(disk: Disk, tmp_path: Path) -> None:
    hostile = os.fsencode(tmp_path) + b"/" + HOSTILE
    disk.out = Path(os.fsdecode(hostile))
    bind = os.fsencode(tmp_path) + b"/mount " + HOSTILE
    Path(os.fsdecode(bind)).mkdir()
    subprocess.run(["mount", "--bind", disk.top, bind], check=True)
    try:
        disk.iotrace("--list", bind, "--", "true", HOSTILE)
    finally:
        subprocess.run(["umount", bind], check=True)
    recording = disk.recording()
    assert [os.fsencode(word) for word in recording["command"]] == [b"true", HOSTILE]
    assert [os.fsencode(path) for path in recording["listed"]] == [bind]
    assert bind in [os.fsencode(mount["path"]) for mount in recording["mounts"]]
    assert reported(disk.out / "trace.dat")[0].total() > 0


@pytest.mark.root
def test_facts_of_devices_and_clocks(disk: Disk) -> None:
    disk.iotrace("--clock", "boot", "--", "true")
    recording = disk.recording()
    number = Path(disk.device).stat().st_rdev
    dev = f"{os.major(number)}:{os.minor(number)}"
    (row,) = [row for row in recording["devices"] if row["dev"] == dev]
    assert row["name"] == Path(disk.device).name and row["parent"] is None and row["traced"]
    sectors = subprocess.run(["blockdev", "--getsz", disk.device], capture_output=True, text=True, check=True).stdout
    assert row["nr_sectors"] == int(sectors)
    assert [row["dev"] for row in recording["devices"] if row["traced"]] == [dev]
    (mount,) = [mount for mount in recording["mounts"] if mount["dev"] == dev]
    assert mount["path"] == str(disk.top) and mount["fs_type"] == "ext4" and mount["block_bytes"] == 1024
    assert recording["facts"]["clock"] == "boot" and recording["facts"]["fs_type"] == "ext4"
    assert recording["facts"]["kernel"] == os.uname().release and recording["facts"]["rooted"]
    assert recording["facts"]["page_bytes"] == os.sysconf("SC_PAGESIZE")
    offset = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert abs(recording["realtime_offset_ns"] - offset) < 1e9
    table = (ROOT / "probes" / "FORMAT.md").read_text("utf-8").partition("## Recordings")[2].partition("## Names")[0]
    assert set(re.findall(r"(?m)^\| `(\w+)`", table)) == set(recording)


@pytest.mark.root
def test_partitions_and_their_disk_are_traced_together(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
        entry = struct.Struct("<4xB3xII")
        file.seek(446)
        file.write(entry.pack(0x83, 2048, 20480) + entry.pack(0x83, 24576, 8192))
        file.seek(510)
        file.write(b"\x55\xaa")
    made = subprocess.run(["losetup", "-P", "--find", "--show", image], capture_output=True, text=True)
    if made.returncode:
        pytest.skip("no loop device to be had")
    device = made.stdout.strip()
    try:
        name = Path(device).name
        if not Path(f"/sys/block/{name}/{name}p2").exists():
            pytest.skip("this kernel has no partitions on loop devices")
        dev = Path(f"/sys/block/{name}/{name}p1/dev").read_text().strip()
        whole = Path(f"/sys/block/{name}/dev").read_text().strip()
        built.run(built.program("iotrace"), "-o", tmp_path / "out", "--device", dev, "--", "true")
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    recording = json.loads((tmp_path / "out" / "recording.json").read_text())
    traced = {row["dev"]: row for row in recording["devices"] if row["traced"]}
    assert set(traced) == {dev, whole}
    assert (traced[dev]["parent"], traced[dev]["start_sector"], traced[dev]["nr_sectors"]) == (whole, 2048, 20480)


@pytest.mark.root
def test_it_does_not_write_where_it_traces(disk: Disk) -> None:
    outside, disk.out = disk.out, disk.top / "out"
    assert "lies on a traced device" in disk.iotrace("--", "true", status=1)
    assert "1 lost" not in disk.iotrace("--allow-same-device", "--", *disk.writes(5))
    assert disk.recording()["complete"]
    assert "contains a recording already" in disk.iotrace("--allow-same-device", "--", "true", status=1)
    disk.out = outside
    assert "--buffer" in disk.iotrace("--buffer", "0", status=1)
    assert not disk.out.exists()


@pytest.mark.root
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name the directory to record into: -o DIR"),
        (["-o", "out", "--preset", "all"], "--preset all: expected one of block|block+fs|block+fs+syscalls"),
        (["-o", "out", "--clock", "sundial"], "sundial: unknown clock; give mono or boot"),
        (["-o", "out", "--device", "/proc/nowhere"], "/proc/nowhere: No such file or directory; give a block device"),
        (["-o", "out", "--device", "4095:1048575"], "no block device 4095:1048575"),
        (["-o", "/proc/nowhere/at/all", "--device", "/proc"], "/proc: no block device"),
        (["--finish", "/proc"], "/proc: contains no unfinished recording"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = built.run(built.program("iotrace"), *arguments, status=1, cwd=tmp_path)
    assert done.stderr.decode().count("\n") == 1 and done.stderr.startswith(b"iotrace: ")
    assert told in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_a_command_that_cannot_be_run(disk: Disk, tmp_path: Path) -> None:
    assert "no-such-program: no such program" in disk.iotrace("--", "no-such-program", status=1)
    assert not disk.out.exists()
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert "No such file or directory; the command cannot be run" in disk.iotrace("--", program, status=1)
    assert disk.recording()["stopped_by"] == "error"


@pytest.mark.root
def test_what_no_longer_fits_is_finished_when_there_is_room(disk: Disk, tracefs: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=True)
    try:
        disk.out = small / "out"
        endless = f"while :; do echo x > '{disk.top}/file'; sync '{disk.top}/file'; done"
        process = disk.begun("--", "sh", "-c", endless)
        assert b"No space left on device" in process.communicate(timeout=60)[1] and process.returncode == 1
        assert instances_of(tracefs, process.pid) == []
        assert (disk.out / "unfinished").is_dir() and not (disk.out / "trace.dat").exists()
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        built.run(built.program("iotrace"), "--finish", disk.out)
        cpus, _, _ = reported(disk.out / "trace.dat")
        recording = disk.recording()
        assert per_cpu(recording, "events") == cpus and cpus.total() > 100
        kernel = ("read_events", "unread", "overrun", "commit_overrun", "dropped")
        assert recording["lost_events"] == sum(row[key] for row in recording["cpus"] for key in kernel) - cpus.total()
        assert recording["lost_events"] > 0
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.root
def test_without_root(tmp_path: Path) -> None:
    program = tmp_path / "iotrace"
    shutil.copy(built.program("iotrace", "native"), program)
    tmp_path.chmod(0o755)
    command = [str(program), "-o", "/proc/nowhere/at/all"]
    done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", *command], capture_output=True, timeout=60)
    if b"setpriv" in done.stderr or done.returncode in (126, 127):
        pytest.skip("cannot be run as another user here")
    assert done.returncode == 1
    assert done.stderr == b"iotrace: tracing needs root; run iotrace as root (on Android: su, or adb root)\n"


# -- system calls: what strace sees of the same run -------------------------------------------------------------------


def calls_differ(recording: Path, log: Path) -> list[str]:
    """Compare iotrace's calls with strace's log, including paths and new descriptors if they were recorded."""
    facts = json.loads((recording / "recording.json").read_text("utf-8"))
    numbers = (facts["syscall_numbers"] or {"numbers": {}})["numbers"]
    names = [row["event"].partition("/sys_enter_")[2] for row in facts["events"] if "/sys_enter_" in row["event"]]
    names = names or [*numbers]
    seen = calls_oracle.traced(recording / "trace.dat", {number: name for name, number in numbers.items()})
    expected = calls_oracle.logged(log.read_bytes())
    assert facts["lost_events"] == 0 and len(expected) == 6
    assert {"openat", "pwrite64", "recvmsg", "renameat2", "execve"} <= {*names}
    return calls_oracle.differences(seen, expected, names, "androstep/call_path" not in facts["absent"])


def callers() -> Path:
    for program in ("strace", "trace-cmd"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    try:
        return build.callers()
    except OSError as error:
        pytest.skip(str(error))


@pytest.mark.root
def test_calls_are_those_that_strace_sees(disk: Disk, tmp_path: Path) -> None:
    strace = ["strace", "-f", "-s", "16", "-o", str(tmp_path / "log")]
    said = disk.iotrace("--preset", "block+fs+syscalls", "--", *strace, callers(), disk.top)
    assert calls_differ(disk.out, tmp_path / "log") == []
    recorded = "androstep/call_path" not in disk.recording()["absent"]
    assert ("no probes for paths of system calls" in said) != recorded


@pytest.mark.root
@pytest.mark.parametrize("preset", ["block+fs", "block+fs+syscalls"])
def test_what_was_open_before_calls_were_recorded_is_listed(disk: Disk, preset: str) -> None:
    path = disk.top / "open"
    path.write_bytes(b"0123456789")
    with path.open("rb", buffering=0) as file:
        os.set_inheritable(file.fileno(), True)
        command = ["sh", "-c", "cd /proc/self && echo && exec sleep 60"]
        holder = subprocess.Popen(command, close_fds=False, stdout=subprocess.PIPE)
        assert holder.stdout is not None and holder.stdout.readline() == b"\n"
        try:
            file.seek(4)
            disk.iotrace("--preset", preset, "--", "true")
        finally:
            holder.kill()
            holder.communicate()
        status = os.fstat(file.fileno())
        listed = record.read(disk.out / "before.rec").tables["descriptor"].rows(named=True)
        rows = {row["fd"]: row for row in listed if row["pid"] == holder.pid}
        if preset == "block+fs":
            assert not listed
            return
        row = rows[file.fileno()]
    dev = os.major(status.st_dev) << 20 | os.minor(status.st_dev)
    assert (row["dev"], row["ino"], row["mode"], row["position"]) == (dev, status.st_ino, status.st_mode, 4)
    assert row["path"] == str(path) and row["flags"] & os.O_ACCMODE == os.O_RDONLY
    assert rows[1]["path"].startswith("pipe:[") and rows[-100]["path"] == f"/proc/{holder.pid}"


def narrow_program(directory: Path) -> subprocess.Popen[bytes]:
    """Start a 32-bit program that does nothing (29 is pause)."""
    (directory / "narrow.c").write_text('void _start(void) { for (;;) __asm__ volatile("int $0x80" ::"a"(29)); }')
    if compiling.tried("-m32", "-nostdlib", "-static", "-o", directory / "narrow", directory / "narrow.c").returncode:
        pytest.skip("gcc makes no 32-bit programs")
    try:
        return subprocess.Popen([directory / "narrow"])
    except OSError as error:
        pytest.skip(f"no 32-bit programs run here: {error}")


COVERED = """
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mount --bind "$0" /sys/kernel/tracing/events/syscalls
exec "$@"
"""


@pytest.mark.root
@pytest.mark.alone  # its mount namespace would keep alive what concurrent tests unmount
def test_calls_by_number_where_the_kernel_has_no_event_for_each(disk: Disk, tracefs: Path, tmp_path: Path) -> None:
    if not (tracefs / "events" / "syscalls").is_dir():
        pytest.skip("this kernel has no event for each call anyway")
    (tmp_path / "nothing").mkdir()
    covered = ["unshare", "--mount", "sh", "-euc", COVERED, tmp_path / "nothing"]
    strace = ["strace", "-f", "-s", "16", "-o", tmp_path / "log", callers(), disk.top]
    iotrace = [built.program("iotrace"), "-o", disk.out, "--device", disk.device, "--preset", "block+fs+syscalls"]
    narrow = narrow_program(tmp_path)
    try:
        built.run(*covered, *iotrace, "--", *strace)
    finally:
        narrow.kill()
        narrow.wait()
    numbers = disk.recording()["syscall_numbers"]
    assert numbers["machine"] == os.uname().machine
    assert narrow.pid in numbers["narrow"] and os.getpid() not in numbers["narrow"]
    assert calls_differ(disk.out, tmp_path / "log") == []


HEADERS = {"X86_64": "x86-linux-any", "AARCH64": "aarch64-linux-any", "ARM": "arm-linux-any"}


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_of_calls_are_those_of_the_kernels_headers(machine: str, tmp_path: Path) -> None:
    text = (ROOT / "probes" / "iotrace" / "calls.c").read_text()
    lists = re.findall(r"\[(\w+)\] =\s+((?:\"[^\"]*\"\s*)+),", text)
    of = {name: dict(re.findall(r"(\w+)(?:/\w+)?=(\d+)", re.sub(r'"\s*"', "", texts))) for name, texts in lists}
    assert of.keys() == HEADERS.keys() and min(map(len, of.values())) > 80
    lines = ["#include <asm/unistd.h>"]
    for name in sorted(set().union(*of.values())):
        if name in of[machine]:
            lines.append(f'_Static_assert(__NR_{name} == {of[machine][name]}, "{name}");')
        else:
            lines += [f"#ifdef __NR_{name}", f"#error {name} is lacking", "#endif"]
    (tmp_path / "numbers.c").write_text("\n".join(lines))
    kernels = Path(ziglang.__file__).parent / "lib" / "libc" / "include"
    include = ("-I", kernels / HEADERS[machine], "-I", kernels / "any-linux-any")
    compiling.gcc("-fsyntax-only", "-nostdinc", "-D__ARM_EABI__", *include, tmp_path / "numbers.c")


def test_calls_and_their_paths_in_a_guest_are_those_that_strace_sees(tmp_path: Path) -> None:
    program = callers()
    iotrace = built.program("iotrace", "x86_64-linux-musl")
    lacking = guest.missing()
    if lacking is not None:
        pytest.skip(lacking)
    try:
        kernel.debian()
    except OSError as error:
        pytest.skip(str(error))
    guest.record_calls(tmp_path, "ext4", iotrace, [program], ["callers", "/mnt"], options=["-s", "16"], cpus=2)
    facts = json.loads((tmp_path / "recording" / "recording.json").read_text("utf-8"))
    assert not {"androstep/call_path", "androstep/call_fd"} & {*facts["absent"]}
    assert calls_differ(tmp_path / "recording", tmp_path / "app.strace") == []


# -- BTF: offsets by the compiler that also wrote the type information -------------------------------------------------

STRUCTS = """
#include <stddef.h>
#include <stdio.h>
typedef struct { char first; struct { long deep; int hidden : 3; }; union { short a; char b[7]; }; } inner_t;
struct name { const char *text; };
struct outer { char c; const inner_t inner; unsigned bits : 5; struct name *const pointer; volatile struct name last; };
struct outer global;
int takes(int number, const struct name *const name) { return number + (name != 0); }
#define SHOW(path) printf("outer " #path " %ld\\n", (long)offsetof(struct outer, path))
int main(void)
{
    SHOW(c); SHOW(inner); SHOW(inner.first); SHOW(inner.deep); SHOW(inner.a); SHOW(inner.b); SHOW(pointer);
    SHOW(last.text);
    return takes(0, 0);
}
"""

ASK = """
#include <stdio.h>
#include "iotrace/iotrace.h"
int main(int argc, char **argv)
{
    struct btf *btf = btf_open(argv[1]);
    if (!btf)
        return 3;
    for (int i = 2; i + 1 < argc; i += 2)
        printf("%s %s %ld\\n", argv[i], argv[i + 1], btf_offset(btf, argv[i], argv[i + 1]));
    printf("%d%d%d\\n", btf_argument_is(btf, "takes", 1, "name"), btf_argument_is(btf, "takes", 0, "name"),
           btf_argument_is(btf, "takes", 2, "name"));
    btf_close(btf);
    return 0;
}
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """Compile a program that queries btf.c; return it, type information of STRUCTS, and the compiler's view of them."""
    directory = tmp_path_factory.mktemp("btf")
    (directory / "structs.c").write_text(STRUCTS)
    (directory / "ask.c").write_text(ASK)
    made = compiling.tried("-gbtf", "-o", directory / "structs", directory / "structs.c")
    copy = ["objcopy", "-O", "binary", "--only-section=.BTF", "--set-section-flags", ".BTF=alloc"]
    if made.returncode or subprocess.run([*copy, directory / "structs", directory / "types"]).returncode:
        pytest.skip("gcc writes no BTF")
    sources = [
        ROOT / "probes" / name for name in ("iotrace/btf.c", "common/files.c", "common/errors.c", "common/utf8.c")
    ]
    options = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        f"-I{ROOT / 'probes'}",
    ]
    compiling.gcc(*options, "-o", directory / "ask", directory / "ask.c", *sources)
    said = subprocess.run([directory / "structs"], capture_output=True, text=True, check=False).stdout
    return directory / "ask", directory / "types", said.splitlines()


def test_btf_offsets_are_those_of_the_compiler(ask: tuple[Path, Path, list[str]]) -> None:
    program, types, said = ask
    questions = [word for line in said for word in line.split()[:2]]
    *offsets, arguments = (
        built.run(program, types, *questions, "outer", "none", "none", "c").stdout.decode().splitlines()
    )
    assert offsets == [*said, "outer none -1", "none c -1"] and len(said) == 8
    assert arguments in ("100", "000")  # gcc before 14 writes no functions


def test_damaged_btf_is_survived(ask: tuple[Path, Path, list[str]], tmp_path: Path) -> None:
    program, types, _ = ask
    whole = types.read_bytes()
    damaged = tmp_path / "damaged"
    for place in range(0, len(whole), 29):
        for change in (b"", b"\xff" * 4):
            damaged.write_bytes(whole[:place] + change + (whole[place + 4 :] if change else b""))
            done = subprocess.run([program, damaged, "outer", "inner.deep"], capture_output=True, timeout=60)
            assert done.returncode in (0, 3), done.stderr
