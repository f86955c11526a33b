"""Split the duration of an operation into its stages (definitions.toml, stage)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Span = tuple[int, int]
"""A begin and an end in ns."""

REST: Final = "rest"


class Stages(NamedTuple):
    """The stages in order of time, their lengths, and their certainty."""

    names: list[str]
    lengths_ns: list[int]
    certainty: str


def of_request(
    queue_ns: int | None, allocated_ns: int | None, insert_ns: int | None, issue_ns: int | None, complete_ns: int
) -> Stages:
    """Return the stages of a request: the intervals between its known Q, G, I, D and C events.

    An allocation or insert outside of Q to D belongs to an earlier attempt of a request that was issued again.
    """
    if queue_ns is None:
        steps = [("D", issue_ns)]
    elif issue_ns is None or not queue_ns <= issue_ns <= complete_ns:
        steps = [("Q", queue_ns)]
    else:
        between = [(name, time) for name, time in (("G", allocated_ns), ("I", insert_ns)) if time is not None]
        steps = [("Q", queue_ns), *(one for one in between if queue_ns <= one[1] <= issue_ns), ("D", issue_ns)]
    pairs = list(pairwise([(name, time) for name, time in [*steps, ("C", complete_ns)] if time is not None]))
    return Stages([f"{a}2{b}" for (a, _), (b, _) in pairs], [end - begin for (_, begin), (_, end) in pairs], "fact")


def of_call(call: Span, layers: Sequence[tuple[str, Sequence[Span]]], certainty: str) -> Stages:
    """Return the stages of a call: at each time the first of the `layers` with a span at that time, else the rest.

    A layer is a stage with the spans of time in which it was in progress.
    """
    inside = [(name, [clipped for span in spans if (clipped := _clipped(span, call))]) for name, spans in layers]
    edges = np.unique(np.array([*call, *(time for _, spans in inside for span in spans for time in span)], np.int64))
    if len(edges) < 2:
        return Stages([REST], [call[1] - call[0]], certainty)
    stage = np.full(len(edges) - 1, len(inside))
    for at in reversed(range(len(inside))):
        stage[covered(inside[at][1], edges)] = at
    first = np.flatnonzero(np.diff(stage, prepend=-1))
    lengths = np.diff(np.append(edges[first], edges[-1]))
    names = [*(name for name, _ in inside), REST]
    return _joined([names[at] for at in stage[first]], lengths.tolist(), certainty)


def covered(spans: Sequence[Span], edges: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether a span covers each interval between two edges. The ends of spans must be edges."""
    change = np.zeros(len(edges), np.int64)
    if spans:
        begins, ends = np.array(spans, np.int64).T
        np.add.at(change, np.searchsorted(edges, begins), 1)
        np.add.at(change, np.searchsorted(edges, ends), -1)
    return np.cumsum(change)[:-1] > 0


def covered_ns(call: Span, spans: Iterable[Span]) -> int:
    """Return the length of the part of the call that is covered by spans."""
    inside = [clipped for span in spans if (clipped := _clipped(span, call))]
    edges = np.unique(np.array([time for span in inside for time in span], np.int64))
    return int(np.diff(edges)[covered(inside, edges)].sum()) if inside else 0


def _clipped(span: Span, call: Span) -> Span | None:
    begin, end = max(span[0], call[0]), min(span[1], call[1])
    return (begin, end) if begin < end else None


def _joined(names: Sequence[str], lengths_ns: Sequence[int], certainty: str) -> Stages:
    """Return the stages with consecutive stages of one name merged. Two layers may have the same name."""
    joined: list[str] = []
    lengths: list[int] = []
    for name, length_ns in zip(names, lengths_ns, strict=True):
        if joined and joined[-1] == name:
            lengths[-1] += length_ns
        else:
            joined.append(name)
            lengths.append(length_ns)
    return Stages(joined, lengths, certainty)
