"""`androstep bench`: how fast the storage below a directory is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from androstep_analysis import bench, device
from androstep_analysis.bench import fio_job
from androstep_analysis.commands.command import add_on, add_rest, complete
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible
from androstep_analysis.device import runs
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Runs iobench there and keeps the results as a capture. What stands behind -- are iobench's options; see
        androstep bench -- --help. Its exit status is passed on: 0 only if every repetition is valid. --compare takes
        results that are there already: captures, files of iobench, output of fio or Mobibench (docs/bench.md).

        example: androstep bench /data -o mybench -- --rw randwrite --mode fsync --size 64m --repeats 5
        """,
    )
    command.add_argument(
        "directory", nargs="?", metavar="DIR", help="where to measure (default: here; on a phone, /data/local/tmp)"
    )
    add_on(command)
    command.add_argument(
        "-o", "--output", metavar="CAPTURE", type=Path, help="directory to make (default: bench-DATE-TIME, in UTC)"
    )
    command.add_argument(
        "--job", metavar="FILE", type=Path, help="measure what a job file of fio says; options behind -- go to each job"
    )
    command.add_argument("--compare", nargs=2, metavar=("A", "B"), help="is B faster or slower than A?")
    add_rest(command, "OPTION…")


def run(arguments: argparse.Namespace) -> int:
    if arguments.compare:
        if arguments.directory or arguments.output or arguments.on or arguments.options or arguments.job:
            arguments.wrong_usage("--compare measures nothing: leave out DIR, -o, --on and options of iobench")
        first, second = (bench.read(path).tables for path in arguments.compare)
        try:
            print(terminal.comparison(first, second))
        except ValueError as error:
            raise InputError(f"{' and '.join(arguments.compare)}: {error}") from None
        return 0
    place = ["--directory", arguments.directory] if arguments.directory else []
    out = arguments.output or Path(f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    options = [*arguments.options, *place]
    if arguments.job is None:
        done = benched(arguments.on, options, out)
    else:
        jobs = fio_job.options(arguments.job)
        done = benched(arguments.on, {name: [*words, *options] for name, words in jobs.items()}, out)
    if done.capture is not None:
        print(f"{terminal.summary(done.capture)}\n\nkept in {visible(str(out))}")
    return done.status


def benched(on: str | None, options: Sequence[str] | Mapping[str, Sequence[str]], out: Path) -> runs.Run:
    """`runs.bench` on this machine, or on the device that --on names."""
    if on is None:
        return runs.bench(options, out)
    with device.connect(on) as connected:
        return connected.bench(options, out)
