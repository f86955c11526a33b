"""Map block events of binary recordings to columns of table `block_events`.

The fields are those of include/trace/events/block.h, Linux 3.10 to 6.18. Differences between kernels need little code,
because every record is decoded by the format in the recording: `errors` became `error` in 4.12; `rwbs` has 8 bytes,
since 6.17 10; `bytes` and `ioprio` (6.5) were inserted.
"""

from __future__ import annotations

from androstep_analysis.ingest.ftrace.event_format import Event
from androstep_analysis.ingest.ftrace.programs import Do, What, code, number, text
from androstep_analysis.ingest.ftrace.text import ACTIONS

TABLE = "block_events"

_NO_ERROR = "block_rq_requeue"
"""Has a result field before 4.12, which is meaningless because the request is not finished."""


def steps(event: Event) -> list[Do]:
    """Return how a record of `event` fills a row of `block_events`; empty for events that yield no row.

    The length of a split is that of the part before the split. A positive result is null: before Linux 4.12 it is the
    driver's own status.
    """
    if event.name not in ACTIONS:
        return []
    sector, length, cut = number(event, "sector"), number(event, "nr_sector"), number(event, "new_sector")
    return [
        Do(What.NAME, "event", value=event.name),
        code(TABLE, "action", ACTIONS[event.name]),
        Do(What.NUMBER, "dev", number(event, "dev")),
        Do(What.PLACE, "sector", sector),
        Do(What.NUMBER, "nr_sectors", length) if length else Do(What.CUT, "nr_sectors", sector, cut),
        Do(What.TEXT, "rwbs", text(event, "rwbs")),
        Do(What.TEXT, "comm", text(event, "comm")),
        *([Do(What.ERRNO, "error", number(event, "error errors"))] if event.name != _NO_ERROR else []),
        Do(What.NUMBER, "old_dev", number(event, "old_dev")),
        Do(What.PLACE, "old_sector", number(event, "old_sector")),
        Do(What.NUMBER, "ioprio", number(event, "ioprio")),
    ]
