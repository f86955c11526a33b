"""Read, write and verify `capture.json`, the manifest of a capture directory."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from androstep_analysis.common import files, schema, units
from androstep_analysis.common.errors import InputError

T = TypeVar("T")

FILE_NAME = "capture.json"
VERSION = 1
ROLES = (
    *("trace", "image_before", "image_after", "listing_before", "listing_after", "names", "recording"),
    *("bench", "replay", "program", "samples", "steps", "gui", "phone"),
)
"""Roles of source files, in this order: trace; filesystem image before and after the trace; extmap listing before and
after it; file names that iotrace got from fanotify; iotrace's description of the device; benchmark results; replay
results; replay program; samples of procmon; steps of a workload; snapshots of a GUI; Perfetto trace that a phone
recorded in addition to the trace."""

EXTENTS = ("tracepoint", "image", "fiemap", "journal")
"""Kinds of evidence that assign blocks to files."""

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
"""Columns of table `captures` that only the recorder can provide."""


@dataclass(frozen=True)
class Source:
    """A file that the capture was made from.

    Attributes
    ----------
    path : str
        Relative to the capture for copies in `raw/`; absolute for images, which are not copied.
    role : str
        One of `ROLES`.
    bytes : int
        The size.
    sha256 : str
        The digest as 64 hex digits.
    dev : str, optional
        The device of an image as ``MAJ:MIN``. None for traces, and for images of the only device in the trace.
    """

    path: str
    role: str
    bytes: int
    sha256: str
    dev: str | None = None


@dataclass(frozen=True)
class Manifest:
    """The contents of `capture.json`.

    Attributes
    ----------
    sources : tuple of Source
        The files that the capture was made from.
    facts : dict
        Facts of the device and the workload, by the names in `FACTS`.
    realtime_offset_ns : int, optional
        CLOCK_REALTIME minus the clock of the recording.
    realtime_moved_ns : int, optional
        The change of `realtime_offset_ns` during the recording. None: unknown.
    devices, mounts : tuple of dict
        Block devices and mounted filesystems, as the recorder wrote them.
    swaps : tuple of dict
        Swap spaces that were in use during the whole recording: dev, path, and ino of a swap file on dev.
    lost_events : int, optional
        The number of lost events. None: unknown.
    extents : tuple of str
        The kinds of evidence (`EXTENTS`) used to derive the tables.
    events : tuple of str, optional
        The names of the events that were enabled, including those that never occurred. None: unknown.
    csv_columns : str, optional
        The columns of a CSV without a header (`ingest.block.csv.Columns`).
    format : str, optional
        The format of the traces, if the user stated it (`ingest.read`).
    window : tuple of int and int or None, optional
        Begin and end of the recorded command or time, in the clock of the recording. Events before and after it, such
        as those of the recorder's own listings, are only evidence. The end is None if the recorder was killed. None:
        the whole recording.
    """

    sources: tuple[Source, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    realtime_offset_ns: int | None = None
    realtime_moved_ns: int | None = None
    devices: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    swaps: tuple[dict[str, Any], ...] = ()
    lost_events: int | None = 0
    extents: tuple[str, ...] = EXTENTS
    events: tuple[str, ...] | None = None
    csv_columns: str | None = None
    format: str | None = None
    window: tuple[int, int | None] | None = None

    @property
    def capture_id(self) -> str:
        """First 16 hex digits of the SHA-256 of all sources' digests, so that equal sources give equal ids."""
        digests = "\n".join(sorted(f"{source.role} {source.sha256}" for source in self.sources))
        return hashlib.sha256(digests.encode()).hexdigest()[:16]

    def of_role(self, role: str) -> tuple[Source, ...]:
        """Return the sources with this role."""
        return tuple(source for source in self.sources if source.role == role)


