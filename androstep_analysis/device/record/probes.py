"""Run our probes on a device: show their progress here, and fetch their records at the end."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from androstep_analysis.bench.records import PROBE as IOBENCH
from androstep_analysis.common.markup import visible
from androstep_analysis.device import runs
from androstep_analysis.device.probe import Runner
from androstep_analysis.device.runs import Run
from androstep_analysis.device.session import Session
from androstep_analysis.device.session.job import KILLED
from androstep_analysis.device.transport import quoted
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.replay import program as programs
from androstep_analysis.replay.read import PROBE as IOREPLAY


def runner(
    device: Session, name: str, operands: Sequence[str], *, root: bool, meanwhile: Callable[[], None] | None = None
) -> Runner:
    """Return a runner (`probe.Runner`) that runs a probe on the device with `operands` after its options.

    The probe continues while the link is lost. On another machine it runs in a temporary directory. Its standard output
    is printed only if it writes no records, as with ``--help``. `meanwhile` is called a few times a second; an
    exception from it ends the probe.
    """

    def run(options: Sequence[str], path: Path, progress: Callable[[str], None]) -> int:
        program = device.probe(name)
        place = device.new_directory(device.directory, root=root)
        records = f"{place}/records"
        inside = [] if device.is_here else ["sh", "-c", 'cd "$0" && exec "$@"', place]
        words = [*inside, program, *options, "--record", records, *operands]
        job = device.start(words, root=root, directory=f"{place}/job")
        try:
            with device.ending(job):
                status = job.wait(progress, meanwhile)
            if status == KILLED:  # not every shell reports this
                notify(f"{device.name}: {name} was killed, as when memory is short; run it again")
            if device.holds(f"[ -f {quoted([records])} ]", root=root):
                device.pull(records, path, root=root)
            else:
                for line in job.output().splitlines():
                    print(visible(line))
            return status
        finally:
            device.forget(job)
            device.remove(place, root=root)

    return run


def bench(device: Session, options: Sequence[str] | Mapping[str, Sequence[str]], out: Path) -> Run:
    """Run iobench on the device and make a capture with the device's facts at `out`."""
    return runs.bench(
        options, out, runner=runner(device, IOBENCH, (), root=device.has_root), facts=facts(device, options)
    )


def facts(device: Session, options: Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the facts of the device for a run of iobench with these options."""
    return device.facts(_directory(options)) | {"workload": " ".join([IOBENCH, *runs.workload(options)])}


def replay(device: Session, program: Path, directory: str, out: Path, options: Sequence[str], *, repeats: int) -> Run:
    """Run ioreplay on the device and make a capture with the device's facts at `out`."""
    is_device = programs.read(program).is_device
    there = f"{device.directory}/program.rec"
    device.push(program, there)
    operands = ("--target", directory, there) if is_device else (there, directory)
    return runs.replay(
        program,
        directory,
        options,
        out=out,
        repeats=repeats,
        runner=runner(device, IOREPLAY, operands, root=device.has_root),
        facts=device.facts(None if is_device else directory)
        | {"workload": " ".join([IOREPLAY, *options, program.name, directory])},
    )


def _directory(options: Sequence[str] | Mapping[str, Sequence[str]]) -> str | None:
    """Return the directory in which iobench creates its files; None if the runs use different ones."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-p", "--directory", default=".")
    jobs = options.values() if isinstance(options, Mapping) else [options]
    places = {str(parser.parse_known_args(list(words))[0].directory) for words in jobs}
    return places.pop() if len(places) == 1 else None
