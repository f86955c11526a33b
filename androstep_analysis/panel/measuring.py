"""A measurement that goes on beside the notebook, can be watched, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from androstep_analysis import device, probe
from androstep_analysis.bench.records import PROBE
from androstep_analysis.capture import Capture
from androstep_analysis.errors import InputError
from androstep_analysis.runs import bench as run_bench


class Stopped(Exception):
    """The user ended the measurement."""


class Measuring(threading.Thread):
    """Runs iobench on the device `where` once for each of `runs`, and keeps each result in a capture in `home`.

    Calls `moved` with the share that is done (0 to 1) and with words, and at the end, whatever came, `ended` with the
    captures made and with what went wrong, if anything did. Both are called in this thread.
    """

    def __init__(
        self,
        where: str,
        runs: Sequence[Sequence[str]],
        home: Path,
        moved: Callable[[float, str], None],
        ended: Callable[[list[Capture], str | None], None],
    ) -> None:
        super().__init__(name="androstep-panel", daemon=True)
        self._where = where
        self._runs = runs
        self._home = home
        self._moved = moved
        self._ended = ended
        self._is_unwanted = threading.Event()

    def stop(self) -> None:
        """Ends the measurement, which removes its files from the device."""
        self._is_unwanted.set()

    def run(self) -> None:
        """What the thread does."""
        made: list[Capture] = []
        problem: str | None = "the program failed; the notebook's log tells how"
        try:
            problem = self._measured(made)
        except Stopped:
            problem = "stopped; what was being measured is not kept"
        except (InputError, OSError) as error:
            problem = str(error)
        finally:
            self._ended(made, problem)

    def _measured(self, made: list[Capture]) -> str | None:
        """Adds the captures of all runs to `made`; what went wrong with their repetitions, if anything did."""
        problem = None
        self._go_on()
        with device.connect(self._where) as target:
            known = target.facts()
            for number, options in enumerate(self._runs):
                self._go_on()
                facts = known | {"workload": " ".join([PROBE, *options])}
                done = run_bench(options, self._place(), runner=self._watched(target, number), facts=facts)
                if done.capture is not None:
                    made.append(done.capture)
                if done.status:
                    problem = f"iobench ended with status {done.status}: {self._said}"
        return problem

    def _go_on(self) -> None:
        """Raises `Stopped` where the user wants no more of it."""
        if self._is_unwanted.is_set():
            raise Stopped

    _said = "not every repetition is valid"

    def _place(self) -> Path:
        """A directory for a capture that is not there yet."""
        self._home.mkdir(parents=True, exist_ok=True)
        stem = f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
        return next(self._home / name for name in names if not (self._home / name).exists())

    def _watched(self, target: device.Device, number: int) -> probe.Runner:
        """iobench on the device, its progress shown; it ends when the user wants no more of it."""
        runner = target.runner(PROBE, meanwhile=self._go_on)

        def watched(options: Sequence[str], path: Path, line: Callable[[str], None]) -> int:
            def watch(text: str) -> None:
                found = probe.progress(PROBE, text)
                if found is None:
                    self._said = text
                else:
                    self._moved((number + found[0] / 100) / len(self._runs), found[1])
                line(text)

            return runner(options, path, watch)

        return watched
