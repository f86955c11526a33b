"""A phone without root: its perfetto is started once with the right configuration, and its trace becomes a capture.

The phone is this machine with short scripts for Android's programs; test_boxed_phone.py has the real ones.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.perfetto_messages import generic
from support.scripted_phone import APP, SECTORS, UID, Scripted, boottime_ns, connected, nothing_left, recorded, scripted

from androstep_analysis import cli, device, measures
from androstep_analysis.device import DeviceError, LinkLost
from androstep_analysis.device.record import perfetto, perfetto_session, recording, shell_listing
from androstep_analysis.present import terminal

pytestmark = pytest.mark.filterwarnings("ignore:.*could not be recorded")

F2FS_MOUNTS = """
[ "$1" = /proc/self/mountinfo ] && exec sed "s/ - [^ ]*/ - f2fs/" "$1"
exec /bin/cat "$@"
"""


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    with scripted(tmp_path / "phone", monkeypatch) as phone:
        yield phone


def starts(phone: Scripted) -> int:
    return (phone.top / "starts").read_text().count("start")


def test_a_recording_without_root(phone: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sh", "-c", "echo half done; exit 3"]
    with connected(phone) as device, device.record(out=tmp_path / "capture", seconds=5, command=command) as recording:
        pass
    assert nothing_left(phone)
    made = recording.capture
    assert made is not None
    assert made.requests.collect()["sector"].to_list() == SECTORS
    assert made.facts["rooted"] is False and made.facts["android_release"] == "14"
    assert made.tasks.filter(pid=7).select(pl.col("package").unique()).collect().item() == APP
    said = capsys.readouterr().err
    assert said.count("no root access: its own perfetto records") == 1
    assert "does not say: storage of applications, bytes by user" in said
    assert said.index("androstep: half done") < said.index("the command ended with status 3")
    described = json.loads((tmp_path / "capture/raw/recording.json").read_text())
    for when in ("before", "after"):
        assert described["shell"][when]["packages"] == [f"package:/data/app/a/base.apk={APP} uid:{UID}"]
        assert described["shell"][when]["diskstats"]
    assert "SECRET" not in json.dumps(described)
    config = (phone.top / "config").read_text()
    assert "duration_ms: 5000\n" in config and "write_into_file: true" in config
    shown = re.sub(r"\s+", " ", terminal.summary(made))
    assert "1 requested events could not be recorded: ext4_load_inode" in shown
    assert "processes (only inferred, no block_bio_queue): use `androstep record` with root" in shown


@pytest.mark.parametrize("event", ["ext4_da_write_begin", "f2fs_write_begin"])
def test_files_that_the_shell_may_list_have_names(
    phone: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str], event: str
) -> None:
    """The certainty of a name follows from the two listings. Files of other devices and packages have none."""
    app, own = phone.top / "data/app", phone.top / "data/data"
    if event.startswith("f2fs"):
        phone.install("cat", F2FS_MOUNTS)
    whole, odd = app / "same", f"odd\n{os.fsdecode(bytes([255]))} name"
    for name in ("same", odd, "deleted", "renamed"):
        (app / name).write_bytes(b"before")
    (own / "mail.db").write_bytes(b"before")
    skip_unless_mounted(whole)
    numbers = {path.name: path.stat().st_ino for path in (*app.iterdir(), own / "mail.db")}
    with (
        connected(phone) as device,
        device.record(out=tmp_path / "capture", packages=[APP, "org.example.closed"]) as recording,
    ):
        for path in (app / odd, own / "mail.db", app / "new"):
            path.write_bytes(b"changed")
        numbers["new"] = (app / "new").stat().st_ino
        (app / "renamed").rename(app / "other")
        (app / "deleted").unlink()
        (there,) = (phone.top / "traces").iterdir()
        there.write_bytes(recorded(*written(event, whole.stat().st_dev, [*numbers.values(), 1 << 40])))
    assert nothing_left(phone)
    made = recording.capture
    assert made is not None
    rows = made.tables["files"].filter(pl.col("incarnation") == 1).select("ino", "path", "source").collect()
    names = {ino: (None if path is None else path.rpartition("/")[2], source) for ino, path, source in rows.rows()}
    odd_name = "odd\n\\xff name"
    assert {name: names[ino] for name, ino in numbers.items()} == {
        "same": ("same", "fiemap"),
        odd: (odd_name, "inferred"),
        "mail.db": ("mail.db", "inferred"),
        "new": ("new", "inferred"),
        "deleted": ("deleted", "inferred"),
        "renamed": (None, "tracepoint"),
    }
    io = measures.file_io(made.tables, by=("path",)).filter(metric="written")
    assert io.filter(pl.col("path").is_null())["value"].to_list() == [2 * 4096]
    assert io.filter(pl.col("path").is_not_null(), inferred=0)["path"].str.ends_with("/data/app/same").to_list() == [
        True
    ]
    said = capsys.readouterr().err
    assert "files of org.example.closed are not listed: run-as: package not debuggable: org.example.closed" in said
    assert said.count("not listed") == 1


def written(event: str, device: int, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """Yield an event of a buffered write for each inode number; they begin after a second."""
    begin = boottime_ns() + 1_000_000_000
    for order, ino in enumerate(numbers):
        fields = {"dev": device, "ino": ino, "pos": 0, "len": 4096}
        yield {"timestamp": begin + order, "pid": 7, **generic(event, **fields)}


def skip_unless_mounted(path: Path) -> None:
    """Skip a test on a filesystem whose files have another device than its mount, such as btrfs."""
    device = path.stat().st_dev
    if f" {os.major(device)}:{os.minor(device)} " not in Path("/proc/self/mountinfo").read_text():
        pytest.skip("the temporary directory is on a filesystem without a device number")


def test_without_a_listing_the_rest_is_recorded(
    phone: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shell_listing, "DATA", "/nonexistent")
    with connected(phone) as device, device.record(out=tmp_path / "capture", seconds=5) as recording:
        pass
    assert nothing_left(phone)
    assert recording.capture is not None
    assert "cannot list files" in capsys.readouterr().err


def test_a_name_that_is_no_package_is_refused(phone: Scripted, tmp_path: Path) -> None:
    with (
        connected(phone) as device,
        pytest.raises(DeviceError, match="not the name of a package"),
        device.record(out=tmp_path / "capture", packages=["--user 10"]),
    ):
        pass
    assert nothing_left(phone) and not (phone.top / "starts").exists()


def test_a_cable_that_is_pulled_costs_nothing(phone: Scripted, tmp_path: Path) -> None:
    """The answer to each step is lost once; perfetto is still started only once."""
    phone.lost = ["--background-wait", "said", "kill -TERM", "rm -f"]
    with connected(phone) as device, device.record(out=tmp_path / "capture", seconds=5) as recording:
        pass
    assert nothing_left(phone)
    assert starts(phone) == 1 and not phone.lost
    assert recording.capture is not None and recording.capture.population["count"] == len(SECTORS)


@pytest.mark.parametrize("when", ["--background-wait", "kill -TERM"])
def test_what_a_lost_link_leaves_is_recovered(
    phone: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    phone.lost = [when]
    with (
        connected(phone, patience_s=0) as device,
        pytest.raises(LinkLost),
        device.record(out=tmp_path / "lost", seconds=5),
    ):
        pass
    assert "--recover" in capsys.readouterr().err and not (tmp_path / "lost").exists()
    with connected(phone) as device:
        (made,) = device.recover(tmp_path / "capture")
        with pytest.raises(DeviceError, match="no recording was found"):
            device.recover(tmp_path / "again")
    assert nothing_left(phone)
    assert starts(phone) == 1 and made.population["count"] == len(SECTORS)


def test_it_ends_by_itself(phone: Scripted, tmp_path: Path) -> None:
    with connected(phone) as device, device.record(out=tmp_path / "capture", seconds=5) as recording:
        (phone.top / "time_is_over").touch()
        recording.wait()
    assert recording.capture is not None


def test_a_refused_configuration_is_a_sentence(phone: Scripted, tmp_path: Path) -> None:
    (phone.top / "refusal").write_text('No field named "drain_period_ms" in proto\n')
    with (
        connected(phone) as device,
        pytest.raises(DeviceError, match="did not start: No field named"),
        device.record(out=tmp_path / "capture"),
    ):
        pass
    assert nothing_left(phone)
    assert starts(phone) == 1 and not (tmp_path / "capture").exists()


@pytest.mark.parametrize("choice", [{"preset": "block"}, {"trace": ["/dev/sda"]}, {"readahead": True}])
def test_what_only_iotrace_can_do_is_refused(phone: Scripted, tmp_path: Path, choice: dict[str, object]) -> None:
    with connected(phone) as device, pytest.raises(DeviceError, match="no root access, which a preset"):
        device.record(out=tmp_path / "capture", **choice).__enter__()
    assert nothing_left(phone)


def test_without_perfetto_a_sentence_says_so(phone: Scripted, tmp_path: Path) -> None:
    (phone.top / "bin" / "perfetto").unlink()
    with (
        connected(phone) as device,
        pytest.raises(DeviceError, match="no root access, and no perfetto"),
        device.record(out=tmp_path / "capture"),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "has", "lacks"),
    [
        ("", ["ext4/ext4_da_write_begin", "f2fs/f2fs_iget", "duration_ms: 60000"], []),
        ("--for f2fs --time 1500ms", ["f2fs/f2fs_write_end", "duration_ms: 2000"], ["ext4/"]),
        ("--for ext4 --time 3h", ["ext4/ext4_sync_file_exit", "duration_ms: 10800000"], ["f2fs/"]),
    ],
)
def test_the_configuration_is_printed(
    capsys: pytest.CaptureFixture[str], words: str, has: list[str], lacks: list[str]
) -> None:
    assert cli.main(["perfetto-config", *words.split()]) == 0
    printed = capsys.readouterr().out
    assert all(text in printed for text in has) and not any(text in printed for text in lacks)
    assert printed.count("{") == printed.count("}")


def test_a_longer_recording_takes_less_memory() -> None:
    def sizes(seconds: int) -> list[int]:
        return [int(size) for size in re.findall(r"size_kb: (\d+)", perfetto.config(seconds=seconds))]

    assert all(long <= short for long, short in zip(sizes(7200), sizes(60), strict=True))
    assert sizes(7200) != sizes(60)


def test_perfetto_records_in_addition_to_iotrace(phone: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    """It gets a configuration without block events. If it cannot start, a message says what is missing."""
    with connected(phone) as device:
        begun = recording._begin_perfetto(device, perfetto.config_with_root(switches=True))
        assert begun is not None
        config = (phone.top / "config").read_text()
        assert all(name in config for name in ("sched/sched_switch", "frametimeline", 'atrace_categories: "am"'))
        assert "block/" not in config
        there = phone.top / "fetched"
        there.mkdir()
        recording._copy_perfetto(device, begun, there)
        assert (there / "phone.pftrace").read_bytes() == (phone.top / "recorded").read_bytes()
        perfetto_session.remove(device, begun)
        assert not perfetto_session.is_running(device, begun)
        (phone.top / "refusal").write_text("connection refused\n")
        assert recording._begin_perfetto(device, perfetto.config_with_root()) is None
        assert "connection refused; there will be no frames" in capsys.readouterr().err
        (phone.top / "traces").rmdir()
        assert recording._begin_perfetto(device, perfetto.config_with_root()) is None
    assert list((phone.top / "tmp").iterdir()) == [] and starts(phone) == 2


def test_without_root_only_perfetto_can_record(phone: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "connect", lambda _: device.Device(phone))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["record", "--no-perfetto"])
    assert not (phone.top / "starts").exists()
