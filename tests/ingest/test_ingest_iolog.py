"""Logs of fio's option write_iolog: I/O to files becomes calls, I/O to devices becomes requests."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import androstep_analysis as androstep
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import export

ACTIONS = (
    (2, "add", None),
    (872, "open", None),
    (878, "write", (0, 16384)),
    (888, "sync", (0, 0)),
    (890, "datasync", (0, 0)),
    (891, "read", (512, 1024)),
    (900, "trim", (4096, 4096)),
    (1000, "close", None),
)
"""Time in us, action, and offset and length."""


def log(name: str, version: int = 3) -> str:
    lines = [f"fio version {version} iolog"]
    for us, action, place in ACTIONS:
        time = f"{us} " if version == 3 else ""
        lines.append(" ".join([f"{time}{name} {action}", *map(str, place or ())]))
    return "\n".join([*lines, ""])


def opened(tmp_path: Path, text: str) -> Capture:
    path = tmp_path / "iolog"
    path.write_text(text)
    return androstep.open(path)


@pytest.mark.parametrize("name", ["/data/a.0.0", "Nvme1n1", "job 1.0.0", "relative/sync 1 2"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_file(name: str, version: int, tmp_path: Path) -> None:
    capture = opened(tmp_path, log(name, version))
    calls = capture.syscalls.collect()
    expected = [
        (us * 1000 if version == 3 else None, number, {"sync": "fsync", "datasync": "fdatasync"}.get(action, action))
        + ((name, None) if action == "open" else (None, name))
        + (place or (None, None))
        for number, (us, action, place) in enumerate(ACTIONS, 2)
        if action != "add"
    ]
    assert calls.select("ts_ns", "line", "call", "path", "fd_path", "offset_bytes", "bytes").rows() == expected
    assert calls["duration_ns"].null_count() == calls["result"].null_count() == len(expected)
    assert capture.requests.collect().is_empty() and capture.about["losses"] == []
    assert capture.about["events"] == {action: 1 for _, action, _ in sorted(ACTIONS, key=lambda row: row[1])}


DEVICES = {"/dev/nvme0n1p3": 0, "/dev/mapper/vg-root": 0, "/replay_redirect/8:16": (8 << 20) + 16}


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_a_device(name: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, log(name))
    columns = ("dev", "op", "sector", "nr_sectors", "queue_ns", "issue_ns", "complete_ns", "sync")
    assert capture.requests.select(columns).collect().rows() == [
        (DEVICES[name], op, sector, length, us * 1000, None, None, None)
        for op, sector, length, us in (
            ("write", 0, 32, 878),
            ("flush", None, 0, 888),
            ("flush", None, 0, 890),
            ("read", 1, 2, 891),
            ("discard", 8, 8, 900),
        )
    ]
    assert capture.syscalls.collect().is_empty()


def test_version_2_has_no_times(tmp_path: Path) -> None:
    """What `wait` means is not certain, so that I/O to devices has no time and is not a request."""
    text = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb read 0 512\n/dev/sdb wait 300 0\n/dev/sdb write 512 512\n"
    capture = opened(tmp_path, text)
    calls = capture.syscalls.select("ts_ns", "line", "call").collect().rows()
    assert calls == [(None, 3, "read"), (None, 5, "write")] and capture.requests.collect().is_empty()
    assert capture.about["events"] == {"add": 1, "read": 1, "wait": 1, "write": 1}


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_several_disks_and_jobs(tmp_path: Path) -> None:
    version = "fio version 3 iolog\n"
    text = f"{version}5 /dev/sdb read 100 512\n6 /dev/sda read 0 512\n{version}1 /dev/sdb read 0 512\nbad\n"
    capture = opened(tmp_path, text)
    assert capture.requests.select("dev", "sector", "nr_sectors").sort("dev", "nr_sectors").collect().rows() == [
        (0, 0, 1), (0, 0, 2), (1, 0, 1)
    ]  # fmt: skip
    assert {loss["kind"]: loss["count"] for loss in capture.about["losses"]} == {
        "unreadable": 1, "rounded": 1, "numbered": 2, "clocks": 1
    }  # fmt: skip


def test_what_fio_does_not_read_either(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no known recording"):
        opened(tmp_path, "fio version 1 iolog\nread 0 512\n")
    with pytest.raises(InputError, match="contains no event"):
        opened(tmp_path, "fio version 3 iolog\n" + "x" * 80)


def test_an_export_is_read_again(tmp_path: Path) -> None:
    """The requests of `androstep export --to fio3` come back, in whole microseconds from 1 on."""
    trace = tmp_path / "trace.txt"
    lines = [
        " dd-7 [000] ..... 1.000001: block_rq_issue: 8,16 WS 4096 () 8 + 8 [dd]",
        " dd-7 [000] ..... 1.000004: block_rq_issue: 8,0 R 4096 () 800 + 16 [dd]",
        " dd-7 [000] ..... 1.000010: block_rq_issue: 8,16 D 4096 () 64 + 8 [dd]",
    ]
    trace.write_text("\n".join([*lines, ""]))
    before = androstep.open(trace)
    with (tmp_path / "iolog").open("wb") as file:
        export.TARGETS["fio3"].write(before, file)
    after = androstep.open(tmp_path / "iolog")
    columns = ["dev", "op", "sector", "nr_sectors"]
    assert after.requests.select(columns).collect().equals(before.requests.select(columns).collect())
    assert after.requests.select(pl.col("queue_ns")).collect()["queue_ns"].to_list() == [1_000, 4_000, 10_000]
