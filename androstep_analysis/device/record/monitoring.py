"""Sample a device with procmon while something runs, and make the capture here."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.common import scratch
from androstep_analysis.device.session import Session
from androstep_analysis.device.session.job import Job
from androstep_analysis.device.transport import DeviceError, LinkLost, quoted
from androstep_analysis.device.transport.notices import notify

PROCMON = "procmon"

_BEGIN_S = 0.1


class Monitoring:
    """Samples a device while a ``with`` block runs.

    Afterwards `capture` holds the samples, even if the block raised. `out` is the new capture directory, `hz` the
    sampling rate, and `seconds` ends sampling early.
    """

    def __init__(self, device: Session, out: Path, *, hz: int = 10, seconds: int | None = None) -> None:
        self.device = device
        self.out = out
        self.capture: Capture | None = None
        """The samples, once the block has ended."""
        self._options = ["--hz", str(hz), *([] if seconds is None else ["--time", str(seconds)])]
        self._place = ""
        self._job: Job | None = None

    def __enter__(self) -> Self:
        capture.refuse_existing(self.out)
        device = self.device
        self._place = device.new_directory(device.directory, root=device.has_root)
        words = [device.probe(PROCMON), *self._options, "--record", f"{self._place}/samples.rec"]
        self._job = device.start(words, root=device.has_root, directory=f"{self._place}/job")
        self._until_sampling(self._job)
        return self

    def _until_sampling(self, job: Job) -> None:
        """Wait until procmon has written its first samples, or has ended."""
        written = f"[ -s {quoted([f'{self._place}/samples.rec'])} ]"
        while job.status is None:
            if self.device.holds(written, root=job.root):
                return
            time.sleep(_BEGIN_S)
            job.poll()

    def wait(self) -> None:
        """Wait until the time is over or Ctrl-C is pressed."""
        assert self._job is not None
        with contextlib.suppress(KeyboardInterrupt):
            self._job.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._job is not None
        device, job = self.device, self._job
        device.end(job)
        device.forget(job)
        with scratch.directory("monitor") as place:
            samples = place / "samples.rec"
            try:
                device.pull(f"{self._place}/samples.rec", samples, root=device.has_root)
            except LinkLost:
                raise
            except DeviceError:
                reason = job.errors() or job.status
                raise DeviceError(f"{device.name}: procmon wrote no samples: {reason}") from None
            if job.status:
                notify(f"{device.name}: procmon failed: {job.errors() or job.status}")
            self.capture = capture.create([samples], self.out, capture.Description(facts=device.facts()))
        device.remove(self._place, root=device.has_root)
