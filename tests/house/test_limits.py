"""Limits of a test run: a hang is a failure with the stacks of all threads, and the run ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.tree import ROOT

HANGS = """
import ctypes, os, subprocess, threading
import pytest

@pytest.fixture
def hangs_at_setup():
    threading.Event().wait()

@pytest.fixture
def hangs_at_teardown():
    yield
    threading.Event().wait()

def test_in_python():
    threading.Event().wait()

def test_in_a_native_call_that_keeps_the_gil():
    ctypes.PyDLL(None).sleep(100_000)

def test_in_a_read():
    os.read(os.pipe()[0], 1)

def test_in_a_setup(hangs_at_setup):
    pass

def test_in_a_teardown(hangs_at_teardown):
    pass

def test_in_a_teardown_after_a_failure(hangs_at_teardown):
    assert False

def test_beside_a_program():
    subprocess.run(["sleep", "100000"])

def test_beside_a_fork():
    if not os.fork():
        threading.Event().wait()
    os.wait()
"""
PASSES = "def test_that_passes(): pass\n"


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in the directory with a short limit, until every process that writes to the pipe has ended."""
    (directory / "pytest.ini").write_text("[pytest]\nfaulthandler_timeout = 5\nfaulthandler_exit_on_timeout = true\n")
    command = [sys.executable, "-m", "pytest", "-p", "limits", "-p", "no:cacheprovider", "-rA", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.prove
def test_a_run_fails_each_test_that_hangs_and_does_the_others(tmp_path: Path) -> None:
    names = [line.split("(")[0].removeprefix("def ") for line in HANGS.splitlines() if line.startswith("def test")]
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "test_passes.py").write_text(PASSES)
    done = run(tmp_path, "-n", "2", "--max-worker-restart", str(len(names)))
    assert done.returncode == 1, done.stdout
    for name in names:
        assert f"crashed while running 'test_hangs.py::{name}'" in done.stdout, done.stdout
    assert "PASSED test_passes.py::test_that_passes" in done.stdout
    assert done.stdout.count("Timeout (0:00:05)!") == len(names)
    assert " in test_in_a_native_call_that_keeps_the_gil" in done.stdout and " in hangs_at_setup" in done.stdout


@pytest.mark.prove
@pytest.mark.parametrize(
    "hang", ["threading.Event().wait()", "threading.Thread(target=threading.Event().wait).start()"]
)
def test_a_run_of_one_process_ends_too(hang: str, tmp_path: Path) -> None:
    """This includes a run that waits for a thread at its end."""
    (tmp_path / "test_hangs.py").write_text(f"import threading\ndef test_hangs(): {hang}\n")
    done = run(tmp_path)
    assert done.returncode == 1 and "Timeout (0:00:05)!" in done.stdout, done.stdout
