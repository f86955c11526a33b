"""The page that ranks results among released ones."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import ipywidgets as widgets

from androstep_analysis import capture, compare
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import el, visible
from androstep_analysis.datasets import fetch
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present.panel import history, shown

RELEASED: Final = "bench"
"""Name of the dataset among whose results a result is ranked by default."""


class RankingPage:
    """The results in `home`, ranked among those of a dataset."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[str, list[Recording]] = {}
        labels = {"description_width": "11em"}
        self._own = widgets.SelectMultiple(
            rows=6, description="Your results", style=labels, layout=widgets.Layout(width="auto")
        )
        self._beside = widgets.Text(
            _released(), description="Compare with", style=labels, layout=widgets.Layout(width="auto")
        )
        rank = widgets.Button(description="Rank", button_style="primary")
        rank.on_click(lambda _: self._show())
        hint = (
            "Results of the same job are ranked in each test, the fastest first. Results that no comparison "
            "distinguishes share ranks. The released results are from virtual machines, not from phones."
        )
        self._shown = widgets.HTML()
        self.widget = widgets.VBox([widgets.HTML(str(el("p", hint))), self._own, self._beside, rank, self._shown])
        self.refresh()

    def refresh(self) -> None:
        """Read the directory again.

        The selection is kept, and new results are added to it; initially, the newest is selected.
        """
        before = {name for _, name in self._own.options}
        names = {one.directory.name: visible(one.name) for one in history.results(self._home)}
        chosen = [name for name in names if name in self._own.value or (before and name not in before)]
        self._own.options = [(title, name) for name, title in names.items()]
        self._own.value = chosen or list(names)[:1]

    def _show(self) -> None:
        try:
            own = [history.result(self._home / name) for name in self._own.value]
            if not own:
                raise InputError("choose at least one of your results; if there are none, measure first")
            beside = self._recordings(self._beside.value)
            ranked = shown.compared(own, beside)
            alone = set(ranked.measured["capture"]) <= {one.name for one in own}
            notes = (
                ["No results there are of the same job: measure with a preset to be ranked among them."]
                if alone
                else []
            )
            parts = [shown.lines(notes), shown.ranking(ranked, [one.name for one in own])]
        except (InputError, OSError) as error:
            parts = [el("p", str(error), class_="refused", role="alert")]
        self._shown.value = str(el("div", *parts))

    def _recordings(self, location: str) -> list[Recording]:
        """Return the results of a released dataset, or of all result directories in a directory. They are cached."""
        if location and location not in self._known:
            directory = Path(location)
            if (directory / "tables" / "captures").is_dir():
                found = compare.of_release(directory)
            elif directory.is_dir():
                opened = [capture.open(path) for path in sorted(directory.iterdir()) if path.is_dir()]
                found = [Recording.of(one) for one in opened if one.about["bench"]]
            else:
                raise InputError(f"{location}: no such directory")
            self._known[location] = found
        return self._known.get(location, [])


def _released() -> str:
    try:
        return str(fetch(RELEASED))
    except InputError:  # not in a clone of the repository
        return ""
