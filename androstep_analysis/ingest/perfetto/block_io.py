"""The accounting events `block_io_start` and `block_io_done` (Linux 6.5), for traces without other request events.

They repeat `block_rq_issue` and `block_rq_complete`, and are ignored if these were recorded. Android's Perfetto configs
record only the accounting events.
"""

from __future__ import annotations

from collections.abc import Mapping

from androstep_analysis.ingest.ftrace.text import ACTIONS

_STEPS = {"block_io_start": "issue", "block_io_done": "complete"}


def actions(events: Mapping[str, int]) -> dict[str, str]:
    """Return the action of each block tracepoint in a recording with these counts of events.

    Without `block_rq_issue` and `block_rq_complete`, the start of accounting is used as the issue, although the request
    may still wait for the driver then, and its end as the completion. The end event has no length, because the kernel
    has counted it down to 0. `nr_sectors` of such a completion must be null: it completes the whole request.
    """
    if any(events.get(event) for event in ("block_rq_issue", "block_rq_complete")):
        return dict(ACTIONS)
    return ACTIONS | _STEPS
