"""Find the format of a recording and read it into tables.

A format is a module with two functions, and one row in `FORMATS`:

- ``sniff(head: bytes) -> bool`` returns whether the first 64 KiB of a file, decompressed, look like the format.
- ``read(source: Source, spool: Spool) -> Staging`` reads the whole file. Its rows go to the spool.

A reader never raises for damaged input. It returns what it could read, and counts the rest in `Staging.losses`.

Some formats are a set of files, such as blktrace with one file per CPU. Such a reader recognises any one member and
finds the other ones with `Source.siblings`.

Other packages can add formats as entry points (`plugins`). They are tried after the formats in this package.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError, Loss, LossWarning, printable
from androstep_analysis.ingest import (
    clock,
    closest,
    histograms,
    others,
    plugins,
    procmon,
    recording,
    repeats,
    spacing,
    staging,
    tasks,
)
from androstep_analysis.ingest.archive import ZIP, Archive
from androstep_analysis.ingest.block import biosnoop, blkparse, blktrace, most, opencas, oraclegeneral
from androstep_analysis.ingest.block import csv as block_csv
from androstep_analysis.ingest.format import Format
from androstep_analysis.ingest.ftrace import atrace, systrace, tracedat
from androstep_analysis.ingest.ftrace import raw as ftrace_raw
from androstep_analysis.ingest.ftrace import text as ftrace_text
from androstep_analysis.ingest.perfetto import trace as perfetto
from androstep_analysis.ingest.source import Source, head, load, opened
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.ingest.syscalls import io_tracer, iolog, ioshark, mobigen, perf_trace, slower, strace

__all__ = ["FORMATS", "Format", "Loss", "Source", "Spool", "Staging", "load", "read"]


_BLOCK = ("block_events",)
_CALLS = ("syscalls",)

_CSV = Format("block CSV", block_csv.sniff, block_csv.read, tables=_BLOCK)

FORMATS: tuple[Format, ...] = (
    Format("trace.dat", tracedat.sniff, tracedat.read),
    Format("blktrace", blktrace.sniff, blktrace.read, blktrace.members, tables=_BLOCK),
    Format("raw ftrace pages", ftrace_raw.sniff, ftrace_raw.read, ftrace_raw.members),
    Format("Perfetto trace", perfetto.sniff, perfetto.read),
    Format("Open-CAS trace", opencas.sniff, opencas.read, tables=_BLOCK),
    Format("ioshark workload", ioshark.sniff, ioshark.read, tables=_CALLS),
    Format("fio iolog", iolog.sniff, iolog.read, tables=(*_BLOCK, *_CALLS)),
    Format("MobiGen script", mobigen.sniff, mobigen.read, tables=_CALLS),
    Format("systrace HTML", systrace.sniff, systrace.read),
    Format("atrace output", atrace.sniff, atrace.read),
    _CSV,
    Format("biosnoop list", biosnoop.sniff, biosnoop.read, tables=_BLOCK),
    Format("ext4slower list", slower.sniff, slower.read, tables=_CALLS),
    Format("io-tracer calls", io_tracer.sniff, io_tracer.read, tables=_CALLS),
    Format("perf trace output", perf_trace.sniff, perf_trace.read, tables=_CALLS),
    Format("MOST .po", most.sniff, most.read, tables=_BLOCK),
    Format("blkparse text", blkparse.sniff, blkparse.read, tables=_BLOCK),
    Format("ftrace text", ftrace_text.sniff, ftrace_text.read),
    Format("strace log", strace.sniff, strace.read, tables=_CALLS),
    Format("procmon samples", procmon.sniff, procmon.read),
    Format("oracleGeneral", oraclegeneral.sniff, oraclegeneral.read, tables=_BLOCK),
)
"""The formats of this package, in the order in which they are tried: containers before what they contain."""


_OF_NUMBERS = {"block CSV", "fio iolog", "oracleGeneral", "MOST .po"}


def files(path: Path, format: str | None = None) -> tuple[Path, ...]:
    """Return all files of the recording at `path`.

    - A file yields itself and the other members of its set, such as the files of the other CPUs of blktrace.
    - A directory, or the common name of a set, yields all files of the sets found there.
    - Any other path yields itself.

    `format` is as in `read`.
    """
    stated = None if format is None else _named(format)
    paths: dict[Path, None] = {}
    for first in _firsts(path):
        recognised = stated or _format_of(head(first))
        names = recognised.members(opened(first)) if recognised else ()
        paths |= dict.fromkeys(first.with_name(name) for name in names) or {first: None}
    return tuple(paths)


def _firsts(path: Path) -> list[Path]:
    """Return one file of each set of files at `path`."""
    if path.is_file() and path.stat().st_size:
        return [path]
    return blktrace.first_members(path) or ftrace_raw.first_members(path) or [path]


def check(path: Path) -> None:
    """Raise `InputError` if a file's first bytes show that it is no recording, as `read` does for the whole file."""
    source = spacing.printed(Source.of(path, head(path)))
    if not source.size or source.head.startswith(ZIP) or Archive.is_one(source):
        return
    if others.document(source.head) is None and not any(map(_format_of, _heads(source))):
        raise InputError(f"{source.name}: {_advice(source)}")


