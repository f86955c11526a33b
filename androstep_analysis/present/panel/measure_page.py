"""The page that measures: device and directory, job, estimated cost, and progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from androstep_analysis import device
from androstep_analysis.bench.records import PROBE
from androstep_analysis.common import quantities
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import Element, el
from androstep_analysis.device.runs import workload
from androstep_analysis.present.headline.results import RELIABLE
from androstep_analysis.present.panel import history, shown
from androstep_analysis.present.panel.jobs import ALL, JOURNAL_MODES, PRESETS, SYNC_MODES, SYNCHRONOUS, Job
from androstep_analysis.present.panel.measuring import Measuring, Progress

if TYPE_CHECKING:
    from androstep_analysis.device.session.place import Place

OWN: Final = "A job of your own"

_LABELS: Final = {"description_width": "11em"}
_FIELD: Final = widgets.Layout(width="min(100%, 34em)")

_TITLES: Final = {
    "tests": "Tests",
    "threads": "Threads",
    "file_kib": "File size, KiB",
    "record_kib": "Record size, KiB",
    "records": "Records at most",
    "seconds": "Seconds at most",
    "sync_mode": "File sync mode",
    "transactions": "Transactions",
    "journal_mode": "SQLite journal mode",
    "synchronous": "SQLite synchronous",
}


class MeasurePage:
    """Choose a job and where to run it, and watch its progress. It calls `measured` after a new result in `home`."""

    def __init__(
        self, home: Path, devices: Sequence[str], directory: str, job: Job, measured: Callable[[], None]
    ) -> None:
        self._home = home
        self._measured = measured
        self._measuring: Measuring | None = None
        self._is_busy = False
        self._changing = threading.Lock()  # a measurement ends in its own thread, while buttons are clicked in another
        self._place: Place | None = None
        self._where = widgets.Combobox(
            value=next(iter(devices), ""),
            options=tuple(devices),
            placeholder="local, HOST:PORT, usb:SERIAL, adb:SERIAL",
        )
        self._directory = widgets.Combobox(value=directory, placeholder="on the device")
        self._there = widgets.HTML()
        self._preset = widgets.Dropdown(options=(*PRESETS, OWN), value=OWN if job != Job() else next(iter(PRESETS)))
        self._repeats = widgets.BoundedIntText(job.repeats, min=1, max=1000)
        self._fields = _fields(job)
        self._own = widgets.VBox(list(self._fields.values()))
        self._plan = widgets.HTML()
        self._name = widgets.Text(placeholder="a name for the result")
        fields = {"Device": self._where, "Directory": self._directory, "What to measure": self._preset}
        fields |= {"Repetitions": self._repeats, "Name": self._name}
        for title, field in fields.items():
            field.description, field.style, field.layout, field.continuous_update = title, _LABELS, _FIELD, False
        self._start = widgets.Button(description="Start", button_style="primary")
        self._start.on_click(lambda _: self._begin())
        self._stop = widgets.Button(description="Stop", disabled=True)
        self._stop.on_click(lambda _: self._end())
        self._bar = widgets.FloatProgress(min=0, max=1, description="Done", layout=widgets.Layout(width="100%"))
        self._status = widgets.HTML()
        self._chart = widgets.HTML()
        self._result = widgets.HTML()
        self.widget = widgets.VBox(
            [
                *(self._where, self._directory, self._there, self._preset, self._own, self._repeats, self._plan),
                *(self._name, widgets.HBox([self._start, self._stop]), self._bar, self._status, self._chart),
                self._result,
            ]
        )
        self._where.observe(lambda _: self._look(is_new=True), names="value")
        self._directory.observe(self._look_again, names="value")
        for field in (self._preset, self._repeats, *self._fields.values()):
            field.observe(lambda _: self._show_plan(), names="value")
        self._look()

    @property
    def job(self) -> Job:
        """The selected job."""
        job = PRESETS.get(self._preset.value) or Job(**{name: field.value for name, field in self._fields.items()})
        return replace(job, repeats=self._repeats.value)

    def _look_again(self, _: object) -> None:
        self._look()

    def _look(self, *, is_new: bool = False) -> None:
        """Show the storage below the directory. For a new device, choose its default directory."""
        self._place = None
        try:
            with device.connect(self._where.value, patience_s=0) as target:
                place = target.place("" if is_new else self._directory.value)
        except (InputError, OSError) as error:
            self._there.value = str(_refused(str(error)))
        else:
            self._directory.options = place.others
            self._directory.unobserve(self._look_again, names="value")
            self._directory.value = place.path
            self._directory.observe(self._look_again, names="value")
            self._place = place
            self._there.value = str(_there(place))
        self._show_plan()

    def _show_plan(self) -> None:
        self._own.layout.display = "" if self._preset.value == OWN else "none"
        problem = self._problem()
        self._plan.value = str(_refused(problem) if problem else shown.lines(self._planned()))
        self._start.disabled = self._is_busy or problem is not None or self._place is None

    def _problem(self) -> str | None:
        """Return why the job cannot run there, or None."""
        job = self.job
        if not job.tests:
            return "Choose at least one test."
        free = None if self._place is None else self._place.free_bytes
        if free is not None and free < job.room_bytes:
            return f"This needs {_size(job.room_bytes)}, and {_size(free)} are free there."
        return None

    def _planned(self) -> list[Element | str]:
        """Return sentences on what will be done, its cost, and what the results are good for."""
        job = self.job
        times = f"{job.repeats} times each" if job.repeats > 1 else "once each"
        cost = f"Writes about {_size(job.written_bytes)}, needs up to {_size(job.room_bytes)} of free space"
        few = (
            f"Fewer than {RELIABLE} repetitions have no 95 % interval: measure at least {RELIABLE} times to compare "
            "results."
        )
        enough = f"at least {RELIABLE} are needed for a 95 % interval of the median"
        return [
            *job.words(),
            f"All {times}: {enough}." if job.repeats >= RELIABLE else el("b", few),
            f"{cost} and removes its files at the end. {self._duration(job)}",
        ]

    def _duration(self, job: Job) -> str:
        """Return the expected duration: that of an equal job on this device, else an estimate for typical storage."""
        if self._place is not None:
            asked = _asked(job, self._place.path)
            for result in history.results(self._home):
                facts, is_whole = result.capture.facts, not result.capture.about["bench"]["invalid"]
                if is_whole and facts["workload"] == asked and facts["device"] == self._place.device:
                    return f"It takes about {_time(result.seconds)}, as {result.name} did."
        fast, slow = job.seconds_taken()
        return f"It takes about {_time(fast)} on a good SSD, and {_time(slow)} on a slow memory card."

    def _begin(self) -> None:
        self._look()
        if self._place is None or self._problem() is not None:
            return
        with self._changing:
            if self._is_busy:  # a second click, sent before the browser disabled the button
                return
            self._busy(True)
        self._moved(Progress(words=f"connecting to {self._where.value}"))
        self._result.value = ""
        place, job = self._place.path, self.job
        self._measuring = Measuring(self._where.value, place, job, self._home, self._moved, self._ended)
        self._measuring.start()

    def _end(self) -> None:
        if self._measuring is not None:
            self._measuring.stop()
            self._stop.disabled = True

    def _busy(self, is_busy: bool) -> None:
        self._is_busy = is_busy
        self._start.disabled = is_busy
        self._stop.disabled = not is_busy

    def _moved(self, progress: Progress) -> None:
        self._bar.value = progress.share
        self._chart.value = str(shown.progress(progress))
        self._say(f"{progress.share:.0%} {progress.words}")

    def _ended(self, made: Path | None, problem: str | None) -> None:
        self._bar.value = 1 if problem is None else 0
        outcome = "nothing was kept"
        try:
            if made is not None:
                outcome = f"kept in {made}"
                history.annotate(made, self._name.value, "")
                self._name.value = ""
                self._result.value = str(shown.outcome(history.result(made)))
            self._measured()
        finally:
            with self._changing:
                self._say(f"done; {outcome}" if problem is None else f"{problem}; {outcome}")
                self._busy(False)
            self._show_plan()

    def _say(self, words: str) -> None:
        self._status.value = str(el("p", words, role="status"))


def _asked(job: Job, directory: str) -> str:
    return " ".join([PROBE, *workload(job.options(directory))])


def _fields(job: Job) -> dict[str, Any]:
    """Return an input field for each setting of a custom job."""
    fields = {
        "tests": widgets.SelectMultiple(options=ALL, value=job.tests, rows=len(ALL)),
        "threads": widgets.BoundedIntText(job.threads, min=1, max=1024),
        "file_kib": widgets.BoundedIntText(job.file_kib, min=4, max=1 << 26),
        "record_kib": widgets.BoundedIntText(job.record_kib, min=1, max=1 << 20),
        "records": widgets.BoundedIntText(job.records, min=0, max=1 << 30),
        "seconds": widgets.BoundedFloatText(job.seconds, min=0, max=3600, step=0.1),
        "sync_mode": widgets.Dropdown(options=SYNC_MODES, value=job.sync_mode),
        "transactions": widgets.BoundedIntText(job.transactions, min=1, max=1 << 20),
        "journal_mode": widgets.Dropdown(options=JOURNAL_MODES, value=job.journal_mode),
        "synchronous": widgets.Dropdown(options=SYNCHRONOUS, value=job.synchronous),
    }
    for name, field in fields.items():
        field.description, field.style, field.layout = _TITLES[name], _LABELS, _FIELD
    return fields


def _there(place: Place) -> Element:
    """Return a description of the storage below a directory."""
    free = "free space unknown" if place.free_bytes is None else f"{_size(place.free_bytes)} free"
    on = ", ".join(part for part in (place.kind, place.model) if part)
    return shown.lines(
        [
            el("b", " · ".join([*([place.device] if place.device else []), place.path])),
            f"{place.mount.fs_type} on {on} ({place.mount.source}), {free}",
            f"Mounted on {place.mount.path} with {place.mount.options}",
        ]
    )


def _refused(problem: str) -> Element:
    return el("p", problem, class_="refused", role="alert")


def _time(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


def _size(count: int) -> str:
    """Format an approximate number of bytes."""
    divisor, unit = quantities.byte_unit(count)
    return f"{count / divisor:,.{0 if count >= 10 * divisor else 1}f} {unit}"
