"""The two ways in which input can disappoint: it cannot be read at all, or part of it was lost."""

from __future__ import annotations


class InputError(ValueError):
    """Input that cannot be used.

    The message is one sentence that names the file, the place in it, what was expected there and what to do.
    The command line prints it and exits with status 1.
    """


class LossWarning(UserWarning):
    """Part of the input could not be read; everything else was.

    The same statement stands, counted, in `Staging.losses` and in every summary and report.
    """
