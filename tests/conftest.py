"""Configure all tests: markers, temporary files, signals and hypothesis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from support import built, machine, needs

from androstep_analysis.device import programs

pytest_plugins = ("limits",)

# Hypothesis uses the same examples in every run, without a deadline; --hypothesis-profile=new draws new ones.
settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")

built.use()

# jsonschema would make parsers for a format that no schema here has: 2 s in each process.
vars(sys)["modules"]["rfc3987_syntax"] = None


def _on_disk() -> None:
    """Put temporary files on a disk, even if /tmp is in memory, because the tests need real storage.

    Files in memory are never cold and have no location on a device. Whether they accept direct I/O depends on the
    kernel's version. Programs that tests start use TMPDIR.
    """
    for place in (tempfile.gettempdir(), "/var/tmp"):
        kind = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True, check=False).stdout
        if kind.strip() not in ("", "tmpfs", "ramfs"):
            os.environ["TMPDIR"] = tempfile.tempdir = place
            return


_on_disk()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores SIGINT for background jobs. Programs that tests interrupt would inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)


NEEDS = ("root", "qemu", "corpus", "browser", "notebook", "compiler", "checkout")
"""Markers for what a test needs in addition to this process. Tests with none of them and without `prove` are `unit`."""

ONLY_PROVED = {"qemu", "corpus"}
"""Tests that need these are left to `make prove` automatically."""

BUILT_TO_PROVE = {"tsan", *programs.TARGETS.values()}
"""Variants of the probes that only `make probes-prove` compiles: a test that names one is left to `make prove`."""

OTHER_MACHINES = {"aarch64-linux-musl", "arm-linux-musleabihf"}
"""Probes that QEMU runs: a test that names one of these targets, or has it as a parameter, needs `qemu`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark every test by its needs, leave some to `make prove`, and skip tests marked `root` for other users."""
    for item in items:
        marked = {marker.name for marker in item.iter_markers()}
        needed = _needed(item) | marked
        if needed & ONLY_PROVED:
            needed.add("prove")
        if not needed & {*NEEDS, "prove"}:
            needed.add("unit")
        if any(given[-1].scope == "module" for given in item._fixtureinfo.name2fixturedefs.values()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))  # one process makes what a module's tests share
        for marker in sorted(needed - marked):  # a second `parametrize`, without arguments, would break hypothesis
            item.add_marker(marker)
        if "root" in needed and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long parameters by their argument, because programs have the name of the test in their environment."""
    return argname if isinstance(val, str | bytes) and len(val) > 200 else None


def _needed(item: pytest.Function) -> set[str]:
    """Return the markers of the test's function, of its fixtures, and of functions among its parameters."""
    fixtures = [
        fixture.func for name in item.fixturenames for fixture in item._fixtureinfo.name2fixturedefs.get(name, ())
    ]
    parameters = [*item.callspec.params.values()] if hasattr(item, "callspec") else []
    needed = set().union(*(needs.of(called) for called in (item.function, *fixtures, *filter(callable, parameters))))
    words = {word for word in (*parameters, *item.function.__code__.co_consts) if isinstance(word, str)}
    return needed | ({"qemu"} if words & OTHER_MACHINES else set()) | ({"prove"} if words & BUILT_TO_PROVE else set())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run tests marked `alone` while no other test marked `root` runs on this machine, in any process."""
    if os.geteuid() != 0 or not item.get_closest_marker("root"):
        return (yield)
    with (machine.alone if item.get_closest_marker("alone") else machine.shared)(machine.KERNEL):
        return (yield)


@pytest.fixture
def hang_up_ends() -> Iterator[None]:
    """Let SIGHUP end the programs that the test starts, even if `make test` itself runs under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
