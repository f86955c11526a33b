"""The report's section on what was recorded: device, time and format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from androstep_analysis.common.markup import Element, el
from androstep_analysis.present.report import overview

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def elements(capture: Capture) -> list[Element]:
    """Return the known facts about the recording, and the names of the unknown ones."""
    facts = [(title, capture.facts.get(name)) for name, title in _FACTS.items()]
    if (length := overview.length(capture)) is None:
        window = "no times" if capture.events else "no events"
    else:
        parts = f" in {len(capture.jumps) + 1} parts" if capture.jumps else ""
        recorded_ns = capture.recorded_ns
        whole = "" if recorded_ns is None else f" (of {overview.duration(recorded_ns)} recorded)"
        window = f"{length}{parts}{whole}, from {capture.first_ns:,} to {capture.last_ns:,} ns"
    known = [(title, str(value)) for title, value in facts if value is not None]
    known += [
        ("Window", window),
        ("Format", capture.format),
        ("Events", f"{sum(capture.events.values()):,} (kinds: {len(capture.events):,})"),
    ]
    unknown = [title.lower() for title, value in facts if value is None]
    rows = [el("tr", el("th", title, scope="row"), el("td", value)) for title, value in known]
    return [
        el("table", el("tbody", *rows), aria_label="Facts of the recording"),
        *([el("p", f"Not recorded: {', '.join(unknown)}.")] if unknown else []),
    ]


_FACTS = {
    "device": "Device",
    "soc": "System on chip",
    "android_release": "Android release",
    "sdk": "API level",
    "build_fingerprint": "Build",
    "kernel": "Kernel",
    "storage_model": "Storage",
    "fs_type": "Filesystem",
    "encryption": "Encryption",
    "workload": "Workload",
    "rooted": "Root",
    "clock": "Clock",
    "capture_id": "Capture",
}
