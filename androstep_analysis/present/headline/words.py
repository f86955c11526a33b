"""What a headline is made of: sentences and a table whose numbers and names are still numbers and names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from androstep_analysis.common import quantities
from androstep_analysis.present.sheets import Sheet


@dataclass(frozen=True)
class Amount:
    """A number with its unit, as measures have them: ``B``, ``ns``, ``1`` (a ratio), ``1/s``; else what is counted."""

    value: float
    unit: str

    def __str__(self) -> str:
        return quantities.in_unit(self.value, self.unit)


@dataclass(frozen=True)
class Name:
    """A name that the recording gives, which may hold anything. It may be shown shortened."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Quote:
    """Words that were said elsewhere, such as a loss's message. They may hold names."""

    text: str

    def __str__(self) -> str:
        return self.text


Part = str | Amount | Name | Quote

VERBS: Final = {"write": "written", "read": "read"}
"""The operations that are told of, as sentences have them."""

Kind = Literal["fact", "unknown", "unusual"]
"""What a sentence says: what was found, what cannot be known and what would tell it, what to look at first."""


@dataclass(frozen=True)
class Sentence:
    """What is said about one question (`about`, a word or two). Parts are shown one after the other, unspaced."""

    about: str
    parts: tuple[Part, ...]
    kind: Kind = "fact"

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


@dataclass(frozen=True)
class Grid:
    """A small table. A cell without a value is None, and every column has one; `note` says what the columns mean."""

    header: tuple[str, ...]
    rows: tuple[tuple[Part | None, ...], ...]
    note: str = ""


def grid(header: Sequence[str], rows: Sequence[Sequence[Part | None]], note: str = "") -> Grid:
    """Return a table without the columns that have no value."""
    kept = [i for i in range(len(header)) if any(row[i] is not None for row in rows)]
    return Grid(tuple(header[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows), note)


@dataclass(frozen=True)
class Gap:
    """What a recording cannot tell: about what, why, and what would tell it (`by`), or would do too (`also`)."""

    about: str
    why: str
    by: str
    also: str = ""

    def __str__(self) -> str:
        also = f", also by {self.also}" if self.also else ""
        return f"unknown: {self.about} ({self.why}): told by {self.by}{also}"


@dataclass(frozen=True)
class Headline:
    """The answers that a capture gives, the first ones first, and what it cannot answer."""

    parts: tuple[Sentence | Grid | Sheet, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """Return the sentences alone."""
        return tuple(part for part in self.parts if isinstance(part, Sentence))

    @property
    def tables(self) -> tuple[Grid | Sheet, ...]:
        """Return the tables alone."""
        return tuple(part for part in self.parts if not isinstance(part, Sentence))


def named(name: str | None, value: float, unit: str, inferred: float | None = None) -> list[Part]:
    """A name with its number, and how much of that is only inferred; None is what is unknown."""
    return ["unknown" if name is None else Name(name), " ", Amount(value, unit), *mark(inferred)]


def mark(inferred: float | None) -> list[Part]:
    """What stands behind a name that is inferred, or a part of which is; nothing behind a fact."""
    words = quantities.marked("", inferred)
    return [words] if words else []


def listed(items: Iterable[Sequence[Part]], between: str = ", ") -> list[Part]:
    """The parts of all items, with `between` between them."""
    parts: list[Part] = []
    for item in items:
        parts += [between, *item] if parts else item
    return parts
