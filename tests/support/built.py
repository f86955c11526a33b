"""The built probes and what they print."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.tree import ROOT

OUT = ROOT / "build" / "probes"


def program(name: str, variant: str = "sanitized") -> Path:
    """A program that `make probes-tests` builds: `variant` is sanitized, native or a target."""
    path = OUT / variant / name
    if not path.exists():
        pytest.skip(f"{path.relative_to(ROOT)} is not built; run make probes-tests")
    return path


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
