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


@dataclass(frozen=True)
class Loss:
    """Something that should be in the input and is not, or could not be read.

    `kind` is one word for grouping (overwritten, dropped, torn, unreadable, wrapped), `count` how many (events or
    lines, as the message says), `message` one sentence for people.
    """

    kind: str
    count: int
    message: str


def printable(text: str) -> str:
    """`text` with everything that could move a terminal's cursor or hide in a message written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
