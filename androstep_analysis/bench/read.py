"""Reading results, whatever tool they are of: iobench's records, fio's text or JSON, Mobibench's text."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import results
from androstep_analysis.bench import fio, mobibench, records
from androstep_analysis.bench.tables import RUN, TABLES
from androstep_analysis.errors import InputError, printable
from androstep_analysis.ingest.source import head, load
from androstep_analysis.results import Kind, Results


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

    Parameters
    ----------
    *paths : path-like
        Files that iobench (``--record``), fio (its text or JSON) or Mobibench (its text) wrote, plain or compressed,
        and captures of `androstep bench`.

    Returns
    -------
    Results
        With tables bench_runs, bench, bench_series and bench_ops (docs/tables.md). A run that failed is there and
        marked invalid.

    Raises
    ------
    InputError
        For a file that is of no known tool, or damaged beyond use, and where the same results are given twice.

    Warns
    -----
    LossWarning
        Of what could not be read.

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
    """The results in one file; like `read`, but losses are told in the answer only."""
    start = head(path)
    for format in FORMATS:
        if format.sniff(start):
            return format.read(path)
    known = ", ".join(format.title for format in FORMATS)
    raise InputError(f"{printable(str(path))}: no results of a benchmark that is known; known are {known}")


def _told(runs: pl.DataFrame) -> dict[str, Any]:
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
    told=_told,
)
