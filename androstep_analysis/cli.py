"""The command line: `androstep ingest|tables|summary|lookup|report|export|bench|program|…` (docs/commands.md)."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import polars as pl

from androstep_analysis import (
    bench,
    capture,
    csvfile,
    derivation,
    doctor,
    export,
    fs,
    link,
    manifest,
    most,
    recording,
    schema,
    terminal,
    units,
)
from androstep_analysis.bench.run import run as run_bench
from androstep_analysis.errors import InputError, LossWarning
from androstep_analysis.markup import visible
from androstep_analysis.replay import device as device_replay
from androstep_analysis.replay.clean import clean
from androstep_analysis.replay.processes import descendants
from androstep_analysis.replay.program import Program
from androstep_analysis.replay.run import run as run_replay
from androstep_analysis.replay.statistics import statistics
from androstep_analysis.replay.tables import TABLES as REPLAY_TABLES
from androstep_analysis.summary import summary

EPILOG = """\
A capture is a directory made by `androstep ingest`; every command also takes a trace file as it is: trace.dat,
Perfetto, blktrace, text of ftrace or blkparse, strace, ioshark, CSV, packed or not (docs/formats.md).

start here:
  androstep summary trace.txt                       what is in a trace
  androstep ingest trace.txt --image-after data.img -o mycapture
  androstep summary mycapture                       who caused which I/O, to which file
  androstep report mycapture -o report.html         the same as a page with figures
  androstep lookup data.img 81920                   what sector 81920 of an image holds
  androstep bench /data -o mybench -- --rw randwrite  how fast the storage below a directory is
  androstep program app.strace -o app.rec           what an app did to its files, to be replayed
  androstep replay app.rec /mnt/test -o myreplay    do again there what a program recorded
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0 done, 1 input that cannot be used, 2 wrong usage, 128 + n by signal n."""
    arguments = _parsed(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _terminate)
    warnings.simplefilter("always", LossWarning)
    warnings.showwarning = _show_warning
    run: Callable[[argparse.Namespace], int | None] = arguments.run
    try:
        return run(arguments) or 0
    except InputError as error:
        print(f"androstep: {visible(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has seen enough, as in `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        print(f"androstep: {visible(what)}; check the path, its rights and the free space", file=sys.stderr)
        return 1
    except pl.exceptions.ComputeError as error:
        if "IO error" not in str(error):  # what polars calls it when a disk is full
            raise
        print(f"androstep: {visible(str(error))}; check the free space", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; what stands behind `--` of `bench` and `replay` is left as it is, for the probe."""
    at = words.index("--") if words[:1] in (["bench"], ["replay"]) and "--" in words else len(words)
    return _parser().parse_args(words[:at], argparse.Namespace(options=list(words[at + 1 :])))


def _terminate(number: int, _frame: FrameType | None) -> None:
    """Leave by the way that removes what is half made."""
    raise SystemExit(128 + number)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    kind = "warning" if category is LossWarning else category.__name__
    print(f"androstep: {kind}: {visible(str(message))}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="androstep",
        description="Which app, which file and which kind of block caused this storage I/O?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _add_ingest,
        _add_tables,
        _add_summary,
        _add_lookup,
        _add_report,
        _add_export,
        _add_bench,
        _add_program,
        _add_replay,
        _add_doctor,
    ):
        add(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    run: Callable[[argparse.Namespace], int | None],
    name: str,
    summary: str,
    details: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=summary,
        description=f"{summary}\n\n{textwrap.dedent(details).strip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, wrong_usage=command.error)
    return command


def _add_ingest(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _ingest,
        "ingest",
        "Make a capture directory from traces and filesystem images.",
        """
        The format of a trace is told by its contents (docs/formats.md); a CSV of any other form opens with
        --csv-columns. The traces are copied into the capture; images stay where they are and are read only. A directory
        that iotrace wrote is a recording with all that belongs to it. docs/capture.md says what each source proves;
        --extents leaves only some of them, to see what they are worth.

        example: androstep ingest trace.txt.gz --image-before a.img --image-after b.img --device 259:13 -o capture
        """,
    )
    command.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="trace file (several are one recording), directory or common name of blktrace's files, or of iotrace",
    )
    command.add_argument("--image-before", metavar="IMG", help="image of the filesystem before the recording")
    command.add_argument("--image-after", metavar="IMG", help="image of the filesystem after it, unmounted or synced")
    command.add_argument("--listing-before", metavar="REC", help="extmap's listing of it before the recording")
    command.add_argument("--listing-after", metavar="REC", help="extmap's listing of it afterwards")
    command.add_argument(
        "--extents",
        metavar="SOURCE,…",
        type=_extents,
        default=manifest.EXTENTS,
        help=f"attribute blocks by these sources only: {', '.join(manifest.EXTENTS)} (default: all)",
    )
    command.add_argument(
        "--device", metavar="MAJ:MIN", type=_device, help="device of the images, where the trace has several"
    )
    command.add_argument(
        "--csv-columns",
        metavar="WORD,…",
        help="what stands in the columns of a CSV, as time:s,dev,op,offset:B,size:B,response:us",
    )
    command.add_argument("-o", "--output", required=True, metavar="CAPTURE", help="directory to make")


