"""Find the source files of a capture and describe them in a manifest."""

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
    """Information about a recording that none of its files contains.

    Parameters
    ----------
    image_before, image_after : path-like, optional
        Images of the filesystem from before and after the recording.
    listing_before, listing_after : path-like, optional
        extmap's listings from before and after the recording.
    device : str, optional
        The device (``MAJ:MIN``) of the images and listings. Required if the trace has requests of several devices.
    extents : iterable of str
        The kinds of evidence (`manifest.EXTENTS`) for attribution; by default all.
    facts : mapping of str
        Facts of device and workload, by the names in `manifest.FACTS`.
    csv_columns : str, optional
        The columns of a CSV (`ingest.block.csv.Columns`).
    format : str, optional
        The title of the trace's format (`ingest.FORMATS`, and those of plug-ins). By default its first bytes decide.

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
        """The images and listings by role (`manifest.ROLES`); `InputError` if a file does not exist."""
        paths = {role: getattr(self, role) for role in SNAPSHOTS}
        files = {role: Path(path) for role, path in paths.items() if path is not None}
        for path in files.values():
            if not path.is_file():
                raise InputError(f"{path}: no such file")
        return files


_LARGE_BYTES = 1 << 26
"""Digests of larger files take noticeable time."""

SNAPSHOTS = ("image_before", "image_after", "listing_before", "listing_after")


def manifest_of(paths: Sequence[Path], description: Description) -> Manifest:
    """Build the manifest of recordings (files, or a directory of iotrace) and a description, without copying files."""
    snapshots = description.snapshots
    paths = [file for path in paths for file in files(path, description.format)]
    paths = [recording.whole(path) for path in paths] if len(paths) == 1 else paths
    recordings = [path for path in paths if path.is_dir()]
    if len(recordings) > 1 or (recordings and len(paths) > 1):
        raise InputError(f"{recordings[0]}: a directory of iotrace is a complete recording; ingest it alone")
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if not path.is_file() and not path.is_dir():  # Reading it might never end.
            raise InputError(f"{path}: is a pipe or a device; copy its contents into a file")
    roles = [(path, _role(path)) for path in paths if not path.is_dir()]
    if [role for _, role in roles] == ["trace"] and description.format is None and description.csv_columns is None:
        _check_large(roles[0][0])
    given = [manifest.in_place(path, role) for path, role in roles]
    traces = [Path(source.path) for source in given if source.role == "trace"]
    described = recording.described(recordings[0]) if recordings else _recorded_with(traces)
    remaining = [source for source in described.sources if source.role not in snapshots]
    added = [
        manifest.in_place(path, role, description.device if role.startswith("image") else None)
        for role, path in snapshots.items()
    ]
    return replace(
        described,
        sources=(*given, *remaining, *added),
        extents=tuple(name for name in manifest.EXTENTS if name in {*description.extents}),
        facts={**described.facts, **description.facts, "clock": described.facts.get("clock")},
        csv_columns=description.csv_columns,
        format=description.format,
        window=described.window if len(traces) <= 1 else None,  # it is in the clock of one of the traces
    )


def files(path: Path, format: str | None = None) -> tuple[Path, ...]:
    """Return the files of the recording at `path` (`ingest.files`); for any other directory, the results in it."""
    of_recording = ingest.files(path, format)
    if of_recording != (path,) or not path.is_dir() or recording.is_one(path) or (path / manifest.FILE_NAME).exists():
        return of_recording
    found = [file for kind in tool_results.KINDS.values() for file in results.files(kind, path)]
    return tuple(dict.fromkeys(found)) or of_recording


def capture_of(path: Path) -> Path | None:
    """Return the capture directory whose manifest lists file `path` as a trace, or None."""
    directory = path.absolute().parent.parent
    if path.is_dir() or not (directory / manifest.FILE_NAME).is_file():
        return None
    sources = manifest.read(directory).sources
    is_source = any(source.role == "trace" and Path(directory, source.path).samefile(path)
                    for source in sources if Path(directory, source.path).exists())  # fmt: skip
    return directory if is_source else None


def _recorded_with(paths: Sequence[Path]) -> Manifest:
    """Return the recorders' manifest, without sources, of files that may be traces of captures or of iotrace."""
    manifests: dict[Path | None, Manifest] = {}
    for path in paths:
        directory = capture_of(path)
        if directory is not None:
            manifests.setdefault(directory, manifest.read(directory))
        elif recording.whole(path) != path:
            manifests.setdefault(path.parent, recording.known(path.parent))
        else:
            manifests.setdefault(None, Manifest(sources=()))
    return manifest.common(tuple(manifests.values())) if manifests else Manifest(sources=())


def _check_large(path: Path) -> None:
    """Raise `InputError` for a large file that is no recording, such as a disk's image, before its digest is made."""
    if path.stat().st_size > _LARGE_BYTES:
        ingest.check(path)


def _role(path: Path) -> str:
    """Return the role of a file by its first bytes: program, samples, a kind of results, else trace."""
    if program.sniff(head(path)):
        return "program"
    if procmon.sniff(head(path)):
        return "samples"
    return next((role for role, kind in tool_results.KINDS.items() if kind.sniff(path)), "trace")
