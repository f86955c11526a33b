"""The static programs of probes/ for a device's processor."""

from __future__ import annotations

import os
from pathlib import Path

from androstep_analysis.errors import InputError

VARIABLE = "ANDROSTEP_PROBES"
"""Names a directory with a directory for each target, where the library is installed without its checkout."""

TARGETS = {
    **dict.fromkeys(("arm64-v8a", "aarch64", "arm64"), "aarch64-linux-musl"),
    **dict.fromkeys(("armeabi-v7a", "armv7l", "armv8l"), "arm-linux-musleabihf"),
    **dict.fromkeys(("x86_64", "amd64"), "x86_64-linux-musl"),
}
"""By ``ro.product.cpu.abi`` of Android, and by ``uname -m``."""


def find(name: str, abi: str) -> Path:
    """The program for this processor; `InputError` where there is none, or none was built."""
    target = TARGETS.get(abi)
    if target is None:
        raise InputError(f"{abi}: no program is built for this processor, only for {', '.join(sorted(TARGETS))}")
    named = os.environ.get(VARIABLE)
    place = Path(named) if named else Path(__file__).parents[2] / "build" / "probes"
    path = place / target / name
    if not path.is_file():
        where = f"in {VARIABLE}" if named else f"or name a directory that has them in {VARIABLE}"
        raise InputError(f"{path}: no such program; build it with `make probes`, {where}")
    return path
