"""`Format`, a row of the table of formats: how files of a format are recognised and read."""

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
    """Returns the names of all files of the set that a source belongs to, itself included (`Source.siblings`)."""
    tables: tuple[str, ...] | None = None
    """The tables that such a file can fill. Losses of the file affect only these. None if it may fill any table."""
