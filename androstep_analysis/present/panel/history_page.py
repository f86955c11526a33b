"""The page of results: open, rename, compare, share and delete them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import ipywidgets as widgets

from androstep_analysis.common import scratch
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import Element, el, visible
from androstep_analysis.present import report
from androstep_analysis.present.panel import history, shown
from androstep_analysis.present.panel.history import Result
from androstep_analysis.present.report import comparison as comparison_page

_LABELS: Final = {"description_width": "11em"}
_FIELD: Final = widgets.Layout(width="min(100%, 34em)")


class HistoryPage:
    """The results in `home`. It calls `changed` after results were added, removed or renamed."""

    def __init__(self, home: Path, changed: Callable[[], None]) -> None:
        self._home = home
        self._changed = changed
        self._results: dict[str, Result] = {}
        self._list = widgets.SelectMultiple(
            rows=8, description="Results", style=_LABELS, layout=widgets.Layout(width="auto")
        )
        self._list.observe(self._show, names="value")
        hint = "Select one to see its settings, or two or more to compare them (Ctrl or Shift adds one)."
        self._open = widgets.FileUpload(description="Open a shared file", layout=widgets.Layout(width="14em"))
        self._open.observe(lambda _: self._receive(), names="value")
        self._name = widgets.Text(description="Name", style=_LABELS, layout=_FIELD)
        self._note = widgets.Textarea(description="Note", rows=3, style=_LABELS, layout=_FIELD)
        self._save = _button("Save name and note", self._annotate)
        self._share = _button("Share as files", self._offer)
        self._remove = _button("Delete", lambda: self._ask(is_asked=True))
        self._sure = widgets.HTML()
        self._do_remove = _button("Delete for good", self._delete, button_style="danger")
        self._keep = _button("Keep", lambda: self._ask(is_asked=False))
        self._confirm = widgets.VBox([self._sure, widgets.HBox([self._do_remove, self._keep])])
        self._about = widgets.VBox([self._name, self._note])
        self._buttons = widgets.HBox([self._save, self._share, self._remove])
        self._said, self._files, self._shown = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.widget = widgets.VBox(
            [
                *(widgets.HTML(str(el("p", hint))), self._list, self._open, self._about, self._buttons, self._confirm),
                *(self._said, self._files, self._shown),
            ]
        )
        self.refresh()

    def refresh(self) -> None:
        """Read the directory again. The selection is kept."""
        self._results = {one.directory.name: one for one in history.results(self._home)}
        chosen = [name for name in self._list.value if name in self._results]
        self._list.unobserve(self._show, names="value")  # avoids drawing the selection several times
        self._list.options = [(_title(one), name) for name, one in self._results.items()]
        self._list.value = chosen
        self._list.observe(self._show, names="value")
        self._show()

    @property
    def _chosen(self) -> list[Result]:
        """The selected results, the oldest first."""
        return [self._results[name] for name in sorted(self._list.value) if name in self._results]

    def _show(self, _: object = None) -> None:
        chosen = self._chosen
        one = chosen[0] if len(chosen) == 1 else None
        self._name.value, self._note.value = (one.name, one.note) if one else ("", "")
        self._files.value = ""
        self._ask(is_asked=False)
        for widget, is_there in ((self._about, one), (self._save, one), (self._remove, one), (self._share, chosen)):
            widget.layout.display = "" if is_there else "none"
        try:
            parts = [shown.comparison(shown.compared(chosen))] if len(chosen) > 1 else []
        except InputError as error:
            parts = [el("p", str(error), class_="refused", role="alert")]
        self._shown.value = str(el("div", *parts, *(shown.outcome(result) for result in chosen)))

    def _annotate(self) -> None:
        for result in self._chosen:
            history.annotate(result.directory, self._name.value, self._note.value)
            self._say(f"{self._name.value or result.directory.name}: saved")
        self._changed()

    def _ask(self, *, is_asked: bool) -> None:
        """Show or hide the confirmation of a deletion."""
        self._confirm.layout.display = "" if is_asked else "none"
        names = ", ".join(f"{one.name} ({one.directory})" for one in self._chosen)
        self._sure.value = str(el("p", f"Delete {names} with all that was measured?", role="alert")) if is_asked else ""

    def _delete(self) -> None:
        for result in self._chosen:
            history.remove(result.directory)
            self._say(f"{result.name}: deleted")
        self._changed()

    def _receive(self) -> None:
        for file in self._open.value:
            try:
                made = history.receive(self._home, file["name"], bytes(file["content"]))
            except (InputError, OSError) as error:
                self._say(f"{file['name']}: {error}", is_bad=True)
            else:
                self._changed()
                self._list.value = [made.name]
                self._say(f"{file['name']}: opened, and kept in {made}")
        if self._open.value:
            self._open.value = ()  # so that the same file can be opened again

    def _offer(self) -> None:
        """Offer links to files of the selection: a result and its report, or the page of a comparison."""
        chosen = self._chosen
        with scratch.directory("shared") as directory:
            page = directory / "page.html"
            if len(chosen) == 1:
                stem = chosen[0].directory.name
                report.write(chosen[0].capture, page)
                links = [
                    _link(
                        f"{stem}.tar.xz",
                        history.packed(chosen[0].directory),
                        "the result, to be opened in another panel",
                    ),
                    _link(f"{stem}.html", page.read_bytes(), "a page to read"),
                ]
            else:
                comparison_page.write(shown.compared(chosen), page)
                links = [_link("comparison.html", page.read_bytes(), "a page to read")]
        self._files.value = str(shown.lines(links))

    def _say(self, words: str, *, is_bad: bool = False) -> None:
        kind = {"class_": "refused", "role": "alert"} if is_bad else {"role": "status"}
        self._said.value = str(el("p", words, **kind))


def _title(result: Result) -> str:
    parts: Sequence[str | None] = (result.name, result.when, result.capture.facts["device"], *_kinds(result))
    return visible(" · ".join(part for part in parts if part))


def _kinds(result: Result) -> list[str]:
    runs = result.capture.bench["bench_runs"]
    count = runs["test"].n_unique()
    return [f"{count} test{'s' if count > 1 else ''}", *runs["fs_type"].drop_nulls().unique(maintain_order=True)]


def _link(name: str, content: bytes, about: str) -> Element:
    """Return a link that saves a file. The content is embedded, so no server is needed."""
    data = base64.b64encode(content).decode("ascii")
    link = el("a", name, href=f"data:application/octet-stream;base64,{data}", download=name)
    return el("span", link, f" – {about}")


def _button(title: str, do: Callable[[], None], **choices: str) -> widgets.Button:
    button = widgets.Button(description=title, layout=widgets.Layout(width="auto"), **choices)
    button.on_click(lambda _: do())
    return button
