"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Examples of properties are the same in every run, and may take their time; --hypothesis-profile=default draws new.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


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
