"""Capture directories: opened, and made of what was recorded."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final

from androstep_analysis import ingest
from androstep_analysis.capture import cache, tool_results
from androstep_analysis.capture.capture import Capture
from androstep_analysis.capture.sources import Description, capture_of, files, manifest_of
from androstep_analysis.capture.tables import (
    derived,
    facts_of,
    in_place,
    key,
    names,
    results_of,
    staging_of,
    store,
    witnesses_of,
)
from androstep_analysis.common import manifest, scratch
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import Source
from androstep_analysis.ingest import recording

NOTHING_ELSE: Final = Description()
"""Nothing is known but what is in the recording."""


def open(path: str | PathLike[str], *, csv_columns: str | None = None, format: str | None = None) -> Capture:
    """The capture in a directory, or a foreign trace or a result as a capture of its own.

    A directory's derived tables are used where they were made from the same sources by the same code, and made again
    otherwise. A file that is a part of a capture, or of what iotrace recorded, stands for all of it.

    Parameters
    ----------
    path : path-like
        Directory of a capture or of iotrace, trace, or result of a benchmark, replay or workload.
    csv_columns, format : str, optional
        Those of `Description`; a directory's manifest knows both.

    Returns
    -------
    Capture
        With its tables, which are not read before they are used.

    Raises
    ------
    InputError
        For what cannot be read.

    Warns
    -----
    LossWarning
        Of what was lost.

    Examples
    --------
    >>> capture = androstep.open("datasets/demo")
    >>> capture.format
    'trace.dat'
    """
    arguments = (Path(path).absolute(), csv_columns, format)
    opened = _opened(*arguments)
    opened.opened_by = (_opened, arguments)
    return opened


def _opened(path: Path, csv_columns: str | None, format: str | None) -> Capture:
    if (directory := capture_of(path)) is not None:
        path = directory
    if path.is_dir() and not recording.is_one(path) and files(path) == (path,):
        return _open_directory(path)
    described = manifest_of([path], Description(csv_columns=csv_columns, format=format))
    results_by_role = results_of(described, in_place)
    spool = ingest.Spool()
    staging = staging_of(described, in_place, results_by_role, spool)
    tables, about = derived(staging, results_by_role, witnesses_of(described, in_place), spool)
    return Capture(
        path.name,
        replace(described, facts=facts_of(staging, described) | tool_results.facts(results_by_role)),
        tables,
        about,
    )


def create(
    sources: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    description: Description = NOTHING_ELSE,
) -> Capture:
    """Make a capture directory from what was recorded, and what else is known of it.

    Traces, results, programs and listings are copied to ``raw/``; images stay where they are, named by path and sha256.

    Parameters
    ----------
    sources : sequence of path-like
        Trace files, or a directory of iotrace. Results of benchmarks and of replays are sources like traces, alone or
        beside one, and so are the programs of the replays beside their results.
    out : path-like
        The directory, which must not exist yet; it appears only when everything is in it.
    description : Description
        What stands in none of the sources.

    Returns
    -------
    Capture
        As `open` gives it of `out`.

    Raises
    ------
    InputError
        Where `out` exists already, and for sources that are not there or cannot be read.

    Warns
    -----
    LossWarning
        Of what was lost.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as place:
    ...     trace = Path(place, "trace.csv")
    ...     _ = trace.write_text("0,read,8,4096\\n1,write,16,8192\\n")
    ...     columns = androstep.Description(csv_columns="time:s,op,offset:sectors,size:B")
    ...     made = androstep.create([trace], Path(place, "mycapture"), columns)
    ...     made.population["bytes"]
    12288
    """
    out = Path(out)
    refuse_existing(out)
    described = manifest_of([Path(source) for source in sources], description)
    out.parent.mkdir(parents=True, exist_ok=True)
    with staged_directory(out) as directory:
        raw = directory / "raw"
        raw.mkdir()
        results_by_role = results_of(described, in_place)
        with cache.scratch(directory / cache.TABLES) as place:
            spool = ingest.Spool(place)
            staging = staging_of(described, in_place, results_by_role, spool)
            described = replace(
                described,
                sources=tuple(
                    source if source.role.startswith("image") else _keep(source, raw, number)
                    for number, source in enumerate(described.sources)
                ),
                facts=facts_of(staging, described)
                | tool_results.facts(results_by_role)
                | {**description.facts, "clock": staging.clock},
                realtime_offset_ns=staging.realtime_offset_ns,
                lost_events=None if described.lost_events is None else staging.lost_events,
            )
            manifest.write(described, directory)
            store(staging, results_by_role, described, directory, directory / cache.TABLES, spool, place)
    return _open_directory(out)


def refuse_existing(out: Path) -> None:
    """Raises `InputError` where `out`, which is to become a capture, is there already."""
    if out.exists():
        raise InputError(f"{out}: exists already; choose another name, or remove it first")


def _open_directory(directory: Path) -> Capture:
    described = manifest.read(directory)
    try:
        str(directory).encode("utf-8")
    except UnicodeEncodeError:  # polars takes no other paths.
        raise InputError(f"{directory}: the path of a capture must be UTF-8; rename the directory") from None
    own = cache.directory_of(directory)
    places = dict.fromkeys((directory / cache.TABLES, own))
    stored = next(filter(None, (cache.load(names(described), place, key(described)) for place in places)), None)
    if stored is None:
        find = functools.partial(manifest.verify, directory=directory)
        results_by_role = results_of(described, find)
        with cache.scratch(own) as place:
            spool = ingest.Spool(place)
            staging = staging_of(described, find, results_by_role, spool)
            stored = store(staging, results_by_role, described, directory, own, spool, place)
    return Capture(directory.name, described, *stored)


def _keep(source: Source, raw: Path, number: int) -> Source:
    """Copy a source into `raw/` under its own name, made unique by a number where two have the same."""
    path = Path(source.path)
    name = path.name
    while (raw / name).exists():
        name = f"{number}-{name}"
    digest = manifest.sha256(path, copy_to=raw / name)
    return replace(source, path=f"raw/{name}", bytes=(raw / name).stat().st_size, sha256=digest)


@contextlib.contextmanager
def staged_directory(out: Path) -> Iterator[Path]:
    """A directory beside `out` that becomes `out` at the end, and nothing at all if anything goes wrong."""
    with scratch.directory(out.name, out.parent) as staged:
        yield staged
        staged.chmod(0o755)
        staged.rename(out)