def _ingest(arguments: argparse.Namespace) -> None:
    if arguments.device and not (arguments.image_before or arguments.image_after):
        print(
            "androstep: note: --device names the device of an image; there is none, so it is not used", file=sys.stderr
        )
    made = capture.create(
        arguments.sources,
        arguments.output,
        image_before=arguments.image_before,
        image_after=arguments.image_after,
        listing_before=arguments.listing_before,
        listing_after=arguments.listing_after,
        extents=arguments.extents,
        device=arguments.device,
        csv_columns=arguments.csv_columns,
    )
    print(made)


def _add_tables(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _tables,
        "tables",
        "List the tables of a capture, or write one of them.",
        """
        docs/tables.md explains every column. Without -o a table's first rows are printed.

        example: androstep tables mycapture io -o io.parquet
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument(
        "table",
        nargs="?",
        choices=_TABLES,
        metavar="TABLE",
        help=", ".join(_TABLES),
    )
    command.add_argument("-o", "--output", metavar="FILE", type=_table_file, help="FILE.parquet or FILE.csv")


_TABLES = (*derivation.TABLES, *bench.TABLES, *REPLAY_TABLES)


def _tables(arguments: argparse.Namespace) -> None:
    if arguments.output is not None and arguments.table is None:
        arguments.wrong_usage("-o writes one table; name it before -o")
    _keep_source(arguments)
    opened = capture.open(arguments.path)
    if arguments.table is not None and arguments.table not in opened.tables:
        raise InputError(f"{arguments.path}: has no table {arguments.table}; it has {', '.join(opened.tables)}")
    if arguments.table is None:
        rows = [[name, f"{opened.about['rows'][name]:,}", schema.table(name).description] for name in opened.tables]
        print(terminal.table(["table", "rows", "one row is"], rows))
    elif arguments.output is None:
        table = opened.tables[arguments.table].head(20).collect()
        rows = [["" if value is None else str(value) for value in row] for row in table.iter_rows()]
        print(terminal.table(table.columns, rows))
    elif arguments.output.suffix == ".csv":
        csvfile.write(opened.tables[arguments.table], arguments.output)
    else:
        opened.tables[arguments.table].collect().write_parquet(arguments.output, compression="zstd")


def _add_summary(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _summary,
        "summary",
        "Print what a capture holds and who caused what.",
        """
        --json gives one stable object (docs/summary.md). --compat most counts as the MOST Viewer did and prints its
        eight data files.

        example: androstep summary trace.po --compat most
        """,
    )
    command.add_argument("path", metavar="PATH", help="capture directory or trace file")
    command.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    command.add_argument("--compat", choices=["most"], help="count as this older tool did")


def _summary(arguments: argparse.Namespace) -> None:
    opened = capture.open(arguments.path)
    if arguments.json:
        print(json.dumps(summary(opened, compat=arguments.compat), indent=2))
    elif arguments.compat == "most":
        for name, content in most.viewer_tables(most.counts(export.most.lines(opened))).items():
            print(f"{name}\n{content}")
    else:
        print(terminal.summary(opened))


def _add_lookup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _lookup,
        "lookup",
        "Say what sectors of a filesystem image hold.",
        """
        Sectors are of 512 bytes and count from the start of the filesystem. @FILE takes them from a file, separated
        by spaces or line ends.

        example: androstep lookup data.img 81920 @sectors.txt --json
        """,
    )
    command.add_argument("image", metavar="IMAGE", help="filesystem image, also .gz, .xz or .zst")
    command.add_argument("sectors", nargs="+", metavar="SECTOR", help="sector number, or @FILE with many")
    command.add_argument("--json", action="store_true", help="a JSON list instead of a table")


def _lookup(arguments: argparse.Namespace) -> None:
    sectors = [sector for argument in arguments.sectors for sector in _sectors(argument)]
    image = Path(arguments.image)
    if not image.exists():
        raise InputError(f"{image}: no such file; give a filesystem image")
    with fs.opened(image) as plain:
        found = fs.lookup(link.classified(fs.read(plain, dev=0, source="image_after")), sectors)
    rows = found.with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print(terminal.table(found.columns, [["" if v is None else str(v) for v in row.values()] for row in rows]))


def _sectors(argument: str) -> list[int]:
    """The sectors that one argument names."""
    words, origin = [argument], "argument"
    if argument.startswith("@"):
        origin = argument[1:]
        words = Path(origin).read_text(encoding="utf-8", errors="replace").split()
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 18):
            raise InputError(
                f"{origin}: {word!r} is no sector number; give whole numbers, or @FILE with a list of them"
            )
    return [int(word) for word in words]


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _report,
        "report",
        "Write a capture's figures and tables as one self-contained HTML page.",
        """
        --figures also saves each figure as PDF and PNG with the CSV behind it and its provenance.

        example: androstep report mycapture -o report.html --figures figures
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument("-o", "--output", required=True, metavar="FILE.html", type=Path, help="page to write")
    command.add_argument("--figures", metavar="DIR", type=Path, help="directory for the figures")


def _report(arguments: argparse.Namespace) -> None:
    from androstep_analysis import report  # matplotlib takes a second that no other command needs

    opened = capture.open(arguments.path)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    report.write(opened, arguments.output, figures=arguments.figures)


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    targets = "\n".join(
        f"{name}\n    {target.purpose}\n    not in it: {target.lost}" for name, target in export.TARGETS.items()
    )
    command = _command(
        commands,
        _export,
        "export",
        "Write a capture in another tool's format.",
        f"""
docs/export.md tells how to go on with each. The formats:

{targets}

example: androstep export mycapture --to perfetto -o trace.pftrace
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument(
        "--to", required=True, choices=export.TARGETS, metavar="FORMAT", help=f"one of {', '.join(export.TARGETS)}"
    )
    command.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="file to write (default: standard output, where it is text)"
    )
    caches = command.add_argument_group("for oraclegeneral")
    caches.add_argument(
        "--block-size", metavar="BYTES", type=_positive, dest="block_bytes", help="size of an object (default: 4096)"
    )
    caches.add_argument(
        "--objects", choices=["blocks", "files"], help="blocks of the device (default), or of files where known"
    )
    caches.add_argument("--op", choices=["read", "write"], help="only these accesses")


def _export(arguments: argparse.Namespace) -> None:
    target = export.TARGETS[arguments.to]
    given = {name: getattr(arguments, name) for name in ("block_bytes", "objects", "op")}
    options = {name: value for name, value in given.items() if value is not None}
    if unknown := sorted(set(options) - set(target.options)):
        arguments.wrong_usage(f"{arguments.to} takes no {', '.join(unknown)}; that is for oraclegeneral")
    if arguments.output is None and not target.is_text:
        arguments.wrong_usage(f"{arguments.to} is no text; name a file with -o")
    _keep_source(arguments)
    opened = capture.open(arguments.path)
    if arguments.output is None:
        target.write(opened, sys.stdout.buffer, **options)
        return
    with _new_file(arguments.output) as file:
        target.write(opened, file, **options)


def _keep_source(arguments: argparse.Namespace) -> None:
    """Raises `InputError` where the file to write is the one that is read."""
    output, source = arguments.output, Path(arguments.path)
    if output is not None and output.exists() and source.exists() and output.samefile(source):
        raise InputError(f"{output}: is the recording itself; name another file with -o")


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """`path` opened to write and read bytes; removed again if anything goes wrong."""
    with path.open("w+b" if path.is_file() or not path.exists() else "wb") as file:
        try:
            yield file
        except BaseException:
            if path.is_file():
                path.unlink()
            raise


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 32):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes")
    return int(text)


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _bench,
        "bench",
        "Measure the storage below a directory, or compare two measurements.",
        """
        Runs iobench there and keeps the results as a capture. What stands behind -- are iobench's options; see
        androstep bench -- --help. Its exit status is passed on: 0 only if every repetition is valid. --compare takes
        results that are there already: captures, files of iobench, output of fio or Mobibench (docs/bench.md).

        example: androstep bench /data -o mybench -- --rw randwrite --mode fsync --size 64m --repeats 5
        """,
    )
    command.add_argument("directory", nargs="?", metavar="DIR", help="where to measure (default: here)")
    command.add_argument(
        "-o", "--output", metavar="CAPTURE", type=Path, help="directory to make (default: bench-DATE-TIME, in UTC)"
    )
    command.add_argument("--compare", nargs=2, metavar=("A", "B"), help="is B faster or slower than A?")


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.compare:
        if arguments.directory or arguments.output or arguments.options:
            arguments.wrong_usage("--compare measures nothing: leave out DIR, -o and options of iobench")
        first, second = (bench.read(path).tables for path in arguments.compare)
        print(terminal.comparison(first, second))
        return 0
    place = ["--directory", arguments.directory] if arguments.directory else []
    out = arguments.output or Path(f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    done = run_bench([*arguments.options, *place], out)
    if done.capture is not None:
        print(f"{terminal.summary(done.capture)}\n\nkept in {visible(str(out))}")
    return done.status


def _add_program(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _program,
        "program",
        "Make a replay program: what a recording tells of files, to be done again.",
        """
        Takes system calls (of strace, iotrace, ioshark, MobiGen), leaves out what is not done to files, and closes the
        rest so that `androstep replay` can do it in an empty directory. Prints what that came to, and what was left
        out and why. With --device the program is made of the requests of that block device, to be replayed to another
        device or a file. The contents of files are not in a program. docs/replay.md says more.

        example: androstep program app.strace -o app.rec
        """,
    )
    command.add_argument("path", metavar="SOURCE", help="capture directory or trace file")
    command.add_argument("-o", "--output", required=True, metavar="FILE", type=Path, help="program to make (.rec)")
    command.add_argument(
        "--device", metavar="MAJ:MIN", type=_device, help="take the requests of this device, not the system calls"
    )
    command.add_argument(
        "--process",
        metavar="PID",
        type=_process,
        action="append",
        help="keep this process only; may be given again; all: every process (default: in a recording of iotrace those"
        " of its command, else all)",
    )
    command.add_argument(
        "--unknown-as-files",
        action="store_true",
        help="take descriptors that nothing tells of for files without a name (default: leave them out)",
    )
    command.add_argument(
        "--hash-names",
        metavar="SALTFILE",
        type=Path,
        help="replace all names by hashes keyed with this file's bytes, and leave out processes",
    )


def _program(arguments: argparse.Namespace) -> None:
    if arguments.device and (arguments.process or arguments.unknown_as_files):
        arguments.wrong_usage("--process and --unknown-as-files are for system calls, which --device does without")
    _keep_source(arguments)
    salt = arguments.hash_names.read_bytes() if arguments.hash_names else None
    opened = capture.open(arguments.path)
    made, told = _device_program(opened, arguments.device) if arguments.device else _cleaned(opened, arguments)
    digests = [source.sha256 for source in opened.manifest.sources if source.role == "trace"]
    made = replace(made, source_sha256=digests[0] if len(digests) == 1 else None)
    made = made if salt is None else made.hashed(salt)
    if made.operations.is_empty():
        print(told)
        raise InputError(f"{arguments.path}: nothing that was done to files is left; record the app while it uses some")
    with _new_file(arguments.output):
        made.write(arguments.output)
    print(told)


def _device_program(opened: capture.Capture, device: str) -> tuple[Program, str]:
    requests, dev = opened.requests, units.parse_dev(device)
    made = device_replay.program(requests, dev=dev)
    return made, terminal.program(made, None, device_replay.left_out(requests, dev=dev))


def _cleaned(opened: capture.Capture, arguments: argparse.Namespace) -> tuple[Program, str]:
    if not opened.about["rows"]["syscalls"]:
        hint = "name a block device with --device" if opened.about["rows"]["requests"] else "record them with strace"
        raise InputError(f"{arguments.path}: a recording with system calls was expected; {hint}")
    processes = _processes(opened, Path(arguments.path), arguments.process)
    cleaned = clean(
        opened.syscalls,
        opened.tables["tasks"],
        processes=processes,
        unknown="files" if arguments.unknown_as_files else "leave out",
    )
    if processes is not None and cleaned.program.operations.is_empty():
        named = ", ".join(map(str, processes))
        raise InputError(f"{arguments.path}: no file operation of process {named} is recorded; --process all keeps all")
    measured = statistics(opened.syscalls, cleaned.program.operations)
    told = terminal.program(cleaned.program, measured, cleaned.left_out, cleaned.conflicts)
    kept = (
        ""
        if processes is None
        else f"Kept: process {', '.join(map(str, processes))}; --process all keeps every one\n\n"
    )
    return cleaned.program, kept + told


def _processes(opened: capture.Capture, path: Path, asked: Sequence[int | None] | None) -> list[int] | None:
    """Which processes to keep of the capture at `path`; None: all of them."""
    if asked:
        return None if None in asked else [pid for pid in asked if pid is not None]
    recordings = [source.path for source in opened.manifest.sources if source.role == "recording"]
    pid = recording.command_pid(path / recordings[0]) if recordings else None
    return None if pid is None else descendants(opened.syscalls, opened.tables["tasks"], pid)


def _process(text: str) -> int | None:
    """A process, or None for all."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit() and 0 <= int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{text!r} is no process number and not all")
    return int(text)


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _replay,
        "replay",
        "Do again what a program recorded, on the filesystem of a directory.",
        """
        Runs ioreplay there and keeps program and results as a capture. DIRECTORY must be empty or not be there, and is
        left so; nothing outside of it is touched. For a program made from the requests of a device it is the file or
        the device to write to. What stands behind -- are ioreplay's options: --mode as-fast, --mode scaled --scale 2,
        --dry-run (docs/replay.md). Exit status 0 only if every operation was done.

        example: androstep replay app.rec /mnt/test -o build/ext4 --repeats 5 -- --mode as-fast
        """,
    )
    command.add_argument("program", metavar="PROGRAM", help="file that `androstep program` made")
    command.add_argument("directory", metavar="DIRECTORY", help="where to replay it")
    command.add_argument(
        "-o", "--output", metavar="CAPTURE", type=Path, help="directory to make (default: replay-DATE-TIME, in UTC)"
    )
    command.add_argument("--repeats", metavar="N", type=_count, default=1, help="how many times (default: 1)")


