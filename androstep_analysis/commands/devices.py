"""`androstep devices`: list the devices that --on can name."""

from __future__ import annotations

import argparse

from androstep_analysis import device
from androstep_analysis.commands.command import add_json, complete
from androstep_analysis.common.answers import to_json
from androstep_analysis.present import terminal

_KINDS = {"local": "this machine", "usb": "on USB", "adb": "by adb"}


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Lists this machine, the devices on USB, and the devices of a running adb server. Devices on the network are not
        searched for; name one as --on HOST:PORT.

        example: androstep devices
        """,
    )
    add_json(command, "print a JSON array of devices")


def run(arguments: argparse.Namespace) -> None:
    rows = [[where, _KINDS[where.partition(":")[0]]] for where in device.reachable()]
    if arguments.json:
        print(to_json([{"where": where, "what": what} for where, what in rows]))
        return
    print(terminal.table(["where", "what"], rows, is_whole=True))
