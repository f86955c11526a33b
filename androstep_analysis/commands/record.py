"""`androstep record`: record the storage I/O of a device, with the apps and files that cause it."""

from __future__ import annotations

import argparse
from typing import Any

from androstep_analysis import device
from androstep_analysis.commands.command import (
    add_new_capture,
    add_on,
    add_rest,
    add_traced_device,
    complete,
    kept_at_ctrl_c,
    new_capture,
    positive,
)
from androstep_analysis.common.markup import visible
from androstep_analysis.device import workloads
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Copies iotrace to the device and records until COMMAND (which runs on the device) ends, --time is over or Ctrl-C
        is pressed. Then fetches the recording, verifies it and makes a capture.

        A phone with root also records with its own Perfetto, in the same clock: frames, slices and packages become part
        of the capture. A phone without root records with Perfetto only, for at most an hour (docs/stock_phone.md). Run
        `androstep doctor --on WHERE` to see what a device lacks. Recording continues if the connection is lost;
        --recover fetches recordings that are still on a device.

        example: androstep record --on 192.168.1.20:5555 -o mycapture --time 60 --workload mail
        """,
    )
    add_on(command)
    add_new_capture(command, "record")
    command.add_argument(
        "--preset", metavar="NAME", help="events to record: block, block+fs (the default) or block+fs+syscalls"
    )
    command.add_argument(
        "--readahead",
        action="store_true",
        help="also record which pages each read call asks for, for measure readahead (needs Linux 6.12 or kprobes; one "
        "event per read call)",
    )
    command.add_argument(
        "--time", metavar="S", type=positive, help="end after S seconds, not counting the listings of files"
    )
    command.add_argument(
        "--workload",
        metavar="NAME|KIND:FILE",
        help="name of the workload, saved in the capture (default: the command); pages:FILE, script:FILE or "
        "install:PATH is run on the device, and recording ends with it",
    )
    add_traced_device(command)
    command.add_argument(
        "--package",
        metavar="PKG",
        action="append",
        default=[],
        help="without root: also list the files of this debuggable package, so that they have names; repeatable",
    )
    command.add_argument(
        "--no-perfetto",
        action="store_false",
        dest="perfetto",
        help="with root: record with iotrace only. By default, the phone's own Perfetto also records frames, slices "
        "and packages, for at most an hour; they become part of the capture",
    )
    command.add_argument("--monitor", metavar="HZ", type=positive, help="also sample counters HZ times per second")
    command.add_argument(
        "--recover", action="store_true", help="fetch recordings that are still on the device; record nothing"
    )
    add_rest(command, "COMMAND…")


def run(arguments: argparse.Namespace) -> int:
    out = new_capture(arguments, "record")
    asked = arguments.workload
    done = None if asked is None or asked.partition(":")[0] not in workloads.KINDS else workloads.parse(asked)
    with device.connect(arguments.on) as connected:
        if not arguments.perfetto and not connected.has_root:
            arguments.wrong_usage("--no-perfetto: there is no root, so that only perfetto can record")
        if arguments.recover:
            for made in connected.recover(out):
                print(made)
            return 0
        recording = connected.record(
            out=out,
            workload=asked if done is None else done.name,
            command=arguments.options,
            seconds=arguments.time,
            **_needing_root(arguments),
            # As root, all files are listed.
            **({"perfetto": arguments.perfetto} if connected.has_root else {"packages": arguments.package}),
        )
        with kept_at_ctrl_c(recording):
            notify(f"recording on {connected.name}; Ctrl-C ends it")
            if done is None:
                recording.wait()
            else:
                recording.add(done.run(connected))
    assert recording.capture is not None
    print(f"{terminal.summary(recording.capture, str(out))}\n\nkept in {visible(str(out))}")
    return 0


def _needing_root(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were set and that need iotrace, and therefore root."""
    chosen = {
        "preset": arguments.preset,
        "readahead": arguments.readahead,
        "trace": arguments.device,
        "monitor_hz": arguments.monitor,
    }
    return {name: value for name, value in chosen.items() if value}