def read(
    *paths: str | os.PathLike[str],
    spool: Spool | None = None,
    csv_columns: str | None = None,
    format: str | None = None,
    samples: Sequence[Path] = (),
    phone: Sequence[Path] = (),
) -> Staging:
    """Read one recording from one file, or from several files of one format, and return its tables and losses.

    Parameters
    ----------
    *paths
        Files, directories, or common names of sets of files. Any one file of a set is enough (`files`). The files may
        be compressed or in an archive.
    spool
        Receives the rows, and stores the tables in its directory if it has one.
    csv_columns
        The columns of a CSV file (`block_csv.Columns.parse`). Implies that the files are CSV.
    format
        The title of the format in `FORMATS`. Without it, the first bytes of each file decide.
    samples
        Files of procmon that were sampled during the recording.
    phone
        Perfetto traces that the same phone recorded at the same time (`perfetto.with_phone`).

    Warns
    -----
    LossWarning
        Once for each file of which a part was lost.

    Raises
    ------
    InputError
        If a file is of no known format, or contains no event.
    """
    spool = spool or Spool()
    stated = _stated(format, csv_columns)
    parts: list[Staging] = []
    done: set[Path] = set()
    is_of_machine = True
    for first in (first for path in paths for first in _firsts(Path(path))):
        if first not in done:
            part, members, recognised = _read(first, spool, stated)
            parts.append(part)
            done.update(first.with_name(name) for name in members)
            is_of_machine &= recognised.tables is None
    merged = staging.merge(parts)
    gaps = clock.gaps((part.first_ns, part.last_ns) for part in parts) if is_of_machine else ()
    if losses := clock.lost_between(gaps):
        warnings.warn(losses[0].message, LossWarning, stacklevel=2)
        merged = replace(merged, losses=merged.losses + losses, jumps=tuple(sorted({*merged.jumps, *gaps})))
    if merged.tasks is None:
        block = spool.table("block_events") if spool.rows("block_events") else schema.empty("block_events")
        merged = replace(merged, tasks=tasks.seen(block))
    for path in phone:
        merged = perfetto.with_phone(merged, path, spool)
    return with_samples(merged, samples, spool)


