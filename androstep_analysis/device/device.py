"""A device with everything that can be recorded and measured on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from androstep_analysis.device.session import Session

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture
    from androstep_analysis.device.doctor import Finding
    from androstep_analysis.device.probe import Runner
    from androstep_analysis.device.record.monitoring import Monitoring
    from androstep_analysis.device.record.recording import Recording
    from androstep_analysis.device.record.stock import StockRecording
    from androstep_analysis.device.runs import Run


class Device(Session):
    """A session with a device that can record and measure.

    The modules for that are imported at first use.
    """

    def runner(
        self, name: str, *operands: str, root: bool | None = None, meanwhile: Callable[[], None] | None = None
    ) -> Runner:
        """Return a runner (`probe.Runner`) that runs one of our probes on the device.

        `operands` follow the options and are paths on the device. The probe runs as root if the device allows it,
        unless `root` says otherwise. `meanwhile` is called a few times a second; an exception from it ends the probe.
        """
        from androstep_analysis.device.record.probes import runner

        return runner(self, name, operands, root=self.has_root if root is None else root, meanwhile=meanwhile)

    def doctor(self) -> list[Finding]:
        """Check which parts of recording and measuring work on the device."""
        from androstep_analysis.device.record.doctor import examine

        return examine(self)

    def bench(self, options: Sequence[str] | Mapping[str, Sequence[str]], out: str | PathLike[str]) -> Run:
        """Run iobench on the device like `runs.bench`, and make its capture at `out`."""
        from androstep_analysis.device.record.probes import bench

        return bench(self, options, Path(out))

    def replay(
        self,
        program: str | PathLike[str],
        directory: str,
        out: str | PathLike[str],
        options: Sequence[str] = (),
        *,
        repeats: int = 1,
    ) -> Run:
        """Replay a program in a directory of the device like `runs.replay`, and make its capture at `out`."""
        from androstep_analysis.device.record.probes import replay

        return replay(self, Path(program), directory, Path(out), options, repeats=repeats)

    def record(self, **choices: Any) -> Recording | StockRecording:
        """Record while a block runs: ``with device.record(workload=…, out=…) as recording`` (`Recording`).

        Without root, the device's own Perfetto records (`StockRecording`).
        """
        if self.has_root:
            from androstep_analysis.device.record.recording import Recording

            return Recording(self, **choices)
        from androstep_analysis.device.record.stock import StockRecording

        return StockRecording(self, **choices)

    def monitor(self, out: str | PathLike[str], *, hz: int = 10, seconds: int | None = None) -> Monitoring:
        """Sample counters of the kernel and of processes while a block runs (`Monitoring`)."""
        from androstep_analysis.device.record.monitoring import Monitoring

        return Monitoring(self, Path(out), hz=hz, seconds=seconds)

    def recover(self, out: str | PathLike[str]) -> list[Capture]:
        """End and fetch recordings that a lost link or a killed program left on the device (`recovery.recover`)."""
        from androstep_analysis.device.record.recovery import recover

        return recover(self, Path(out))
