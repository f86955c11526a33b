"""`androstep ingest`: make a capture directory from traces and filesystem images."""

from __future__ import annotations

import argparse
import sys

from androstep_analysis import capture
from androstep_analysis.commands.command import add_format, block_device, complete, fact, positive
from androstep_analysis.common import manifest
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible
from androstep_analysis.compare.collections import Collection


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        The format of a trace is told by its contents (docs/formats.md); a CSV of any other form opens with
        --csv-columns. The traces are copied into the capture; images stay where they are and are read only. A directory
        that iotrace wrote is a recording with all that belongs to it. docs/attribution.md says what each source proves;
        --extents leaves only some of them, to see what they are worth. With --each every recording in a directory of
        them becomes a capture of its own; what was interrupted goes on when it is started again.

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
        "--device", metavar="MAJ:MIN", type=block_device, help="device of the images, where the trace has several"
    )
    command.add_argument(
        "--csv-columns",
        metavar="WORD,…",
        help="what stands in the columns of a CSV, as time:s,dev,op,offset:B,size:B,response:us",
    )
    add_format(command)
    command.add_argument(
        "--fact",
        metavar="NAME=VALUE",
        type=fact,
        action="append",
        default=[],
        help="something known of the recording, as device='Pixel 6a' or workload=mail; may be given several times",
    )
    command.add_argument("--each", action="store_true", help="make a capture of each recording in these directories")
    command.add_argument("-j", "--jobs", metavar="N", type=positive, help="with --each: processes side by side")
    command.add_argument("-o", "--output", required=True, metavar="CAPTURE", help="directory to make")


def run(arguments: argparse.Namespace) -> None:
    witnesses = ("image_before", "image_after", "listing_before", "listing_after")
    if arguments.each and any(getattr(arguments, name) for name in witnesses):
        arguments.wrong_usage("--each makes many captures: an image or a listing is of one; leave them out")
    if arguments.device and not (arguments.image_before or arguments.image_after):
        print(
            "androstep: note: --device names the device of an image; there is none, so it is not used", file=sys.stderr
        )
    description = capture.Description(
        **{name: getattr(arguments, name) for name in witnesses},
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
    made, failed = Collection.ingest(arguments.sources, arguments.output, description, jobs=arguments.jobs)
    print(f"{len(made):,} captures in {visible(arguments.output)}")
    for source, reason in failed.items():
        print(f"androstep: {reason if source in reason else f'{visible(source)}: {reason}'}", file=sys.stderr)
    if failed:
        raise InputError(f"{len(failed):,} of {len(made) + len(failed):,} recordings became no capture, as said above")


def _extents(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in manifest.EXTENTS]:
        known = ", ".join(manifest.EXTENTS)
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no source of extents; the sources are {known}")
    return names