def with_samples(recorded: Staging, samples: Sequence[Path], spool: Spool) -> Staging:
    """Return `recorded` with the samples of these procmon files, and with its tables.

    The rows of `recorded` must be in `spool`.

    Warns
    -----
    LossWarning
        If a part of a file was lost.

    Raises
    ------
    InputError
        If the clock of the samples cannot be related to the clock of the recording.
    """
    for path in samples:
        earlier_losses = recorded.losses
        recorded = procmon.with_samples(recorded, path, spool)
        if losses := recorded.losses[len(earlier_losses) :]:
            message = "; ".join(loss.message for loss in losses)
            warnings.warn(f"{printable(str(path))}: {message}", LossWarning, stacklevel=3)
    tables = {name: spool.table(name) for name in staging.TABLES if spool.rows(name)}
    jumps = clock.jumps(tables, recorded.first_ns, recorded.last_ns)
    losses = (*clock.jumped(jumps), *_oversized(spool.nr_oversized))
    if (block := tables.get("block_events")) is not None:
        losses += repeats.repeated(block) + clock.unordered(block, recorded.issue_error_ns)
    for loss in losses:
        warnings.warn(loss.message, LossWarning, stacklevel=3)
    return replace(
        recorded,
        tables=tables,
        losses=(*recorded.losses, *losses),
        jumps=tuple(sorted({*recorded.jumps, *jumps})),
    )


def _oversized(count: int) -> tuple[Loss, ...]:
    message = f"{count} block events state a length of over 2 TiB, which no request has; their lengths are unknown"
    return (Loss("unreadable", count, message, _BLOCK),) if count else ()


def _stated(format: str | None, csv_columns: str | None) -> Format | None:
    """Return the format that the caller asks for, or None if the files are to be recognised."""
    stated = None if format is None else _named(format)
    if csv_columns is None:
        return stated
    if stated not in (None, _CSV):
        raise InputError(f"CSV columns cannot be used with format {format}; omit one of the two")
    return replace(_CSV, read=functools.partial(block_csv.read, columns=block_csv.Columns.parse(csv_columns)))


def _named(title: str) -> Format:
    for format in _formats():
        if format.title.casefold() == title.casefold():
            return format
    raise InputError(f"{printable(repr(title))} is not a known format; known formats are {_format_titles()}")


def _read(path: Path, spool: Spool, stated: Format | None) -> tuple[Staging, tuple[str, ...], Format]:
    """Return the contents of a file or of its set, the names of the files in the set, and their format."""
    source = load(path)
    if not source.size:
        raise InputError(f"{source.name}: the file is empty; a recording was expected ({_format_titles()})")
    archive = Archive(source) if Archive.is_one(source) else None
    if archive is None:
        format, source, part = _one_file(source, spool, stated)
    else:
        format, source = _recording_in(archive, stated)
        part = _contents(format, source, spool)
    losses = (*(_losses(archive) if archive is not None else ()), *source.losses, *part.losses)
    losses = tuple(replace(loss, tables=format.tables) if loss.tables is None else loss for loss in losses)
    if not part.events:
        if (described := others.kind(source.head)) is not None:
            raise InputError(f"{source.name}: {described}")
        why = f" ({losses[0].message})" if losses else ""
        remedy = "check the columns and the form of their numbers" if format.title == _CSV.title else "record it again"
        raise InputError(f"{source.name}: recognised as {format.title}, but it contains no event{why}; {remedy}")
    if losses:
        warnings.warn(f"{source.name}: {'; '.join(x.message for x in losses)}", LossWarning, stacklevel=3)
    return replace(part, losses=losses), format.members(source), format


def _one_file(source: Source, spool: Spool, stated: Format | None) -> tuple[Format, Source, Staging]:
    """Return the format of a file, the source and its contents. A text without events is read as it was once."""
    if (document := others.document(source.head)) is not None:
        raise InputError(f"{source.name}: {document}")
    source = spacing.printed(source)
    format = stated or _format_of(source.head)
    if enclosed := _enclosed(format, source.head, stated):
        source = enclosed.of(source)
        format = stated or _format_of(source.head)
    part = None if format is None else _contents(format, source, spool)
    if part is None or not _is_read(part, spool):
        for copy in spacing.copies(source.head):
            other = None if copy.is_enclosed else stated or _format_of(copy.head)
            if other is not None and _is_read(contents := _contents(other, restored := copy.of(source), spool), spool):
                return other, restored, contents
    if format is None or part is None:
        raise InputError(f"{source.name}: {_advice(source)}")
    return format, source, part


