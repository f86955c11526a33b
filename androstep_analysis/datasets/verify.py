"""Verify a release: every byte, file, schema and row must be as published."""

from __future__ import annotations

import json
import os
import re
import stat
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from androstep_analysis.common import files, manifest, pages, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import anonymise, parquet, survivors
from androstep_analysis.datasets.release import ANONYMISATION, MANIFEST, SUMS, VERSION, sums

_DEEPEST = 16
"""Limit of nested directories. Releases have five."""


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Without `problems` the release is intact. `notes` list what could not be checked.
    """

    files: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def verify(
    directory: str | PathLike[str], *, without: Sequence[str | PathLike[str]] = (), allow: Collection[str] = ()
) -> Verification:
    """Check a release: digests, missing and extra files, links, schemas, rows, and the form of replaced names.

    `without` lists captures for whose names the release is searched (`survivors`), except those in `allow`. Nothing
    outside the directory is read. Raises `InputError` if the directory is not a release.
    """
    root = Path(directory)
    if not root.is_dir():
        raise InputError(f"{root}: no such directory; give a release made by `androstep release`")
    if not (root / SUMS).is_file() and not (root / MANIFEST).is_file():
        raise InputError(f"{root}: has neither {MANIFEST} nor {SUMS}; give a release made by `androstep release`")
    found = dict(_walk(root))
    released = {name for name, kind in found.items() if kind is None}
    problems = [f"{name}: {kind}" for name, kind in sorted(found.items()) if kind is not None]
    problems += _collisions(sorted(found))
    notes: list[str] = []
    try:
        listed = _listed(root) if SUMS in released else {}
        problems += _differences(root, listed, released)
        if not problems:
            notes, further = _contents(root, listed)
            problems += further
        if not problems and without:
            problems += sorted(survivors.survivors(root, anonymise.names_of(without).difference(allow)))
    except InputError as error:
        problems.append(str(error))
    return Verification(len(released), tuple(problems), tuple(notes))


def _walk(root: Path) -> Iterator[tuple[str, str | None]]:
    """Yield each path below the directory, with None for a regular file, else a sentence about the problem."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(root / below) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
        if below and not found:
            yield below, "an empty directory, which no release holds; remove it"
        for own_name, mode in found:
            name = f"{below}{own_name}"
            if stat.S_ISDIR(mode) and name.count("/") >= _DEEPEST:
                yield name, "a directory deeper than any release has; fetch the release again"
            elif stat.S_ISDIR(mode):
                waiting.append(f"{name}/")
            elif stat.S_ISREG(mode):
                yield name, None
            else:
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
                yield name, f"{kind}, which no release holds; fetch the release again"


def _collisions(names: Sequence[str]) -> list[str]:
    """Report names that are equal on a filesystem that ignores case or normalises Unicode."""
    seen: dict[str, str] = {}
    problems = []
    paths = {str(path) for name in names for path in (PurePosixPath(name), *PurePosixPath(name).parents)}
    for name in sorted(paths):
        first = seen.setdefault(unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()), name)
        if first != name:
            problems.append(f"{name}: the same name as {first} on a filesystem that ignores case or form of Unicode")
    return problems


