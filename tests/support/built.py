"""The built probes and what they print."""

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
"""For each target the programs that devices in tests run. A device with the processor of this machine is this machine,
and runs those of its own compiler, so that `make test` compiles no static ones."""


def program(name: str, variant: str = "sanitized") -> Path:
    """Return a program that `make probes-tests` builds (sanitized, native), or `make probes-prove` (the targets)."""
    path = OUT / variant / name
    if not path.exists():
        pytest.skip(f"{path.relative_to(ROOT)} is not built; run make probes-tests, or make probes-prove")
    return path


def use() -> None:
    """Let the package find the programs in `HERE`, in this process and in those that it starts."""
    HERE.mkdir(parents=True, exist_ok=True)
    for target in set(programs.TARGETS.values()):
        variant = "native" if target == programs.TARGETS.get(os.uname().machine) else target
        with contextlib.suppress(FileExistsError):
            (HERE / target).symlink_to(f"../{variant}")
    os.environ[programs.VARIABLE] = str(HERE)


def run(*command: str | Path | bytes, status: int = 0, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs a program to its end; sanitizers end it with another status than any probe's."""
    done = subprocess.run(command, capture_output=True, timeout=300, **options)
    assert done.returncode == status, done.stderr.decode("utf-8", "replace")
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr
    return done


def described(name: str) -> dict[str, Any]:
    """What the probe says of its records."""
    answer: dict[str, Any] = json.loads(run(program(name), "--describe").stdout)
    return answer
