"""The panel itself: three tabs, and what happens when something in them is clicked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from androstep_analysis import device
from androstep_analysis.capture import Capture
from androstep_analysis.markup import Element, el
from androstep_analysis.panel import results
from androstep_analysis.panel.measuring import Measuring
from androstep_analysis.panel.settings import FILE_TESTS, JOURNAL_MODES, SQLITE_TESTS, SYNC_MODES, SYNCHRONOUS, Settings

ALL = (*FILE_TESTS, *SQLITE_TESTS)

_WIDE = {"description_width": "12em"}


class Panel:
    """Measure, History and Settings. Results are captures in `home`, which is made when it is needed.

    `devices` are what can be chosen (`device.connect`'s words; by default `device.reachable()`); another one can be
    typed. `settings` are those that stand in the third tab at first. `widget` is the panel for a layout of one's own.
    """

    def __init__(
        self,
        home: str | PathLike[str] = "bench-results",
        *,
        devices: Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.home = Path(home)
        self._measuring: Measuring | None = None
        self._is_busy = False
        self._changing = threading.Lock()  # a measurement ends in its own thread, while buttons are clicked in another
        self._settings = _Fields(settings or Settings())
        self.widget = widgets.Tab(
            [self._measure(device.reachable() if devices is None else devices), self._history(), self._settings.widget],
            titles=("Measure", "History", "Settings"),
        )
        self._show_history()

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        return self.widget._repr_mimebundle_(**asked)

    # -- Measure -------------------------------------------------------------------------------------------------------

    def _measure(self, devices: Sequence[str]) -> widgets.Widget:
        self._where = widgets.Combobox(
            value=next(iter(devices), ""),
            options=tuple(devices),
            description="Device",
            placeholder="local, HOST:PORT, usb:SERIAL or adb:SERIAL",
            ensure_option=False,
        )
        self._custom = widgets.SelectMultiple(options=ALL, value=ALL[:1], rows=len(ALL), description="Custom")
        starts = {"All": ALL, "File I/O": tuple(FILE_TESTS), "SQLite": tuple(SQLITE_TESTS), "Custom": None}
        self._starts = []
        for title, tests in starts.items():
            button = widgets.Button(description=title, button_style="primary" if tests else "")
            button.on_click(lambda _, tests=tests: self._start(self._custom.value if tests is None else tests))
            self._starts.append(button)
        self._stop = widgets.Button(description="Stop", button_style="danger", disabled=True)
        self._stop.on_click(lambda _: self._end())
        self._bar = widgets.FloatProgress(min=0, max=1, layout=widgets.Layout(width="100%"))
        self._status = widgets.HTML()
        self._results = widgets.HTML()
        return widgets.VBox(
            [
                self._where,
                widgets.HBox([*self._starts, self._stop]),
                self._custom,
                self._bar,
                self._status,
                self._results,
            ]
        )

    def _start(self, tests: Sequence[str]) -> None:
        runs = self._settings.read().options(tests)
        if not runs:
            self._say("choose at least one test")
            return
        with self._changing:
            if self._is_busy:  # a second click that came before the browser knew of the first
                return
            self._busy(True)
        self._moved(0, f"connecting to {self._where.value}")
        self._results.value = ""
        self._measuring = Measuring(self._where.value, runs, self.home, self._moved, self._ended)
        self._measuring.start()

    def _end(self) -> None:
        if self._measuring is not None:
            self._measuring.stop()
            self._stop.disabled = True

    def _busy(self, is_busy: bool) -> None:
        self._is_busy = is_busy
        for button in self._starts:
            button.disabled = is_busy
        self._stop.disabled = not is_busy

    def _moved(self, share: float, words: str) -> None:
        self._bar.value = share
        self._say(f"{share:.0%} {words}")

    def _ended(self, made: list[Capture], problem: str | None) -> None:
        self._bar.value = 1 if problem is None else 0
        kept = f"kept in {self.home}: {', '.join(one.title for one in made)}" if made else "nothing was kept"
        try:
            self._results.value = str(el("div", *(results.outcome(one) for one in made)))
            self._show_history()
        finally:
            with self._changing:
                self._say(f"done; {kept}" if problem is None else f"{problem}; {kept}")
                self._busy(False)

    def _say(self, words: str) -> None:
        self._status.value = str(el("span", words))

    # -- History -------------------------------------------------------------------------------------------------------

    def _history(self) -> widgets.Widget:
        self._past: dict[str, Capture] = {}
        self._chosen = widgets.SelectMultiple(rows=8, layout=widgets.Layout(width="100%"))
        self._chosen.observe(lambda _: self._show_chosen(), names="value")
        self._shown = widgets.HTML()
        refresh = widgets.Button(description="Refresh")
        refresh.on_click(lambda _: self._show_history())
        hint = widgets.HTML(str(el("span", "One shows its settings and results; two are compared, the older first.")))
        return widgets.VBox([widgets.HBox([refresh, hint]), self._chosen, self._shown])

    def _show_history(self) -> None:
        self._past = results.kept(self.home)
        self._chosen.options = [(f"{name}  {one.facts['device'] or ''}", name) for name, one in self._past.items()]

    def _show_chosen(self) -> None:
        past = self._past
        chosen = [past[name] for name in sorted(self._chosen.value) if name in past]  # others went with a refresh
        parts: list[Element] = [results.outcome(one) for one in chosen]
        if len(chosen) == 2:
            parts.insert(0, results.comparison(*chosen))
        self._shown.value = str(el("div", *parts))


class _Fields:
    """The third tab: a field for each of `Settings`."""

    def __init__(self, settings: Settings) -> None:
        self._fields = {
            "directory": widgets.Text(settings.directory, placeholder="on the device; empty: where the program starts"),
            "threads": _whole(settings.threads, 1, 1024),
            "file_kib": _whole(settings.file_kib, 4, 1 << 26),
            "record_kib": _whole(settings.record_kib, 1, 1 << 20),
            "sync_mode": widgets.Dropdown(options=SYNC_MODES, value=settings.sync_mode),
            "transactions": _whole(settings.transactions, 1, 1 << 20),
            "journal_mode": widgets.Dropdown(options=JOURNAL_MODES, value=settings.journal_mode),
            "synchronous": widgets.Dropdown(options=SYNCHRONOUS, value=settings.synchronous),
            "repeats": _whole(settings.repeats, 1, 1000),
        }
        for name, field in self._fields.items():
            field.description, field.style = _TITLES[name], _WIDE
        self.widget = widgets.VBox(list(self._fields.values()))

    def read(self) -> Settings:
        """What stands in the fields."""
        return Settings(**{name: field.value for name, field in self._fields.items()})


_TITLES = {
    "directory": "Directory",
    "threads": "Threads",
    "file_kib": "File size, KiB",
    "record_kib": "Record size, KiB",
    "sync_mode": "File sync mode",
    "transactions": "Transactions",
    "journal_mode": "SQLite journal mode",
    "synchronous": "SQLite synchronous",
    "repeats": "Repetitions",
}


def _whole(value: int, least: int, most: int) -> widgets.Widget:
    return widgets.BoundedIntText(value, min=least, max=most)
