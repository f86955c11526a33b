"""Workloads: actions on a device during a recording, with the times of each step.

>>> with connect("adb") as device, device.record(out="capture") as recording:
...     recording.add(Pages(("https://example.org/",)).run(device))

A workload has a name. Its `run` carries it out on a device and returns `Ran`: table `steps`, and snapshots of the GUI
if it takes any. Times are read on the device.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.device.session import Session
from androstep_analysis.device.workloads import install, pages, script
from androstep_analysis.device.workloads.coldstart import ColdStart
from androstep_analysis.device.workloads.install import Install
from androstep_analysis.device.workloads.log import Ran
from androstep_analysis.device.workloads.pages import Pages
from androstep_analysis.device.workloads.script import Script

__all__ = ["KINDS", "ColdStart", "Install", "Pages", "Ran", "Script", "Workload", "parse"]


KINDS: Final = ("pages", "script", "install")
"""The kinds of workloads that a command line can name."""


class Workload(Protocol):
    """A sequence of actions on a device."""

    @property
    def name(self) -> str:
        """Its name in results."""

    def run(self, device: Session) -> Ran:
        """Run the workload to its end; raise `DeviceError` if the device fails."""


def parse(text: str) -> Workload:
    """Return the workload that ``KIND:FILE`` names on a command line.

    The kinds are ``pages:FILE`` (addresses, one in each line), ``script:FILE`` (TOML) and ``install:PATH`` (a package,
    or a directory of packages). Raises `InputError` for anything else.
    """
    kind, _, name = text.partition(":")
    path = Path(name)
    if kind == "pages" and name:
        return Pages(pages.read(path))
    if kind == "script" and name:
        return script.read(path)
    if kind == "install" and name:
        return Install(install.packages(path))
    raise InputError(f"{printable(text)}: is not a workload; give pages:FILE, script:FILE or install:PATH")
