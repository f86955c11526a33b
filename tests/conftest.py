"""What all tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from support import machine, needs

pytest_plugins = ("support.limits",)

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

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell has it for what it starts in the background. Programs that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


NEEDS = ("root", "qemu", "corpus", "browser", "slow")
"""The markers of what a test needs; `unit` is on those that have none of them."""

OTHER_MACHINES = {"aarch64-linux-musl", "arm-linux-musleabihf"}
"""Builds of the probes that QEMU runs here: tests that name one or have it as a parameter need that."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Gives every test the markers of what it needs, and skips those marked `root` for everyone else."""
    for item in items:
        for marker in sorted(_needed(item)):
            item.add_marker(marker)
        if not any(item.get_closest_marker(marker) for marker in NEEDS):
            item.add_marker("unit")
        if item.get_closest_marker("root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))


def _needed(item: pytest.Function) -> set[str]:
    """What the test's function needs, its fixtures, and functions that are among its parameters."""
    fixtures = [
        fixture.func for name in item.fixturenames for fixture in item._fixtureinfo.name2fixturedefs.get(name, ())
    ]
    parameters = [*item.callspec.params.values()] if hasattr(item, "callspec") else []
    needed = set().union(*(needs.of(called) for called in (item.function, *fixtures, *filter(callable, parameters))))
    words = {word for word in (*parameters, *item.function.__code__.co_consts) if isinstance(word, str)}
    return needed | ({"qemu"} if words & OTHER_MACHINES else set())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tests marked `alone` run while no other test of this machine marked `root` does, whichever process it is in."""
    if os.geteuid() != 0 or not item.get_closest_marker("root"):
        return (yield)
    with (machine.alone if item.get_closest_marker("alone") else machine.shared)(machine.KERNEL):
        return (yield)


@pytest.fixture
def hang_up_ends() -> Iterator[None]:
    """Programs that the test starts end by SIGHUP, also where `make test` itself runs under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