def _replay(arguments: argparse.Namespace) -> int:
    out = arguments.output or Path(f"replay-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    done = run_replay(arguments.program, arguments.directory, arguments.options, out=out, repeats=arguments.repeats)
    if done.capture is not None:
        print(f"{terminal.summary(done.capture)}\n\nkept in {visible(str(out))}")
    return done.status


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 10_000):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10,000")
    return int(text)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        _doctor,
        "doctor",
        "Check this machine, or a capture.",
        """
        Says what works, what each thing that does not would prevent, and how to mend it. With a capture: whether its
        files are still those it was made from. Exit status 1 if something must be mended.

        example: androstep doctor mycapture
        """,
    )
    command.add_argument("path", nargs="?", metavar="CAPTURE", type=Path, help="capture directory to check")


def _doctor(arguments: argparse.Namespace) -> int:
    findings = doctor.machine() if arguments.path is None else doctor.capture(arguments.path)
    rows = [["ok" if finding.ok else "NO", finding.what, finding.advice] for finding in findings]
    print(terminal.table(["", "what", "advice"], rows))
    return int(any(finding.needed and not finding.ok for finding in findings))


def _device(text: str) -> str:
    try:
        units.parse_dev(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _extents(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in manifest.EXTENTS]:
        known = ", ".join(manifest.EXTENTS)
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no source of extents; the sources are {known}")
    return names


def _table_file(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".parquet", ".csv"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .parquet or .csv")
    return path
