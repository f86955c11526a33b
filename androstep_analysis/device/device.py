"""A device, and everything that can be recorded and measured on it."""

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
    """A session with a device that records and measures; what needs it is imported when it is first used."""

    def runner(
        self, name: str, *operands: str, root: bool | None = None, meanwhile: Callable[[], None] | None = None
    ) -> Runner:
        """Runs one of our probes there (`probe.Runner`), with `operands`, which are the device's, behind the options.

        As root where the device lets us, unless `root` says. `meanwhile` is called a few times a second; what it raises
        ends the probe.
        """
        from androstep_analysis.device.record.probes import runner

        return runner(self, name, operands, root=self.has_root if root is None else root, meanwhile=meanwhile)

    def doctor(self) -> list[Finding]:
        """What of recording and measuring works there, and what does not, with what that prevents."""
        from androstep_analysis.device.record.doctor import examine

        return examine(self)

    def bench(self, options: Sequence[str] | Mapping[str, Sequence[str]], out: str | PathLike[str]) -> Run:
        """Runs iobench there, as `runs.bench` does here; its capture is made at `out`."""
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
        """Replays a program in a directory of the device, as `runs.replay` does here; its capture is at `out`."""
        from androstep_analysis.device.record.probes import replay

        return replay(self, Path(program), directory, Path(out), options, repeats=repeats)

    def record(self, **choices: Any) -> Recording | StockRecording:
        """Records while its block runs: ``with device.record(workload=…, out=…) as recording`` (`Recording`).

        Where there is no root, the device's own Perfetto records (`StockRecording`).
        """
        if self.has_root:
            from androstep_analysis.device.record.recording import Recording

            return Recording(self, **choices)
        from androstep_analysis.device.record.stock import StockRecording

        return StockRecording(self, **choices)

    def monitor(self, out: str | PathLike[str], *, hz: int = 10, seconds: int | None = None) -> Monitoring:
        """Samples counters of kernel and processes while its block runs (`Monitoring`)."""
        from androstep_analysis.device.record.monitoring import Monitoring

        return Monitoring(self, Path(out), hz=hz, seconds=seconds)

    def recover(self, out: str | PathLike[str]) -> list[Capture]:
        """Ends and fetches recordings that a lost link or a killed program left on the device (`recovery.recover`)."""
        from androstep_analysis.device.record.recovery import recover

        return recover(self, Path(out))
