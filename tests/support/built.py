"""Find and run the built probes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from androstep_analysis.device import programs
from support.tree import ROOT

OUT = ROOT / "build" / "probes"

HERE = OUT / "here"
"""Directory with the programs for each target of test devices.

A device with this machine's processor is this machine. It gets natively compiled programs, so that `make test` compiles
no static ones.
"""


def program(name: str, variant: str = "sanitized") -> Path:
    """Return a program that `make probes-tests` builds (sanitized, native), or `make probes-prove` (the targets)."""
    path = OUT / variant / name
    if not path.exists():
        pytest.skip(f"{path.relative_to(ROOT)} is not built; run make probes-tests, or make probes-prove")
    return path


def use() -> None:
    """Let the package find the programs in `HERE`, in this process and its children."""
    HERE.mkdir(parents=True, exist_ok=True)
    for target in set(programs.TARGETS.values()):
        variant = "native" if target == programs.TARGETS.get(os.uname().machine) else target
        with contextlib.suppress(FileExistsError):
            (HERE / target).symlink_to(f"../{variant}")
    os.environ[programs.VARIABLE] = str(HERE)


def run(*command: str | Path | bytes, status: int = 0, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end and check its status; a sanitizer's report has a status of its own."""
    done = subprocess.run(command, capture_output=True, timeout=300, **options)
    assert done.returncode == status, done.stderr.decode("utf-8", "replace")
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr
    return done


def described(name: str) -> dict[str, Any]:
    """Return the probe's description of its records."""
    answer: dict[str, Any] = json.loads(run(program(name), "--describe").stdout)
    return answer
