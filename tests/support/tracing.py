"""The kernel's tracing for a test: tracefs and a temporary instance, and trace-cmd."""

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
"""What trace-cmd 3.3 and later prints between CPU and time, such as `.....`; a regular expression."""


def needs_tracefs() -> None:
    """Skip the calling test if the kernel has no tracefs. Recording programs mount it if necessary."""
    if "\ttracefs\n" not in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has no tracefs")


def trace_cmd(*arguments: str | Path) -> str:
    """Return the output of trace-cmd; skip the test if it is not installed."""
    if shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    done = subprocess.run(["trace-cmd", *arguments], capture_output=True, check=True)
    return done.stdout.decode(errors="backslashreplace")


def extract(instance: Path, out: Path) -> None:
    """Have trace-cmd write the contents of an `instance` to a file; skip the test if it is not installed.

    trace-cmd uses the first tracefs in /proc/mounts, which may be another test's and would then be busy at its umount.
    Therefore it runs in a mount namespace that has only this instance's tracefs.
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
    """Mount tracefs below `directory`, even if it is mounted elsewhere; skip the test if that is impossible."""
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
    """Return the names of the instances that iotrace with this process id made in the tracefs at `top`."""
    return [path.name for path in (top / "instances").iterdir() if path.name.startswith(f"androstep.{pid}.")]


@contextlib.contextmanager
def instance(directory: Path) -> Iterator[Path]:
    """Make an instance in a tracefs mounted below `directory`; skip the test if that is impossible."""
    with mounted(directory) as top:
        path = top / "instances" / f"androstep_test_{os.getpid()}"
        try:
            path.mkdir()
        except OSError as error:
            pytest.skip(f"no trace instance can be made: {error}")
        try:
            yield path
        finally:
            if path.is_dir():  # trace-cmd removes an instance that it extracts
                (path / "tracing_on").write_text("0")
                path.rmdir()
