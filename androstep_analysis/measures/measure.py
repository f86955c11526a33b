"""What a measure says of itself (`Measure`), in the file of the measure; `measures.REGISTRY` has all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

import polars as pl

from androstep_analysis.measures.recording import Recording, Tables

_OF_PIECES: Final = {
    **{"app": "package", "owner_app": "owner_package", "process": "owner_comm", "device": "dev", "file": "path"},
    "file_type": "file_type",
}

DIMENSIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "requests": {
        **{"device": "dev", "process": "submit_comm", "op": "op", "sync": "sync", "meta": "meta", "rwbs": "rwbs"},
    },
    "io": {
        **_OF_PIECES,
        **{"block_type": "block_type", "subtype": "subtype", "op": "op", "sync": "sync"},
        **{"state": "state", "uid": "uid"},
    },
    "block_events": {"device": "dev", "thread": "tid"},
    "commands": {"device": "controller", "operation": "operation", "opcode": "opcode"},
    "fs_events": {**_OF_PIECES, "inode": "ino"},
}
"""For each table that measures are of, the words that people group by and the columns that they are."""

Worse: TypeAlias = Literal["higher", "lower"] | None


class Applied(Enum):
    """When the conditions of --where choose what a measure is of."""

    BEFORE = "before"
    """Rows count each for itself: those that do not match are left out before the measure."""

    AFTER = "after"
    """What a row counts as depends on those around it: all are classified, and those that match are counted."""

    RESULT = "result"
    """The measure puts its rows together itself: conditions choose rows of its result."""


@dataclass(frozen=True)
class Measure:
    """Something to be measured and compared.

    `of` takes the tables of a recording and the names of further columns to group by (of the first table that the
    measure `needs`), and returns a tidy result: ``metric, <those columns>, <dimensions…>, value, unit``, and n, weight
    and coverage where there are such. `needs` names the tables it takes.

    Attributes
    ----------
    own : tuple of str
        Columns that tell the rows of the result apart without being asked for.
    by : tuple of str
        The default grouping.
    takes : tuple of str, optional
        The columns that `of` can group by; by default all in `DIMENSIONS` of its table.
    within : tuple of str, optional
        The dimensions in which the shares of the result (metrics that end in _ratio) add up; None where it has none.
    is_rate : bool
        Counts and bytes become rates.
    has_repetitions : bool
        A recording holds repetitions (column repeat of the result) and no windows.
    has_windows : bool
        Not set where what happens in a window depends on what was before it; `instead` says what to ask for windows.
    asks_recording : bool
        `of` also takes ``recording``, which knows what was lost, and what day it was.
    cuts_time : bool
        `of` takes the length of windows, ``window_ns`` (None without), instead of tables of windows: its result has
        column ts_ns, the begin of each.
    applied : Applied
        When conditions apply.
    natural : tuple of str
        Dimensions of the result that have an order of their own, as days or classes of sizes: its rows are not sorted
        by value within them.
    worse : {"higher", "lower"}, optional
        Which of two values is worse for the same work; by default neither is. Of a result with classes this is said of
        those in `costly`. Of times (unit ns) the higher one is worse in every measure (`worse_of`).
    costly : tuple of str
        The classes or types of the result that cost something; by default all.
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
        """Which of two values in this unit, of this class or type, is worse."""
        if unit == "ns":
            return "higher"
        return None if kind is not None and self.costly and kind not in self.costly else self.worse

    @property
    def dimensions(self) -> dict[str, str]:
        """The words that it can be grouped by, and the columns that they are."""
        words = DIMENSIONS.get(self.needs[0], {})
        return {word: column for word, column in words.items() if self.takes is None or column in self.takes}


def of_events(
    description: str,
    measure: Callable[..., pl.DataFrame],
    within: tuple[str, ...] | None = None,
    natural: tuple[str, ...] = ("step",),
) -> Measure:
    """Make a measure of table block_events, which leaves out what touches lost time."""

    def of(tables: Tables, by: tuple[str, ...], recording: Recording) -> pl.DataFrame:
        return measure(tables["block_events"], by=by, lost=recording.lost)

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
    """Make a measure of what writing costs."""

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
