"""The triggers: requirements, limits and texts (schemas/triggers.toml), and the functions that implement them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import printable
from androstep_analysis.present.advice import background, direct, logs, reading, rewriting, sqlite, syncs
from androstep_analysis.present.advice.evidence import Evidence

GROUP: Final = "androstep.triggers"

Limits = Mapping[str, float]
Find = Callable[[Evidence, Limits], pl.DataFrame]


class Limit(NamedTuple):
    """A limit above which something is a finding, with its source."""

    value: float
    unit: str
    source: str


class Trigger(NamedTuple):
    """One kind of finding.

    `needs` are columns (``table.column``) that must have values, otherwise the trigger is undecided. At least one of
    `events` must have been recorded. `says` and `saves` are templates with columns of `FINDING` in braces, and also
    who, file and span. `unit` is the unit of column value.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    says: str
    saves: str
    do: str
    limits: Mapping[str, Limit]
    find: Find
    events: tuple[str, ...] = ()
    unit: str = "1"

    def found(self, evidence: Evidence) -> pl.DataFrame:
        """Return the findings (`FINDING`)."""
        return self.find(evidence, {name: limit.value for name, limit in self.limits.items()})


_FIND: Final[Mapping[str, Find]] = {
    "syncs": syncs.storms,
    "rollback": sqlite.rollback,
    "journals": sqlite.journals,
    "wal": sqlite.wal,
    "rewrites": rewriting.rewrites,
    "temporary": rewriting.temporary,
    "direct": direct.direct,
    "pieces": reading.pieces,
    "pages": reading.pages,
    "logs": logs.logs,
    "background": background.background,
}


@functools.cache
def own() -> tuple[Trigger, ...]:
    """Return the triggers of this package, in the order of their table."""
    table = tomllib.loads((schema.directory() / "triggers.toml").read_text(encoding="utf-8"))
    return tuple(_of(name, dict(row)) for name, row in table.items())


def _of(name: str, row: dict[str, Any]) -> Trigger:
    limits = {limit: Limit(**limit_row) for limit, limit_row in row.pop("limits").items()}
    needs, events = tuple(row.pop("needs")), tuple(row.pop("events", ()))
    return Trigger(name=name, needs=needs, events=events, limits=MappingProxyType(limits), find=_FIND[name], **row)


@functools.cache
def brought() -> tuple[tuple[Trigger, ...], tuple[str, ...]]:
    """Return the triggers of other packages in the order of their names, and a sentence for each that fails to load."""
    triggers, failures = [], []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            trigger = entry.load()
        except Exception as error:  # a plug-in may raise anything
            what = f"does not load: {type(error).__name__}: {error}"
        else:
            what = "" if isinstance(trigger, Trigger) else "is no androstep_analysis.present.advice.Trigger"
            triggers += [] if what else [trigger]
        failures += [printable(f"plug-in {entry.name} ({entry.value}) {what}")] if what else []
    return tuple(triggers), tuple(failures)


def triggers() -> tuple[Trigger, ...]:
    """Return all triggers, those of this package first."""
    return (*own(), *brought()[0])


def failures() -> tuple[str, ...]:
    """Return a sentence for each plug-in that fails to load."""
    return brought()[1]
