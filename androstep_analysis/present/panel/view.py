"""The panel itself: three pages, and what one tells the others."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from androstep_analysis import device
from androstep_analysis.common.markup import el
from androstep_analysis.present.panel.history_page import HistoryPage
from androstep_analysis.present.panel.jobs import Job
from androstep_analysis.present.panel.measure_page import MeasurePage
from androstep_analysis.present.panel.ranking_page import RankingPage
from androstep_analysis.present.panel.shown import STYLE


class Panel:
    """Measure, History and Ranking. Results are captures in `home`, which is made when it is needed.

    `devices` are what can be chosen (`device.connect`'s words; by default `device.reachable()`); another one can be
    typed. `directory` is where to measure at first, on the first of them, and `job` what. `widget` is the panel for a
    layout of one's own.
    """

    def __init__(
        self,
        home: str | PathLike[str] = "bench-results",
        *,
        devices: Sequence[str] | None = None,
        directory: str = "",
        job: Job | None = None,
    ) -> None:
        self.home = Path(home)
        found = device.reachable() if devices is None else devices
        self.history = HistoryPage(self.home, self._refresh)
        self.ranking = RankingPage(self.home)
        self.measure = MeasurePage(self.home, found, directory, job or Job(), self._refresh)
        pages = [self.measure.widget, self.history.widget, self.ranking.widget]
        tabs = widgets.Tab(pages, titles=("Measure", "History", "Ranking"))
        self.widget = widgets.VBox([widgets.HTML(str(el("style", STYLE))), tabs])
        self.widget.add_class("androstep-panel")

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        return self.widget._repr_mimebundle_(**asked)

    def _refresh(self) -> None:
        self.history.refresh()
        self.ranking.refresh()
