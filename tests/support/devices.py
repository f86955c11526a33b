"""Devices for tests: this machine, and the fake phone over every transport."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from adbd import ODD, PIXEL, FakePhone, phone

from androstep_analysis.device import Device, connect, programs
from support.built import HERE
from support.needs import needs

WAYS = ("local", *(pytest.param(way, marks=pytest.mark.root) for way in ("tcp", "tcp, old", "adb")))
"""Parameters of tests. An old phone has no shell protocol, no sha256sum and no stat."""


@contextlib.contextmanager
def home(place: Path) -> Iterator[pytest.MonkeyPatch]:
    """Set a home directory and a separate adb server for one test; the server ends with the block."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="adb-") as short:
        patch.setenv("HOME", str(place))
        patch.setenv("ADB_SERVER_SOCKET", f"localfilesystem:{short}/s")
        patch.delenv("ANDROSTEP_DEVICE", raising=False)
        yield patch


@needs()  # `WAYS` marks those that need root
@contextlib.contextmanager
def device(way: str, place: Path, *, patience_s: float = 60) -> Iterator[tuple[Device, FakePhone | None]]:
    """Connect a device; yield it and the fake phone, if it is one."""
    with home(place), contextlib.ExitStack() as stack:
        fake = None if way == "local" else stack.enter_context(phone(place, model=ODD if "old" in way else PIXEL))
        where = "local" if fake is None else fake.address
        if fake is not None and way == "adb":
            stack.enter_context(adb_connected(fake.address))
            where = f"adb:{where}"
        with connect(where, patience_s=patience_s) as connected:
            yield connected, fake


@contextlib.contextmanager
def adb_connected(address: str) -> Iterator[None]:
    """Connect the program adb to a device by a separate server, which ends with the block."""
    try:
        said = subprocess.run(["adb", "connect", address], capture_output=True, timeout=60).stdout
    except FileNotFoundError:
        pytest.skip("adb is not installed")
    try:
        assert b"connected to" in said, said
        yield
    finally:
        subprocess.run(["adb", "kill-server"], capture_output=True, timeout=60)


def needs_probe(name: str, machine: str = os.uname().machine) -> None:
    """Skip the test if a probe is not built for devices with this processor (default: this machine's)."""
    target = programs.TARGETS[machine]
    if not (HERE / target / name).is_file():
        pytest.skip(f"{name} is not built for {target}; run make probes-tests, or make probes-prove")
