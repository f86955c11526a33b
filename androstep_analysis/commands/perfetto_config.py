"""`androstep perfetto-config`: print a Perfetto configuration for a phone without root."""

from __future__ import annotations

import argparse
import math

from androstep_analysis.commands.command import complete, duration
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.device.record import perfetto


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Use this to record on a phone without root and without this machine (docs/stock_phone.md). The configuration is
        the one of `androstep record`: all storage events that a user build of Android permits, with large enough
        buffers. Open the trace with `androstep summary`.

        example: androstep perfetto-config --for f2fs --time 60s
        """,
    )
    command.add_argument(
        "--for",
        dest="filesystem",
        choices=perfetto.FILESYSTEMS,
        help="record only the events of this filesystem, that of /data (default: both)",
    )
    command.add_argument(
        "--time",
        metavar="TIME",
        type=duration,
        default=60 * NS_PER_S,
        help="end after this time, such as 10s or 5min (default: 60s); it also sets the buffer sizes",
    )


def run(arguments: argparse.Namespace) -> int:
    filesystems = perfetto.FILESYSTEMS if arguments.filesystem is None else (arguments.filesystem,)
    print(perfetto.config(filesystems, math.ceil(arguments.time / NS_PER_S)), end="")
    return 0
