"""Reading of results of all tools: iobench, fio, Mobibench, IOzone, AndroBench."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from androstep_analysis.bench import androbench, fio, iozone, mobibench, records
from androstep_analysis.bench.tables import RUN, TABLES
from androstep_analysis.common import results
from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.common.results import Kind, Results
from androstep_analysis.ingest.archive import Archive
from androstep_analysis.ingest.source import Source, head, load

_LINE_ENDS: Final = re.compile(rb"(?<![ \t\r])[ \t\r]+\n")


@dataclass(frozen=True)
class Format:
    """A kind of results. `sniff` recognizes a file by its first 64 KiB (decompressed), and `read` reads it."""

    title: str
    sniff: Callable[[bytes], bool]
    read: Callable[[Source], Results]


def _text(read: Callable[[str, bytes], Results]) -> Callable[[Source], Results]:
    """Return a reader of a file from a reader of its text."""

    def whole(source: Source) -> Results:
        try:
            found = read(_without_line_ends(source.data).decode("utf-8", "replace"), source.data)
        except InputError as error:
            raise InputError(f"{source.name}: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            what = printable(f"{type(error).__name__}: {error}")
            raise InputError(
                f"{source.name}: not in the format of its tool ({what}); give the unchanged output"
            ) from None
        return replace(found, losses=(*source.losses, *found.losses))

    return whole


FORMATS: tuple[Format, ...] = (
    Format("iobench records", records.sniff, records.read),
    Format("fio output", fio.sniff, _text(fio.read)),
    Format("Mobibench output", mobibench.sniff, _text(mobibench.read)),
    Format("IOzone output", iozone.sniff, _text(iozone.read)),
    Format("AndroBench results", androbench.sniff, _text(androbench.read)),
)

_SMALL_BYTES = 64 << 20
"""An archive of results is not larger. A larger archive is recognized by its first files."""


def sniff(path: Path) -> bool:
    """Return whether a file, plain or compressed, holds results of a benchmark, or is a tar archive of such files."""
    start = head(path)
    first = Source.of(path, start)
    if not Archive.is_one(first):
        return _format_of(start) is not None
    archive = Archive(load(path) if path.stat().st_size <= _SMALL_BYTES else first)
    return any(_format_of(archive.head(name)) for name in archive.names)


def _format_of(start: bytes) -> Format | None:
    """Return the format of a file that begins with `start`."""
    text = _without_line_ends(start)
    return next((format for format in FORMATS if format.sniff(text)), None)


def _without_line_ends(data: bytes) -> bytes:
    """Return a text without spaces and carriage returns at the ends of its lines."""
    return data if b"\0" in data else _LINE_ENDS.sub(b"\n", data)


def read(*paths: str | os.PathLike[str]) -> Results:
    """Return the results in files or capture directories, combined.

    Parameters
    ----------
    *paths : path-like
        Captures of `androstep bench`, and files, plain, compressed or in tar archives, or directories of them. Files
        may be from iobench (``--record``), fio (text or JSON), Mobibench or IOzone (text), or AndroBench (its
        ``history.db``, output of sqlite3, or the text of its screen).

    Returns
    -------
    Results
        The results, with tables bench_runs, bench, bench_series and bench_ops (docs/tables.md). Failed runs are
        included and marked invalid.

    Raises
    ------
    InputError
        If a file is of no known tool or too damaged to read, or if the same results are given twice.

    Warns
    -----
    LossWarning
        For data that could not be read.

    References
    ----------
    ``probes/FORMAT.md``, of iobench's records.

    Examples
    --------
    >>> results = bench.read("datasets/bench/ext4_peers/writes-0.rec.xz", "datasets/bench/ext4_peers/writes-0.json.xz")
    >>> sorted(results.tables["bench_runs"]["tool"].unique())
    ['fio', 'iobench']
    """
    return results.read(KIND, paths)


def read_file(path: Path) -> Results:
    """Return the results in one file or tar archive, as `read`, without warnings: losses are part of the result."""
    source = load(path)
    if Archive.is_one(source):
        return _read_archive(Archive(source))
    format = _format_of(source.head)
    if format is None:
        known = ", ".join(format.title for format in FORMATS)
        raise InputError(f"{source.name}: not results of a known benchmark; known are {known}")
    return format.read(source)


def _read_archive(archive: Archive) -> Results:
    """Return the combined results in an archive. Duplicates count once, and damaged files are skipped with a loss."""
    parts: dict[bytes, Results] = {}
    losses = archive.losses
    for name in archive.names:
        if (format := _format_of(archive.head(name))) is None:
            continue
        source = archive.load(name)
        try:
            parts.setdefault(hashlib.sha256(source.data).digest(), format.read(source))
        except InputError as error:
            losses += (Loss("unreadable", 1, str(error)),)
    if not parts:
        why = f" ({losses[0].message})" if losses else ""
        raise InputError(f"{printable(str(archive.path))}: this tar archive contains no readable results{why}")
    found = results.together(KIND, list(parts.values()))
    return replace(found, losses=(*losses, *found.losses))


def _runs_summary(runs: pl.DataFrame) -> dict[str, Any]:
    return {
        "tests": sorted(runs["test"].cast(pl.String).unique()),
        "runs": runs.height,
        "invalid": runs.filter(~pl.col("valid")).height,
    }


KIND = Kind(
    role="bench",
    noun="results of a benchmark",
    command="androstep bench",
    tables=TABLES,
    key=RUN,
    facts={"kernel": "kernel", "fs_type": "fs_type", "storage_model": "device_model", "workload": "command"},
    sniff=sniff,
    read_file=read_file,
    summary=_runs_summary,
)
