"""Map events about the importance of processes (table `importance`), in binary recordings and in text.

The events are `oom_score_adj_update` (include/trace/events/oom.h, Linux 3.4 to 6.18: the value is int, then short),
recorded on every write to /proc/PID/oom_score_adj, and `task_newtask` (task.h, since 3.4). A new task inherits the
value of its parent.
"""

from __future__ import annotations

from androstep_analysis.ingest.ftrace.event_format import Event
from androstep_analysis.ingest.ftrace.programs import Do, What, code, number, text

TABLE = "importance"

EVENTS = ("oom_score_adj_update", "task_newtask")

_NEW = "pid={task} comm={task_comm:text} clone_flags="

FIELDS: dict[str, tuple[str, ...]] = {
    "oom_score_adj_update": ("pid={task} comm={task_comm:text} oom_score_adj={oom_score_adj:s}{end}",),
    "task_newtask": (
        f"{_NEW}0x{{clone_flags:x}} oom_score_adj={{oom_score_adj:s}}{{end}}",
        f"{_NEW}{{clone_flags:x}} oom_score_adj={{oom_score_adj:s}}{{end}}",
    ),
}
"""The forms (`ingest.ftrace.forms`) of the text after an event's name. The first form that matches is used."""


def steps(event: Event) -> list[Do]:
    """Return how a record of `event` fills a row of `importance`; empty for events that yield no row."""
    if event.name not in EVENTS:
        return []
    return [
        code(TABLE, "event", event.name),
        Do(What.NUMBER, "task", number(event, "pid")),
        Do(What.TEXT, "task_comm", text(event, "comm")),
        Do(What.NUMBER, "oom_score_adj", number(event, "oom_score_adj")),
        Do(What.NUMBER, "clone_flags", number(event, "clone_flags")),
    ]
