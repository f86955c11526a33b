"""A running recording as a sequence of moments."""

from __future__ import annotations

import contextlib
import math
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common import scratch
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.device import Device
from androstep_analysis.device.record.recording import MEMORY, Recording
from androstep_analysis.device.transport import DeviceError
from androstep_analysis.present.live.history import History

HISTORY_S: Final = 40
"""Dirty pages are written back within half a minute (vm.dirty_expire_centisecs) plus a few seconds."""

_SHARE = 0.6
"""Share of the time between two moments that attribution may take."""

_POLL_S = 0.5
"""Polling interval. Each poll starts a few processes on the device."""

# iotrace ends each segment after its time is over. On a busy device it may be late by seconds.
SEGMENT_LATE_S = 120


@dataclass(frozen=True)
class Moment:
    """The requests that ended in an interval of a running recording.

    `start_ns` and `end_ns` are in the clock of the trace. `requests` has the rows of table requests that ended in the
    interval (complete_ns), `io` their pieces. `events` and `lost_events` count the recorded and the lost events.
    `history_s` is the length of the known history: data that was written to the cache before it has no owner.
    `recorder_ratio` is iotrace's share of one CPU of the device, `analysis_ratio` the share of one local CPU that
    attribution took.
    """

    start_ns: int
    end_ns: int
    requests: pl.DataFrame
    io: pl.DataFrame
    events: int
    lost_events: int
    history_s: float
    recorder_ratio: float
    analysis_ratio: float

    @property
    def seconds(self) -> float:
        """Length of the interval."""
        return (self.end_ns - self.start_ns) / NS_PER_S


class Live:
    """Record a device during a ``with`` block. Iterate over it to get the moments.

    `interval_s` is the length of a moment. If attribution takes longer, moments become longer and the history becomes
    shorter, but no event is skipped. `trace` selects storage devices, as in `Recording`. With `keep`, the whole
    recording becomes a capture in that directory.
    """

    def __init__(
        self,
        device: Device,
        *,
        interval_s: int = 2,
        history_s: int = HISTORY_S,
        keep: str | PathLike[str] | None = None,
        trace: Sequence[str] = (),
    ) -> None:
        self._device, self._interval_s, self._history_s = device, interval_s, history_s
        self._keep = None if keep is None else Path(keep)
        self._trace = trace
        self._stack = contextlib.ExitStack()
        self._least_s = math.inf  # shortest time of an attribution: the part that does not depend on the history
        self._is_ended = False

    @property
    def capture(self) -> Capture | None:
        """The capture of the recording after the block, if it was to be kept."""
        return self._recording.capture

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            # If this machine is recorded, write to memory: writes to a disk would appear in the recording.
            memory = next((Path(directory) for directory in MEMORY if Path(directory).is_dir()), None)
            directory = stack.enter_context(scratch.directory("live", memory if self._device.is_here else None))
            stack.enter_context(_temporary_files_in(directory))
            self._place = directory
            self._recording = Recording(
                self._device,
                out=self._keep or directory / "kept",
                workload="androstep top",
                trace=self._trace,
                segment_s=self._interval_s,
                keeps=self._keep is not None,
                perfetto=False,
            )
            stack.enter_context(self._recording)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def end(self) -> None:
        """Stop after the current moment. May be called from a signal handler or another thread."""
        self._is_ended = True

    def __iter__(self) -> Iterator[Moment]:
        fetching = self._recording.segments()
        history: History | None = None
        shown_ns = began_ns = None
        spent_before_s = joined_s = 0.0
        due = time.monotonic() + self._interval_s
        while not self._is_ended:
            found = fetching.fetch()
            if not found.new:
                if time.monotonic() > due + SEGMENT_LATE_S:
                    raise DeviceError(
                        f"{self._device.name}: iotrace wrote no segment for {SEGMENT_LATE_S} s; "
                        "is the device asleep, or its memory full?"
                    )
                time.sleep(min(_POLL_S, self._interval_s / 4))
                continue
            history = history or History(found.directory, self._place)
            added = [history.add(path) for path in found.new]
            end_ns = added[-1].end_ns
            begin = time.monotonic()
            used_s = _cpu_s()
            tables = history.tables()
            start_ns = max(added[0].end_ns, history.window_ns) if shown_ns is None else shown_ns
            moment = _ended(tables, start_ns, end_ns)
            joined_s, spent_s = time.monotonic() - begin, found.spent_s - spent_before_s
            began_ns = added[0].end_ns if began_ns is None else began_ns
            first_ns = began_ns if history.start_ns is None else history.start_ns
            seconds = (end_ns - start_ns) / NS_PER_S
            if seconds > 0:
                yield Moment(
                    start_ns,
                    end_ns,
                    *moment,
                    sum(segment.events for segment in added),
                    sum(segment.lost for segment in added),
                    (end_ns - first_ns) / NS_PER_S,
                    spent_s / seconds,
                    (_cpu_s() - used_s) / seconds,
                )
            shown_ns, spent_before_s = max(start_ns, end_ns), found.spent_s
            for path in history.forget(self._too_much(history, joined_s)):
                if self._keep is None:
                    path.unlink()
            due = time.monotonic() + self._interval_s

    def _too_much(self, history: History, joined_s: float) -> int:
        """Return the number of segments to drop, so that attribution keeps up with the recording.

        Segments from before the end of the file listing are dropped too. The location of a file before it was listed is
        unknown, and later events report every change since the listing.
        """
        sizes = [segment.path.stat().st_size for segment in history.segments]
        ends = [segment.end_ns for segment in history.segments]
        since_ns = max(ends[-1] - self._history_s * NS_PER_S, history.listed_ns)
        old = min(sum(start < since_ns for start in (history.start_ns or 0, *ends)), len(sizes) - 1)
        self._least_s = min(self._least_s, joined_s)
        grows_s = (joined_s - self._least_s) / sum(sizes)
        capacity = (_SHARE * self._interval_s - self._least_s) / grows_s - sizes[-1] if grows_s else sum(sizes)
        while old < len(sizes) - 1 and sum(sizes[old:]) > capacity:
            old += 1
        return old


def _ended(tables: Mapping[str, pl.LazyFrame], start_ns: int, end_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return tables requests and io for the requests that ended in [start_ns, end_ns)."""
    ended = pl.col("complete_ns").is_between(start_ns, end_ns, closed="left")
    requests = tables["requests"].filter(ended).collect()
    return requests, tables["io"].join(requests.select("request_id").lazy(), on="request_id", how="semi").collect()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _temporary_files_in(directory: Path) -> Iterator[None]:
    """Make all temporary files in this directory."""
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before
