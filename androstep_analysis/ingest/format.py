"""A row of the table of formats: how files of a format are recognised and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging


def _alone(source: Source) -> tuple[str, ...]:
    return (source.path.name,)


@dataclass(frozen=True)
class Format:
    """A row of the table of formats."""

    title: str
    sniff: Callable[[bytes], bool]
    read: Callable[[Source, Spool], Staging]
    members: Callable[[Source], tuple[str, ...]] = _alone
    """Names (of `Source.siblings`) of all files of the set that a source is one of, itself included."""
    tables: tuple[str, ...] | None = None
    """The tables that such a file can fill, where they are few: what is lost of it is lost of these."""
