"""`androstep top` agrees with the whole recording, and leaves the device as it was."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import tracing
from support.devices import needs_probe
from support.loops import Mounted, make_ext4, mounted
from support.tracing import instances_of, needs_tracefs

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.device import DeviceError, connect
from androstep_analysis.device.record.recording import IOTRACE
from androstep_analysis.present.live import Live, Moment, ranking, totals

pytestmark = [pytest.mark.root, pytest.mark.prove]

PAGE = 4096
TOP = """
import sys
from androstep_analysis.device.record import recording
recording.MEMORY = (sys.argv.pop(1),)
from androstep_analysis import cli
sys.exit(cli.main(["top", "--on", "local", *sys.argv[1:]]))
"""
"""`androstep top` with all its files in one directory, so that a test can find what remains."""
HOSTILE = "[red]a;$(reboot)\x1b[31m"
WORKLOAD = f"""
import os, sys, time
top, rounds = sys.argv[1], float(sys.argv[2])
old = os.open(top + "/old", os.O_RDONLY)
new = os.open(top + "/" + {HOSTILE!r}, os.O_CREAT | os.O_WRONLY)
open(top + "/ready", "w").close()
block = 0
while block < rounds:
    os.posix_fadvise(old, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(old, 16 * {PAGE}, block * 32 * {PAGE} % (32 << 20))
    os.pwrite(new, bytes({PAGE}), block % 4096 * {PAGE})
    os.fsync(new)
    if os.path.exists(top + "/go"):
        with open(f"{{top}}/short{{block % 7}}", "wb") as file:
            file.write(os.urandom(3 * {PAGE}))
            ino = os.fstat(file.fileno()).st_ino
        print(ino, f"/short{{block % 7}}", flush=True)
        if block % 3 == 0:
            os.rename(f"{{top}}/short{{block % 7}}", f"{{top}}/moved{{block % 5}}")
            print(ino, f"/moved{{block % 5}}", flush=True)
    block += 1
    time.sleep(0.02)
"""
"""Read and sync, and create and rename files once there is a file `go`; print the inode number and path of these."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Mounted]:
    """Mount a filesystem with a file `old` that is not in the page cache."""
    needs_probe("iotrace")
    needs_tracefs()
    make_ext4(tmp_path / "image", ["-b", str(PAGE)], 128)
    with mounted(tmp_path / "image") as first:
        (first.top / "old").write_bytes(os.urandom(32 << 20))
    with mounted(tmp_path / "image", "noatime") as place:
        yield place


@pytest.fixture
def tracefs(tmp_path: Path) -> Iterator[Path]:
    with tracing.mounted(tmp_path) as top:
        yield top


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Return the directory in which `TOP` records."""
    path = tmp_path / "memory"
    path.mkdir()
    return path


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """Return the file to which the workload prints."""
    return tmp_path / "names"


@pytest.fixture
def workload(place: Mounted, names: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `WORKLOAD` until the end of the test."""
    words = [sys.executable, "-c", WORKLOAD, place.top, "inf"]
    with names.open("wb") as output, subprocess.Popen(words, stdout=output) as running:
        while not (place.top / "ready").exists():
            assert running.poll() is None
            time.sleep(0.01)
        yield running
        running.terminate()


def recorder(memory: Path) -> int:
    """Return the process id of the iotrace that records there."""
    (path,) = memory.glob("*/iotrace/pid")
    return int(path.read_text())


def is_gone(pid: int, memory: Path, tracefs: Path) -> bool:
    """Return whether iotrace's recording has left no files, no trace instance and no process."""
    return not Path(f"/proc/{pid}").exists() and not list(memory.iterdir()) and not instances_of(tracefs, pid)


@pytest.mark.parametrize(
    ("history_s", "forgets"), [(1, False), (40, False), pytest.param(1, True, marks=pytest.mark.alone)]
)
def test_moments_say_what_the_whole_recording_says(
    place: Mounted, workload: subprocess.Popen[bytes], names: Path, tmp_path: Path, history_s: int, forgets: bool
) -> None:
    """Each request is in one moment, whose facts agree with the capture.

    A file that is renamed later has its name at that time. A kernel short of memory `forgets` extents and looks up
    parts of them again: such events change nothing.
    """
    seen: list[Moment] = []
    with connect("local") as device:
        live = Live(device, interval_s=1, history_s=history_s, keep=tmp_path / "kept", trace=[str(place.top)])
        with live:
            (place.top / "go").touch()
            for moment in live:
                seen.append(moment)
                if forgets:
                    Path("/proc/sys/vm/drop_caches").write_text("2")
                if len(seen) == 8:
                    break
    assert live.capture is not None
    assert [one.end_ns for one in seen[:-1]] == [one.start_ns for one in seen[1:]]
    whole = live.capture.io.filter(
        pl.col("complete_ns").is_between(seen[0].start_ns, seen[-1].end_ns, closed="left")
    ).collect()
    pieces = pl.concat(one.io for one in seen)
    key = ["dev", "op", "sector", "complete_ns"]
    assert pieces["bytes"].sum() == whole["bytes"].sum() > 0
    assert requests_of(pieces).equals(requests_of(whole))
    both = pieces.join(whole, on=key, how="inner", suffix="_whole")
    had = pl.DataFrame([line.split() for line in names.read_text().splitlines()], ["ino", "path"], orient="row")
    had = had.cast({"ino": pl.Int64})
    for rows in (pieces, whole):
        named = rows.filter(pl.col("path").str.contains("^/(short|moved)"), pl.col("ino").is_not_null())
        never = named.join(had, on=["ino", "path"], how="anti")
        assert never.height == 0, never.select(*key, "ino", "path")
        assert named.height > 0
    for column in ("owner_comm", "owner_pid", "block_type", "ino"):
        known = both.filter(pl.col(column).is_not_null(), pl.col(f"{column}_whole").is_not_null())
        if column.startswith("owner_"):  # a transaction that began before the history has no other owner there
            known = known.filter(pl.col("owner_via") != "filesystem")
        if column == "ino":  # a listing that the moment cannot verify is inferred
            known = known.filter(pl.col("map_source") != "inferred")
        if column == "block_type":
            known = known.filter(pl.col(column) != "unknown", pl.col("block_type_whole") != "unknown")
        wrong = known.filter(pl.col(column) != pl.col(f"{column}_whole"))
        assert wrong.height == 0, wrong.select(*key, column, f"{column}_whole")
    # Files that existed at the start are known in every moment, however short the history is.
    old = whole.filter(op="read", path="/old")
    assert old["bytes"].sum() > 1 << 20
    seen_then = pieces.filter(path="/old", owner_comm="python", owner_pid=workload.pid)
    unseen = old.join(seen_then, on=key, how="anti")
    lost = [one.lost_events for one in seen]
    assert unseen.height == 0, f"lost events: {lost}\n{pieces.join(unseen, on=key, how='semi')}"
    written = pieces.filter(op="write")
    assert f"/{HOSTILE}" in set(written["path"])
    assert workload.pid in set(written["owner_pid"])


def requests_of(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the requests of the pieces with their bytes, because knowledge of files may divide them differently."""
    keys = ["dev", "op", "complete_ns"]
    return pieces.group_by(keys).agg(pl.col("sector").min(), pl.col("bytes").sum()).sort(keys)


def test_rates_are_those_of_the_device(place: Mounted) -> None:
    """The bytes of all moments equal the kernel's count between two quiet moments."""
    statistics = Path("/sys/class/block", Path(place.device).name, "stat")

    def counted() -> list[int]:
        numbers = statistics.read_text().split()
        return [int(numbers[2]) * SECTOR_BYTES, int(numbers[6]) * SECTOR_BYTES]

    with connect("local") as device, Live(device, interval_s=1, trace=[str(place.top)]) as live:
        moments = iter(live)
        _, before = until_still(moments, counted)
        seen: list[Moment] = []
        (place.top / "go").touch()
        with subprocess.Popen(
            [sys.executable, "-c", f"{WORKLOAD}\nos.sync()", place.top, "100"], stdout=subprocess.DEVNULL
        ) as running:
            while running.poll() is None:
                seen.append(next(moments))
        rest, after = until_still(moments, counted)
    shown = [0.0, 0.0]
    for moment in (*seen, *rest):
        whole = totals(moment)
        shown[0] += (whole["read_bytes_per_s"] or 0) * moment.seconds
        shown[1] += (whole["written_bytes_per_s"] or 0) * moment.seconds
    truth = [end - begin for end, begin in zip(after, before, strict=True)]
    assert shown == pytest.approx(truth)
    assert min(truth) > 1 << 20


def until_still(moments: Iterator[Moment], counted: Callable[[], list[int]]) -> tuple[list[Moment], list[int]]:
    """Return the moments up to one that ends while the device is idle, and the kernel's count by then."""
    found: list[Moment] = []
    while True:
        before, since_ns = counted(), time.monotonic_ns()
        found.append(next(moments))
        while found[-1].end_ns < since_ns:
            found.append(next(moments))
        if counted() == before:
            return found, before


@pytest.mark.alone
def test_an_iotrace_that_stands_still_is_an_error(place: Mounted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("androstep_analysis.present.live.live.SEGMENT_LATE_S", 0)
    with connect("local") as device, Live(device, interval_s=1, trace=[str(place.top)]) as live:
        iotrace = live._recording._jobs[IOTRACE].pid()
        os.kill(iotrace, signal.SIGSTOP)
        try:
            with pytest.raises(DeviceError, match=r"local: iotrace wrote no segment for 0 s; is the device asleep"):
                list(live)
        finally:
            os.kill(iotrace, signal.SIGCONT)


def test_lines_for_scripts(place: Mounted, workload: object, memory: Path, tracefs: Path) -> None:
    command = [sys.executable, "-c", TOP, memory, "--device", place.top, "--batch", "--interval", "1", "--by", "file"]
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        shown = (json.loads(line) for line in running.stdout)
        assert any(f"/{HOSTILE}" in [row["path"] for row in one["rows"]] and is_written(one) for one in shown)
        pid = recorder(memory)
        running.terminate()
    assert is_gone(pid, memory, tracefs)
    text = subprocess.run([*command, "--count", "3"], capture_output=True, text=True, check=True).stdout
    assert "\x1b" not in text
    assert text.count("\nfile ") == 3
    assert not list(memory.iterdir())


def is_written(moment: dict[str, Any]) -> bool:
    """Return whether anything was written in a moment."""
    return bool(moment["totals"]["written_bytes_per_s"] > 0)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_nothing_is_left(
    place: Mounted, memory: Path, tracefs: Path, sent: signal.Signals
) -> None:
    command = [sys.executable, "-c", TOP, memory, "--device", place.top, "--batch", "--json", "--interval", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("{")
        pid = recorder(memory)
        assert instances_of(tracefs, pid)
        running.send_signal(sent)
        _, errors = running.communicate()
    assert running.returncode == (0 if sent == signal.SIGINT else 128 + sent), errors
    assert "Traceback" not in errors
    assert is_gone(pid, memory, tracefs)


def test_in_a_terminal(
    place: Mounted, workload: subprocess.Popen[bytes], memory: Path, tracefs: Path, tmp_path: Path
) -> None:
    """tmux shows the ranking by the pressed key, with the rates of the moment."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    tmux = ["tmux", "-S", str(tmp_path / "socket")]

    def said(*words: str) -> str:
        return subprocess.run([*tmux, *words], capture_output=True, text=True, check=True).stdout

    def until(words: str) -> str:
        for _ in range(900):
            if words in (shown := said("capture-pane", "-p")):
                return shown
            time.sleep(0.1)
        pytest.fail(f"never shown: {words}\n{shown}")

    top = shlex.join([sys.executable, "-c", TOP, str(memory), "--device", str(place.top), "--interval", "1"])
    said("new-session", "-d", "-x", "110", "-y", "30", f"{top}; echo ended $?; sleep 60")
    try:
        assert "sorted by bytes" in until(f"python {workload.pid}")
        pid = recorder(memory)
        said("send-keys", "f")
        until("by file, sorted by bytes")
        until("/old")
        until("[red]a;$(reboot)\\x1b[31m")
        said("send-keys", "s")
        until("by file, sorted by read")
        said("send-keys", "q")
        until("ended 0")
    finally:
        said("kill-server")
    assert is_gone(pid, memory, tracefs)


def test_ranking_by_hand() -> None:
    """A request with two parts counts in the row of each, with its own time."""
    requests = pl.DataFrame({"request_id": [1, 2, 3], "issue_ns": [0, 10, None], "complete_ns": [5, 40, 50]})
    io = pl.DataFrame(
        {
            **{"request_id": [1, 1, 2, 3], "op": ["write", "write", "read", "discard"]},
            **{"bytes": [4096, 8192, 512, 1 << 20], "sync": [True, True, False, False]},
            **{"path": ["/a", "/b", "/a", "/a"], "block_type": ["data"] * 4, "dev": [1] * 4, "owner_comm": ["x"] * 4},
        }
    )
    moment = Moment(0, 2_000_000_000, requests, io, 0, 0, 1.0, 0.0, 0.0)
    rows = ranking(moment, "file").drop("without_file").rows(named=True)
    assert [row["path"] for row in rows] == ["/b", "/a"]
    assert (rows[0]["written_bytes_per_s"], rows[0]["requests_per_s"], rows[0]["sync_ratio"]) == (4096, 0.5, 1)
    assert (rows[1]["bytes_per_s"], rows[1]["requests_per_s"]) == ((4096 + 512) / 2, 1)
    assert (rows[1]["d2c_p50_ns"], rows[1]["d2c_p99_ns"]) == (5, 30)


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--json"], "--json needs --batch"), ([], "not a terminal"), (["--by", "nobody"], "invalid choice")],
)
def test_what_cannot_be_shown_is_a_sentence(options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "androstep_analysis", "top", "--on", "local", *options]
    shown = subprocess.run(command, capture_output=True, text=True)
    assert shown.returncode != 0
    assert said in shown.stderr
    assert "Traceback" not in shown.stderr
