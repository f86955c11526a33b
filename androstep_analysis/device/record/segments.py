"""Fetch segments of a running recording (``iotrace --segment``)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from androstep_analysis.device.session import Session
from androstep_analysis.device.session.job import Job
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.ingest.ftrace import segments

TASKS, NAMES = "tasks.rec", "names.rec"

_TICKS_PER_S = 100
"""USER_HZ, the unit of times in /proc, on all processors that Android supports."""

_SPENT = slice(11, 15)
"""Fields in /proc/PID/stat after the name: CPU time of the process and of its children that have ended."""


@dataclass(frozen=True)
class Segments:
    """The available part of a running recording.

    `new` are the segments completed since the last call, in order, in `directory`. That directory also has
    ``recording.json``, ``before.rec``, ``tasks.rec`` (all threads at the end of the last segment) and ``names.rec`` (as
    far as written). `spent_s` is the CPU time of iotrace on the device so far.
    """

    directory: Path
    new: list[Path]
    spent_s: float


class Fetching:
    """Fetches the segments of the recording that iotrace (`job`) writes to a directory of the device.

    They are copied to `there`, or used in place if that directory can be read locally.
    """

    def __init__(self, device: Session, job: Job, recording: str, there: Path) -> None:
        self._device, self._job, self._recording = device, job, recording
        self._is_here = device.is_here and os.access(recording, os.R_OK | os.W_OK | os.X_OK)
        self._there = Path(recording) if self._is_here else there
        self._last = ""

    def fetch(self) -> Segments:
        """Return what is new; raise `DeviceError` with iotrace's messages if it has ended."""
        said = self._job.poll()
        if self._job.status is not None:
            reason = "; ".join(said) or self._job.errors() or self._job.status
            raise DeviceError(f"{self._device.name}: iotrace has ended: {reason}")
        pid = self._job.pid()
        children = f"$(cat /proc/{pid}/task/{pid}/children 2>/dev/null)"
        spent = f"for p in {pid} {children}; do cat /proc/$p/stat; done 2>/dev/null"
        lines = self._said(f"ls; echo; {spent}").decode("utf-8", "replace").splitlines()
        end = lines.index("")
        new = sorted(name for name in lines[:end] if segments.is_one(name) and name > self._last)
        if not self._is_here:
            self._copy(new)
        self._last = new[-1] if new else self._last
        times = (line.rpartition(") ")[2].split()[_SPENT] for line in lines[end + 1 :])
        ticks = sum(int(word) for words in times for word in words)
        return Segments(self._there, [self._there / name for name in new], ticks / _TICKS_PER_S)

    def _copy(self, new: list[str]) -> None:
        """Copy what is new, and remove the segments from the device's memory."""
        self._there.mkdir(parents=True, exist_ok=True)
        whole = [] if self._last or not new else ["recording.json", "before.rec"]
        for name in [*whole, *new]:
            self._device.pull(f"{self._recording}/{name}", self._there / name, root=True)
        if new:
            self._said(f"rm -f {quoted(new)}")
            (self._there / TASKS).write_bytes(self._said(f"cat {TASKS}"))
        # names.rec only grows, so only its new part is copied.
        names = self._there / NAMES
        held = names.stat().st_size if names.exists() else 0
        with names.open("ab") as file:
            file.write(self._said(f"[ ! -e {NAMES} ] || tail -c +{held + 1} {NAMES}"))

    def _said(self, text: str) -> bytes:
        return self._device.ensure(f"cd {quoted([self._recording])} && {{ {text}; }}", "look for segments", root=True)
