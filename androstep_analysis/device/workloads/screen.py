"""What the device shows, by ``uiautomator dump``: taken with times, until it is stable."""

from __future__ import annotations

from androstep_analysis.device.transport import quoted
from androstep_analysis.device.workloads.log import Log
from androstep_analysis.perceived import SETTLE_NS, gui
from androstep_analysis.perceived.gui import Snapshot

_DUMP_S = 60.0


def dump(log: Log) -> Snapshot | None:
    """A snapshot of the GUI, which is also kept in the log; None where the device gave none.

    uiautomator does so while the screen does not come to rest within 10 s, and for what an app protects.
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
    """A step that ends when the GUI has been the same for `settle_ns` and shows no background work, or in time-out."""
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
    """The state, None while it is busy or is none."""
    try:
        state = gui.parse(snapshot.xml)
    except ValueError:
        return None
    return None if state.is_busy else state.digest
