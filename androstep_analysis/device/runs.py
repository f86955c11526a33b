"""Running iobench and ioreplay, here or elsewhere, and keeping what came of it as a capture."""

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

_COMPLAINED = 1
"""The exit status of a probe that said why it failed."""


@dataclass(frozen=True)
class Run:
    """What a run came to: the probe's exit status (0: all was done, every repetition is valid), and its results.

    There is no capture where the probe wrote no results.
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
    """Run iobench with `options` and keep its results in the new capture directory `out`.

    `options` are those behind ``androstep bench … --``; a sweep among them makes a run of each value (`bench.plan`).
    They may be those of several runs, each with a name that its results get. `runner` says where it runs
    (`probe.Runner`), by default on this machine; `facts` what is known of the machine (`manifest.FACTS`), by default of
    this one. A bar shows the progress. The capture holds ``raw/bench.rec``, also where repetitions are invalid; there
    is none where iobench wrote no results, or where the run was interrupted. Of several runs the first whose status is
    not 0 is the last; on this machine nothing is measured where iobench refuses the options of any. Raises `InputError`
    where `out` exists, and for an option that only the caller can give.
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
    """Return the records of runs as one file; as one for each where that of a killed iobench is damaged."""
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
    """Return the status of iobench if it refuses the options of a run, before the first is measured; else 0."""
    return next((status for run in asked.runs if (status := _described(run.words, place / "checked.rec", None))), 0)


def described(
    options: Sequence[str] | Mapping[str, Sequence[str]], *, runner: Runner | None = None
) -> list[tuple[dict[str, Any], tuple[str, ...]]] | None:
    """Return what iobench would measure with `options`, without a measurement: for each run a row of table bench_runs
    of which only what was asked for means something, and the swept options.

    None where iobench refuses the options; it has printed why.
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
    """The words of one or several runs of iobench, as a capture tells them."""
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
    """Replay a program's file in `directory` and keep the results in the new capture directory `out`.

    `directory` must be empty or not be there; ioreplay empties it again at the end of each of the `repeats`. For a
    program made from the requests of a device it is the file or block device to write to. `options` are ioreplay's.
    `runner` says where it runs (`probe.Runner`), by default on this machine; `facts` what is known of the machine
    (`manifest.FACTS`), by default of this one. A bar shows the progress. The capture holds the program and a file with
    the results of each repetition in ``raw/``; there is none where ioreplay wrote no results. The first repetition
    that does not do every operation is the last.

    Raises `InputError` where `program` is none, `out` exists, and for an option that only the caller can give, and
    `ValueError` for no repetitions.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}: replay once or more")
    program, out = Path(program), Path(out)
    capture.refuse_existing(out)
    if repeats > 1 and "--keep" in options:
        raise InputError("--keep leaves files in the directory, and each repetition needs an empty one; leave out one")
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
            if record.exists() and not (status == _COMPLAINED and has_no_run(record)):
                records.append(record)
            if status:
                break
        if not records:
            return Run(status, None)
        return Run(status, capture.create([*records, program], out, capture.Description(facts=known)))
