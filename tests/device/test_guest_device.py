"""Every command on a device with another processor, kernel and page size, against docs/device.md and the truth."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import device as guest_device
from harness.kernel import Wanted
from support.devices import adb_connected, home, needs_probe
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import cli
from androstep_analysis.device import Device, connect

KERNEL = Wanted("trixie", "arm64", 16384)

ADDRESS = "127.0.0.1:5555"
"""Address of the device on the page."""

FILES = {"kept": 1_500_001, "gone": 700_003}
"""Sizes of the files that the recorded workload copies to /data; it removes the second."""

STATE = """
mount -t tracefs nodev /sys/kernel/tracing && cd /sys/kernel/tracing
echo instances; ls instances
for f in current_tracer tracing_on set_event dynamic_events kprobe_events; do echo $f; cat $f; done
cd /; umount /sys/kernel/tracing
cat /proc/mounts
for program in /proc/[0-9]*/exe; do readlink $program; done
find / '(' -path /proc -o -path /sys ')' -prune -o -print
"""


def shown(page: Path) -> list[tuple[list[str], list[str]]]:
    """Return the commands of the page that name the device or its results, and the output lines on the page."""
    blocks = re.findall(r"```text\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (block,) = [re.sub(r" *\\\n *", " ", text) for text in blocks if ADDRESS in text]
    commands = [part.splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(line), [line for line in lines if line.strip("… ")]) for line, *lines in commands]


def likened(line: str) -> str:
    """Replace what differs between runs in a line: its numbers, and so the widths of columns."""
    return " ".join(re.sub(r"\d+([.,]\d+)*|-+", "N", line).split())


def state(device: Device) -> list[str]:
    """Return every file of the guest, its mounts, its running programs, and its tracing state."""
    return sorted(device.checked(STATE, "look around", timeout_s=120).decode().splitlines())


def check_record(device: Device, disk: Path, contents: dict[str, bytes]) -> None:
    """Check that blocks of each piece hold the file's data at its offset, and that writers and readers are known."""
    captured = androstep.open("recorded")
    facts = {name: captured.facts[name] for name in ("device", "kernel", "page_bytes", "fs_type", "rooted")}
    assert facts == {
        **{"device": "guest", "kernel": device.sh(["uname", "-r"]).text.strip(), "page_bytes": 16384},
        **{"fs_type": "ext4", "rooted": True},
    }
    assert facts["kernel"].endswith("-arm64-16k")
    io = captured.io.filter(block_type="data").collect()
    assert set(io["path"]) == {f"/{name}" for name in contents}  # no files of the recorder
    with disk.open("rb") as image:
        for name, content in contents.items():
            blocks = -(-len(content) // 4096)
            padded = content.ljust(blocks * 4096, b"\0")
            for op, owner in (("write", "cp"), ("read", "cat")):
                pieces = io.filter(path=f"/{name}", op=op)
                assert set(pieces["owner_comm"]) == ({owner} if op == "write" or name == "kept" else set())
                seen = set()
                for sector, offset, size in pieces.select("sector", "file_offset_bytes", "bytes").iter_rows():
                    image.seek(sector * 512)
                    assert image.read(size) == padded[offset : offset + size]
                    seen |= set(range(offset // 4096, (offset + size) // 4096))
                assert seen == (set(range(blocks)) if op == "write" or name == "kept" else set())


def check_replay() -> None:
    """Check that all operations were replayed with the recorded results."""
    replayed = androstep.open("replayed").replay
    runs = replayed["replay_runs"]
    assert runs["done"].to_list() == runs["operations"].to_list() and runs["diverged"].to_list() == [0, 0]
    assert runs["fs_type"].to_list() == ["ext4", "ext4"]
    calls = dict(replayed["replay_ops"].group_by("call").len().iter_rows())
    assert {name: calls[name] for name in ("rename", "unlink", "sync")} == {"rename": 2 * 3, "unlink": 2 * 2, "sync": 2}


def check_bench() -> None:
    """Check that both repetitions are valid, cover the whole file, and name the guest's processor and disk."""
    bench = androstep.open("benched").bench
    runs = bench["bench_runs"].select("test", "valid", "machine", "device", "fs_type").unique()
    assert runs.rows() == [("seq_write", True, "aarch64", "vda", "ext4")]
    assert bench["bench"].filter(part="op", thread=-1)["bytes"].to_list() == [1 << 20, 1 << 20]


def check_monitor(device: Device) -> None:
    """Compare the kernel's counters with its own report."""
    captured = androstep.open("samples")
    assert captured.facts["page_bytes"] == 16384
    samples = captured.tables["samples"].collect()
    stated = re.search(rb"MemTotal: +(\d+) kB", device.checked("cat /proc/meminfo", "look").strip())
    assert stated is not None
    total = samples.filter(counter="meminfo.MemTotal").select("value", "unit").unique()
    assert total.rows() == [(int(stated[1]), "kB")]


def check_copies(device: Device, place: Path, content: bytes) -> None:
    """Check that a file of several pieces is unchanged after a push and a pull."""
    (place / "pushed").write_bytes(content)
    device.push(place / "pushed", "/data/local/tmp/copy")
    device.pull("/data/local/tmp/copy", place / "pulled")
    assert (place / "pulled").read_bytes() == content
    device.sh(["rm", "/data/local/tmp/copy"])


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore:.*the probe counted")
def test_every_command_on_arm64_with_pages_of_16_kib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("iobench", "ioreplay", "iotrace", "extmap", "procmon"):
        needs_probe(name, "aarch64")
    if lacking := guest_device.missing(KERNEL):
        pytest.skip(lacking)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")  # the width of the summary on the page
    contents = {name: os.urandom(size) for name, size in FILES.items()}
    (tmp_path / "guest").mkdir()
    with home(tmp_path), guest_device.device(tmp_path / "guest", KERNEL) as address:
        with connect(address) as device:
            before = state(device)
            for name, content in contents.items():
                (tmp_path / name).write_bytes(content)
                device.push(tmp_path / name, f"/tmp/{name}")
            checks: dict[str, Callable[[], None]] = {
                "recorded": lambda: check_record(device, tmp_path / "guest/disk.img", contents),
                "replayed": check_replay,
                "benched": check_bench,
                "samples": lambda: check_monitor(device),
            }
            for (_, *words), lines in shown(ROOT / "docs" / "device.md"):
                assert cli.main([address if word == ADDRESS else word for word in words]) == 0, words
                said = "".join(capsys.readouterr()).replace(address, ADDRESS)
                with (tmp_path / "transcript").open("a") as file:
                    file.write(f"$ androstep {shlex.join(words)}\n{said}")
                got = [likened(line) for line in said.splitlines()]
                assert [line for line in lines if likened(line) not in got] == [], said
                if "-o" in words:
                    checks.pop(words[words.index("-o") + 1], lambda: None)()
            assert not checks
            device.sh(["rm", "/data/kept", "/tmp/kept", "/tmp/gone"])
            check_copies(device, tmp_path, os.urandom((4 << 20) + 7))
        with adb_connected(address), connect(f"adb:{address}") as device:
            check_copies(device, tmp_path, contents["kept"])
        with connect(address) as device:
            assert state(device) == before
