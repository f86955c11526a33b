"""The two ways in which input can disappoint: it cannot be read at all, or part of it was lost."""

from __future__ import annotations

from dataclasses import dataclass


class InputError(ValueError):
    """Input that cannot be used.

    The message is one sentence that names the file, the place in it, what was expected there and what to do.
    The command line prints it and exits with status 1.
    """


class LossWarning(UserWarning):
    """Part of the input could not be read; everything else was.

    The same statement stands, counted, in `Staging.losses` and in every summary and report.
    """


Span = tuple[int | None, int | None]
"""From when until when, in the recording's clock; None stands for no limit."""

EVER: tuple[Span, ...] = ((None, None),)


@dataclass(frozen=True)
class Loss:
    """Something that should be in the input and is not, or could not be read.

    `kind` is one word for grouping (overwritten, dropped, torn, unreadable, clock, gap), `count` how many (events or
    lines, as the message says), `message` one sentence for people.

    What it can hurt: `tables` are those of which rows may be missing, None where it may be any table that a recording
    fills (`staging.TABLES`, `tasks`); none where no row is missing. `dev` is the only device that these rows can be
    of, None where nobody knows. `spans` are the times within which they lie, in nanoseconds of the recording's clock,
    both ends included.
    """

    kind: str
    count: int
    message: str
    tables: tuple[str, ...] | None = None
    dev: int | None = None
    spans: tuple[Span, ...] = EVER


def printable(text: str) -> str:
    """`text` with everything that could move a terminal's cursor or hide in a message written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
