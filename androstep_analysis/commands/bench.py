"""`androstep bench`: measure the speed of the storage below a directory, with iobench."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import polars as pl

from androstep_analysis import bench, device
from androstep_analysis.bench import fio_job, write_fio_job, write_mobibench
from androstep_analysis.bench.plan import HELP, plan
from androstep_analysis.bench.records import PROBE
from androstep_analysis.commands.command import add_json, add_new_capture, add_on, add_rest, complete, new_capture
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible
from androstep_analysis.device import probe, runs
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Runs iobench in DIR and saves the results as a capture. Options after -- are those of iobench: see
        androstep bench -- --help. The exit status is that of iobench: 0 only if every repetition is valid.

        --compare reads two existing results: captures, files of iobench, or output of fio or Mobibench (docs/bench.md).

        example: androstep bench /data -o mybench -- --rw randwrite --mode fsync --size 64m --repeats 5
        """,
    )
    command.add_argument(
        "directory", nargs="?", metavar="DIR", help="where to measure (default: here; on a phone, /data/local/tmp)"
    )
    add_on(command)
    add_new_capture(command, "bench")
    command.add_argument(
        "--job", metavar="FILE", type=Path, help="run the jobs of a fio job file; options after -- are added to each"
    )
    command.add_argument(
        "--mobibench", action="store_true", help="print the results in Mobibench's format instead of the summary"
    )
    command.add_argument("--compare", nargs=2, metavar=("A", "B"), help="test whether B is faster or slower than A")
    add_json(command, "print one JSON object: medians with intervals, or with --compare the ratios")
    add_rest(command, "OPTION…")


def run(arguments: argparse.Namespace) -> int:
    if arguments.compare:
        measuring = (arguments.directory, arguments.output, arguments.on, arguments.options, arguments.job)
        if any(measuring) or arguments.mobibench:
            arguments.wrong_usage("--compare measures nothing: leave out DIR, -o, --on and options of iobench")
        first, second = (bench.read(path).tables for path in arguments.compare)
        try:
            print(_compared(arguments.compare, first, second) if arguments.json else terminal.comparison(first, second))
        except ValueError as error:
            raise InputError(f"{' and '.join(arguments.compare)}: {error}") from None
        return 0
    if arguments.json and arguments.mobibench:
        arguments.wrong_usage("--mobibench prints Mobibench's lines; leave out --json")
    directory = ["--directory", arguments.directory] if arguments.directory else []
    options = [*arguments.options, *directory, *(["--output", "mobibench"] if arguments.mobibench else [])]
    planned_run = plan(options)
    jobs: Sequence[str] | Mapping[str, Sequence[str]] = options
    if arguments.job is not None:
        jobs = {name: [*words, *options] for name, words in fio_job.options(arguments.job).items()}
    if (planned_run.is_to_fio or planned_run.is_mobibench) and not planned_run.is_question:
        planned = on_device(arguments.on, lambda runner: runs.described(jobs, runner=runner))
        if planned is None:
            return 1
        if planned_run.is_to_fio:
            print(write_fio_job.write(planned), end="")
            return 0
        if lacking := next((why for row, _ in planned if (why := write_mobibench.lacks(row))), None):
            raise InputError(f"--mobibench: {lacking}")
    out = new_capture(arguments, "bench")
    done = benched(arguments.on, jobs, out)
    if done.capture is not None:
        append(planned_run.latency_log, write_mobibench.latency_log, done.capture.bench)
        append(planned_run.iops_log, write_mobibench.iops_log, done.capture.bench)
        if planned_run.is_mobibench:
            print(write_mobibench.lines(done.capture.bench), end="")
            print(f"kept in {visible(str(out))}", file=sys.stderr)
        elif arguments.json:
            measures = bench.summarise(done.capture.bench)
            print(to_json({"capture": out, **done.capture.about["bench"], "measures": measures}))
        else:
            print(f"{terminal.summary(done.capture, str(out))}\n\nkept in {visible(str(out))}")
    elif planned_run.is_question and {"--help", "-h"} & set(options):
        print(HELP)
    return done.status


def _compared(names: Sequence[str], first: Mapping[str, pl.DataFrame], second: Mapping[str, pl.DataFrame]) -> str:
    return to_json({"first": names[0], "second": names[1], "comparisons": bench.compare(first, second)})


def append(
    path: Path | None, write: Callable[[Mapping[str, pl.DataFrame]], str], tables: Mapping[str, pl.DataFrame]
) -> None:
    """Append results to a log of Mobibench, if one was asked for."""
    if path is not None:
        with path.open("a", encoding="utf-8") as log:
            log.write(write(tables))


Result = TypeVar("Result")


def on_device(on: str | None, do: Callable[[probe.Runner | None], Result]) -> Result:
    """Call a function with the runner of iobench on the device that --on names. The runner is None for this machine."""
    if on is None:
        return do(None)
    with device.connect(on) as connected:
        return do(connected.runner(PROBE))


def benched(on: str | None, options: Sequence[str] | Mapping[str, Sequence[str]], out: Path) -> runs.Run:
    """Run `runs.bench` on this machine, or on the device that --on names."""
    if on is None:
        return runs.bench(options, out)
    with device.connect(on) as connected:
        return connected.bench(options, out)
