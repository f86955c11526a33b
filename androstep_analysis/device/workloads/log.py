"""Log the steps of a running workload with times read on the device, and snapshots of its GUI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import Answer, DeviceError, quoted
from androstep_analysis.device.workloads.clock import relation
from androstep_analysis.perceived import archive, tables
from androstep_analysis.perceived.gui import Snapshot

COMMAND_S = 600.0
"""Time limit of a command in seconds. A large package takes minutes on a slow phone."""

_NOW = "date +%s%N"
_STAMPS = re.compile(rb"\n([0-9]{15,19}) ([0-9]{1,3}) ([0-9]{15,19})\n?\Z")


@dataclass(frozen=True)
class Ran:
    """The result of a workload: table `steps` and snapshots of the GUI, in the device's CLOCK_BOOTTIME."""

    steps: pl.DataFrame
    snapshots: tuple[Snapshot, ...]
    realtime_offset_ns: int

    def files(self, directory: Path) -> list[Path]:
        """Write steps.json, and gui.zip if there are snapshots, to a directory as sources of a capture."""
        made = [directory / "steps.json"]
        tables.write(self.steps, made[0], self.realtime_offset_ns)
        if self.snapshots:
            made.append(directory / "gui.zip")
            archive.write(self.snapshots, made[1], self.realtime_offset_ns)
        return made


@dataclass(frozen=True)
class Stamped:
    """A command's answer with its begin and end in the device's CLOCK_REALTIME."""

    answer: Answer
    begin_ns: int
    end_ns: int


@dataclass
class Log:
    """The steps so far. Times are in the device's CLOCK_REALTIME until `ran` converts them to CLOCK_BOOTTIME."""

    device: Session
    workload: str
    repeat: int = 0
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _snapshots: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = relation(self.device)

    def stamped(self, words: Sequence[str], *, stdin: str | None = None, timeout_s: float = COMMAND_S) -> Stamped:
        """Run a program on the device; `stdin` is a file there."""
        line = quoted(words) + (f" <{quoted([stdin])}" if stdin is not None else "")
        text = f'b=$({_NOW}); {line}; s=$?; e=$({_NOW}); printf "\\n%s %s %s\\n" "$b" "$s" "$e"'
        answer = self.device.script(text, timeout_s=timeout_s)
        stamps = _STAMPS.search(answer.output)
        if stamps is None:
            raise DeviceError(f"{self.device.name}: {words[0]} did not end as expected ({answer.complaint})")
        of_program = Answer(int(stamps[2]), answer.output[: stamps.start()], answer.errors)
        return Stamped(of_program, int(stamps[1]), int(stamps[3]))

    def now_ns(self) -> int:
        """Return the device's CLOCK_REALTIME."""
        return int(self.device.checked(_NOW, "read the device's clock"))

    def add(
        self,
        what: str,
        label: str,
        begin_ns: int,
        end_ns: int,
        *,
        outcome: str = "completed",
        detail: str | None = None,
        bytes: int | None = None,
        **started: int | None,
    ) -> None:
        """Append a step. `started` are the columns of a started app: wait_duration_ns and shown_duration_ns."""
        row = {"what": what, "label": label, "ts_ns": begin_ns, "end_ns": end_ns, "outcome": outcome}
        number = {"workload": self.workload, "repeat": self.repeat, "number": len(self._rows)}
        self._rows.append({**number, **row, "detail": detail, "bytes": bytes, **started})

    def command(self, what: str, label: str, words: Sequence[str]) -> Stamped:
        """Run a program on the device and log it as a step, which fails if the program does."""
        done = self.stamped(words)
        failed = done.answer.status != 0
        detail = done.answer.complaint[:1000] if failed else None
        self.add(what, label, done.begin_ns, done.end_ns, outcome="failed" if failed else "completed", detail=detail)
        return done

    def snapshot(self, snapshot: Snapshot) -> None:
        """Append a snapshot of the GUI."""
        self._snapshots.append(snapshot)

    def ran(self) -> Ran:
        """Return the result once the workload has ended."""
        clocks = self._before.with_other(relation(self.device))
        names = schema.table("steps").polars
        rows = pl.DataFrame([{**row, "error_ns": clocks.error_ns} for row in self._rows], schema=names)
        shifted = rows.with_columns(pl.col("ts_ns", "end_ns") + clocks.offset_ns)
        # The error of the clocks' offset shifts all times alike: steps and snapshots are exact to each other.
        offset_ns = clocks.offset_ns
        snapshots = tuple(Snapshot(one.ts_ns + offset_ns, one.end_ns + offset_ns, one.xml) for one in self._snapshots)
        return Ran(schema.conform(shifted, "steps"), snapshots, -clocks.offset_ns)
