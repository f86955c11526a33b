"""The kernel's tracing for one test: tracefs at a place of the test's own, and an instance that is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[Path]:
    """tracefs below `directory`, whether or not this machine has it mounted anywhere; skips where that cannot be."""
    top = directory / "tracefs"
    top.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tracefs", "nodev", top], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tracefs: {done.stderr.strip()}")
    try:
        yield top
    finally:
        subprocess.run(["umount", top], check=True)


@contextlib.contextmanager
def instance(directory: Path) -> Iterator[Path]:
    """An instance of the test's own in tracefs, mounted below `directory`; skips where none can be made."""
    with mounted(directory) as top:
        path = top / "instances" / f"androstep_test_{os.getpid()}"
        try:
            path.mkdir()
        except OSError as error:
            pytest.skip(f"no trace instance can be made: {error}")
        try:
            yield path
        finally:
            if path.is_dir():  # trace-cmd takes away what it extracts
                (path / "tracing_on").write_text("0")
                path.rmdir()