def agreed(facts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts that no two of several descriptions state differently. None states nothing."""
    rows = [(name, value) for described in facts for name, value in described.items() if value is not None]
    common = dict(reversed(rows))
    return {name: common[name] for name, _ in rows if all(value == common[name] for key, value in rows if key == name)}


def common(manifests: Sequence[Manifest]) -> Manifest:
    """Return what the manifests of several captures that form one recording have in common, without the sources.

    - `events` are those that all captures recorded, and None if a capture does not list its events.
    - A device counts as traced if all captures traced it. Devices and mounts are omitted if the captures that describe
      them disagree.
    - Swap spaces are those that all captures list.
    - The offset of CLOCK_REALTIME and its change are None if they differ: the recordings state them for their own time.
    - Lost events add up.
    """
    if len(manifests) == 1:
        return replace(manifests[0], sources=(), extents=EXTENTS)
    listed = [set(described.events) for described in manifests if described.events is not None]
    machines = [(described.devices, described.mounts) for described in manifests if described.devices]
    described_alike = all(
        (_untraced(devices), mounts) == (_untraced(machines[0][0]), machines[0][1]) for devices, mounts in machines
    )
    describing = [described for described in manifests if described.devices]
    lost = [described.lost_events for described in manifests if described.lost_events is not None]
    return Manifest(
        sources=(),
        facts=agreed(described.facts for described in manifests),
        realtime_offset_ns=_only(described.realtime_offset_ns for described in manifests),
        realtime_moved_ns=_only(described.realtime_moved_ns for described in manifests),
        devices=_traced_by_all([devices for devices, _ in machines]) if described_alike else (),
        mounts=machines[0][1] if machines and described_alike else (),
        swaps=tuple(
            swap
            for described in describing[:1]
            for swap in described.swaps
            if all(swap in other.swaps for other in describing)
        ),
        lost_events=sum(lost) if len(lost) == len(manifests) else None,
        events=tuple(sorted(set.intersection(*listed))) if len(listed) == len(manifests) else None,
    )


def _untraced(devices: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the descriptions of devices without the statement whether they were traced."""
    return [{name: value for name, value in device.items() if name != "traced"} for device in devices]


def _traced_by_all(descriptions: Sequence[Sequence[dict[str, Any]]]) -> tuple[dict[str, Any], ...]:
    """Return the devices, each marked as not traced if one of its descriptions says so."""
    devices = zip(*descriptions, strict=True)
    return tuple(next((row for row in rows if row.get("traced") is False), rows[0]) for rows in devices)


def _only(values: Iterable[int | None]) -> int | None:
    """Return the value if all are equal, else None."""
    first, *rest = {*values}
    return None if rest else first


def read(directory: Path) -> Manifest:
    """Read the manifest of a capture directory; `InputError` if it is missing, damaged or of another version."""
    path = directory / FILE_NAME
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; give a capture made by `androstep ingest`")
    if not files.is_regular(path):
        raise InputError(
            f"{directory}: a directory without {FILE_NAME} is not a capture; make one with `androstep ingest`"
        )
    try:
        raw = json.loads(files.read_text(path))
        facts = files.without_surrogates(raw)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); restore it or ingest the sources again") from None
    try:
        if raw["androstep"] != VERSION:
            raise InputError(f"{path}: manifest version {raw['androstep']!r}, expected {VERSION}; update androstep")
        return parsed(facts, tuple(_source(source) for source in raw["sources"]))
    except InputError:
        raise
    except MALFORMED as error:
        raise InputError(f"{path}: not a valid manifest, see docs/capture.md ({error!r}); restore it") from None


MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
"""Exceptions raised while reading JSON that does not have the expected structure."""


def parsed(raw: Any, sources: tuple[Source, ...]) -> Manifest:
    """Build a manifest from a JSON value and its parsed sources; one of `MALFORMED` if the structure is wrong."""
    return Manifest(
        sources=sources,
        facts={name: _fact(name, raw["facts"].get(name)) for name in FACTS},
        realtime_offset_ns=_optional(_integer, raw["realtime_offset_ns"]),
        realtime_moved_ns=_optional(_integer, raw.get("realtime_moved_ns")),
        devices=tuple(_device(row) for row in raw["devices"]),
        mounts=tuple(_mount(row) for row in raw["mounts"]),
        swaps=tuple(_swap(row) for row in raw.get("swaps", ())),
        lost_events=_optional(_integer, raw["lost_events"]),
        extents=_extents(raw.get("extents", EXTENTS)),
        events=_optional(_events, raw.get("events")),
        csv_columns=_optional(_text, raw.get("csv_columns")),
        format=_optional(_text, raw.get("format")),
        window=_optional(_window, raw.get("window")),
    )


# A manifest is untrusted input. A value of the wrong type must fail here, with its name, and not in a table later.


