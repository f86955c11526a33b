"""Locate the corpus of recorded traces and images."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.needs import needs

ROOT = Path(os.environ.get("ANDROSTEP_CORPUS", Path(__file__).resolve().parents[3] / "shared" / "corpus"))


@needs("corpus")
def path(name: str) -> Path:
    """Return file `name` of the corpus; skip the calling test if the corpus is not on this machine."""
    file = ROOT / name
    if not file.exists():
        pytest.skip(f"corpus file {file} is not on this machine (set ANDROSTEP_CORPUS)")
    return file
