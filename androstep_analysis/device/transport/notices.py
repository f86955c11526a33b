"""Messages for the user while something runs."""

from __future__ import annotations

import sys

from tqdm.auto import tqdm

from androstep_analysis.common.markup import visible


def notify(sentence: str) -> None:
    """Print a sentence to standard error without breaking progress bars."""
    with tqdm.external_write_mode(file=sys.stderr):
        print(f"androstep: {visible(sentence)}", file=sys.stderr)