def _source(row: dict[str, Any]) -> Source:
    source = Source(**{"dev": None, **row})
    if source.role not in ROLES:
        raise ValueError(f"source {source.path!r} has role {source.role!r}, not one of {', '.join(ROLES)}")
    if not re.fullmatch("[0-9a-f]{64}", source.sha256):
        raise ValueError(f"source {source.path!r} has no sha256 of 64 hex digits")
    if b"\0" in os.fsencode(source.path):
        raise ValueError(f"source {source.path!r} has a NUL byte, which is invalid in a path")
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
        raise TypeError(f"events {names!r} is not a list of names")
    return tuple(names)


def _window(row: dict[str, Any]) -> tuple[int, int | None]:
    start, end = _integer(row["start_ns"]), _optional(_integer, row["end_ns"])
    if end is not None and end < start:
        raise ValueError(f"window {row!r} ends before it begins")
    return start, end


def _window_row(start_ns: int, end_ns: int | None) -> dict[str, int | None]:
    return {"start_ns": start_ns, "end_ns": end_ns}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not a string")
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
        raise TypeError(f"mount path {row['path']!r} is not a string")
    size = row.get("block_bytes")
    if size is not None and (type(size) is not int or not 512 <= size <= 1 << 30):
        raise TypeError(f"block size {size!r} is not a valid number of bytes")
    return dict(row)


def _swap(row: dict[str, Any]) -> dict[str, Any]:
    units.parse_dev(row["dev"])
    return {"dev": row["dev"], "path": _text(row["path"]), "ino": _optional(_integer, row["ino"])}


def _fact(name: str, value: Any) -> Any:
    python = schema.table("captures").column(name).polars.to_python()
    if value is not None and type(value) is not python:
        raise TypeError(f"fact {name!r} is {value!r}, not of type {python.__name__}")
    if name == "page_bytes" and isinstance(value, int) and not (512 <= value <= 1 << 24 and value.bit_count() == 1):
        raise ValueError(f"page_bytes is {value!r}, which is no size of a page")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise TypeError(f"{value!r} is not a 64-bit integer")
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
        **({"swaps": list(manifest.swaps)} if manifest.swaps else {}),
        "lost_events": manifest.lost_events,
        "extents": list(manifest.extents),
        "events": None if manifest.events is None else list(manifest.events),
        **({} if manifest.csv_columns is None else {"csv_columns": manifest.csv_columns}),
        **({} if manifest.format is None else {"format": manifest.format}),
        **({} if manifest.window is None else {"window": _window_row(*manifest.window)}),
        "sources": [dataclasses.asdict(source) for source in manifest.sources],
    }
    text = json.dumps(content, indent=2, ensure_ascii=True) + "\n"
    files.write_text(directory / FILE_NAME, text)


def in_place(path: Path, role: str, dev: str | None = None) -> Source:
    """Return the source for a file that stays at its path."""
    return Source(str(path.absolute()), role, path.stat().st_size, sha256(path), dev)


def locate(source: Source, directory: Path) -> Path:
    """Return the path of a source; `InputError` if it is outside of the capture. Only images may be."""
    path = Path(source.path)
    if path.is_absolute() and source.role.startswith("image"):
        return path
    try:
        inside = (directory / path).resolve()
    except (OSError, RuntimeError):  # a loop of symbolic links
        raise InputError(f"{directory / path}: cannot be resolved, since its links form a loop; put it back") from None
    if not inside.is_relative_to(directory.resolve()):
        raise InputError(f"{directory / FILE_NAME}: source {source.path!r} is outside the capture")
    return inside


def verify(source: Source, directory: Path) -> Path:
    """Return the path of a source after checking its digest; `InputError` if the file is missing or differs."""
    path = locate(source, directory)
    if not path.is_file():
        raise InputError(f"{path}: missing, but {directory / FILE_NAME} names it as {source.role}; put it back")
    if path.stat().st_size != source.bytes or sha256(path) != source.sha256:
        raise InputError(f"{path}: changed, its sha256 differs from that in {directory / FILE_NAME}; restore it")
    return path


def sha256(path: Path, copy_to: Path | None = None) -> str:
    """Return the SHA-256 of a file in hex; with `copy_to`, also copy the file there (it must not exist yet)."""
    from tqdm.auto import tqdm  # imports asyncio

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
