"""Run iobench and ioreplay, on this machine or on a device, and store their results as captures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from androstep_analysis import capture
from androstep_analysis.bench.plan import Plan, plan
from androstep_analysis.bench.read import read as read_results
from androstep_analysis.bench.records import PROBE as IOBENCH
from androstep_analysis.capture import Capture
from androstep_analysis.common import scratch
from androstep_analysis.common.errors import InputError
from androstep_analysis.device import probe
from androstep_analysis.device.probe import Runner
from androstep_analysis.ingest import record
from androstep_analysis.replay import program as programs
from androstep_analysis.replay.read import PROBE as IOREPLAY
from androstep_analysis.replay.read import has_no_run

_FAILED = 1
"""Exit status of a probe that printed an error message."""


@dataclass(frozen=True)
class Run:
    """The result of a run.

    `status` is the probe's exit status: 0 if everything was done and every repetition is valid. `capture` is None if
    the probe wrote no results.
    """

    status: int
    capture: Capture | None


def bench(
    options: Sequence[str] | Mapping[str, Sequence[str]],
    out: Path,
    *,
    runner: Runner | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Run:
    """Run iobench and store its results in a new capture.

    `options` are the options after ``androstep bench … --``. A sweep among them makes one run for each value
    (`bench.plan`). A mapping holds the options of several runs by name, and each run's results get that name. `runner`
    is where iobench runs (`probe.Runner`) and `facts` describes that machine (`manifest.FACTS`); both default to this
    machine. A progress bar is shown. The new capture directory `out` holds ``raw/bench.rec``, even if repetitions are
    invalid.

    - No capture is made if iobench wrote no results or was interrupted.
    - The first run whose status is not 0 is the last.
    - On this machine all options are checked first: if iobench refuses any of them, nothing is measured.

    Raises `InputError` if `out` exists, and for an option that only the caller may pass.
    """
    capture.refuse_existing(out)
    several = options if isinstance(options, Mapping) else {"bench": options}
    plans = {name: plan(words) for name, words in several.items()}
    known = probe.this_machine(IOBENCH, workload(options)) if facts is None else facts
    total = sum(len(asked.runs) for asked in plans.values())
    number = status = 0
    with scratch.directory("bench") as place:
        if runner is None and total > 1:
            for asked in plans.values():
                status = status or _checked(asked, place)
        records: list[Path] = []
        for name, asked in plans.items():
            parts: list[Path] = []
            for run in asked.runs if not status else ():
                number += 1
                part = place / f"{name}-{len(parts)}.part"
                of = f" {number}/{total}" if total > 1 else ""
                status = probe.record(IOBENCH, run.words, part, runner or probe.local(IOBENCH), of=of)
                if part.exists():
                    parts.append(part)
                if status:
                    break
            records += _joined(parts, place / f"{name}.rec")
        if not records:
            return Run(status, None)
        return Run(status, capture.create(records, out, capture.Description(facts=known)))


def _joined(parts: Sequence[Path], whole: Path) -> list[Path]:
    """Join the records of several runs into one file; keep separate files if a killed iobench left a damaged one."""
    if len(parts) == 1:
        return [parts[0].rename(whole)]
    if not parts:
        return []
    try:
        record.join(parts, whole)
    except InputError:
        return [part.rename(part.with_suffix(".rec")) for part in parts]
    return [whole]


def _checked(asked: Plan, place: Path) -> int:
    """Check the options of all runs with ``--dry-run``; return iobench's status if it refuses one, else 0."""
    return next((status for run in asked.runs if (status := _described(run.words, place / "checked.rec", None))), 0)


def described(
    options: Sequence[str] | Mapping[str, Sequence[str]], *, runner: Runner | None = None
) -> list[tuple[dict[str, Any], tuple[str, ...]]] | None:
    """Return what iobench would measure with `options`, without measuring.

    Each run gives a row of table bench_runs and the names of the swept options. Only the columns of the row that repeat
    the request are meaningful. None if iobench refuses the options; it has printed the reason.
    """
    several = options.values() if isinstance(options, Mapping) else [options]
    found: list[tuple[dict[str, Any], tuple[str, ...]]] = []
    with scratch.directory("bench") as place:
        for run in (run for words in several for run in plan(words).runs):
            path = place / f"{len(found)}.rec"
            if _described(run.words, path, runner):
                return None
            found.append((read_results(path).tables["bench_runs"].row(0, named=True), run.swept))
    return found


def _described(words: Sequence[str], path: Path, runner: Runner | None) -> int:
    return probe.record(IOBENCH, [*words, "--dry-run"], path, runner or probe.local(IOBENCH))


def workload(options: Sequence[str] | Mapping[str, Sequence[str]]) -> list[str]:
    """Return the options of one or several runs as the words that a capture stores as its workload."""
    if isinstance(options, Mapping):
        return ["; ".join(" ".join(words) for words in options.values())]
    return list(options)


def replay(
    program: str | PathLike[str],
    directory: str | PathLike[str],
    options: Sequence[str] = (),
    *,
    out: str | PathLike[str],
    repeats: int = 1,
    runner: Runner | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Run:
    """Replay a program file in `directory` and store the results in a new capture.

    `directory` must be empty or absent. ioreplay empties it at the end of each of the `repeats`. For a program made
    from the requests of a block device, `directory` is the file or block device to write to. `options` are ioreplay's.
    `runner` is where ioreplay runs (`probe.Runner`) and `facts` describes that machine (`manifest.FACTS`); both default
    to this machine. A progress bar is shown. The new capture directory `out` holds the program and the results of each
    repetition in ``raw/``. No capture is made if ioreplay wrote no results. The first repetition that does not do every
    operation is the last.

    Raises `InputError` if `program` is not a replay program, if `out` exists, and for an option that only the caller
    may pass. Raises `ValueError` if `repeats` is less than 1.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}: replay once or more")
    program, out = Path(program), Path(out)
    capture.refuse_existing(out)
    if repeats > 1 and "--keep" in options:
        raise InputError(
            "--keep leaves files in the directory, but each repetition needs an empty one; omit --keep, or replay once"
        )
    is_device = programs.read(program).is_device
    operands = ("--target", directory, program) if is_device else (program, directory)
    runner = runner or probe.local(IOREPLAY, *operands)
    known = probe.this_machine(IOREPLAY, [*options, *map(str, operands)]) if facts is None else facts
    with scratch.directory("replay") as place:
        records: list[Path] = []
        status = 0
        for number in range(repeats):
            record = place / ("replay.rec" if repeats == 1 else f"replay-{number}.rec")
            of = f" {number + 1}/{repeats}" if repeats > 1 else ""
            status = probe.record(IOREPLAY, options, record, runner, of=of)
            if record.exists() and not (status == _FAILED and has_no_run(record)):
                records.append(record)
            if status:
                break
        if not records:
            return Run(status, None)
        return Run(status, capture.create([*records, program], out, capture.Description(facts=known)))
