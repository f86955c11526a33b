"""Devices: phones by adb's protocol (TCP, USB) or by the program adb, and this machine, all used alike.

`connect` gives a `Device`. Recording, benchmarks, replays and samples that it makes are captures like all others.
"""

from __future__ import annotations

from androstep_analysis.device.device import Device
from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import Answer, DeviceError, LinkLost, addresses
from androstep_analysis.device.transport.addresses import reachable

__all__ = ["Answer", "Device", "DeviceError", "LinkLost", "Session", "connect", "reachable"]


def connect(where: str | None = None, *, patience_s: float = 60) -> Device:
    """The device that `where` names, when it has answered.

    ``local`` is this machine, ``HOST:PORT`` a device on the network, ``usb`` or ``usb:SERIAL`` one on USB, ``adb`` or
    ``adb:SERIAL`` one by the program adb; by default that of environment variable ANDROSTEP_DEVICE, or the only one
    on USB or known to adb. `patience_s` is how long a lost link is tried again later. Raises `DeviceError`.
    """
    device = Device(addresses.transport(where), patience_s=patience_s)
    try:
        device.answers()
    except BaseException:
        device.close()
        raise
    return device
