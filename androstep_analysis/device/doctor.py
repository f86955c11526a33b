"""Check this machine and captures, and advise how to fix what is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from androstep_analysis.common import manifest
from androstep_analysis.common.errors import InputError


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    `advice` says what a failure prevents and how to fix it. `needed` marks checks without which the library itself does
    not work.
    """

    ok: bool
    what: str
    advice: str = ""
    needed: bool = False


def machine() -> list[Finding]:
    """Check whether this machine can analyse captures (needed) and record."""
    return [*_analysing(), *_recording()]


def capture(directory: Path) -> list[Finding]:
    """Check that every source of a capture is present and unchanged; `InputError` if the directory is no capture."""
    findings = []
    for source in manifest.read(directory).sources:
        try:
            manifest.verify(source, directory)
            findings.append(Finding(True, f"{source.path} ({source.role})", needed=True))
        except InputError as error:
            findings.append(Finding(False, f"{source.path} ({source.role})", str(error), needed=True))
    return findings


def _analysing() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    recent = sys.version_info >= (3, 11)
    yield Finding(recent, f"Python {version}", "" if recent else "install Python 3.11 or later", needed=True)
    free = shutil.disk_usage(Path.cwd()).free
    room = free > 1 << 30
    yield Finding(room, f"{free >> 30} GiB free here", "" if room else "captures and unpacked images need space")


def _recording() -> Iterator[Finding]:
    root = os.geteuid() == 0
    yield Finding(root, "root", "" if root else "recording needs root; analysing does not")
    # Path.is_dir raises PermissionError in a directory that only root may search.
    tracefs = next((p for p in _TRACEFS if os.access(p / "events" / "block", os.F_OK)), None)
    missing = (
        "cannot record here; mount -t tracefs nodev /sys/kernel/tracing" if root else "only root can look for them"
    )
    yield Finding(
        tracefs is not None,
        f"block tracepoints at {tracefs}" if tracefs else "block tracepoints",
        "" if tracefs else missing,
    )
    for tool, package, use in _TOOLS:
        found = shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        yield Finding(found is not None, tool, "" if found else f"needed for {use}: apt-get install {package}")


_TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))

_TOOLS = (("mke2fs", "e2fsprogs", "making the demo's image"), ("losetup", "mount", "loop devices"))
"""Program, Debian package, purpose."""
