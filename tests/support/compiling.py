"""Compile what a test needs with gcc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.needs import needs


@needs("compiler")
def gcc(*arguments: str | Path) -> None:
    """Run gcc with these arguments, which must succeed; skip the calling test if there is no gcc."""
    done = tried(*arguments)
    assert done.returncode == 0, done.stderr


@needs("compiler")
def tried(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run gcc with these arguments and return its status and messages; skip if there is no gcc."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return subprocess.run(["gcc", *arguments], capture_output=True, text=True)


def preloaded_library(directory: Path, source: str, *arguments: str | Path) -> Path:
    """Compile this C source in `directory` into a library for LD_PRELOAD."""
    text, library = directory / "before.c", directory / "before.so"
    text.write_text(source)
    gcc("-shared", "-fPIC", *arguments, text, "-o", library, "-ldl")
    return library
