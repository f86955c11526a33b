"""Capture the device's GUI with ``uiautomator dump`` until it is stable."""

from __future__ import annotations

from androstep_analysis.device.transport import quoted
from androstep_analysis.device.workloads.log import Log
from androstep_analysis.perceived import SETTLE_NS, gui
from androstep_analysis.perceived.gui import Snapshot

_DUMP_S = 60.0


def dump(log: Log) -> Snapshot | None:
    """Take a snapshot of the GUI and log it; None if the device gave none.

    uiautomator fails if the screen does not come to rest within 10 s, and for contents that an app protects.
    """
    target = f"{log.device.directory}/window.xml"
    done = log.stamped(["uiautomator", "dump", target], timeout_s=_DUMP_S)
    read = log.device.query(quoted(["cat", target]))
    log.device.query(quoted(["rm", "-f", target]))
    if done.answer.status or read.status or len(read.output) > gui.MAX_BYTES:
        return None
    snapshot = Snapshot(done.begin_ns, done.end_ns, read.output)
    log.snapshot(snapshot)
    return snapshot


def until_stable(log: Log, timeout_s: float, settle_ns: int = SETTLE_NS) -> None:
    """Log a step that ends once the GUI is unchanged for `settle_ns` without background work, or at the time-out."""
    begin = log.now_ns()
    state: str | None = None
    since = begin
    while True:
        snapshot = dump(log)
        digest = None if snapshot is None else _digest(snapshot)
        if snapshot is None or digest is None:
            state = None
        elif digest != state:
            state, since = digest, snapshot.end_ns
        elif snapshot.ts_ns - since >= settle_ns:
            log.add("wait", "stable", begin, snapshot.end_ns)
            return
        now = log.now_ns()
        if now - begin > timeout_s * 1e9:
            log.add("wait", "stable", begin, now, outcome="timeout", detail=f"not stable within {timeout_s:g} s")
            return


def _digest(snapshot: Snapshot) -> str | None:
    """Return the digest of the state; None if it is busy or cannot be parsed."""
    try:
        state = gui.parse(snapshot.xml)
    except ValueError:
        return None
    return None if state.is_busy else state.digest
