"""Open capture directories and create them from recordings."""

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
from androstep_analysis.capture.classes import NO_CLASSES, Classes, read
from androstep_analysis.capture.sources import Description, capture_of, files, manifest_of
from androstep_analysis.capture.tables import (
    derived,
    evidence_of,
    facts_of,
    in_place,
    key,
    names,
    results_of,
    staging_of,
    store,
)
from androstep_analysis.common import manifest, scratch
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import Manifest, Source
from androstep_analysis.ingest import recording
from androstep_analysis.ingest.staging import Staging

NOTHING_ELSE: Final = Description()
"""A description without any information in addition to the recording."""


def open(
    path: str | PathLike[str],
    *,
    csv_columns: str | None = None,
    format: str | None = None,
    classes: str | PathLike[str] | None = None,
) -> Capture:
    """Open a capture directory, or a single trace or result as a capture.

    The cached tables of a directory are used if the same code derived them from the same sources. Otherwise they are
    derived again. For a file that is part of a capture or of a recording by iotrace, the whole of it is opened.

    Parameters
    ----------
    path : path-like
        Directory of a capture or of iotrace, trace, or result of a benchmark, replay or workload.
    csv_columns, format : str, optional
        As in `Description`. The manifest of a capture directory contains both.
    classes : path-like, optional
        A TOML file with your own types of files and names of apps (``docs/classes.md``). The stored tables do not
        change.

    Returns
    -------
    Capture
        The capture. Its tables are LazyFrames, which are read on use.

    Raises
    ------
    InputError
        If the path cannot be read, or a rule of `classes` is invalid.

    Warns
    -----
    LossWarning
        If part of the recording was lost.

    Examples
    --------
    >>> capture = androstep.open("datasets/demo")
    >>> capture.format
    'trace.dat'
    """
    arguments = (Path(path).absolute(), csv_columns, format, read(classes))
    opened = _opened(*arguments)
    opened.opened_by = (_opened, arguments)
    return opened


def _opened(path: Path, csv_columns: str | None, format: str | None, classes: Classes) -> Capture:
    if (directory := capture_of(path)) is not None:
        path = directory
    if path.is_dir() and not recording.is_one(path) and files(path) == (path,):
        return _open_directory(path, classes)
    described = manifest_of([path], Description(csv_columns=csv_columns, format=format))
    results_by_role = results_of(described, in_place)
    spool = ingest.Spool()
    staging = staging_of(described, in_place, results_by_role, spool)
    tables, about = derived(staging, results_by_role, evidence_of(described, in_place), spool)
    return Capture(
        path.name,
        replace(
            described,
            facts=facts_of(staging, described) | tool_results.facts(results_by_role),
            events=_events(described, staging),
        ),
        tables,
        about,
        classes=classes,
    )


def create(
    sources: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    description: Description = NOTHING_ELSE,
) -> Capture:
    """Create a capture directory from recordings and a description.

    Traces, results, programs and listings are copied to ``raw/``. Images are not copied; the manifest records their
    paths and digests.

    Parameters
    ----------
    sources : sequence of path-like
        Trace files, or a directory of iotrace. Results of benchmarks and replays may be added to a trace or be the only
        sources. Programs of replays may be added to the results.
    out : path-like
        The directory, which must not exist. It is created atomically, after all its files are written.
    description : Description
        Information that is not in the sources.

    Returns
    -------
    Capture
        The new capture, as `open` returns it.

    Raises
    ------
    InputError
        If `out` exists already, or if a source does not exist or cannot be read.

    Warns
    -----
    LossWarning
        If part of the recording was lost.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     trace = Path(directory, "trace.csv")
    ...     _ = trace.write_text("0,read,8,4096\\n1,write,16,8192\\n")
    ...     columns = androstep.Description(csv_columns="time:s,op,offset:sectors,size:B")
    ...     new = androstep.create([trace], Path(directory, "mycapture"), columns)
    ...     new.population["bytes"]
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
        with cache.scratch(directory / cache.TABLES) as scratch_directory:
            spool = ingest.Spool(scratch_directory)
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
                events=_events(described, staging),
                lost_events=None if described.lost_events is None else staging.lost_events,
            )
            manifest.write(described, directory)
            store(staging, results_by_role, described, directory, directory / cache.TABLES, spool, scratch_directory)
    return _open_directory(out)


def _events(described: Manifest, staging: Staging) -> tuple[str, ...] | None:
    """Return the names of the events that were recorded, by the manifest or else by the reader; None if unknown."""
    if described.events is not None or staging.recorded is None:
        return described.events
    return tuple(sorted(staging.recorded))


def refuse_existing(out: Path) -> None:
    """Raise `InputError` if `out`, the directory of a new capture, exists already."""
    if out.exists():
        raise InputError(f"{out}: exists already; choose another name, or remove it first")


def _open_directory(directory: Path, classes: Classes = NO_CLASSES) -> Capture:
    described = manifest.read(directory)
    try:
        str(directory).encode("utf-8")
    except UnicodeEncodeError:  # polars accepts only UTF-8 paths.
        raise InputError(f"{directory}: the path of a capture must be UTF-8; rename the directory") from None
    own = cache.directory_of(directory)
    directories = dict.fromkeys((directory / cache.TABLES, own))
    stored = next(filter(None, (cache.load(names(described), path, key(described)) for path in directories)), None)
    if stored is None:
        find = functools.partial(manifest.verify, directory=directory)
        results_by_role = results_of(described, find)
        with cache.scratch(own) as scratch_directory:
            spool = ingest.Spool(scratch_directory)
            staging = staging_of(described, find, results_by_role, spool)
            stored = store(staging, results_by_role, described, directory, own, spool, scratch_directory)
    return Capture(directory.name, described, *stored, classes=classes)


def _keep(source: Source, raw: Path, index: int) -> Source:
    """Copy a source into `raw/` under its own name, with its index as prefix if that name exists."""
    path = Path(source.path)
    name = path.name
    while (raw / name).exists():
        name = f"{index}-{name}"
    digest = manifest.sha256(path, copy_to=raw / name)
    return replace(source, path=f"raw/{name}", bytes=(raw / name).stat().st_size, sha256=digest)


@contextlib.contextmanager
def staged_directory(out: Path) -> Iterator[Path]:
    """Provide a directory next to `out` that is renamed to `out` at the end, and removed after an error."""
    with scratch.directory(out.name, out.parent) as staged:
        yield staged
        staged.chmod(0o755)
        staged.rename(out)
