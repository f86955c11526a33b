"""Reading results, whatever tool they are of: iobench's records, fio's text or JSON, Mobibench's text."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from androstep_analysis import manifest
from androstep_analysis.bench import fio, mobibench, records
from androstep_analysis.bench.tables import RUN, TABLES, Results
from androstep_analysis.errors import InputError, LossWarning, printable
from androstep_analysis.ingest.source import head, load


@dataclass(frozen=True)
class Format:
    """A kind of results: whether the first 64 KiB (decompressed) of a file are of it, and how to read the file."""

    title: str
    sniff: Callable[[bytes], bool]
    read: Callable[[Path], Results]


def _text(read: Callable[[str, bytes], Results]) -> Callable[[Path], Results]:
    """A reader of a file from a reader of its text."""

    def whole(path: Path) -> Results:
        source = load(path)
        try:
            found = read(source.data.decode("utf-8", "replace"), source.data)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            what = printable(f"{type(error).__name__}: {error}")
            raise InputError(f"{source.name}: not as its tool writes it ({what}); give its output unchanged") from None
        return replace(found, losses=(*source.losses, *found.losses))

    return whole


FORMATS: tuple[Format, ...] = (
    Format("iobench records", records.sniff, records.read),
    Format("fio output", fio.sniff, _text(fio.read)),
    Format("Mobibench output", mobibench.sniff, _text(mobibench.read)),
)


def sniff(path: Path) -> bool:
    """Whether a file, plain or compressed, holds results of a benchmark."""
    start = head(path)
    return any(format.sniff(start) for format in FORMATS)


def read(*paths: str | os.PathLike[str]) -> Results:
    """The results in files or capture directories, together.

    Tables are bench_runs, bench, bench_series and bench_ops as in schemas/; a run that failed is there and marked
    invalid. Warns (`LossWarning`) of what could not be read. Raises `InputError` for a file that is of no known tool,
    or damaged beyond use, and where the same results are given twice.
    """
    files = [file for path in paths for file in _files(Path(path))]
    if not files:
        raise InputError("no file with results was given; name one, or a capture of `androstep bench`")
    found = together([read_file(file) for file in files])
    if found.losses:
        warnings.warn("; ".join(loss.message for loss in found.losses), LossWarning, stacklevel=2)
    return found


def together(parts: list[Results]) -> Results:
    """The results of several files as one; their clocks must be the same, or none is told."""
    tables = {name: pl.concat([part.tables[name] for part in parts]) for name in TABLES}
    doubled = tables["bench_runs"].filter(pl.struct(RUN).is_duplicated())
    if not doubled.is_empty():
        raise InputError(f"run {doubled['run_id'][0]} is in two of the files; give each result once")
    clocks = {part.clock for part in parts}
    return Results(
        format=", ".join(dict.fromkeys(part.format for part in parts)),
        tables=tables,
        losses=tuple(loss for part in parts for loss in part.losses),
        clock=clocks.pop() if len(clocks) == 1 else "unknown",
        monotonic_offset_ns=_same([part.monotonic_offset_ns for part in parts]),
        realtime_offset_ns=_same([part.realtime_offset_ns for part in parts]),
    )


def _same(values: list[int | None]) -> int | None:
    """The value that all have: of one file, or of none."""
    return values[0] if len(set(values)) == 1 else None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    described = manifest.read(path)
    files = [manifest.verify(source, path) for source in described.of_role("bench")]
    if not files:
        raise InputError(f"{path}: a capture without results of a benchmark; make one with `androstep bench`")
    return files


def read_file(path: Path) -> Results:
    """The results in one file; like `read`, but losses are told in the answer only."""
    start = head(path)
    for format in FORMATS:
        if format.sniff(start):
            return format.read(path)
    known = ", ".join(format.title for format in FORMATS)
    raise InputError(f"{printable(str(path))}: no results of a benchmark that is known; known are {known}")
