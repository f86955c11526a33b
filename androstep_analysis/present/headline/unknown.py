"""Gaps in a recording, and the commands that would record the missing data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis.common.losses import SEVERAL_CLOCKS, UNORDERED
from androstep_analysis.present.headline.words import Gap, Sentence

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture
    from androstep_analysis.common.errors import Loss

_RECORD: Final = "`androstep record`"
_STRACE: Final = "`strace -f -ttt -T -yy`"
_IMAGE: Final = "`androstep ingest --image-after`"
_CLOCKS: Final = "times come from several clocks"

_TABLES: Final = {
    "bench": "results of benchmarks",
    "commands": "commands to a device",
    "samples": "counters",
    "syscalls": "system calls",
}
"""Other tables than those of requests, and what they hold."""


def sentence(gaps: Sequence[Gap]) -> Sentence:
    """Return the sentence on everything unknown: the reasons, and the commands that would record it."""
    by: dict[str, list[str]] = {}
    for gap in gaps:
        by.setdefault(gap.by, []).append(f"{gap.about} ({gap.why})")
    parts = [", ".join(reasons) + (f": use {command}" if command else "") for command, reasons in by.items()]
    parts += [f"for {gap.about} also {gap.also}" for gap in gaps if gap.also]
    return Sentence("unknown", ("; ".join(parts),), "unknown")


def missing(capture: Capture, name: str) -> str:
    """Return why a recording shows nothing of `name`: a column of table `io`, or another table. Empty if it does."""
    if name in _TABLES:
        return "" if capture.about["rows"].get(name) else f"The recording has no {_TABLES[name]}."
    if not capture.about["rows"]["requests"]:
        return "No request is recorded: `androstep summary` says what is."
    text = pl.col(name).cast(pl.String)
    if capture.io.select((text.is_not_null() & (text != "unknown")).any()).collect().item():
        return ""
    if name == "op":
        return str(requests(capture))
    return str((owners if name.startswith("owner_") else times if name.endswith("_ns") else files)(capture))


def owners(capture: Capture, *, are_inferred: bool = False) -> Gap:
    """Return why no process is proven to be the cause of I/O."""
    unseen = any(kind.events == ("block_bio_queue",) for kind in capture.lacking)
    why = ["only inferred"] * are_inferred + ["no block_bio_queue"] * unseen
    return Gap("processes", ", ".join(why) or "none recorded", _recorder(capture))


def writers(capture: Capture) -> Gap | None:
    """Return why most written bytes have no proven owner; None if they have, or if no missing event explains it."""
    owned = capture.coverage.filter(metric="owned", op="write")["value"]
    if owned.is_empty() or owned.item() >= 0.5:
        return None
    dirtying = [kind.events[0] for kind in capture.lacking if kind.title == "pages becoming dirty"]
    if dirtying or not capture.about["rows"]["fs_events"]:
        return Gap("writers", f"no {dirtying[0]}" if dirtying else "no events of the page cache", _recorder(capture))
    return None


def files(capture: Capture) -> Gap:
    """Return why no file is known."""
    if capture.about.get("snapshots"):
        return Gap("files", "no image or listing is proven to fit", "one taken right after recording")
    if capture.io.select(pl.col("ino").is_not_null().any()).collect().item():
        return Gap("files", "inodes without names", _IMAGE)
    if capture.about["rows"]["fs_events"]:
        return Gap("files", "no event has a path", _IMAGE)
    return Gap("files", "no filesystem events", _RECORD, _IMAGE)


def _recorder(capture: Capture) -> str:
    """Return the command that records more than this recording has."""
    return _RECORD if capture.facts["rooted"] is not False else f"{_RECORD} with root"


def times(capture: Capture) -> Gap:
    """Return why the duration of requests is unknown."""
    if any(loss.kind == SEVERAL_CLOCKS for loss in capture.losses):
        return Gap("times", _CLOCKS, _RECORD)
    return Gap("times", "no issue" if capture.population["completed"] else "no completion", _RECORD)


def interchangeable(count: int) -> Gap:
    """Return why the durations of some requests are unknown."""
    which = "1 request" if count == 1 else f"{count} requests"
    return Gap(f"times of {which}", "an equal one was in flight, and events do not state which ended first", "")


def unordered(capture: Capture) -> Loss | None:
    """Return the loss because of which the order of requests is unknown; None if that of all is known."""
    return next((loss for loss in capture.losses if loss.kind in (UNORDERED, SEVERAL_CLOCKS)), None)


def order(loss: Loss) -> Gap:
    """Return why the order of requests is unknown, from `unordered`."""
    if loss.kind == SEVERAL_CLOCKS:
        return Gap("order of requests, and so what is random", _CLOCKS, _RECORD)
    return Gap(f"order of {loss.count:,} requests", "the list rounds the time of issue", _RECORD)


def sync() -> Gap:
    return Gap("sync", "no flags (rwbs)", _RECORD)


def requests(capture: Capture) -> Gap:
    """Return why the I/O that reached a device is unknown."""
    actions = capture.block_events.select(pl.col("action").cast(pl.String).unique()).collect().to_series()
    reason = "no block events"
    if {"issue", "complete"} & {*actions}:
        reason = "the block events are of commands without data"
    elif len(actions):
        reason = "the block events do not include the issue or completion of one"
    return Gap("requests", reason, _RECORD)


def call_times() -> Gap:
    """Return why the duration of system calls is unknown."""
    return Gap("times", "the calls have no durations", _STRACE)


def paths() -> Gap:
    """Return why the files of system calls are unknown."""
    return Gap("files", "no call has a path", _STRACE)
