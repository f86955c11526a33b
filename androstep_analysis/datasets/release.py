"""Release captures as a dataset that anyone can open, verify and cite.

Making a release again gives the same bytes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
from tqdm.auto import tqdm

from androstep_analysis import capture
from androstep_analysis.capture import Capture, cache
from androstep_analysis.capture.tables import key as derivation_key
from androstep_analysis.common import losses, manifest, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import anonymise, columns, croissant, documents, parquet, survivors
from androstep_analysis.datasets.anonymise import Anonymiser
from androstep_analysis.datasets.documents import Description

VERSION = 1
"""Version of the release format."""

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
ANONYMISATION = "anonymisation.json"


def release(
    captures: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    described: Description | None = None,
    *,
    key_file: str | PathLike[str] | None = None,
    allow: Collection[str] = (),
    shift_times: bool = False,
    raw: bool = False,
) -> Path:
    """Make directory `out` a release of these captures (directories or files that `androstep.open` accepts).

    - `key_file` (at least `anonymise.KEY_BYTES` random bytes) replaces names by hashes. Names in `allow` are replaced
      too,
      but the result is not searched for them.
    - `shift_times` moves each capture's first event to time 0.
    - `raw` also copies the sources.

    The directory appears once it is complete. Raises `InputError` for a duplicate capture, if `raw` would undo
    `key_file`, and if a name that should be replaced survives.
    """
    out = Path(out)
    capture.refuse_existing(out)
    described = described or Description()
    if raw and (key_file is not None or shift_times):
        raise InputError("raw sources contain the names and times that are to be removed; omit --raw")
    hidden = None if key_file is None else Anonymiser.of_release(Path(key_file), described.name, described.version)
    opened = [(Path(path), capture.open(path)) for path in captures]
    _refuse_doubled(opened)
    out.parent.mkdir(parents=True, exist_ok=True)
    with capture.staged_directory(out) as directory:
        provenance = [
            _capture(found, directory, hidden, shift_times)
            for _, found in tqdm(opened, desc="releasing captures", disable=None, delay=2, leave=False)
        ]
        if raw:
            for path, found in opened:
                _keep_raw(path, found, directory)
        _refuse_collisions(directory)
        _documents(directory, described, sorted(provenance, key=lambda row: row["capture_id"]), hidden, shift_times)
        _seal(directory, described)
        if hidden is not None:
            _refuse_survivors(directory, hidden.originals.difference(allow))
    return out


def _refuse_doubled(opened: Sequence[tuple[Path, Capture]]) -> None:
    seen: dict[str, Path] = {}
    for path, found in opened:
        first = seen.setdefault(found.manifest.capture_id, path)
        if first is not path:
            raise InputError(f"{path}: the same capture as {first}; give each once")
    if not opened:
        raise InputError("no capture was given; name at least one")


def _capture(found: Capture, directory: Path, hidden: Anonymiser | None, shift_times: bool) -> dict[str, Any]:
    """Write the tables of a capture, and return its entry in provenance.json."""
    frames = anonymise.frames(found)
    if shift_times:
        wall_ns = _earliest_wall_ns(frames)
        frames = {n: anonymise.shifted(f, n, found.first_ns or 0, wall_ns) for n, f in frames.items()}
    if hidden is not None:
        frames = hidden.capture(found, frames)
    row = frames["captures"].row(0, named=True)
    for name, frame in frames.items():
        if not frame.is_empty():
            parquet.write(frame, name, row["capture_id"], directory / parquet.place(name, row))
    return _provenance(found, row["capture_id"], {n: f.height for n, f in frames.items()}, hidden, shift_times)


def _earliest_wall_ns(frames: dict[str, pl.DataFrame]) -> int:
    """Return the earliest time in CLOCK_REALTIME in the tables; 0 if there is none."""
    found = [frame[column].min() for name, frame in frames.items() for column in columns.of_treatment(name, "wall")]
    return min((time for time in found if isinstance(time, int)), default=0)


def _provenance(
    found: Capture, capture_id: str, rows: dict[str, int], hidden: Anonymiser | None, shift_times: bool
) -> dict[str, Any]:
    """Describe the sources of a capture's tables. Anonymised releases have keyed digests."""

    def digest(text: str) -> str:
        return text if hidden is None else hidden.value(text, "digest")

    sources = []
    for source in sorted(found.manifest.sources, key=lambda source: (source.role, source.sha256)):
        name = {"name": Path(source.path).name} if hidden is None else {}
        sources.append({**name, "role": source.role, "bytes": source.bytes, "sha256": digest(source.sha256)})
    lost = [
        {name: value for name, value in losses.as_json(loss).items() if hidden is None or name in ("kind", "count")}
        for loss in found.losses
    ]
    is_moved = shift_times or hidden is not None
    return {
        "capture_id": capture_id,
        "format": found.format,
        "sources": sources,
        "derivation_key": digest(derivation_key(found.manifest)),
        "extents": list(found.manifest.extents),
        "realtime_offset_ns": None if is_moved else found.about["realtime_offset_ns"],
        "lost_events": found.lost_events,
        "losses": lost,
        "rows": {name: number for name, number in sorted(rows.items()) if number},
    }