def _listed(root: Path) -> dict[str, str]:
    """Read SHA256SUMS: path to digest."""
    lines = _text(root / SUMS).splitlines()
    listed = {}
    for number, line in enumerate(lines, 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if not match:
            raise InputError(f"{SUMS}: line {number} is not a digest and a path; fetch the release again")
        path = PurePosixPath(match[2])
        if path.is_absolute() or ".." in path.parts or str(path) != match[2]:
            raise InputError(f"{SUMS}: line {number} names {match[2]!r}, which is not a path in the release")
        if match[2] in listed:
            raise InputError(f"{SUMS}: line {number} names {match[2]!r} a second time; fetch the release again")
        listed[match[2]] = match[1]
    return listed


def _differences(root: Path, listed: Mapping[str, str], found: set[str]) -> list[str]:
    """Report missing, extra and changed files."""
    problems = [f"{name}: missing; fetch the release again" for name in sorted({*listed, SUMS} - found)]
    problems += [f"{name}: not part of the release; remove it" for name in sorted(found - listed.keys() - {SUMS})]
    for name in sorted(listed.keys() & found):
        if (digest := manifest.sha256(root / name)) != listed[name]:
            problems.append(f"{name}: changed: its sha256 is {digest}, and {listed[name]} was expected")
    return problems


def _contents(root: Path, listed: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Check the contents of files whose digests match; return notes and problems."""
    if MANIFEST not in listed:
        return [], [f"{SUMS}: does not list {MANIFEST}; fetch the release again"]
    try:
        raw = json.loads(_text(root / MANIFEST))
        form = raw["androstep_release"]
        if type(form) is int and form > VERSION:
            return [
                f"the release has form {form}, made by a newer AndroStep than this, which knows {VERSION}: every file "
                "is as listed; update androstep to check schemas and rows too"
            ], []
        if sums(raw["files"], listed[MANIFEST]) != _text(root / SUMS):
            return [], [f"{MANIFEST} and {SUMS} do not list the same files; fetch the release again"]
        sizes = [
            f"{row['path']}: {(root / row['path']).stat().st_size} bytes, and {row['bytes']} were expected"
            for row in raw["files"]
            if (root / row["path"]).stat().st_size != row["bytes"]
        ]
        notes, problems = _tables(root, raw["tables"], list(listed))
    except (*manifest.MALFORMED, RecursionError) as error:
        return [], [f"{MANIFEST}: not as `androstep release` writes it ({error!r}); fetch the release again"]
    if ANONYMISATION in listed and not problems:
        problems += survivors.unlike_anonymised(root)
    return notes, [*sizes, *problems]


def _tables(root: Path, stated: Mapping[str, Any], listed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Check the schemas and rows of the tables; return notes and problems."""
    notes, problems = [], []
    parts = [PurePosixPath(name) for name in listed if name.startswith(f"{parquet.DIRECTORY}/")]
    problems += [f"{part}: belongs to no table in {MANIFEST}" for part in parts if part.parts[1] not in stated]
    for name, entry in stated.items():
        if f"schemas/{name}.json" not in listed:
            problems.append(f"schemas/{name}.json: missing; fetch the release again")
            continue
        own = schema.parsed(_text(root / "schemas" / f"{name}.json"))
        known = schema.table(name) if name in schema.names() else None
        if known != own:
            version = "none" if known is None else f"version {known.version}"
            notes.append(f"table {name} is of version {own.version}, and this AndroStep has {version}; update it")
        expected = parquet.arrow(own)
        rows = 0
        for part in (part for part in parts if part.parts[1] == name):
            rows += _rows(root / part, expected, problems, str(part))
        if (rows, own.version) != (entry["rows"], entry["version"]):
            problems.append(f"table {name}: {rows} rows of version {own.version}, and {entry} was expected")
    return notes, problems


def _rows(path: Path, expected: pa.Schema, problems: list[str], name: str) -> int:
    """Return the number of rows of a file; append to `problems` if it deviates from its schema."""
    try:
        pages.check(path)
        metadata = pq.read_metadata(path)
        columns = metadata.schema.to_arrow_schema()
    except (InputError, pa.ArrowException) as error:
        problems.append(str(error).splitlines()[0])
        return 0
    if not columns.equals(expected):
        problems.append(f"{name}: its columns are not those of its schema; fetch the release again")
    if metadata.metadata:
        problems.append(f"{name}: has key-value metadata, which no release has; fetch the release again")
    return int(metadata.num_rows)


def _text(path: Path) -> str:
    return files.read_bytes(path).decode("utf-8", "surrogateescape")
