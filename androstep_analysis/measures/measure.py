"""The description of a measure (`Measure`). Each measure's file has one, and `measures.REGISTRY` collects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

import polars as pl

from androstep_analysis.common.losses import merged
from androstep_analysis.measures.order import unordered
from androstep_analysis.measures.recording import Recording, Tables

_OF_PIECES: Final = {
    **{"app": "package", "owner_app": "owner_package", "process": "owner_comm", "device": "dev", "file": "path"},
    "file_type": "file_type",
}

DIMENSIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "requests": {
        **{"device": "dev", "process": "submit_comm", "op": "op", "sync": "sync", "meta": "meta", "rwbs": "rwbs"},
        "priority": "priority",
    },
    "io": {
        **_OF_PIECES,
        **{"block_type": "block_type", "subtype": "subtype", "op": "op", "sync": "sync"},
        **{"state": "state", "uid": "uid", "priority": "priority"},
    },
    "block_events": {"device": "dev", "thread": "tid"},
    "commands": {"device": "controller", "operation": "operation", "opcode": "opcode"},
    "fs_events": {**_OF_PIECES, "inode": "ino"},
}
"""For each table, the words of --by and the columns that they select."""

Worse: TypeAlias = Literal["higher", "lower"] | None


class Applied(Enum):
    """The stage at which ``--where`` conditions are applied."""

    BEFORE = "before"
    """Before the measure: each row counts independently, so rows that do not match are left out first."""

    AFTER = "after"
    """After classification: the class of a row depends on its neighbours, so all rows are classified and those that
    match are counted."""

    RESULT = "result"
    """On the result: the measure joins rows of several tables, so conditions select rows of its result."""


@dataclass(frozen=True)
class Measure:
    """The function that computes a measure, with the properties that `androstep measure` and `compare` need.

    `of` takes the tables of a recording and the further columns to group by, all from the first table in `needs`. It
    returns a tidy result: ``metric, <those columns>, <dimensions…>, value, unit``, and optionally n, weight and
    coverage. `needs` names the tables that it takes.

    Attributes
    ----------
    own : tuple of str
        Dimensions that the result always has.
    by : tuple of str
        The default grouping.
    takes : tuple of str, optional
        The columns that `of` can group by. By default all columns in `DIMENSIONS` of its table.
    within : tuple of str, optional
        The dimensions within which the shares (metrics that end in _ratio) add up to one. None if the result has no
        shares.
    is_rate : bool
        Whether counts and bytes are divided by time.
    has_repetitions : bool
        Whether a recording holds repetitions (column repeat of the result) instead of windows.
    has_windows : bool
        Whether the measure can be computed for windows of time. False if the result in a window depends on earlier
        events. `instead` then names an alternative.
    asks_recording : bool
        Whether `of` also takes ``recording``, for its lost events and its calendar date.
    cuts_time : bool
        Whether `of` splits time itself. It then takes ``window_ns``, the length of a window (None: no windows), and its
        result has column ts_ns, the start of each window. Other measures get the tables of each window.
    applied : Applied
        The time at which conditions are applied.
    natural : tuple of str
        Dimensions with an order of their own, such as days or size classes. Rows are not sorted by value within them.
    worse : {"higher", "lower"}, optional
        The direction that is worse for the same work; by default neither. If the result has classes, it applies to
        those in `costly`. A higher time (unit ns) is worse in every measure (`worse_of`).
    costly : tuple of str
        The classes or types to which `worse` applies; by default all.
    """

    description: str
    needs: tuple[str, ...]
    of: Callable[..., pl.DataFrame]
    own: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    takes: tuple[str, ...] | None = None
    within: tuple[str, ...] | None = None
    is_rate: bool = False
    has_repetitions: bool = False
    has_windows: bool = True
    instead: str = ""
    asks_recording: bool = False
    cuts_time: bool = False
    applied: Applied = Applied.BEFORE
    natural: tuple[str, ...] = ()
    worse: Worse = None
    costly: tuple[str, ...] = ()

    def worse_of(self, unit: str, kind: str | None = None) -> Worse:
        """Return the direction that is worse for a value in this unit and of this class or type."""
        if unit == "ns":
            return "higher"
        return None if kind is not None and self.costly and kind not in self.costly else self.worse

    @property
    def dimensions(self) -> dict[str, str]:
        """The words of --by that the measure accepts, and their columns."""
        words = DIMENSIONS.get(self.needs[0], {})
        return {word: column for word, column in words.items() if self.takes is None or column in self.takes}


def of_events(
    description: str,
    measure: Callable[..., pl.DataFrame],
    within: tuple[str, ...] | None = None,
    natural: tuple[str, ...] = ("step",),
    *,
    is_of_order: bool = False,
) -> Measure:
    """Make a measure of table block_events. It leaves out what overlaps lost time.

    `is_of_order`: it compares an event with the previous one, and leaves out times in which their order is unknown.
    """

    def of(tables: Tables, by: tuple[str, ...], recording: Recording) -> pl.DataFrame:
        unknown = unordered(tables["requests"]) if is_of_order and "requests" in tables else ()
        return measure(tables["block_events"], by=by, lost=merged([*recording.lost, *unknown]))

    return Measure(
        description,
        ("block_events",),
        of,
        within=within,
        has_windows=False,
        asks_recording=True,
        applied=Applied.RESULT,
        natural=natural,
    )


def of_costs(
    description: str, needs: tuple[str, ...], measure: Callable[..., pl.DataFrame], takes: tuple[str, ...]
) -> Measure:
    """Make a measure of the cost of writes."""

    def of(tables: Tables, by: tuple[str, ...], recording: Recording) -> pl.DataFrame:
        page_bytes = recording.facts.get("page_bytes")
        return measure(tables, by=by, page_bytes=page_bytes, recorded=recording.events, lost=recording.losses)

    return Measure(
        description,
        needs,
        of,
        takes=takes,
        has_windows=False,
        asks_recording=True,
        applied=Applied.RESULT,
        natural=("part",),
        worse="higher",
    )
