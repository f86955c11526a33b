"""What all tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Examples of properties are the same in every run, and may take their time; --hypothesis-profile=default draws new.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


def _on_disk() -> None:
    """Temporary files lie on a disk, also where /tmp is in memory: storage is what is tested.

    Files in memory are never cold, have no place on a device, and take or refuse direct I/O as the kernel's version has
    it. Programs that tests start are told by TMPDIR.
    """
    for place in (tempfile.gettempdir(), "/var/tmp"):
        kind = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True, check=False).stdout
        if kind.strip() not in ("", "tmpfs", "ramfs"):
            os.environ["TMPDIR"] = tempfile.tempdir = place
            return


_on_disk()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests marked `root` for everyone else, and gives them a second try for root.

    They use what the machine has once, the kernel's tracing and its loop devices, beside other tests that do the same.
    A test that needed its second try stands in pytest's last line as a rerun.
    """
    for item in items:
        if item.get_closest_marker("root"):
            is_root = os.geteuid() == 0
            item.add_marker(pytest.mark.flaky(reruns=1) if is_root else pytest.mark.skip(reason="needs root"))


@pytest.fixture
def hang_up_ends() -> Iterator[None]:
    """Programs that the test starts end by SIGHUP, also where `make test` itself runs under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
