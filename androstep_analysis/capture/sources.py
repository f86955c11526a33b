"""Which files a capture is made of, and what is known of them: traces, images, listings, results and programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from androstep_analysis import ingest
from androstep_analysis.capture import tool_results
from androstep_analysis.common import manifest, results
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import Manifest
from androstep_analysis.ingest import procmon, recording
from androstep_analysis.ingest.source import head
from androstep_analysis.replay import program


@dataclass(frozen=True, kw_only=True)
class Description:
    """What is known of a recording, and stands in none of its files.

    Parameters
    ----------
    image_before, image_after : path-like, optional
        Images of the filesystem, from before and after.
    listing_before, listing_after : path-like, optional
        Listings of extmap, from before and after.
    device : str, optional
        Whose images and listings they are (``MAJ:MIN``), where the trace has requests of several devices.
    extents : iterable of str
        The kinds of evidence (`manifest.EXTENTS`) to attribute by; by default all.
    facts : mapping of str
        What is known of device and workload, by the names of `manifest.FACTS`.
    csv_columns : str, optional
        What stands in the columns of a CSV (`ingest.block.csv.Columns`).
    format : str, optional
        The format of a trace by its title (`ingest.FORMATS`, and those of plug-ins), where its first bytes are not to
        decide.

    Examples
    --------
    >>> description = androstep.Description(facts={"device": "SM-G975F"})
    >>> description.facts["device"]
    'SM-G975F'
    """

    image_before: str | PathLike[str] | None = None
    image_after: str | PathLike[str] | None = None
    listing_before: str | PathLike[str] | None = None
    listing_after: str | PathLike[str] | None = None
    device: str | None = None
    extents: Iterable[str] = manifest.EXTENTS
    facts: Mapping[str, Any] = field(default_factory=dict)
    csv_columns: str | None = None
    format: str | None = None

    @property
    def snapshots(self) -> dict[str, Path]:
        """The images and listings by role (`manifest.ROLES`). Raises `InputError` where there is no such file."""
        paths = {role: getattr(self, role) for role in SNAPSHOTS}
        files = {role: Path(path) for role, path in paths.items() if path is not None}
        for path in files.values():
            if not path.is_file():
                raise InputError(f"{path}: no such file")
        return files


SNAPSHOTS = ("image_before", "image_after", "listing_before", "listing_after")


def manifest_of(paths: Sequence[Path], description: Description) -> Manifest:
    """The manifest of recordings (files, or a directory of iotrace) and of what is known of them, all in place."""
    snapshots = description.snapshots
    paths = [file for path in paths for file in files(path, description.format)]
    paths = [recording.whole(path) for path in paths] if len(paths) == 1 else paths
    recordings = [path for path in paths if path.is_dir()]
    if len(recordings) > 1 or (recordings and len(paths) > 1):
        raise InputError(f"{recordings[0]}: a directory of iotrace is a recording of its own; ingest it alone")
    described = recording.described(recordings[0]) if recordings else _recorded_with(paths)
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if not path.is_file() and not path.is_dir():  # which may have no end
            raise InputError(f"{path}: a file was expected, and this is a pipe or a device; copy it into a file")
    traces = [manifest.in_place(path, _role(path)) for path in paths if not path.is_dir()]
    remaining = [source for source in described.sources if source.role not in snapshots]
    added = [
        manifest.in_place(path, role, description.device if role.startswith("image") else None)
        for role, path in snapshots.items()
    ]
    return replace(
        described,
        sources=(*traces, *remaining, *added),
        extents=tuple(name for name in manifest.EXTENTS if name in {*description.extents}),
        facts={**described.facts, **description.facts, "clock": described.facts.get("clock")},
        csv_columns=description.csv_columns,
        format=description.format,
    )


def files(path: Path, format: str | None = None) -> tuple[Path, ...]:
    """The files of the recording that `path` stands for (`ingest.files`); of another directory the results in it."""
    of_recording = ingest.files(path, format)
    if of_recording != (path,) or not path.is_dir() or recording.is_one(path) or (path / manifest.FILE_NAME).exists():
        return of_recording
    found = [file for kind in tool_results.KINDS.values() for file in results.files(kind, path)]
    return tuple(dict.fromkeys(found)) or of_recording


def capture_of(path: Path) -> Path | None:
    """The capture directory that file `path` is a recording of, as the manifest there says."""
    directory = path.absolute().parent.parent
    if path.is_dir() or not (directory / manifest.FILE_NAME).is_file():
        return None
    sources = manifest.read(directory).sources
    is_source = any(source.role == "trace" and Path(directory, source.path).samefile(path)
                    for source in sources if Path(directory, source.path).exists())  # fmt: skip
    return directory if is_source else None


def _recorded_with(paths: Sequence[Path]) -> Manifest:
    """What the recorder knew, if one of these files is the trace of a capture or of iotrace, without its sources."""
    for path in paths:
        if (directory := capture_of(path)) is not None:
            return replace(manifest.read(directory), sources=(), extents=manifest.EXTENTS)
        if recording.whole(path) != path:
            return recording.known(path.parent)
    return Manifest(sources=())


def _role(path: Path) -> str:
    """What a file is: results, a replay program, or else a trace."""
    if program.sniff(head(path)):
        return "program"
    if procmon.sniff(head(path)):
        return "samples"
    return next((role for role, kind in tool_results.KINDS.items() if kind.sniff(path)), "trace")
