"""State in words which requests the measures of a capture count (definitions.toml, counted)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from androstep_analysis.common import quantities
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import SEVERAL_CLOCKS

_OF_EVENTS = frozenset({"missing", "dropped", "overwritten", "torn", "unreadable", "clock", SEVERAL_CLOCKS, "gap"})
"""Kinds of losses that may include issues and completions."""


def sentence(counts: Mapping[str, int], losses: Sequence[Loss] = (), lost_events: int = 0) -> str:
    """Describe the counts of `measures.population`: the requests counted, their missing events, and the reason."""
    if not counts["count"]:
        return "There are no requests."
    if not counts["issued"] and not counts["completed"]:
        return f"All numbers count the requests seen, {_amount(counts, '')}. No issues or completions are recorded."
    text = f"All numbers count the requests that reached a device, {_amount(counts, '')}."
    incomplete, unissued = counts["count"] - counts["completed"], counts["count"] - counts["issued"]
    if not counts["completed"]:
        text += " No completions are recorded, so that device times are unknown."
    elif incomplete:
        share = quantities.per_cent(counts["completed"] / counts["count"])
        text += (
            f" {_amount(counts, 'completed')} of them ({share}) completed within the recording, and times count only"
            f" these. No completion is recorded for {incomplete:,}{_why(losses, lost_events, 'ended')}."
        )
    if counts["issued"] and unissued:
        text += f" No issue is recorded for {unissued:,}{_why(losses, lost_events, 'began')}."
    if counts["queued"]:
        text += f" Not counted: {_amount(counts, 'queued')} queued, without a recorded issue or completion."
    return text


def brief(counts: Mapping[str, int]) -> str:
    """Describe the counts in a few words."""
    if not counts["issued"] and not counts["completed"]:
        return "all seen, no issue and no completion recorded"
    return f"{counts['count']:,} that reached a device, {counts['completed']:,} of them completed"


def is_whole(counts: Mapping[str, int]) -> bool:
    """Return whether every request was issued and completed within the recording."""
    return counts["count"] == counts["issued"] == counts["completed"] and not counts["queued"]


def _why(losses: Sequence[Loss], lost_events: int, edge: str) -> str:
    """Return the reason for missing issues or completions, as far as the losses show it."""
    if lost_events or any(loss.kind in _OF_EVENTS for loss in losses):
        return " (it may be among the lost events)"
    return f" (no loss is recorded: they were in flight when the recording {edge}, or such events were not recorded)"


def _amount(counts: Mapping[str, int], part: str) -> str:
    number, size = counts[part or "count"], counts[f"{part}_bytes" if part else "bytes"]
    return f"{number:,} ({quantities.size(size)})"
