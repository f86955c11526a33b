"""Locations of captures: below a directory of this machine, or at an address of fsspec."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from androstep_analysis import capture, compare, ingest
from androstep_analysis.capture import sources
from androstep_analysis.capture.classes import NO_CLASSES, Classes
from androstep_analysis.common import manifest, pages, scratch
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest import recording

_RELEASED = "tables/captures"


class Place(NamedTuple):
    """The location of a capture: a path or an address.

    In a released dataset, it has the file below ``tables/captures`` and the capture_id.
    """

    address: str
    part: str | None = None
    capture_id: str | None = None

    def __str__(self) -> str:
        return self.address if self.part is None else f"{self.address} ({self.capture_id})"


def find(patterns: Sequence[str]) -> list[Place]:
    """Return the captures that these paths, patterns and addresses name, each once, in order.

    A directory is searched recursively for captures and released datasets; captures are not searched themselves. A file
    is taken as it is, unless the pattern has ``**``. Raises `InputError` if a pattern names nothing.
    """
    found: dict[Place, None] = {}
    for pattern in patterns:
        places = list(_remote(pattern) if "://" in pattern else _local(pattern))
        if not places:
            raise InputError(f"{pattern}: contains no capture; give a directory with captures, or a pattern in quotes")
        found |= dict.fromkeys(places)
    return list(found)


@contextlib.contextmanager
def opened(place: Place, classes: Classes = NO_CLASSES) -> Iterator[compare.Recording]:
    """Open the capture at a location, with a user's own types of files and apps.

    An address is copied to a temporary directory for that time.
    """
    with contextlib.ExitStack() as stack:
        path = Path(place.address)
        if "://" in place.address:
            path = stack.enter_context(_copied(place))
        if place.part is None:
            recording = compare.Recording.of(capture.open(path))
        else:
            (recording,) = compare.of_release(path, part=place.part, capture_id=place.capture_id)
        yield replace(recording, tables=classes.applied(recording.tables))


# -- on this machine --------------------------------------------------------------------------------------------------


def _local(pattern: str) -> Iterator[Place]:
    is_there = Path(pattern).exists() or _is_set(Path(pattern))
    done: set[Path] = set()
    for path in [Path(pattern)] if is_there else _matches(Path(pattern)):
        path = path.resolve()
        if any(parent in done for parent in (path, *path.parents)):
            continue
        if path.is_dir():
            for place in [*_below(path)] or _results(path):
                done.add(Path(place.address))
                yield place
        elif is_there or "**" not in pattern:
            yield Place(str(path))


def _matches(pattern: Path) -> list[Path]:
    if any("**" in part and part != "**" for part in pattern.parts):  # from Python 3.13 on pathlib takes it for *
        raise InputError(f"{pattern}: invalid pattern: ** must be a whole component, as in captures/**")
    top = Path(pattern.anchor or ".")
    return sorted(top.glob(str(pattern.relative_to(top) if pattern.anchor else pattern)))


def _below(directory: Path) -> Iterator[Place]:
    if (directory / manifest.FILE_NAME).is_file() or _is_set(directory):
        yield Place(str(directory))
    elif (directory / _RELEASED).is_dir():
        for file in sorted((directory / _RELEASED).rglob("*.parquet")):
            part = file.relative_to(directory / _RELEASED).as_posix()
            for capture_id in _captures(file):
                yield Place(str(directory), part, capture_id)
    else:
        for inner in sorted(directory.iterdir()):
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _below(inner)


def _results(directory: Path) -> list[Place]:
    """Return a directory without captures as one location if it has results of benchmarks or replays."""
    return [Place(str(directory))] if sources.files(directory) != (directory,) else []


def _captures(file: Path) -> list[str]:
    """Return the captures in a file of table captures. A file of a release has one."""
    pages.check(file)
    try:
        found = pl.read_parquet(file, columns=["capture_id"], glob=False)
        found = found.match_to_schema({"capture_id": pl.String})
        return found["capture_id"].drop_nulls().unique().sort().to_list()
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{file}: no table captures ({str(error).partition(chr(10))[0]}); fetch it again") from None


def _is_set(path: Path) -> bool:
    """Return whether a directory, or the common name of several files, is one recording of iotrace or blktrace."""
    try:
        return recording.is_one(path) or ingest.files(path) != (path,)
    except InputError:  # nothing has that name
        return False


def recordings(source: Path, into: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each recording at a path, and the path below `into` of its capture."""
    if not (source.exists() or _is_set(source)):
        raise InputError(f"{source}: does not exist; give a recording, or a directory with recordings")
    top = source.resolve()
    for path in _recordings(top) if top.is_dir() else [top]:
        yield path, into / (path.relative_to(top) if path != top else path.name)


def _recordings(directory: Path) -> Iterator[Path]:
    if _is_set(directory):
        yield directory
        return
    seen: set[Path] = set()
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path in seen:
            continue
        if path.is_dir():
            if not (path / manifest.FILE_NAME).is_file() and not path.is_symlink():
                yield from _recordings(path)
        else:
            seen |= set(ingest.files(path))
            yield path


# -- elsewhere --------------------------------------------------------------------------------------------------------


def _remote(pattern: str) -> list[Place]:
    with _reached(pattern) as (filesystem, top):
        return [*_found(filesystem, top)]


def _found(filesystem: Any, top: str) -> Iterator[Place]:
    top = top.rstrip("/")
    manifests = {*filesystem.glob(f"{top}/{manifest.FILE_NAME}"), *filesystem.glob(f"{top}/**/{manifest.FILE_NAME}")}
    for path in sorted(manifests):
        yield Place(filesystem.unstrip_protocol(path.rsplit("/", 1)[0]))
    parts = {
        *filesystem.glob(f"{top}/{_RELEASED}/**/*.parquet"),
        *filesystem.glob(f"{top}/**/{_RELEASED}/**/*.parquet"),
    }
    for path in sorted(parts):
        directory, _, part = path.partition(f"/{_RELEASED}/")
        with scratch.directory("collection") as copy:
            filesystem.get(path, str(copy / "part.parquet"))
            captures = _captures(copy / "part.parquet")
        for capture_id in captures:
            yield Place(filesystem.unstrip_protocol(directory), part, capture_id)


@contextlib.contextmanager
def _copied(place: Place) -> Iterator[Path]:
    """Copy the capture, or its files of a released dataset, to a temporary directory."""
    with scratch.directory("collection") as directory:
        with _reached(place.address) as (filesystem, source):
            copy = directory / Path(source).name
            if place.part is None:
                filesystem.get(source, str(copy), recursive=True)
            else:
                for path in filesystem.glob(f"{source}/tables/*/{place.part}"):
                    target = copy / Path(path).relative_to(source)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with filesystem.open(path, "rb") as stored, target.open("wb") as kept:
                        shutil.copyfileobj(stored, kept)
        yield copy


@contextlib.contextmanager
def _reached(address: str) -> Iterator[tuple[Any, str]]:
    """Yield the filesystem of an address and the path in it.

    Raises `InputError` for all failures while it is in use.
    """
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{address}: reading from an address needs fsspec; install androstep[cluster]") from None
    try:
        filesystem, path = fsspec.core.url_to_fs(address)
        yield filesystem, str(path)
    except InputError:
        raise
    except Exception as error:  # each filesystem raises what its own library does
        raise InputError(f"{address}: cannot be reached ({str(error) or type(error).__name__})") from None
