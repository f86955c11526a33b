"""A capture of a user who taps and waits, with expected values computed by hand."""

from __future__ import annotations

from typing import Any

from androstep_analysis import schema
from androstep_analysis.capture import Capture, derivation
from support import made

MS = 10**6
APP = "org.example.app"
LABELS = ("Go", "Dialog", "Nothing")

IN_FLIGHT = {"Go": (500 / 890, 300 / 890), "Dialog": (0.0, 0.0)}
"""Shares of the waits with I/O in flight, of any process and of the app.

The app's I/O is from 600 to 900 ms, another process' from 1000 to 1200.
"""

LATENCIES = {"Go": (390 * MS, 890 * MS), "Dialog": (0, 140 * MS)}
"""Bounds of the latencies.

Go: tapped from 500 to 510 ms, seen from 900 (the old screen) to 1390. Dialog: from 5000 to 5010, 4990 to 5140.
"""

_SHOWN = {0: "list", 400: "list", 900: "loading", 1300: "page", 1900: "page", 4990: "page", 5050: "menu", 9000: "menu"}


def capture(labels: tuple[str, str, str] = LABELS, package: str = APP, *, has_requests: bool = True) -> Capture:
    """Return the capture: two taps that led to a stable screen, and one without effect.

    `labels` are the names of the taps, `package` is the app on the screen.
    """
    taps = zip(labels, (500, 5000, 20_000), strict=True)
    common = {"workload": "w", "repeat": 0, "error_ns": 0, "outcome": "completed", "what": "tap"}
    steps = [
        common | {"number": number, "label": label, "ts_ns": at * MS, "end_ns": (at + 10) * MS}
        for number, (label, at) in enumerate(taps)
    ]
    states = [
        {"ts_ns": at * MS, "end_ns": (at + 90) * MS, "state": state, "busy": False, "objects": 1, "properties": 1}
        | {"package": package}
        for at, state in _SHOWN.items()
    ]
    tables = {name: schema.empty(name) for name in derivation.TABLES}
    tables |= {"steps": made.table("steps", steps), "gui_states": made.table("gui_states", states)}
    if has_requests:
        tables |= _storage(package)
    span: dict[str, Any] = {"first_ns": 0, "last_ns": 30_000 * MS}
    about = {"workloads": ["w"], "steps": 3, "completed": 3}
    return made.of_tables(tables, steps=about, gui={"snapshots": len(states), "states": 4}, **span)


def _storage(package: str) -> dict[str, Any]:
    mine = {"op": "write", "queue_ns": 600 * MS, "issue_ns": 601 * MS, "complete_ns": 900 * MS, "sector": 0}
    other = {"op": "read", "queue_ns": 1000 * MS, "issue_ns": 1001 * MS, "complete_ns": 1200 * MS, "sector": 800}
    rows = [{**row, "request_id": number} for number, row in enumerate((mine, other))]
    owners = [{"owner_package": package, "owner_comm": "main"}, {"owner_package": None, "owner_comm": "other"}]
    known = {"owner_via": "submitter", "owner_count": 1}
    pieces = [row | owner | known for row, owner in zip(rows, owners, strict=True)]
    return {"requests": made.table("requests", rows), "io": made.table("io", pieces)}
