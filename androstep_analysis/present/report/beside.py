"""Sections of a page on everything except requests: file I/O, system calls, device commands and samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from androstep_analysis.common.markup import Element
from androstep_analysis.present import beside
from androstep_analysis.present.report import cells
from androstep_analysis.present.report.document import Part
from androstep_analysis.present.report.section import Glossary
from androstep_analysis.present.sheets import Sheet

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def parts(capture: Capture, glossary: Glossary) -> Iterator[Part]:
    """Yield the sections that the capture has data for."""
    rows = capture.about["rows"]
    if rows["fs_events"] and (files := _tables([beside.files(capture)])):
        yield Part("asked", "What did processes write, read and sync?", [*files, *glossary.fold(("file_io",))])
    if rows["syscalls"]:
        yield Part("calls", "Which system calls?", _tables(beside.calls(capture.syscalls)))
    if rows["commands"]:
        yield Part("commands", "Which commands did the device receive?", _tables([beside.commands(capture.commands)]))
    if rows["samples"]:
        if cpus := _tables(beside.cpus(capture.samples)):
            yield Part("cpu", "What did the CPUs do?", [*cpus, *glossary.fold(("cpu", "busyness"))])
        yield Part("counters", "What did the counters say?", _tables([beside.counters(capture.samples)]))


def _tables(shown: Iterable[Sheet]) -> list[Element]:
    return [cells.sheet(one) for one in shown if one.rows.height]
