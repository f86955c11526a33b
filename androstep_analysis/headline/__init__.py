"""A capture in about ten lines: what was recorded, how complete it is, and what it answers, in sentences.

Nothing here is for a terminal or a page: both show the same `Headline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from androstep_analysis.headline import beside, recorded, requests, results, unusual
from androstep_analysis.headline.results import dimension, value
from androstep_analysis.headline.words import Amount, Grid, Headline, Kind, Name, Part, Quote, Sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from androstep_analysis.capture import Capture

__all__ = ["Amount", "Grid", "Headline", "Kind", "Name", "Part", "Quote", "Sentence", "dimension", "of", "value"]


def of(capture: Capture) -> Headline:
    """What a reader wants to know first of a capture; the table is of what it has most to tell of."""
    found = requests.results(capture) if capture.about["rows"]["requests"] else None
    parts = [*([] if found is None else [requests.headline(capture, found)]), *_beside_requests(capture)]
    said = [sentence for part in parts for sentence in part.sentences]
    first = (recorded.recorded(capture), recorded.complete(capture))
    grid = next((part.grid for part in parts if part.grid is not None), None)
    return Headline((*first, *said, *unusual.sentences(capture, found)), grid)


def _beside_requests(capture: Capture) -> Iterator[Headline]:
    if capture.about["replay"]:
        yield results.of_replay(capture)
    if capture.about["bench"]:
        yield results.of_bench(capture)
    if capture.about["steps"]:
        yield results.of_waits(capture)
    yield from beside.headlines(capture)
