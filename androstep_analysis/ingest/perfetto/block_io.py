"""The accounting events `block_io_start` and `block_io_done` (Linux 6.5) where they are all that was recorded.

They repeat what `block_rq_issue` and `block_rq_complete` tell, so that they are no step of a request of their own
beside these. Android's recipes for Perfetto record only them.
"""

from __future__ import annotations

from collections.abc import Mapping

from androstep_analysis.ingest.ftrace.text import ACTIONS

_STEPS = {"block_io_start": "issue", "block_io_done": "complete"}


def actions(events: Mapping[str, int]) -> dict[str, str]:
    """The step of a request's life that each block tracepoint is, in a recording with these counts of events.

    Without a `block_rq_issue` and a `block_rq_complete` the start of accounting stands for the issue, though the
    request may still wait for the driver then, and its end for the completion. The end tells no length (the kernel
    has counted it down to 0), so that `nr_sectors` of such a completion must be null: it completes the whole request.
    """
    if any(events.get(event) for event in ("block_rq_issue", "block_rq_complete")):
        return dict(ACTIONS)
    return ACTIONS | _STEPS
