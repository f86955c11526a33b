"""Running the storage benchmark, here or elsewhere, and keeping what it found as a capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from androstep_analysis import capture, probe, scratch
from androstep_analysis.bench.records import PROBE
from androstep_analysis.capture import Capture
from androstep_analysis.probe import Runner


@dataclass(frozen=True)
class Run:
    """What a run of iobench came to: its exit status (0: every repetition is valid), and its results, if it has any."""

    status: int
    capture: Capture | None


def run(
    options: Sequence[str],
    out: Path,
    *,
    runner: Runner | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Run:
    """Run iobench with `options` and keep its results in the new capture directory `out`.

    `runner` says where it runs (`probe.Runner`), by default on this machine; `facts` what is known of the machine
    (`manifest.FACTS`), by default of this one. A bar shows the progress. The capture holds ``raw/bench.rec``, also
    where repetitions are invalid; there is none where iobench wrote no results, or where the run was interrupted.
    Raises `InputError` where `out` exists, and for an option that only the caller can give.
    """
    capture.refuse_existing(out)
    known = probe.this_machine(PROBE, options) if facts is None else facts
    with scratch.directory("bench") as place:
        record = place / "bench.rec"
        status = probe.record(PROBE, options, record, runner or probe.local(PROBE))
        if not record.exists():
            return Run(status, None)
        return Run(status, capture.create([record], out, facts=known))
