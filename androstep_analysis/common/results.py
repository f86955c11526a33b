"""Read and combine the results of tools (benchmarks, replays, workloads) from files and captures."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis.common import manifest, schema
from androstep_analysis.common.errors import InputError, Loss, LossWarning


@dataclass(frozen=True)
class Results:
    """The results of one file, or of several together.

    Attributes
    ----------
    format : str
        The tool that wrote them; for several files, the distinct names.
    tables : dict of DataFrame
        The tables of their kind, with the columns and types of the schemas (docs/tables.md).
    losses : tuple of Loss
        The parts of the files that could not be read.
    clock : str
        The clock of all times; ``unknown`` if the files use different clocks.
    monotonic_offset_ns, realtime_offset_ns : int, optional
        CLOCK_MONOTONIC and CLOCK_REALTIME minus that clock, if the files record them.
    """

    format: str
    tables: dict[str, pl.DataFrame]
    losses: tuple[Loss, ...] = ()
    clock: str = "unknown"
    monotonic_offset_ns: int | None = None
    realtime_offset_ns: int | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of results.

    Attributes
    ----------
    role : str
        The role of its files in a capture (`manifest.ROLES`).
    noun, command : str
        The name of such results, and the command that makes them, for messages.
    tables : tuple of str
        The tables. The first has one row for each run, identified by the columns `key`.
    key : tuple of str
        The key columns of the first table.
    facts : mapping of str
        Facts of the machine (`manifest.FACTS`) and the columns of the first table that hold them.
    sniff : callable
        Returns whether a file holds such results.
    read_file : callable
        Reads one file.
    summary : callable
        Returns a summary of the first table as JSON values, for the capture's description.
    """

    role: str
    noun: str
    command: str
    tables: tuple[str, ...]
    key: tuple[str, ...]
    facts: Mapping[str, str]
    sniff: Callable[[Path], bool]
    read_file: Callable[[Path], Results]
    summary: Callable[[pl.DataFrame], dict[str, Any]]


def read(kind: Kind, paths: Sequence[str | os.PathLike[str]], *, of_folder: bool = False) -> Results:
    """Read the results in files or capture directories into one `Results`.

    - Lost parts are reported as a `LossWarning`.
    - A damaged file raises `InputError`. Among several files of a directory (or with `of_folder`) it is a loss instead.
    - Results that occur in two of the files raise `InputError`.
    """
    parts: list[Results] = []
    damaged: list[Loss] = []
    for path in map(Path, paths):
        files_there = _files(kind, path)
        for file in files_there:
            try:
                parts.append(kind.read_file(file))
            except InputError as error:
                if not of_folder and len(files_there) == 1:
                    raise
                damaged.append(Loss("unreadable", 1, str(error)))
    if not parts:
        nothing = f"no file with results was given; name one, or a capture of `{kind.command}`"
        raise InputError(damaged[0].message if damaged else nothing)
    combined = together(kind, parts)
    combined = replace(combined, losses=(*damaged, *combined.losses))
    if combined.losses:
        warnings.warn("; ".join(loss.message for loss in combined.losses), LossWarning, stacklevel=3)
    return combined


def together(kind: Kind, parts: Sequence[Results]) -> Results:
    """Combine the results of several files; the clock is ``unknown`` if they differ in it."""
    tables = {name: pl.concat([part.tables[name] for part in parts]) for name in kind.tables}
    runs = tables[kind.tables[0]]
    duplicates = runs.filter(pl.struct(kind.key).is_duplicated())
    if not duplicates.is_empty():
        name = kind.key[0]
        raise InputError(f"{name.removesuffix('_id')} {duplicates[name][0]} is in two files; give each result once")
    clocks = {part.clock for part in parts}
    return Results(
        format=", ".join(dict.fromkeys(part.format for part in parts)),
        tables=tables,
        losses=tuple(loss for part in parts for loss in part.losses),
        clock=clocks.pop() if len(clocks) == 1 else "unknown",
        monotonic_offset_ns=_same([part.monotonic_offset_ns for part in parts]),
        realtime_offset_ns=_same([part.realtime_offset_ns for part in parts]),
    )


def fit(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Cast a frame to the schema of table `name`: missing columns become null, additional ones are removed.

    Raises `InputError` for a value that the schema does not allow, which a newer version of the tool may have written.
    """
    columns = [column for column in schema.table(name).columns if column.name in frame.columns]
    try:
        fitted = frame.select(pl.col(column.name).cast(column.polars) for column in columns)
        return schema.complete(fitted, name)
    except (pl.exceptions.InvalidOperationError, schema.SchemaError) as error:
        raise InputError(f"table {name}: {str(error).splitlines()[0]}; update androstep or the probe") from None


def _same(values: list[int | None]) -> int | None:
    """Return the common value of all files, or None if they differ."""
    return values[0] if len(set(values)) == 1 else None


def files(kind: Kind, directory: Path) -> list[Path]:
    """Return the files with such results below a directory, sorted by path."""
    return [path for path in sorted(directory.rglob("*")) if path.is_file() and kind.sniff(path)]


def _files(kind: Kind, path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if not path.is_dir():
        return [path]
    if not (path / manifest.FILE_NAME).exists():
        matching = files(kind, path)
        if not matching:
            raise InputError(f"{path}: has no {kind.noun} and is not a capture; make one with `{kind.command}`")
        return matching
    described = manifest.read(path)
    sources = [manifest.verify(source, path) for source in described.of_role(kind.role)]
    if not sources:
        raise InputError(f"{path}: a capture without {kind.noun}; make one with `{kind.command}`")
    return sources
