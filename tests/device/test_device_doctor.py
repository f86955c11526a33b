"""The findings of doctor on devices: every problem is found with its effect, and nothing else is reported."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adbd import LOCKED, ODD, PIXEL, FakePhone, Faults, Model, phone
from support.devices import home, needs_probe
from support.tree import ROOT

from androstep_analysis.cli import main
from androstep_analysis.device import Device, connect
from androstep_analysis.device.doctor import Finding
from androstep_analysis.device.record.doctor import EVENTS, examine
from androstep_analysis.device.transport.parse import free_bytes

pytestmark = pytest.mark.root


@contextlib.contextmanager
def patient(tmp_path: Path, model: Model = PIXEL, **faults: Any) -> Iterator[tuple[Device, FakePhone]]:
    """Run a phone with faults, and connect to it."""
    needs_probe("extmap")
    with home(tmp_path), phone(tmp_path, model=model, faults=Faults(**faults)) as fake, connect(fake.address) as device:
        yield device, fake


def found(findings: list[Finding], pattern: str) -> Finding:
    """Return the one finding that matches."""
    (one,) = [finding for finding in findings if re.search(pattern, finding.what)]
    return one


def test_a_rooted_phone_can_do_what_its_kernel_can(tmp_path: Path) -> None:
    with patient(tmp_path) as (device, fake):
        findings = examine(device)
        device.close()
        assert list(fake.tmp.iterdir()) == []
    bad = {finding.what for finding in findings if not finding.ok}
    # The kernel is this machine's; its findings are tested elsewhere.
    assert {
        what for what in bad if not re.search("^events|^not known|^kprobes|^BTF|^FIEMAP|a command takes|MiB", what)
    } == set()
    assert all(bool(finding.advice) for finding in findings if not finding.ok)
    assert found(findings, "^root$").ok
    assert found(findings, "^block tracepoints in /sys/kernel/tracing$").ok
    assert found(findings, "^encryption of /data: metadata$").advice.startswith("an image of /data cannot be read")
    assert found(findings, "u:r:magisk:s0").ok
    assert found(findings, "^clock").ok


def test_findings_of_a_phone_that_is_locked_and_hot(tmp_path: Path) -> None:
    with patient(tmp_path, LOCKED) as (device, _):
        findings = examine(device)
    assert "rooted or userdebug" in found(findings, "^no root$").advice
    assert not found(findings, "^tracepoints: not checked$").ok
    assert "charged" in found(findings, "^battery at 12 %$").advice
    assert "slowed" in found(findings, "^battery at 44.7 °C$").advice
    assert "heat" in found(findings, "^thermal status 2$").advice
    assert not any(finding.needed and not finding.ok for finding in findings)


def test_without_tracefs_nothing_can_be_said_of_events(tmp_path: Path) -> None:
    with patient(tmp_path, no_tracefs=True) as (device, _):
        findings = examine(device)
    assert "mount -t tracefs" in found(findings, "tracefs is not mounted$").advice
    assert not [finding for finding in findings if finding.what.startswith("events")]


def test_a_full_phone_and_one_without_fiemap(tmp_path: Path) -> None:
    """The phone's storage is a small tmpfs, which has no blocks on any device."""
    with patient(tmp_path, disk_bytes=24 << 20) as (device, _):
        findings = examine(device)
    assert "make room" in found(findings, r"^\d+ MiB free in /data/local/tmp$").advice
    assert "stays unknown" in found(findings, "^FIEMAP").advice


def test_a_phone_where_nothing_can_be_put_is_needed_to_be_mended(tmp_path: Path) -> None:
    with patient(tmp_path, missing_tools=("mkdir",)) as (device, _):
        findings = examine(device)
    assert found(findings, "has no mkdir").needed and not found(findings, "has no mkdir").ok
    assert not found(findings, "/data/local/tmp cannot be used").ok


def test_an_old_phone_verifies_by_md5(tmp_path: Path) -> None:
    with patient(tmp_path, ODD) as (device, _):
        findings = examine(device)
    assert found(findings, "md5sum").ok
    with patient(tmp_path, ODD, missing_tools=("md5sum",)) as (device, _):
        findings = examine(device)
    assert found(findings, "no sha256sum and no md5sum").needed


def test_a_clock_that_is_wrong_is_told_with_its_sign(tmp_path: Path) -> None:
    with patient(tmp_path, replace(PIXEL, clock_skew_s=7200)) as (device, _):
        finding = found(examine(device), "^clock")
    assert (finding.ok, finding.what.startswith("clock +7")) == (False, True)
    assert "network time" in finding.advice


def test_a_program_for_another_processor_is_told(tmp_path: Path) -> None:
    with patient(tmp_path, replace(PIXEL, abi="arm64-v8a")) as (device, _):
        findings = examine(device)
    assert [f for f in findings if f.needed and not f.ok and ("iobench" in f.what or "arm64-v8a" in f.what)]


def test_storage_that_is_worn_out_is_told(tmp_path: Path) -> None:
    path = next(name for name in PIXEL.sys if name.endswith("life_time_estimation_a"))
    with patient(tmp_path, replace(PIXEL, sys={**PIXEL.sys, path: "0x0B\n"})) as (device, _):
        assert "worn out (11 of 11)" in found(examine(device), "worn").what


def test_doctor_shows_it_and_its_status_says_whether_to_mend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = replace(PIXEL, context="u:r:\x1b[2Jx")
    with patient(tmp_path, hostile) as (_, fake):
        assert main(["doctor", "--on", fake.address]) == 0
        said = capsys.readouterr().out
        assert "encryption of /data: metadata" in said and "\x1b" not in said
    with patient(tmp_path, missing_tools=("mkdir",)) as (_, fake):
        assert main(["doctor", "--on", fake.address]) == 1
        assert "has no mkdir" in capsys.readouterr().out


def test_this_machine_has_findings_too(tmp_path: Path) -> None:
    needs_probe("extmap")
    with connect("local") as device:
        findings = examine(device)
    assert found(findings, "^local: a command takes").what
    assert not [finding for finding in findings if "SELinux" in finding.what or "encryption" in finding.what]
    assert not [finding for finding in findings if finding.needed and not finding.ok]


def test_the_events_are_those_of_the_presets() -> None:
    presets = (ROOT / "probes" / "iotrace" / "presets.c").read_text()
    recorded = set(re.findall(r"\w+", presets))
    for events in EVENTS:
        if events.any_of != ("raw_syscalls/sys_enter",):
            assert {name.partition("/")[2] for name in events.any_of} <= recorded


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Filesystem 1K-blocks Used Available Use% Mounted on", "/dev/block/dm-40 100 40 60 40% /data"], 60 * 1024),
        (["/dev/block/dm-40 100 40 x 40% /data"], None),
        (["/dev/block/dm-40 100 40 -5 40% /data"], None),
        ([""], None),
        ([], None),
    ],
)
def test_room_is_what_df_says(lines: list[str], expected: int | None) -> None:
    assert free_bytes(lines) == expected
