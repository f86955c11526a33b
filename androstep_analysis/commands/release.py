"""`androstep release`: make a dataset of captures that others can open, check and cite."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from androstep_analysis import datasets
from androstep_analysis.commands.command import complete, new_directory
from androstep_analysis.common.manifest import sha256
from androstep_analysis.common.markup import visible
from androstep_analysis.datasets.documents import LICENCES
from androstep_analysis.datasets.release import ANONYMISATION, SUMS


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Writes Parquet files with schemas, definitions, provenance, checksums, Croissant metadata and a citation.
        Repeating it gives the same bytes. docs/datasets.md explains what --anonymise replaces and what it keeps.

        Make a key for --anonymise with: head -c 32 /dev/urandom > KEYFILE, and keep it secret.

        example: androstep release mycapture another -o mydataset --name "Launch of ten apps" --licence CC-BY-4.0
        """,
    )
    command.add_argument("captures", nargs="+", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument("-o", "--output", required=True, type=new_directory, metavar="DIR", help="directory to make")
    command.add_argument("--name", default=datasets.Description.name, help="title of the dataset")
    command.add_argument("--version", default="1.0.0", metavar="M.N.P", help="version of the dataset (default: 1.0.0)")
    command.add_argument(
        "--creator",
        action="append",
        default=[],
        metavar="NAME",
        help='a creator: a name, or "Family, Given"; repeat for several',
    )
    command.add_argument("--licence", choices=LICENCES, metavar="SPDX", help=f"one of {', '.join(LICENCES)}")
    command.add_argument("--url", help="address under which the dataset will be published")
    command.add_argument("--published", metavar="YYYY-MM-DD", help="date of publication")
    command.add_argument(
        "--anonymise", type=Path, metavar="KEYFILE", help="replace every name by a hash keyed with this file's bytes"
    )
    command.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="do not fail if this name (also replaced) is found in the result; repeat for several",
    )
    command.add_argument("--shift-times", action="store_true", help="shift times: each capture's first event is at 0")
    command.add_argument("--raw", action="store_true", help="also copy the source files of the captures")


def run(arguments: argparse.Namespace) -> None:
    described = datasets.Description(
        name=arguments.name,
        version=arguments.version,
        creators=tuple(arguments.creator),
        licence=arguments.licence,
        url=arguments.url,
        published=arguments.published,
    )
    directory = datasets.release(
        arguments.captures,
        arguments.output,
        described,
        key_file=arguments.anonymise,
        allow=arguments.allow,
        shift_times=arguments.shift_times,
        raw=arguments.raw,
    )
    print(visible(f"{directory}: {described.name} {described.version}"))
    print(f"sha256 of its {SUMS}: {sha256(directory / SUMS)}")
    wanted = {"--licence": arguments.licence, "--url": arguments.url, "--published": arguments.published}
    if lacking := [option for option, value in wanted.items() if value is None]:
        print(f"note: before publishing, also give {', '.join(lacking)}: Croissant metadata need them")
    if arguments.anonymise:
        record = json.loads((directory / ANONYMISATION).read_text(encoding="utf-8"))
        apart = f", apart from {', '.join(arguments.allow)}" if arguments.allow else ""
        print(visible(f"of {record['names_replaced']:,} names in the captures{apart}, 0 are left in it"))
