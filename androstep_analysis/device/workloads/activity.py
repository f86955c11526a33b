"""Start an activity by an intent, with the framework's command ``am``."""

from __future__ import annotations

from collections.abc import Sequence

from androstep_analysis.device.workloads.log import Log


def start(log: Log, what: str, label: str, intent: Sequence[str]) -> None:
    """Log a step that starts an activity and ends when the framework reports that its window was drawn."""
    done = log.stamped(["am", "start", "-W", *intent])
    output = f"{done.answer.text}\n{done.answer.errors.decode('utf-8', 'replace')}"
    if done.answer.status or "Error" in output:  # am exits with 0 even if it could not start the activity
        log.add(what, label, done.begin_ns, done.end_ns, outcome="failed", detail=output.strip()[:1000])
    else:
        outcome = "timeout" if "Status: timeout" in output else "completed"
        log.add(what, label, done.begin_ns, done.end_ns, outcome=outcome)
