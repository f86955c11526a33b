"""A capture in about ten lines: what was recorded, how complete it is, and the main results, in sentences.

A `Headline` is independent of its rendering: terminal and page display the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from androstep_analysis import slowest
from androstep_analysis.present.headline import beside, recorded, requests, results, slow, unknown, unusual
from androstep_analysis.present.headline.requests import RESULTS, largest
from androstep_analysis.present.headline.results import configuration, dimension
from androstep_analysis.present.headline.words import Amount, Grid, Headline, Kind, Name, Part, Quote, Sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from androstep_analysis.capture import Capture
    from androstep_analysis.present.sheets import Sheet

WAITS: Final = 5
"""Slow operations that are listed."""

__all__ = [
    "RESULTS",
    "WAITS",
    "Amount",
    "Grid",
    "Headline",
    "Kind",
    "Name",
    "Part",
    "Quote",
    "Sentence",
    "configuration",
    "dimension",
    "largest",
    "of",
]


def of(
    capture: Capture, found: Mapping[str, pl.DataFrame] | None = None, waits: pl.DataFrame | None = None
) -> Headline:
    """Return the headline of a capture: sentences, and the tables of its main content.

    `found` is the result of `requests.results`, if it was computed already; `waits` that of `androstep.slow`.
    """
    if found is None and capture.about["rows"]["requests"]:
        found = requests.results(capture)
    parts = [*([] if found is None else [requests.headline(capture, found)]), *_beside_requests(capture)]
    gaps = tuple(gap for part in parts for gap in part.gaps)
    main = next((part for part in parts if part.tables), None)
    content = [one for part in parts for one in (part.parts if part is main else part.sentences)]
    at = _end_of_first_tables(content)
    content[at:at] = _slowest(slowest.slow(capture, top=WAITS) if waits is None else waits)
    missing = [unknown.sentence(gaps)] if gaps else []
    first = (recorded.recorded(capture), recorded.complete(capture))
    return Headline((*first, *content, *missing, *unusual.sentences(capture, found)), gaps)


def _end_of_first_tables(content: Sequence[Sentence | Grid | Sheet]) -> int:
    """Return the index after the first table and those that follow it directly; the length without a table."""
    are_sentences = [isinstance(one, Sentence) for one in content]
    first = are_sentences.index(False) if False in are_sentences else len(content)
    return are_sentences.index(True, first) if True in are_sentences[first:] else len(content)


def _slowest(waits: pl.DataFrame) -> Iterator[Sentence]:
    """Yield one line for each of the slowest waits (`androstep_analysis.slow`)."""
    for row in waits.iter_rows(named=True):
        yield Sentence("slowest", slow.line(row))


def _beside_requests(capture: Capture) -> Iterator[Headline]:
    if capture.about["replay"]:
        yield results.of_replay(capture)
    if capture.about["bench"]:
        yield results.of_bench(capture)
    if capture.about["steps"]:
        yield results.of_waits(capture)
        yield results.of_starts(capture)
    yield from beside.headlines(capture)
