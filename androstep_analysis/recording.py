"""A directory as iotrace leaves it: the trace, what it found of the device, and what the filesystems held."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from androstep_analysis import manifest
from androstep_analysis.errors import InputError
from androstep_analysis.manifest import Manifest

FILE_NAME = "recording.json"

_ROLES = {
    "trace.dat": "trace",
    "before.rec": "listing_before",
    "after.rec": "listing_after",
    "samples.rec": "samples",
    "steps.json": "steps",
    "gui.zip": "gui",
    FILE_NAME: "recording",
}


def is_one(directory: Path) -> bool:
    """Whether iotrace wrote this directory."""
    return (directory / FILE_NAME).is_file() and not (directory / manifest.FILE_NAME).exists()


def described(directory: Path) -> Manifest:
    """The manifest of what iotrace wrote, its files in place.

    Raises `InputError` where the directory is none of iotrace's, holds no trace, or its recording.json is damaged.
    """
    path = directory / FILE_NAME
    if not path.is_file():
        raise InputError(f"{directory}: a directory without {FILE_NAME} is no recording; give one that iotrace made")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); ingest trace.dat alone") from None
    found = [directory / name for name in _ROLES if (directory / name).is_file()]
    if not (directory / "trace.dat").is_file():
        raise InputError(f"{directory}: no trace.dat; if iotrace was killed, finish it: iotrace --finish {directory}")
    sources = tuple(manifest.in_place(file, _ROLES[file.name]) for file in found)
    try:
        return manifest.parsed(raw | {"events": _events(raw)}, sources)
    except manifest.MALFORMED as error:
        raise InputError(f"{path}: not as iotrace writes it ({error!r}); ingest trace.dat alone") from None


def command_pid(path: Path) -> int | None:
    """The process of the command that a recording.json tells of, where there was one."""
    try:
        told = json.loads(path.read_text(encoding="utf-8")).get("command_pid")
    except (ValueError, RecursionError, AttributeError):
        return None
    return told if isinstance(told, int) else None


def _events(raw: Any) -> list[str] | None:
    """The names of the events that were recorded, without their systems, in order."""
    rows = raw.get("events")
    return None if rows is None else sorted({row["event"].rpartition("/")[2] for row in rows})
