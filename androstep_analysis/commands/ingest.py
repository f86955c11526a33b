"""`androstep ingest`: make a capture directory from traces and filesystem images."""

from __future__ import annotations

import argparse
import sys

from androstep_analysis import capture
from androstep_analysis.commands.command import add_format, block_device, complete, fact, new_directory, positive
from androstep_analysis.common import manifest
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible
from androstep_analysis.compare.collections import Collection


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        The format of a trace is recognised by its contents (docs/formats.md); for other CSV files, describe the columns
        with --csv-columns. Traces are copied into the capture. Images are only read, and not copied. A directory
        written by iotrace is one recording with all its files. docs/attribution.md explains what each source proves.

        With --each every recording in the given directories becomes a capture. Run the command again to continue after
        an interruption.

        example: androstep ingest trace.txt.gz --image-before a.img --image-after b.img --device 259:13 -o capture
        """,
    )
    command.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="trace file (several form one recording), directory of iotrace, or directory or common name of the files"
        " of blktrace",
    )
    command.add_argument("--image-before", metavar="IMG", help="image of the filesystem before the recording")
    command.add_argument(
        "--image-after", metavar="IMG", help="image of the filesystem after the recording, unmounted or synced"
    )
    command.add_argument("--listing-before", metavar="REC", help="extent listing of extmap before the recording")
    command.add_argument("--listing-after", metavar="REC", help="extent listing of extmap after the recording")
    command.add_argument(
        "--extents",
        metavar="SOURCE,…",
        type=_extents,
        default=manifest.EXTENTS,
        help="attribute blocks by these sources only, to see how much each contributes:"
        f" {', '.join(manifest.EXTENTS)} (default: all)",
    )
    command.add_argument(
        "--device", metavar="MAJ:MIN", type=block_device, help="device of the images, if the trace has several devices"
    )
    command.add_argument(
        "--csv-columns",
        metavar="WORD,…",
        help="names and units of the columns of a CSV, for example time:s,dev,op,offset:B,size:B,response:us",
    )
    add_format(command)
    command.add_argument(
        "--fact",
        metavar="NAME=VALUE",
        type=fact,
        action="append",
        default=[],
        help="a fact about the recording, for example device='Pixel 6a' or workload=mail; repeat for several",
    )
    command.add_argument("--each", action="store_true", help="make a capture of each recording in these directories")
    command.add_argument("-j", "--jobs", metavar="N", type=positive, help="with --each: number of worker processes")
    command.add_argument(
        "-o", "--output", required=True, metavar="CAPTURE", type=new_directory, help="directory to make"
    )


def run(arguments: argparse.Namespace) -> None:
    snapshots = ("image_before", "image_after", "listing_before", "listing_after")
    if arguments.each and any(getattr(arguments, name) for name in snapshots):
        arguments.wrong_usage("--each makes many captures, and an image or listing belongs to one; leave them out")
    if arguments.device and not (arguments.image_before or arguments.image_after):
        print(
            "androstep: note: --device is ignored: it names the device of an image, and none was given", file=sys.stderr
        )
    description = capture.Description(
        **{name: getattr(arguments, name) for name in snapshots},
        extents=arguments.extents,
        device=arguments.device,
        csv_columns=arguments.csv_columns,
        format=arguments.format,
        facts=dict(arguments.fact),
    )
    if arguments.each:
        _each(arguments, description)
    else:
        print(capture.create(arguments.sources, arguments.output, description))


def _each(arguments: argparse.Namespace, description: capture.Description) -> None:
    """Make a capture of each recording, and report the failures at the end."""
    captures, failed = Collection.ingest(arguments.sources, arguments.output, description, jobs=arguments.jobs)
    print(f"{len(captures):,} captures in {visible(str(arguments.output))}")
    for source, reason in failed.items():
        print(f"androstep: {reason if source in reason else f'{visible(source)}: {reason}'}", file=sys.stderr)
    if failed:
        raise InputError(f"{len(failed):,} of {len(captures) + len(failed):,} recordings failed; the reasons are above")


def _extents(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in manifest.EXTENTS]:
        known = ", ".join(manifest.EXTENTS)
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a source of extents; use {known}")
    return names
