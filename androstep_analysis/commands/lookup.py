"""`androstep lookup`: show which file or metadata the sectors of a filesystem image hold."""

from __future__ import annotations

import argparse
from pathlib import Path

from androstep_analysis import fs, link
from androstep_analysis.commands.command import add_json, complete
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        A sector has 512 bytes; sector 0 is the start of the filesystem. @FILE reads sectors from a file, separated by
        spaces or newlines.

        example: androstep lookup data.img 81920 @sectors.txt --json
        """,
    )
    command.add_argument("image", metavar="IMAGE", help="filesystem image, also .gz, .xz or .zst")
    command.add_argument("sectors", nargs="+", metavar="SECTOR", help="sector number, or @FILE with many")
    add_json(command, "print a JSON array of sectors")


def run(arguments: argparse.Namespace) -> None:
    sectors = [sector for argument in arguments.sectors for sector in _sectors(argument)]
    image = Path(arguments.image)
    if not image.exists():
        raise InputError(f"{image}: no such file; give a filesystem image")
    with fs.opened(image) as plain:
        blocks = fs.lookup(link.classified(fs.read(plain, dev=0, source="image_after")), sectors)
    if arguments.json:
        print(to_json(blocks))
    else:
        cells = [
            ["" if value is None else str(value) for value in row.values()] for row in blocks.iter_rows(named=True)
        ]
        print(terminal.table(blocks.columns, cells, is_whole=True))


def _sectors(argument: str) -> list[int]:
    """Return the sectors that one argument names."""
    words, origin = [argument], "argument"
    if argument.startswith("@"):
        origin = argument[1:]
        words = Path(origin).read_text(encoding="utf-8", errors="replace").split()
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 18):
            raise InputError(
                f"{origin}: {word!r} is not a sector number; give whole numbers, or @FILE with a list of numbers"
            )
    return [int(word) for word in words]