def _enclosed(format: Format | None, head: bytes, stated: Format | None) -> spacing.Copy | None:
    """Return the text without markup and what begins each line, if it is then in a format with events in lines.

    Without this, ftrace text would be read with thread names that contain the begin of the line. A number at the begin
    may be a column of a table.
    """
    found = None
    if format is None or format.title in ("ftrace text", "systrace HTML"):
        for copy in spacing.copies(head):
            other = stated or _format_of(copy.head)
            if copy.is_enclosed and other is not None and other.title not in _OF_NUMBERS:
                found = copy
            if other is not None and other.title != "ftrace text":
                break  # what begins its lines now may be a thread
    return found


def _is_read(part: Staging, spool: Spool) -> bool:
    """Return whether the file has events, and not only unreadable ones."""
    has_rows = any(spool.rows(name) for name in staging.TABLES)
    return bool(part.events) and (has_rows or all(loss.kind != "unreadable" for loss in part.losses))


def _contents(format: Format, source: Source, spool: Spool) -> Staging:
    with source.progress(f"reading {source.path.name}"):
        return format.read(source, spool)


def _heads(source: Source) -> tuple[bytes, ...]:
    """Return the begin of a file as it is, and with what was probably done to it undone."""
    return (source.head, *(copy.head for copy in spacing.copies(source.head)))


def _advice(source: Source) -> str:
    """Describe a file that is no known recording, and suggest what to do."""
    return (
        histograms.described(source)
        or next(filter(None, map(others.kind, _heads(source))), None)
        or f"no known recording; {closest.found(source.head)}; known formats are {_format_titles()}, and any CSV of"
        " block I/O with `androstep ingest --csv-columns` (docs/formats.md)"
    )


def _recording_in(archive: Archive, stated: Format | None) -> tuple[Format, Source]:
    """Return the recording in a tar archive and its format.

    The formats are tried in order, and the first file of the first format that occurs is read. If the caller states the
    format, the first file that looks like it is read, or else the first file.
    """
    if stated is not None and archive.names:
        looks = (name for name in archive.names if stated.sniff(archive.head(name)))
        return stated, archive.load(next(looks, archive.names[0]))
    formats = {name: _format_of(archive.head(name)) for name in archive.names}
    first_format = next((format for format in _formats() if format in formats.values()), None)
    if first_format is None:
        raise InputError(
            f"{printable(str(archive.path))}: none of the {len(formats)} files in this archive is a known "
            f"recording; known formats are {_format_titles()}"
        )
    return first_format, archive.load(next(name for name, format in formats.items() if format is first_format))


def _losses(archive: Archive) -> tuple[Loss, ...]:
    """Return the losses of an archive: its damage, and the files in it that were not read."""
    others = [name for name in archive.names if name not in archive.taken and _format_of(archive.head(name))]
    described = {str(PurePosixPath(name).with_name(recording.FILE_NAME)) for name in archive.taken} & {*archive.names}
    losses = archive.losses
    if others:
        message = f"{len(others)} more recordings in the archive were not read, the first {printable(others[0])}"
        losses += (Loss("unread", len(others), f"{message}; unpack it", ()),)
    if described:
        message = f"the device description and the losses in {printable(min(described))} were not read"
        losses += (Loss("unread", len(described), f"{message}; unpack the archive and open the directory", ()),)
    return losses


def _formats() -> Iterator[Format]:
    """Yield the formats of this package, then those of plug-ins. Plug-ins are loaded only when they are reached."""
    yield from FORMATS
    yield from plugins.loaded().formats


def _format_of(head: bytes) -> Format | None:
    return next((format for format in _formats() if format.sniff(head)), None) if head else None


def _format_titles() -> str:
    return "; ".join([", ".join(format.title for format in _formats()), *plugins.loaded().failures])
