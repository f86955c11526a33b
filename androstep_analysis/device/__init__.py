"""Talk to the devices that are recorded and measured: Android phones and this machine.

A phone is reached by adb's protocol over TCP or USB, or through the program adb. `connect` returns a `Device`, which
works alike for all of them. Its recordings, benchmarks, replays and samples become ordinary captures.
"""

from __future__ import annotations

from androstep_analysis.device.device import Device
from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import Answer, DeviceError, LinkLost, addresses
from androstep_analysis.device.transport.addresses import reachable

__all__ = ["Answer", "Device", "DeviceError", "LinkLost", "Session", "connect", "reachable"]


def connect(where: str | None = None, *, patience_s: float = 60) -> Device:
    """Return the device at an address, after checking that it answers.

    The address `where` is ``local`` (this machine), ``HOST:PORT`` (network), ``usb`` or ``usb:SERIAL`` (USB), ``adb``
    or ``adb:SERIAL`` (through the program adb). The default is the environment variable ANDROSTEP_DEVICE, or else the
    only device on USB or known to adb. A command is repeated for `patience_s` after the link was lost. Raises
    `DeviceError`.
    """
    device = Device(addresses.transport(where), patience_s=patience_s)
    try:
        device.answers()
    except BaseException:
        device.close()
        raise
    return device
