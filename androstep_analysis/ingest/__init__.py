"""Readers: one module per format, one table of formats, one dispatcher.

A format is a module with

- ``sniff(head: bytes) -> bool``: whether the first 64 KiB (decompressed) look like it, and
- ``read(source: Source) -> Staging``: the whole of it.

A reader returns what it could read and counts the rest in `Staging.losses`; it never raises for damage. A format
that is a set of files recognises any one of its members and finds the others beside ``source.path``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from androstep_analysis.errors import InputError, Loss, LossWarning
from androstep_analysis.ingest import atrace, blkparse_text, block_csv, ftrace_text, most_po, systrace_html, tracedat
from androstep_analysis.ingest.source import Source, load
from androstep_analysis.ingest.staging import Staging

__all__ = ["FORMATS", "Format", "Loss", "Source", "Staging", "load", "read"]


@dataclass(frozen=True)
class Format:
    """A row of the table of formats."""

    title: str
    sniff: Callable[[bytes], bool]
    read: Callable[[Source], Staging]


FORMATS: tuple[Format, ...] = (
    Format("trace.dat", tracedat.sniff, tracedat.read),
    Format("systrace HTML", systrace_html.sniff, systrace_html.read),
    Format("atrace output", atrace.sniff, atrace.read),
    Format("block CSV", block_csv.sniff, block_csv.read),
    Format("MOST .po", most_po.sniff, most_po.read),
    Format("blkparse text", blkparse_text.sniff, blkparse_text.read),
    Format("ftrace text", ftrace_text.sniff, ftrace_text.read),
)
"""All formats, in the order in which they are tried: containers before what they contain."""


def read(path: str | os.PathLike[str]) -> Staging:
    """The recording in file `path`, whatever its format and compression.

    Warns once (`LossWarning`) if part of it was lost. Raises `InputError` if the format is not known or if nothing
    in it is an event.
    """
    source = load(Path(path))
    if not source.data:
        raise InputError(f"{source.name}: the file is empty; a recording was expected ({_known()})")
    known = next((format for format in FORMATS if format.sniff(source.head)), None)
    if known is None:
        raise InputError(
            f"{source.name}: no known recording; it starts with {source.data[:16]!r}; known are {_known()}"
        )
    staging = known.read(source)
    staging = replace(staging, losses=source.losses + staging.losses)
    if not staging.events:
        raise InputError(f"{source.name}: looks like {known.title}, but there is no event in it; record it again")
    if staging.losses:
        warnings.warn(f"{source.name}: {'; '.join(x.message for x in staging.losses)}", LossWarning, stacklevel=2)
    return staging


def _known() -> str:
    return ", ".join(format.title for format in FORMATS)
