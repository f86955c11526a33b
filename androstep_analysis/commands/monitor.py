"""`androstep monitor`: sample counters of a device's kernel and processes over time."""

from __future__ import annotations

import argparse

from androstep_analysis import device
from androstep_analysis.commands.command import add_new_capture, add_on, complete, kept_at_ctrl_c, new_capture, positive
from androstep_analysis.common.markup import visible
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Copies procmon to the device and samples CPU, memory, disks, network, pressure and processes until --time is
        over or Ctrl-C is pressed. The result is a capture with table samples.

        example: androstep monitor --on usb -o mysamples --time 60
        """,
    )
    add_on(command)
    add_new_capture(command, "monitor")
    command.add_argument("--hz", metavar="HZ", type=positive, default=10, help="samples per second (default: 10)")
    command.add_argument("--time", metavar="S", type=positive, help="end after S seconds")


def run(arguments: argparse.Namespace) -> int:
    out = new_capture(arguments, "monitor")
    with device.connect(arguments.on) as connected:
        monitoring = connected.monitor(out, hz=arguments.hz, seconds=arguments.time)
        with kept_at_ctrl_c(monitoring):
            notify(f"sampling {connected.name}; Ctrl-C ends it")
            monitoring.wait()
    assert monitoring.capture is not None
    print(f"{terminal.summary(monitoring.capture, str(out))}\n\nkept in {visible(str(out))}")
    return 0
