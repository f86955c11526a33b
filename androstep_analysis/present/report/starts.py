"""The report's section on starts of apps: time to the first frame, wait for storage, and the files read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from androstep_analysis import perceived
from androstep_analysis.common.markup import Element, el
from androstep_analysis.present import starts
from androstep_analysis.present.report import cells
from androstep_analysis.present.report.section import Glossary

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def elements(capture: Capture, glossary: Glossary) -> list[Element]:
    """Return the section; an empty list if the capture has no completed start."""
    rows = starts.of(capture)
    if rows is None:
        return []
    files = starts.files(perceived.read_files(capture.io, rows))
    apps = ", ".join(rows["app"].unique(maintain_order=True))
    return [
        el("ul", *(el("li", line) for line in (f"{rows.height:,} starts of {apps}", *starts.summary(rows)))),
        cells.sheet(starts.starts(rows)),
        *(el("p", note) for note in starts.notes(rows)),
        *([el("h3", files.title), cells.sheet(files)] if files.rows.height else []),
        *glossary.fold(("starts",)),
    ]
