"""The panel: three pages that share a directory of results."""

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
    """Measure, History and Ranking. Results are captures in `home`, which is created when needed.

    `devices` are offered for selection (words of `device.connect`; by default `device.reachable()`); others can be
    typed. `directory` and `job` are the initial choices on the first device. `widget` is the panel, for layouts of your
    own.
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
