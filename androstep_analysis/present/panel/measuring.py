"""A measurement in a thread of its own, with progress, that can be stopped."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from androstep_analysis import device
from androstep_analysis.bench.records import PROBE
from androstep_analysis.common.errors import InputError
from androstep_analysis.device import probe
from androstep_analysis.device.record import probes
from androstep_analysis.device.runs import bench as run_bench
from androstep_analysis.present.panel import history
from androstep_analysis.present.panel.jobs import Job

_PROGRESS = re.compile(r"repeat (\d+)/\d+ (\d+) ops/s(, done)?")


class Stopped(Exception):
    """The user stopped the measurement."""


@dataclass
class Progress:
    """Progress of a measurement: the share that is done (0 to 1), a description, and the rates of repetitions.

    `rates` has operations per second of each repetition of each test. If `is_running`, the last one is not final.
    """

    share: float = 0
    words: str = ""
    rates: dict[str, list[float]] = field(default_factory=dict)
    is_running: bool = False


class Measuring(threading.Thread):
    """Run iobench for `job` in a directory of the device `where`, and save the results as a capture in `home`.

    It calls `moved` with the progress. At the end it always calls `ended` with the capture's directory (or None) and
    the error message (or None). Both are called in this thread.
    """

    def __init__(
        self,
        where: str,
        directory: str,
        job: Job,
        home: Path,
        moved: Callable[[Progress], None],
        ended: Callable[[Path | None, str | None], None],
    ) -> None:
        super().__init__(name="androstep-panel", daemon=True)
        self._where = where
        self._job = job
        self._options = job.options(directory)
        self._home = home
        self._moved = moved
        self._ended = ended
        self._progress = Progress()
        self._said = "not every repetition is valid"
        self._is_unwanted = threading.Event()

    def stop(self) -> None:
        """Stop the measurement. Its files are removed from the device."""
        self._is_unwanted.set()

    def run(self) -> None:
        """Run the measurement in this thread."""
        made: Path | None = None
        problem: str | None = "the program failed; see the notebook's log"
        try:
            made, problem = self._measured()
        except Stopped:
            problem = "stopped; the unfinished test is not kept"
        except (InputError, OSError) as error:
            problem = str(error)
        finally:
            self._ended(made, problem)

    def _measured(self) -> tuple[Path | None, str | None]:
        """Return the capture of all runs, and an error message if repetitions failed."""
        self._go_on()
        with device.connect(self._where) as target:
            out = history.new_directory(self._home)
            facts = probes.facts(target, self._options)
            done = run_bench(self._options, out, runner=self._watched(target), facts=facts)
        problem = f"iobench ended with status {done.status}: {self._said}" if done.status else None
        return (None if done.capture is None else out), problem

    def _go_on(self) -> None:
        """Raise `Stopped` if the user stopped the measurement."""
        if self._is_unwanted.is_set():
            raise Stopped

    def _watched(self, target: device.Device) -> probe.Runner:
        """Return a runner of iobench on the device that reports progress and can be stopped."""
        runner = target.runner(PROBE, meanwhile=self._go_on)
        left = [test for tests in self._job.of_runs().values() for test in tests]
        nr_tests = len(left)

        def watched(options: Sequence[str], path: Path, line: Callable[[str], None]) -> int:
            self._go_on()
            test = left.pop(0)
            before = nr_tests - len(left) - 1

            def watch(text: str) -> None:
                found = probe.progress(PROBE, text)
                if found is None:
                    self._said = text
                    line(text)
                else:
                    self._moved(_moved(self._progress, (before + found[0] / 100) / nr_tests, found[1], test))

            return runner(options, path, watch)

        return watched


def _moved(progress: Progress, share: float, words: str, test: str) -> Progress:
    """Update the progress from a progress line of iobench."""
    progress.share = share
    if match := _PROGRESS.fullmatch(words):
        repeat = int(match[1])
        progress.words = f"{test}, repetition {repeat}"
        progress.rates[test] = [*progress.rates.get(test, [])[: repeat - 1], float(match[2])]
        progress.is_running = match[3] is None
    return progress
