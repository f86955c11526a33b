"""`capture.json`: what a capture directory holds, and where each file in it came from."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tqdm.auto import tqdm

from androstep_analysis.common import files, schema, units
from androstep_analysis.common.errors import InputError

T = TypeVar("T")

FILE_NAME = "capture.json"
VERSION = 1
ROLES = (
    *("trace", "image_before", "image_after", "listing_before", "listing_after", "names", "recording"),
    *("bench", "replay", "program", "samples", "steps", "gui"),
)
"""What a source is: a trace, an image of the filesystem, a listing of it by extmap, names that fanotify told iotrace,
what iotrace said of the device, results of a benchmark or of a replay, a replay program, samples of procmon, steps of a
workload, snapshots of a GUI."""

EXTENTS = ("tracepoint", "image", "fiemap", "journal")
"""Kinds of evidence for which file a block belongs to."""

FACTS = (
    "device",
    "soc",
    "android_release",
    "sdk",
    "build_fingerprint",
    "kernel",
    "page_bytes",
    "storage_model",
    "fs_type",
    "encryption",
    "clock",
    "workload",
    "rooted",
)
"""Columns of table `captures` that only the recorder knows."""


@dataclass(frozen=True)
class Source:
    """One file that the capture was made from.

    `path` is relative to the capture for files kept in `raw/`, absolute for images left where they are. `dev` (the
    number of the device that an image is of, as ``MAJ:MIN``) is None for traces, and for images whose device the
    trace itself must tell.
    """

    path: str
    role: str
    bytes: int
    sha256: str
    dev: str | None = None


@dataclass(frozen=True)
class Manifest:
    """The contents of `capture.json`.

    `devices` and `mounts` are rows as the recorder wrote them; `extents` names the kinds of evidence (`EXTENTS`) that
    the tables are made from, `events` the events that were recorded, also those that never came (None: unknown),
    `lost_events` how many were lost (None: nobody knows), `csv_columns` what stands in the columns of a CSV that does
    not say it (`ingest.block.csv.Columns`), `format` the format of the traces where it was stated (`ingest.read`).
    `realtime_moved_ns` is by how much `realtime_offset_ns` changed during the recording (None: unknown).
    """

    sources: tuple[Source, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    realtime_offset_ns: int | None = None
    realtime_moved_ns: int | None = None
    devices: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    lost_events: int | None = 0
    extents: tuple[str, ...] = EXTENTS
    events: tuple[str, ...] | None = None
    csv_columns: str | None = None
    format: str | None = None

    @property
    def capture_id(self) -> str:
        """First 16 hex digits of the sha256 over the digests of all sources: the same sources, the same capture."""
        digests = "\n".join(sorted(f"{source.role} {source.sha256}" for source in self.sources))
        return hashlib.sha256(digests.encode()).hexdigest()[:16]

    def of_role(self, role: str) -> tuple[Source, ...]:
        """The sources of this role."""
        return tuple(source for source in self.sources if source.role == role)


def read(directory: Path) -> Manifest:
    """The manifest of a capture directory; `InputError` where it is missing, damaged or of another version."""
    path = directory / FILE_NAME
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; give one that `androstep ingest` made")
    if not files.is_regular(path):
        raise InputError(
            f"{directory}: a directory without {FILE_NAME} is no capture; make one with `androstep ingest`"
        )
    try:
        raw = json.loads(files.read_text(path))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); restore it or ingest the sources again") from None
    try:
        if raw["androstep"] != VERSION:
            raise InputError(f"{path}: manifest version {raw['androstep']!r}, expected {VERSION}; update androstep")
        return parsed(raw, tuple(_source(source) for source in raw["sources"]))
    except InputError:
        raise
    except MALFORMED as error:
        raise InputError(f"{path}: not a manifest as docs/capture.md describes it ({error!r}); restore it") from None


MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
"""What reading JSON raises that is not of the shape expected."""


def parsed(raw: Any, sources: tuple[Source, ...]) -> Manifest:
    """The manifest of what JSON value `raw` says besides its sources; raises one of `MALFORMED` for another shape."""
    return Manifest(
        sources=sources,
        facts={name: _fact(name, raw["facts"].get(name)) for name in FACTS},
        realtime_offset_ns=_optional(_integer, raw["realtime_offset_ns"]),
        realtime_moved_ns=_optional(_integer, raw.get("realtime_moved_ns")),
        devices=tuple(_device(row) for row in raw["devices"]),
        mounts=tuple(_mount(row) for row in raw["mounts"]),
        lost_events=_optional(_integer, raw["lost_events"]),
        extents=_extents(raw.get("extents", EXTENTS)),
        events=_optional(_events, raw.get("events")),
        csv_columns=_optional(_text, raw.get("csv_columns")),
        format=_optional(_text, raw.get("format")),
    )


# A manifest may come from anyone: what is not of its type must fail here, by name, and not in some table later.


def _source(row: dict[str, Any]) -> Source:
    source = Source(**{"dev": None, **row})
    if source.role not in ROLES:
        raise ValueError(f"source {source.path!r} has role {source.role!r}, not one of {', '.join(ROLES)}")
    if not re.fullmatch("[0-9a-f]{64}", source.sha256):
        raise ValueError(f"source {source.path!r} has no sha256 of 64 hex digits")
    if b"\0" in os.fsencode(source.path):
        raise ValueError(f"source {source.path!r} has a NUL byte, which no path has")
    _integer(source.bytes)
    _optional(units.parse_dev, source.dev)
    return source


def _extents(names: Iterable[str]) -> tuple[str, ...]:
    names = tuple(names)
    if unknown := sorted(set(names) - set(EXTENTS)):
        raise ValueError(f"extents from {', '.join(unknown)}; known are {', '.join(EXTENTS)}")
    return names


def _events(names: Any) -> tuple[str, ...]:
    if type(names) is not list or any(type(name) is not str for name in names):
        raise TypeError(f"events {names!r} are no list of names")
    return tuple(names)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is no text")
    return value


def _device(row: dict[str, Any]) -> dict[str, Any]:
    units.parse_dev(row["dev"])
    _optional(units.parse_dev, row.get("parent"))
    _integer(row["start_sector"])
    _integer(row["nr_sectors"])
    return dict(row)


def _mount(row: dict[str, Any]) -> dict[str, Any]:
    units.parse_dev(row["dev"])
    if type(row["path"]) is not str:
        raise TypeError(f"mount path {row['path']!r} is no text")
    size = row.get("block_bytes")
    if size is not None and (type(size) is not int or not 512 <= size <= 1 << 30):
        raise TypeError(f"block size {size!r} is no number of bytes")
    return dict(row)


def _fact(name: str, value: Any) -> Any:
    python = schema.table("captures").column(name).polars.to_python()
    if value is not None and type(value) is not python:
        raise TypeError(f"fact {name!r} is {value!r}, not of type {python.__name__}")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise TypeError(f"{value!r} is no 64-bit integer")
    return value


def _optional(convert: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else convert(value)


def write(manifest: Manifest, directory: Path) -> None:
    """Write `capture.json` into `directory`."""
    content = {
        "androstep": VERSION,
        "capture_id": manifest.capture_id,
        "facts": {name: manifest.facts.get(name) for name in FACTS},
        "realtime_offset_ns": manifest.realtime_offset_ns,
        **({} if manifest.realtime_moved_ns is None else {"realtime_moved_ns": manifest.realtime_moved_ns}),
        "devices": list(manifest.devices),
        "mounts": list(manifest.mounts),
        "lost_events": manifest.lost_events,
        "extents": list(manifest.extents),
        "events": None if manifest.events is None else list(manifest.events),
        **({} if manifest.csv_columns is None else {"csv_columns": manifest.csv_columns}),
        **({} if manifest.format is None else {"format": manifest.format}),
        "sources": [dataclasses.asdict(source) for source in manifest.sources],
    }
    text = json.dumps(content, indent=2, ensure_ascii=True) + "\n"
    files.write_text(directory / FILE_NAME, text)


def in_place(path: Path, role: str, dev: str | None = None) -> Source:
    """The source that file `path` is, where it is."""
    return Source(str(path.absolute()), role, path.stat().st_size, sha256(path), dev)


def locate(source: Source, directory: Path) -> Path:
    """Where a source is; `InputError` if a path kept in the capture would lead out of it."""
    path = Path(source.path)
    if path.is_absolute():
        return path
    inside = (directory / path).resolve()
    if not inside.is_relative_to(directory.resolve()):
        raise InputError(f"{directory / FILE_NAME}: source {source.path!r} lies outside of the capture")
    return inside


def verify(source: Source, directory: Path) -> Path:
    """Path of a source whose content is what the manifest says; `InputError` where it is missing or differs."""
    path = locate(source, directory)
    if not path.is_file():
        raise InputError(f"{path}: missing, but {directory / FILE_NAME} names it as {source.role}; put it back")
    if path.stat().st_size != source.bytes or sha256(path) != source.sha256:
        raise InputError(f"{path}: not the file that {directory / FILE_NAME} names (other sha256); restore it")
    return path


def sha256(path: Path, copy_to: Path | None = None) -> str:
    """Hex sha256 of a file; with `copy_to`, what was read is written there too (the file must not exist yet)."""
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        copy = stack.enter_context(copy_to.open("xb")) if copy_to is not None else None
        size = path.stat().st_size
        bar = stack.enter_context(
            tqdm(total=size, unit="B", unit_scale=True, desc=path.name, disable=None, delay=2, leave=False)
        )
        while block := file.read(1 << 20):
            digest.update(block)
            bar.update(len(block))
            if copy is not None:
                copy.write(block)
    return digest.hexdigest()
