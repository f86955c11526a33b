"""Load readers from other packages: entry points of group ``androstep.formats``, each a `Format`."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from androstep_analysis.common.errors import printable
from androstep_analysis.ingest.format import Format

GROUP = "androstep.formats"


class Loaded(NamedTuple):
    """The formats of plug-ins, and a message for each plug-in that failed to load."""

    formats: tuple[Format, ...]
    failures: tuple[str, ...]


@functools.cache
def loaded() -> Loaded:
    """Load all plug-ins, sorted by name."""
    loads = [_load(entry) for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)]
    return Loaded(
        tuple(one for one in loads if isinstance(one, Format)), tuple(one for one in loads if isinstance(one, str))
    )


def _load(entry: EntryPoint) -> Format | str:
    try:
        format = entry.load()
    except Exception as error:  # the plug-in's own code runs here
        return printable(f"plug-in {entry.name} ({entry.value}) does not load: {type(error).__name__}: {error}")
    if isinstance(format, Format):
        return format
    return printable(f"plug-in {entry.name} ({entry.value}) is no androstep_analysis.ingest.Format")
