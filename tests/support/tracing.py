"""The kernel's tracing for one test: tracefs and an instance of the test's own, gone afterwards; and trace-cmd."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import machine
from support.needs import needs

_ALONE = 'umount --lazy --all --types tracefs && mount -t tracefs nodev "$0" && exec trace-cmd "$@"'

FLAGS = r"(?:[^\s\d]\S{4})?"
"""What trace-cmd from 3.3 on prints between CPU and time, as `.....`; a pattern of a regular expression."""


def needs_tracefs() -> None:
    """Skip the calling test where the kernel has no tracefs. Programs that record mount it where nothing else has."""
    if "\ttracefs\n" not in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has no tracefs")


def trace_cmd(*arguments: str | Path) -> str:
    """What trace-cmd prints; skips where it is not installed."""
    if shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    done = subprocess.run(["trace-cmd", *arguments], capture_output=True, check=True)
    return done.stdout.decode(errors="backslashreplace")


def extract(instance: Path, out: Path) -> None:
    """Have trace-cmd write what an `instance` holds to a file; skips where it is not installed.

    trace-cmd uses the first tracefs in /proc/mounts. That may be another test's, which could not unmount it then, so
    trace-cmd runs in a mount namespace that has only the one of this instance.
    """
    if shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    top = instance.parents[1]
    alone = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _ALONE, top]
    with machine.alone(machine.MOUNTS):
        subprocess.run([*alone, "extract", "-B", instance.name, "-o", out], check=True, capture_output=True)


@needs("root")
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


def instances_of(top: Path, pid: int) -> list[str]:
    """The names of the instances that iotrace with this process id has made in the tracefs at `top`."""
    return [path.name for path in (top / "instances").iterdir() if path.name.startswith(f"androstep.{pid}.")]


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
