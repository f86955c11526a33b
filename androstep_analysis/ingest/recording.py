"""A directory as iotrace leaves it: the trace, what it found of the device, and what the filesystems held.

A recording on a phone without root has the same form, with a trace of Perfetto (device/record/stock.py).
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from androstep_analysis.common import files, manifest
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.common.manifest import Manifest

FILE_NAME = "recording.json"

_ROLES = {
    "trace.dat": "trace",
    "trace.pftrace": "trace",
    "before.rec": "listing_before",
    "after.rec": "listing_after",
    "names.rec": "names",
    "samples.rec": "samples",
    "steps.json": "steps",
    "gui.zip": "gui",
    FILE_NAME: "recording",
}


def is_one(directory: Path) -> bool:
    """Whether iotrace wrote this directory."""
    return (directory / FILE_NAME).is_file() and not (directory / manifest.FILE_NAME).exists()


def whole(path: Path) -> Path:
    """The directory of iotrace that file `path` is a part of, if it can be read; else `path`, with a warning."""
    directory = path.parent
    if path.name not in _ROLES or not path.is_file() or not is_one(directory):
        return path
    try:
        known(directory)
    except InputError as error:
        message = (
            f"{path}: a part of a recording, read alone: what iotrace knew of the device and of losses is left out"
        )
        warnings.warn(LossWarning(f"{message} ({error})"), stacklevel=4)
        return path
    return directory


def described(directory: Path) -> Manifest:
    """The manifest of what iotrace wrote, its files in place.

    Raises `InputError` where the directory is none of iotrace's, holds no trace, or its recording.json is damaged.
    """
    without = known(directory)
    found = [directory / name for name in _ROLES if (directory / name).is_file()]
    return replace(without, sources=tuple(manifest.in_place(file, _ROLES[file.name]) for file in found))


def described_under_way(directory: Path) -> Manifest:
    """What recording.json says while iotrace goes on, without the sources: nobody knows what will have been lost."""
    return replace(_told(directory), lost_events=0)


def known(directory: Path) -> Manifest:
    """What recording.json says, without the sources; raises as `described`."""
    told = _told(directory)
    if not any((directory / name).is_file() for name, role in _ROLES.items() if role == "trace"):
        raise InputError(f"{directory}: no trace.dat; if iotrace was killed, finish it: iotrace --finish {directory}")
    return told


def _told(directory: Path) -> Manifest:
    path = directory / FILE_NAME
    if not path.is_file():
        raise InputError(f"{directory}: a directory without {FILE_NAME} is no recording; give one that iotrace made")
    try:
        raw = json.loads(files.read_text(path))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); ingest trace.dat alone") from None
    try:
        return manifest.parsed(raw | {"events": _events(raw), "realtime_moved_ns": _moved(raw)}, ())
    except manifest.MALFORMED as error:
        raise InputError(f"{path}: not as iotrace writes it ({error!r}); ingest trace.dat alone") from None


def command_pid(path: Path) -> int | None:
    """The process of the command that a recording.json tells of, where there was one."""
    try:
        told = json.loads(files.read_text(path)).get("command_pid")
    except (ValueError, RecursionError, AttributeError):
        return None
    return told if isinstance(told, int) else None


def _moved(raw: Any) -> int | None:
    """How much later CLOCK_REALTIME was at the end than the trace's clock has it; None where iotrace was killed."""
    readings = raw.get("clock_at_start"), raw.get("clock_at_end")
    clock = {"boot": "boot_ns", "mono": "mono_ns"}.get(raw["facts"].get("clock"))
    if clock is None or None in readings:
        return None
    start, end = (one["realtime_ns"] - one[clock] for one in readings)
    return int(end - start)


def _events(raw: Any) -> list[str] | None:
    """The names of the events that were recorded, without their systems, in order."""
    rows = raw.get("events")
    return None if rows is None else sorted({row["event"].rpartition("/")[2] for row in rows})