def _keep_raw(path: Path, found: Capture, directory: Path) -> None:
    """Copy the sources of a capture under their own names, with unsafe characters encoded."""
    place = directory / "raw" / found.manifest.capture_id
    place.mkdir(parents=True)
    for source in sorted(found.manifest.sources, key=lambda source: (source.role, source.sha256)):
        name = quote(Path(source.path).name, safe="+,=@ ")
        digest = manifest.sha256(manifest.locate(source, path), copy_to=place / f"{source.role}-{name}")
        if digest != source.sha256:
            raise InputError(f"{source.path}: changed while the release was made; make it again")


def _refuse_collisions(directory: Path) -> None:
    """Refuse devices or workloads that differ only in case and would share a directory on some filesystems."""
    seen: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        first = seen.setdefault(name.casefold(), name)
        if first != name:
            raise InputError(f"{name} and {first} are the same name if case is ignored; rename one of them")


def _documents(
    directory: Path,
    described: Description,
    captures: Sequence[dict[str, Any]],
    hidden: Anonymiser | None,
    shift_times: bool,
) -> None:
    """Write everything that explains the tables."""
    released = parquet.tables(directory)
    schemas = {name: schema.table(name) for name in released}
    (directory / "schemas").mkdir()
    for name in schemas:
        file = schema.directory() / f"{name}.json"
        (directory / "schemas" / file.name).write_bytes(file.read_bytes())
    (directory / "definitions.toml").write_bytes((schema.directory() / "definitions.toml").read_bytes())
    provenance = {
        "made_by": {name: version(name) for name in ("androstep", "polars", "pyarrow")},
        "derivation_code_sha256": cache.code_token(),
        "times_moved": shift_times,
        "captures": captures,
    }
    _write_json(directory / "provenance.json", provenance)
    if hidden is not None:
        _write_json(directory / ANONYMISATION, hidden.record())
    text = documents.description(len(captures), hidden is not None)
    about = {
        "name": described.name,
        "description": text,
        "version": described.version,
        "citeAs": documents.cite_as(described),
        "creator": documents.creators(described),
        "license": described.licence_url,
        "url": described.url,
        "datePublished": described.published,
        "keywords": ["storage I/O", "block trace", "Android"],
        "isLiveDataset": False,
    }
    files = [row for row in _files(directory) if row["path"].endswith(".parquet")]
    listed = [parquet.released(table) for table in schemas.values()]
    _write_json(directory / "croissant.json", croissant.metadata(about, listed, files))
    (directory / "CITATION.cff").write_text(documents.citation(described), encoding="utf-8")
    (directory / "LICENSE").write_text(documents.licence(described), encoding="utf-8")
    versions = {name: table.version for name, table in schemas.items()}
    page = documents.readme(described, released, versions, anonymised=hidden is not None, shifted=shift_times)
    (directory / "README.md").write_text(page, encoding="utf-8")


def _seal(directory: Path, described: Description) -> None:
    """Write the manifest and checksums, and set all file modes independently of the umask."""
    files = _files(directory)
    rows = {
        name: {"version": schema.table(name).version, "rows": table.select(pl.len()).collect().item()}
        for name, table in parquet.tables(directory).items()
    }
    content = {
        "androstep_release": VERSION,
        "name": described.name,
        "version": described.version,
        "tables": rows,
        "files": files,
    }
    _write_json(directory / MANIFEST, content)
    (directory / SUMS).write_text(sums(files, manifest.sha256(directory / MANIFEST)), encoding="utf-8")
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def sums(files: Sequence[dict[str, Any]], manifest_sha256: str) -> str:
    """Return SHA256SUMS, in the format of `sha256sum`, for the manifest and every file in it."""
    return "".join(
        f"{row['sha256']}  {row['path']}\n" for row in ({"path": MANIFEST, "sha256": manifest_sha256}, *files)
    )


def _files(directory: Path) -> list[dict[str, Any]]:
    """Return path, bytes and sha256 of every file, sorted by path."""
    paths = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    return [
        {"path": name, "bytes": path.stat().st_size, "sha256": manifest.sha256(path)}
        for name, path in sorted(paths.items())
    ]


def _refuse_survivors(directory: Path, originals: Collection[str]) -> None:
    why = "the release was not made, because a name would have stayed in it"
    for sentence in survivors.unlike_anonymised(directory):
        raise InputError(f"{why}: {sentence}")
    if found := list(itertools.islice(survivors.survivors(directory, originals), _SHOWN_SURVIVORS)):
        raise InputError(f"{why}: {'; '.join(found)}; {ALLOWING}")


_SHOWN_SURVIVORS = 5
"""Limit of surviving names in an error message."""

ALLOWING = "exclude a name that occurs there by chance with --allow NAME"


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
