"""`androstep release`: make a dataset of captures that others can open, check and cite."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from androstep_analysis import datasets
from androstep_analysis.commands.command import complete
from androstep_analysis.common.manifest import sha256
from androstep_analysis.common.markup import visible
from androstep_analysis.datasets.documents import LICENCES
from androstep_analysis.datasets.release import ANONYMISATION, SUMS


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Parquet files with schemas, definitions, provenance, checksums, Croissant metadata and a citation: the same
        bytes whenever it is made again. --anonymise replaces every name by a hash with the bytes of KEYFILE as key;
        keep the file secret, and make it with: head -c 32 /dev/urandom > KEYFILE. docs/datasets.md says what is
        replaced, kept and searched for.

        example: androstep release mycapture another -o mydataset --name "Launch of ten apps" --licence CC-BY-4.0
        """,
    )
    command.add_argument("captures", nargs="+", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument("-o", "--output", required=True, type=Path, metavar="DIR", help="directory to make")
    command.add_argument("--name", default=datasets.Description.name, help="what the dataset is called")
    command.add_argument("--version", default="1.0.0", metavar="M.N.P", help="its version (default: 1.0.0)")
    command.add_argument(
        "--creator", action="append", default=[], metavar="NAME", help='who made it: a name, or "Family, Given"; repeat'
    )
    command.add_argument("--licence", choices=LICENCES, metavar="SPDX", help=f"one of {', '.join(LICENCES)}")
    command.add_argument("--url", help="where it will be found")
    command.add_argument("--published", metavar="YYYY-MM-DD", help="the day it is published")
    command.add_argument("--anonymise", type=Path, metavar="KEYFILE", help="replace names, with this file as key")
    command.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="replaced too, but not searched for; repeat"
    )
    command.add_argument("--shift-times", action="store_true", help="each capture's first event is at 0")
    command.add_argument("--raw", action="store_true", help="copy the sources of the captures too")


def run(arguments: argparse.Namespace) -> None:
    described = datasets.Description(
        name=arguments.name,
        version=arguments.version,
        creators=tuple(arguments.creator),
        licence=arguments.licence,
        url=arguments.url,
        published=arguments.published,
    )
    made = datasets.release(
        arguments.captures,
        arguments.output,
        described,
        key_file=arguments.anonymise,
        allow=arguments.allow,
        shift_times=arguments.shift_times,
        raw=arguments.raw,
    )
    print(visible(f"{made}: {described.name} {described.version}"))
    print(f"sha256 of its {SUMS}: {sha256(made / SUMS)}")
    wanted = {"--licence": arguments.licence, "--url": arguments.url, "--published": arguments.published}
    if lacking := [option for option, value in wanted.items() if value is None]:
        print(f"note: to be published, Croissant metadata also want {', '.join(lacking)}")
    if arguments.anonymise:
        record = json.loads((made / ANONYMISATION).read_text(encoding="utf-8"))
        apart = f", apart from {', '.join(arguments.allow)}" if arguments.allow else ""
        print(visible(f"of {record['names_replaced']:,} names in the captures{apart}, 0 are left in it"))
