"""`androstep top` in a terminal: a live ranking, with keys that choose what is ranked."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.messages import ExitApp
from textual.widgets import DataTable, Footer, Sparkline, Static

from androstep_analysis.common.markup import visible
from androstep_analysis.present.live.live import Moment
from androstep_analysis.present.live.ranking import SORTS, ranking, totals
from androstep_analysis.present.live.words import cells, cost, header, headline
from androstep_analysis.present.terminal.text import shortened

_LETTERS: Final = {"a": "app", "p": "process", "f": "file", "t": "type", "d": "device"}

_NAME_COLUMNS: Final = 44

_MOMENTS: Final = 120
"""Maximum number of moments in the sparkline."""


class _Arrived(Message):
    """The next moment."""

    def __init__(self, moment: Moment) -> None:
        super().__init__()
        self.moment = moment


class Screen(App[None]):
    """Display each moment as it arrives, until q is pressed (which calls `end`) or the moments end.

    `show` runs it.
    """

    TITLE = "androstep top"
    CSS = "Static { padding: 0 1; } Sparkline { height: 2; padding: 0 1; } DataTable { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(letter, f"rank('{by}')", by) for letter, by in _LETTERS.items()),
        Binding("s", "sort", "sort"),
        Binding("space", "pause", "pause"),
        Binding("q,ctrl+c", "quit", "quit", priority=True),
    ]

    def __init__(self, name: str, moments: Iterator[Moment], end: Callable[[], None], *, by: str, sort: str) -> None:
        super().__init__()
        self._name, self._moments, self._end = visible(name), moments, end
        self._by, self._sort = by, sort
        self._moment: Moment | None = None
        self._past: deque[float] = deque(maxlen=_MOMENTS)
        self._is_paused = False
        self._error: BaseException | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def compose(self) -> ComposeResult:
        """Yield the widgets, from top to bottom."""
        yield Static("recording begins …", id="headline", markup=False)
        yield Sparkline([], id="past")
        yield DataTable(id="ranking", cursor_type="row", zebra_stripes=True)
        yield Static("", id="cost", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Start reading the moments in another thread."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self._reader.start()

    def show(self) -> None:
        """Run until it is quit or the moments end. Re-raise an error of the reader."""
        try:
            self.run()
        finally:
            self._end()
            self._reader.join()  # it may be in the middle of a device command
        if self._error is not None:
            raise self._error

    def action_rank(self, by: str) -> None:
        """Rank by another of `KEYS`."""
        self._by = by
        self._show()

    def action_sort(self) -> None:
        """Sort by the next of `SORTS`."""
        names = list(SORTS)
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self._show()

    def action_pause(self) -> None:
        """Freeze or unfreeze the display. Recording continues."""
        self._is_paused = not self._is_paused
        self._show()

    def _read(self) -> None:
        try:
            for moment in self._moments:
                self.post_message(_Arrived(moment))
        except BaseException as error:
            self._error = error
        self.post_message(ExitApp())

    @on(_Arrived)
    def _take(self, arrived: _Arrived) -> None:
        moment = arrived.moment
        self._past.append(totals(moment)["bytes_per_s"] or 0)
        self.query_one("#past", Sparkline).data = list(self._past)
        if not self._is_paused:
            self._moment = moment
            self._show()

    def _show(self) -> None:
        if self._moment is None:
            return
        paused = " (paused)" if self._is_paused else ""
        self.query_one("#headline", Static).update(f"{self._name}{paused}: {headline(self._moment)}")
        self.query_one("#cost", Static).update(f"by {self._by}, sorted by {self._sort}; {cost(self._moment)}")
        table = self.query_one(DataTable)
        table.clear(columns=True)
        rows = [_plain(row) for row in cells(ranking(self._moment, self._by, self._sort), self._by)]
        # Set the widths here: the table would compute them only for the next update.
        for number, name in enumerate(header(self._by)):
            table.add_column(name, width=max([len(name), *(row[number].cell_len for row in rows)]))
        table.add_rows(rows)


def _plain(row: list[str]) -> list[Text]:
    """Return cells without markup (a file name could contain it), with numbers right-aligned."""
    name, *numbers = row
    return [Text(shortened(visible(name), _NAME_COLUMNS)), *(Text(number, justify="right") for number in numbers)]
