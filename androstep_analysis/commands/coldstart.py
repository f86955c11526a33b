"""`androstep coldstart`: measure the time to the first frame of an app, and the wait for storage in it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import polars as pl

from androstep_analysis import device, perceived
from androstep_analysis.commands.command import add_json, add_new_capture, add_on, complete, new_capture, positive
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.device.workloads.coldstart import CACHES_KEPT, MOST, ColdStart
from androstep_analysis.present import starts as tables
from androstep_analysis.present.terminal import text

_SECONDS_OF_START: Final = 60
_MOST_SECONDS: Final = 3600
_TOP: Final = 15


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Stops the app, drops the page cache where the device permits it, starts the app, and repeats that while it
        records. Prints the time to the first frame, how much of it the main thread waited for storage, and the files
        that were read. The capture can be compared with another one: androstep compare A B --measure starts.

        Works without root, with the phone's own Perfetto. Without root, caches can be dropped since Android 12.

        example: androstep coldstart org.example.mail --on usb --repeat 10 -o mail
        """,
    )
    command.add_argument("app", metavar="PACKAGE", help="the app: a package, or PACKAGE/ACTIVITY")
    add_on(command)
    add_new_capture(command, "coldstart")
    command.add_argument(
        "--repeat", metavar="N", type=positive, default=10, help=f"number of starts (default: 10, at most {MOST:,})"
    )
    add_json(command, "one JSON object with all starts and all files")


def run(arguments: argparse.Namespace) -> int:
    out = new_capture(arguments, "coldstart")
    workload = ColdStart(arguments.app, arguments.repeat)
    with device.connect(arguments.on) as connected:
        workload.check(connected)
        limit = {} if connected.has_root else {"seconds": _seconds(arguments.repeat)}
        with connected.record(out=out, workload=workload.name, switches=True, **limit) as recording:
            notify(f"starting {arguments.app} on {connected.name} {arguments.repeat} times")
            recording.add(workload.run(connected))
    capture = recording.capture
    assert capture is not None
    rows = perceived.starts(capture.tables)
    if rows.is_empty():
        said = visible(str(capture.steps["detail"].drop_nulls().first() or "it did not report a time"))
        raise InputError(f"{out}: no start was completed ({said}); `androstep tables {out} steps` shows all of them")
    files = perceived.read_files(capture.io, rows)
    if arguments.json:
        kept = [reason for reason in rows["detail"].drop_nulls() if CACHES_KEPT in reason]
        print(to_json(_answer(workload, out, rows, files, are_dropped=not kept)))
        return 0
    whole = f"{rows.height} of {arguments.repeat} starts of {visible(arguments.app)} completed"
    parts = [
        "\n".join([whole, *tables.summary(rows)]),
        text.sheet(tables.starts(rows)),
        "\n".join(tables.notes(rows)),
        text.sheet(tables.files(files), top=_TOP),
        f"kept in {visible(str(out))}",
    ]
    print("\n\n".join(part for part in parts if part))
    return 0


def _seconds(repeats: int) -> int:
    return min(repeats * _SECONDS_OF_START, _MOST_SECONDS)


def _answer(
    workload: ColdStart, out: Path, rows: pl.DataFrame, files: pl.DataFrame, *, are_dropped: bool
) -> dict[str, object]:
    return {
        "app": workload.app,
        "capture": str(out),
        "repeats": workload.repeats,
        "caches_dropped": are_dropped,
        "starts": rows.drop("app"),
        "files": files,
    }
