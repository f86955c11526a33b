"""Sentences for the user while something is at work."""

from __future__ import annotations

import sys

from tqdm.auto import tqdm

from androstep_analysis.common.markup import visible


def notify(sentence: str) -> None:
    """Writes a sentence to standard error, beside bars that show progress."""
    with tqdm.external_write_mode(file=sys.stderr):
        print(f"androstep: {visible(sentence)}", file=sys.stderr)
