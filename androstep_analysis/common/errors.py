"""Define the exception for unusable input, and the warning and record for lost parts of it."""

from __future__ import annotations

from dataclasses import dataclass


class InputError(ValueError):
    """Input that cannot be used.

    The message is one sentence with the file, the location in it, the expected content and the next step for the user.
    The command line prints it and exits with status 1.
    """


class LossWarning(UserWarning):
    """Part of the input could not be read; the rest was.

    The same loss is recorded with its count in `Staging.losses` and appears in every summary and report.
    """


Span = tuple[int | None, int | None]
"""Start and end of an interval in the recording's clock; None means no limit."""

EVER: tuple[Span, ...] = ((None, None),)


@dataclass(frozen=True)
class Loss:
    """A part of the input that is missing or could not be read.

    Attributes
    ----------
    kind : str
        A word for grouping: ``overwritten``, ``dropped``, ``torn``, ``unreadable``, ``clock`` or ``gap``, for example.
    count : int
        The number of lost events or lines; the message says which.
    message : str
        One sentence for the user.
    tables : tuple of str, optional
        The tables in which rows may be missing. None: any table that a recording fills (`staging.TABLES`, `tasks`).
        Empty: no row is missing.
    dev : int, optional
        The only device that the missing rows can belong to. None: unknown.
    spans : tuple of Span
        The intervals that contain the missing rows, in ns of the recording's clock, both ends included.
    """

    kind: str
    count: int
    message: str
    tables: tuple[str, ...] | None = None
    dev: int | None = None
    spans: tuple[Span, ...] = EVER


def printable(text: str) -> str:
    """Escape all characters that are not printable, so that text cannot move a terminal's cursor or be invisible."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
