"""The commands that work on devices: `androstep record|monitor|bench|replay|doctor --on WHERE`, `androstep devices`."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from adbd import LOCKED, PIXEL, FakePhone, phone
from support.devices import home, needs_probe
from support.loops import attached, make_ext4, mounted
from support.replay_programs import opened, program

import androstep_analysis as androstep
from androstep_analysis import cli
from androstep_analysis.commands import record
from androstep_analysis.device.record import recording

PROGRAM = Path(sys.executable).with_name("androstep")

pytestmark = [pytest.mark.root, pytest.mark.filterwarnings("ignore:.*the probe counted")]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakePhone]:
    with home(tmp_path), phone(tmp_path) as found:
        yield found


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    with (tmp_path / "image").open("wb") as file:
        file.truncate(1 << 20)
    with attached(tmp_path / "image") as device:
        yield device


def test_record_on_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_probe("iotrace")
    make_ext4(tmp_path / "fs.img", nr_mib=16)
    out = tmp_path / "a 'capture'"
    with mounted(tmp_path / "fs.img") as fs:
        copy = ["sh", "-c", 'cp "$0" "$1"; sync', __file__, str(fs.top / "co py")]
        assert cli.main(["record", "--on", "local", "-o", str(out), "--device", str(fs.top), "--", *copy]) == 0
    printed = capsys.readouterr().out
    assert "co py" in printed and f"kept in {out}" in printed
    captured = androstep.open(out)
    assert captured.io.filter(path="/co py").select(pl.col("bytes").sum()).collect().item() > 0
    assert str(captured.facts["workload"]).startswith("sh -c cp")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a 'capture'", "fs.img"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_signal_ends_the_recording_and_keeps_it(
    tmp_path: Path, fake: FakePhone, loop: str, number: signal.Signals, status: int
) -> None:
    needs_probe("iotrace")
    words = ["record", "--on", fake.address, "-o", tmp_path / "capture", "--preset", "block", "--device", loop]
    with subprocess.Popen([PROGRAM, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        assert next(line for line in process.stderr if "recording on" in line)
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={loop}", "bs=4096", "count=8", "oflag=direct"], check=True, stderr=-3
        )
        process.send_signal(number)
        process.stderr.read()
    assert process.returncode == status
    requests = androstep.open(tmp_path / "capture").requests.filter(op="write", submit_comm="dd").collect()
    assert requests["sector"].sort().to_list() == list(range(0, 64, 8))
    assert not list(fake.tmp.iterdir())


@pytest.mark.parametrize("after", ["the line that mentions it", "waiting for the command"])
def test_ctrl_c_ends_a_recording_at_any_time(
    tmp_path: Path,
    fake: FakePhone,
    loop: str,
    after: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    needs_probe("iotrace")
    place, name = (record, "notify") if after == "the line that mentions it" else (recording.Job, "wait")

    def pressed(*_: object) -> None:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(place, name, pressed)
    words = ["-o", str(tmp_path / "capture"), "--preset", "block", "--device", loop, "--", "sleep", "100000"]
    assert cli.main(["record", "--on", fake.address, *words]) == 0
    assert "ended by: signal" in capsys.readouterr().err
    assert "sleep" not in fake.processes().values()
    assert not list(fake.tmp.iterdir())


def test_record_for_a_time_with_samples(
    tmp_path: Path, fake: FakePhone, loop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_probe("iotrace")
    needs_probe("procmon")
    words = ["--preset", "block", "--device", loop, "--time", "1", "--monitor", "20", "--workload", "nothing; reboot"]
    assert cli.main(["record", "--on", fake.address, "-o", str(tmp_path / "capture"), *words]) == 0
    captured = androstep.open(tmp_path / "capture")
    assert captured.facts["workload"] == "nothing; reboot"
    assert captured.facts["device"] == PIXEL.properties["ro.product.model"]
    assert captured.about["rows"]["samples"]
    assert "readings of counters" in capsys.readouterr().out


def test_recover_where_nothing_is_left(
    tmp_path: Path, fake: FakePhone, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MEMORY", ("/data/local/tmp",))
    assert cli.main(["record", "--on", fake.address, "--recover", "-o", str(tmp_path / "capture")]) == 1
    assert "no recording was found" in capsys.readouterr().err


def test_monitor(tmp_path: Path, fake: FakePhone, capsys: pytest.CaptureFixture[str]) -> None:
    needs_probe("procmon")
    words = ["--hz", "20", "--time", "1", "-o", str(tmp_path / "capture")]
    assert cli.main(["monitor", "--on", fake.address, *words]) == 0
    assert "readings of counters" in capsys.readouterr().out
    assert androstep.open(tmp_path / "capture").about["rows"]["samples"]


def test_bench(tmp_path: Path, fake: FakePhone, capsys: pytest.CaptureFixture[str]) -> None:
    needs_probe("iobench")
    options = ["--rw", "write", "--size", "256k", "--cache", "any", "--repeats", "2"]
    out = tmp_path / "capture"
    assert cli.main(["bench", "--on", fake.address, "/data/local/tmp", "-o", str(out), "--", *options]) == 0
    assert "valid" in capsys.readouterr().out
    captured = androstep.open(out)
    assert captured.facts["device"] == PIXEL.properties["ro.product.model"]
    assert captured.facts["android_release"] == "14"


def test_replay(tmp_path: Path, fake: FakePhone) -> None:
    needs_probe("ioreplay")
    program([opened(1, "a"), {"call": "close", "descriptor": 1}]).write(tmp_path / "app.rec")
    out = tmp_path / "capture"
    words = [str(tmp_path / "app.rec"), "/data/local/tmp/place", "-o", str(out), "--", "--mode", "as-fast"]
    assert cli.main(["replay", "--on", fake.address, *words]) == 0
    assert androstep.open(out).facts["device"] == PIXEL.properties["ro.product.model"]


def test_doctor(fake: FakePhone, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("iobench", "ioreplay", "iotrace", "extmap", "procmon"):
        needs_probe(name)
    assert cli.main(["doctor", "--on", fake.address]) == 0
    assert "root" in capsys.readouterr().out


def test_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with home(tmp_path):
        assert cli.main(["devices"]) == 0
    assert "local" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    ["bench --compare a b --on local", "doctor capture --on local", "record --time 0 --on local", "monitor --hz x"],
)
def test_wrong_usage(words: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("record --on phone -o x", "is not an address"),
        ("bench --on 127.0.0.1:1 -o x", "no device listens"),
        ("replay --on local:x app.rec /x -o x", "is not an address"),
        ("monitor --on usb:no-such-serial -o x", "no-such-serial"),
    ],
)
def test_a_device_that_is_not_there_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with home(tmp_path):
        assert cli.main(words.split()) == 1
    printed = capsys.readouterr().err
    assert said in printed and printed.count("\n") == 1


def test_without_root_nothing_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with home(tmp_path), phone(tmp_path, model=LOCKED) as locked:
        assert cli.main(["record", "--on", locked.address, "-o", str(tmp_path / "capture")]) == 1
        assert not list(locked.tmp.iterdir())
    assert "no root" in capsys.readouterr().err
