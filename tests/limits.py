"""Limits for all that a test run waits for. What waits longer is a failure, and prints the stacks of all threads.

pytest's own limit (`faulthandler_timeout` in pyproject.toml) holds for a test with its fixtures. It ends the process by
itself, whatever the threads do: a native call that never returns cannot keep it alive. pytest-xdist then reports the
test as failed, and goes on in a new process; without pytest-xdist the run ends with status 1.

This plugin closes its gaps:

- pytest cancels the limit at the first exception, and a teardown may still wait for ever. It begins anew then.
- The end of the process, which joins threads, has the same limit.
- Programs that the test started go on when its process is gone. They are killed.
- A fork of the process holds the pipe to pytest-xdist, which waits until that is closed. SIGALRM ends it
  later. (faulthandler's limit cannot be set there: it would wait for its thread, which is not in the fork.)
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(2)  # which tests redirect
    if limit_s := _limit_s(config):
        os.register_at_fork(after_in_child=partial(signal.setitimer, signal.ITIMER_REAL, 2 * limit_s))


def _limit_s(config: pytest.Config) -> float:
    return float(config.getini("faulthandler_timeout") or 0)


def _begin(config: pytest.Config) -> None:
    if limit_s := _limit_s(config):
        faulthandler.dump_traceback_later(limit_s, exit=True, file=config.stash[_STDERR])


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    if isinstance(node, pytest.Item):
        _begin(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # pytest-xdist ends its processes, which wait for that
        _begin(config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Kill what a process of pytest-xdist leaves behind that did not end by itself."""
    if error is None:
        return
    of_node = {
        f"PYTEST_XDIST_TESTRUNUID={node.workerinput['testrunuid']}".encode(),
        f"PYTEST_XDIST_WORKER={node.workerinput['workerid']}".encode(),
    }
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ends meanwhile, or is another user's
            if of_node <= set((process / "environ").read_bytes().split(b"\0")):
                os.kill(int(process.name), signal.SIGKILL)
