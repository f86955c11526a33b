"""Read a directory that iotrace wrote: the trace, the device description, and the extent listings.

A recording on a phone without root has the same layout, with a Perfetto trace (device/record/stock.py).
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
    "phone.pftrace": "phone",
    "before.rec": "listing_before",
    "after.rec": "listing_after",
    "before.list": "listing_before",
    "after.list": "listing_after",
    "names.rec": "names",
    "samples.rec": "samples",
    "steps.json": "steps",
    "gui.zip": "gui",
    FILE_NAME: "recording",
}


def is_one(directory: Path) -> bool:
    """Return whether iotrace wrote this directory."""
    return (directory / FILE_NAME).is_file() and not (directory / manifest.FILE_NAME).exists()


def whole(path: Path) -> Path:
    """Return the iotrace directory that contains the file `path`, or `path` itself.

    Warns and returns `path` if its recording.json cannot be read.
    """
    directory = path.parent
    if path.name not in _ROLES or not path.is_file() or not is_one(directory):
        return path
    try:
        known(directory)
    except InputError as error:
        message = (
            f"{path}: a part of a recording, read alone: the device description and losses in {FILE_NAME} are not used"
        )
        warnings.warn(LossWarning(f"{message} ({error})"), stacklevel=4)
        return path
    return directory


def described(directory: Path) -> Manifest:
    """Return the manifest of an iotrace directory, with the files in place.

    Raises
    ------
    InputError
        If iotrace did not write the directory, if it holds no trace, or if recording.json is damaged.
    """
    description = known(directory)
    paths = [directory / name for name in _ROLES if (directory / name).is_file()]
    return replace(description, sources=tuple(manifest.in_place(file, _ROLES[file.name]) for file in paths))


def described_under_way(directory: Path) -> Manifest:
    """Return recording.json while iotrace is still running, without the sources. Its losses are not known yet."""
    return replace(_read_description(directory), lost_events=0)


def known(directory: Path) -> Manifest:
    """Return the manifest in recording.json, without the sources. Raise `InputError` as `described` does."""
    description = _read_description(directory)
    if not any((directory / name).is_file() for name, role in _ROLES.items() if role == "trace"):
        raise InputError(f"{directory}: no trace.dat; if iotrace was killed, finish it: iotrace --finish {directory}")
    return description


def _read_description(directory: Path) -> Manifest:
    path = directory / FILE_NAME
    if not path.is_file():
        raise InputError(f"{directory}: no {FILE_NAME} in this directory; pass a directory that iotrace wrote")
    try:
        raw = files.parse_json(files.read_text(path))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); ingest trace.dat alone") from None
    try:
        known = {"events": _events(raw), "realtime_moved_ns": _moved(raw), "swaps": _swaps(raw)}
        return manifest.parsed(raw | known, ())
    except manifest.MALFORMED as error:
        raise InputError(f"{path}: not in the format of iotrace ({error!r}); ingest trace.dat alone") from None


def command_pid(path: Path) -> int | None:
    """Return the process id of the recorded command in a recording.json, or None."""
    try:
        pid = json.loads(files.read_text(path)).get("command_pid")
    except (ValueError, RecursionError, AttributeError):
        return None
    return pid if isinstance(pid, int) else None


def _moved(raw: Any) -> int | None:
    """Return how much CLOCK_REALTIME moved against the trace clock during the recording; None if iotrace was killed."""
    readings = raw.get("clock_at_start"), raw.get("clock_at_end")
    clock = {"boot": "boot_ns", "mono": "mono_ns"}.get(raw["facts"].get("clock"))
    if clock is None or None in readings:
        return None
    start, end = (reading["realtime_ns"] - reading[clock] for reading in readings)
    return int(end - start)


def _swaps(raw: Any) -> list[Any]:
    """Return the swap spaces that were in use both at the start and at the end of the recording."""
    at_end = raw.get("swaps_at_end") or ()
    return [row for row in raw.get("swaps", ()) if row in at_end]


def _events(raw: Any) -> list[str] | None:
    """Return the sorted names of the events that were recorded, without the names of their systems."""
    rows = raw.get("events")
    return None if rows is None else sorted({row["event"].rpartition("/")[2] for row in rows})
