"""The recordings that the tests and the table are about."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from harness import build, guest, host, kernel
from harness.judge import Recording


class Kind(NamedTuple):
    """How a recording is made: `flavour` of the host's ext4, or None for a guest."""

    fs_type: str
    flavour: str | None = None
    cpus: int = 1


RECORDINGS = {
    "ext4": Kind("ext4", "debian"),
    "ext4-android": Kind("ext4", "android"),
    "ext4-guest": Kind("ext4"),
    "f2fs": Kind("f2fs"),
    "f2fs-two-cpus": Kind("f2fs", cpus=2),
    "vfat": Kind("vfat"),
    "exfat": Kind("exfat"),
}


def missing(name: str) -> str | None:
    """Why this recording cannot be made here, or None. Fetches and compiles what it needs."""
    kind = RECORDINGS[name]
    lacking = host.missing() if kind.flavour else guest.missing()
    if lacking is None and not iotrace(kind).is_file():
        lacking = f"needs {iotrace(kind)}: make probes-tests"
    if lacking is None:
        try:
            build.workload()
            if kind.flavour is None:
                kernel.debian()
        except OSError as error:
            lacking = f"needs what cannot be fetched: {error}"
    return lacking


def make(name: str, directory: Path, seed: int = 1) -> Recording:
    """Makes the recording in an empty directory."""
    kind = RECORDINGS[name]
    if kind.flavour:
        host.record(directory, kind.flavour, iotrace(kind), seed=seed)
        return Recording(directory, kind.fs_type, host.MARK_BYTE)
    guest.record(directory, kind.fs_type, iotrace(kind), seed=seed, cpus=kind.cpus)
    return Recording(directory, kind.fs_type, guest.MARK_BYTE)


def iotrace(kind: Kind) -> Path:
    """The recorder: compiled for this machine, or statically for a guest."""
    return build.OUT.parent / "probes" / ("native" if kind.flavour else "x86_64-linux-musl") / "iotrace"
