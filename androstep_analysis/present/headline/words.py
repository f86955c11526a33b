"""Parts of a headline: sentences and tables that keep numbers and names as values, for a renderer to format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from androstep_analysis.common import quantities
from androstep_analysis.present.sheets import Sheet


@dataclass(frozen=True)
class Amount:
    """A number with the unit of its measure.

    Units are ``B``, ``ns``, ``1`` (a ratio) or ``1/s``; otherwise the noun that is counted.
    """

    value: float
    unit: str

    def __str__(self) -> str:
        return quantities.in_unit(self.value, self.unit)


@dataclass(frozen=True)
class Name:
    """A name from the recording, which may contain any characters. A renderer may shorten it."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Quote:
    """Text from elsewhere, such as a loss message. It may contain names."""

    text: str

    def __str__(self) -> str:
        return self.text


Part = str | Amount | Name | Quote

VERBS: Final = {"write": "written", "read": "read"}
"""The operations that sentences report, with their participles."""

Kind = Literal["fact", "unknown", "unusual"]
"""Kind of a sentence: a result, something unknown and how to record it, or something to look at first."""


@dataclass(frozen=True)
class Sentence:
    """A statement on one subject (`about`, a word or two). Its parts are joined without spaces."""

    about: str
    parts: tuple[Part, ...]
    kind: Kind = "fact"

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


@dataclass(frozen=True)
class Grid:
    """A small table. A cell without a value is None; no column is empty. `note` explains the columns."""

    header: tuple[str, ...]
    rows: tuple[tuple[Part | None, ...], ...]
    note: str = ""


def grid(header: Sequence[str], rows: Sequence[Sequence[Part | None]], note: str = "") -> Grid:
    """Return a table without the columns that are empty."""
    kept = [i for i in range(len(header)) if any(row[i] is not None for row in rows)]
    return Grid(tuple(header[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows), note)


@dataclass(frozen=True)
class Gap:
    """Something unknown: its subject, the reason, and the commands that would record it (`by`, or `also`).

    `by` is empty if no recording would state it.
    """

    about: str
    why: str
    by: str
    also: str = ""

    def __str__(self) -> str:
        also = f", or {self.also}" if self.also else ""
        return f"unknown: {self.about} ({self.why})" + (f": use {self.by}{also}" if self.by else "")


@dataclass(frozen=True)
class Headline:
    """The results of a capture, the most important first, and what is unknown."""

    parts: tuple[Sentence | Grid | Sheet, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The sentences alone."""
        return tuple(part for part in self.parts if isinstance(part, Sentence))

    @property
    def tables(self) -> tuple[Grid | Sheet, ...]:
        """The tables alone."""
        return tuple(part for part in self.parts if not isinstance(part, Sentence))


def named(name: str | None, value: float, unit: str, inferred: float | None = None) -> list[Part]:
    """Return a name with its number, and a mark if it is inferred. None becomes "unknown"."""
    return ["unknown" if name is None else Name(name), " ", Amount(value, unit), *mark(inferred)]


def mark(inferred: float | None) -> list[Part]:
    """Return the mark of a name that is inferred, wholly or in part; an empty list for a fact."""
    words = quantities.marked("", inferred)
    return [words] if words else []


def listed(items: Iterable[Sequence[Part]], between: str = ", ") -> list[Part]:
    """Join the parts of all items, with `between` between the items."""
    parts: list[Part] = []
    for item in items:
        parts += [between, *item] if parts else item
    return parts
