"""Start an activity by an intent, with the framework's command ``am``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from androstep_analysis.device.workloads.log import Log

_TIMES: Final = {"WaitTime": "wait_duration_ns", "TotalTime": "shown_duration_ns"}
"""Times in ms that ``am start -W`` prints (frameworks/base, ActivityManagerShellCommand.java), and their columns."""

_TIME: Final = re.compile(rf"^({'|'.join(_TIMES)}): (\d{{1,9}})\s*$", re.MULTILINE | re.ASCII)

_LAUNCH_STATE: Final = re.compile(r"^LaunchState: (?!COLD\b|UNKNOWN\b)([A-Z]\w*)", re.MULTILINE)
"""A start that was not cold, as Android 10 and later report it."""


def start(log: Log, what: str, label: str, intent: Sequence[str], *, is_cold: bool = False, note: str = "") -> None:
    """Log a step that starts an activity and ends when the framework reports that its window was drawn.

    `note` is the detail of a start that does not fail. With `is_cold`, it also states that a start was not cold.
    """
    done = log.stamped(["am", "start", "-W", *intent])
    output = f"{done.answer.text}\n{done.answer.errors.decode('utf-8', 'replace')}"
    if done.answer.status or re.search(
        "^Error", output, re.MULTILINE
    ):  # am exits with 0 even if it could not start the activity
        log.add(what, label, done.begin_ns, done.end_ns, outcome="failed", detail=output.strip()[:1000])
        return
    outcome = "timeout" if "Status: timeout" in output else "completed"
    times = {_TIMES[name]: int(ms) * 1_000_000 for name, ms in _TIME.findall(output)}
    state = _LAUNCH_STATE.search(output) if is_cold else None
    notes = [note] if note else []
    detail = "; ".join([*notes, f"not a cold start: Android reports {state[1]}"] if state else notes) or None
    log.add(what, label, done.begin_ns, done.end_ns, outcome=outcome, detail=detail, **times)
