"""`capture.json`: what a capture directory holds, and where each file in it came from."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from androstep_analysis import units
from androstep_analysis.errors import InputError

FILE_NAME = "capture.json"
VERSION = 1
ROLES = ("trace", "image_before", "image_after")

FACTS = (
    "device",
    "soc",
    "android_release",
    "sdk",
    "build_fingerprint",
    "kernel",
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
    """The contents of `capture.json`. `devices` and `mounts` are rows as the recorder wrote them."""

    sources: tuple[Source, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    realtime_offset_ns: int | None = None
    devices: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    lost_events: int = 0

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
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{directory}: a directory without {FILE_NAME} is no capture; make one with `androstep ingest`"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); restore it or ingest the sources again") from None
    try:
        if raw["androstep"] != VERSION:
            raise InputError(f"{path}: manifest version {raw['androstep']!r}, expected {VERSION}; update androstep")
        sources = tuple(Source(**{"dev": None, **source}) for source in raw["sources"])
        for source in sources:
            if source.role not in ROLES:
                raise InputError(f"{path}: source {source.path!r} has role {source.role!r}, not one of {ROLES}")
            if source.dev is not None:
                units.parse_dev(source.dev)
        return Manifest(
            sources=sources,
            facts={name: raw["facts"].get(name) for name in FACTS},
            realtime_offset_ns=raw["realtime_offset_ns"],
            devices=tuple(raw["devices"]),
            mounts=tuple(raw["mounts"]),
            lost_events=int(raw["lost_events"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a manifest as docs/capture.md describes it ({error!r})") from None


def write(manifest: Manifest, directory: Path) -> None:
    """Write `capture.json` into `directory`."""
    content = {
        "androstep": VERSION,
        "capture_id": manifest.capture_id,
        "facts": {name: manifest.facts.get(name) for name in FACTS},
        "realtime_offset_ns": manifest.realtime_offset_ns,
        "devices": list(manifest.devices),
        "mounts": list(manifest.mounts),
        "lost_events": manifest.lost_events,
        "sources": [dataclasses.asdict(source) for source in manifest.sources],
    }
    text = json.dumps(content, indent=2, ensure_ascii=True) + "\n"
    (directory / FILE_NAME).write_text(text, encoding="utf-8")


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
