"""Devices: phones by adb's protocol (TCP, USB) or by the program adb, and this machine, all used alike.

`connect` gives a `Device`. Recording, benchmarks, replays and samples that it makes are captures like all others.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import cast

from androstep_analysis.device import adb
from androstep_analysis.device.device import Device
from androstep_analysis.device.local import Local
from androstep_analysis.device.transport import Answer, DeviceError, LinkLost, Transport

__all__ = ["Answer", "Device", "DeviceError", "LinkLost", "connect", "reachable"]

VARIABLE = "ANDROSTEP_DEVICE"


def connect(where: str | None = None, *, patience_s: float = 60) -> Device:
    """The device that `where` names, when it has answered.

    ``local`` is this machine, ``HOST:PORT`` a device on the network, ``usb`` or ``usb:SERIAL`` one on USB, ``adb`` or
    ``adb:SERIAL`` one by the program adb; by default that of environment variable ANDROSTEP_DEVICE, or the only one
    on USB or known to adb. `patience_s` is how long a lost link is tried again later. Raises `DeviceError`.
    """
    device = Device(_transport(where or os.environ.get(VARIABLE) or _only()), patience_s=patience_s)
    try:
        device.answers()
    except BaseException:
        device.close()
        raise
    return device


def reachable() -> list[str]:
    """What `connect` can be given without an address: this machine, devices on USB, and those known to adb's server."""
    by_adb = adb.serials()
    on_usb = [serial for serial in _on_usb() if serial not in by_adb]  # adb's server holds those that it knows
    return ["local", *(f"usb:{serial}" for serial in on_usb), *(f"adb:{serial}" for serial in by_adb)]


def _on_usb() -> list[str]:
    try:
        found: list[str] = _usb().serials()
    except DeviceError:  # a machine without libusb or adb-shell has other devices
        return []
    return found


def _usb() -> ModuleType:
    """Module `usb`; adb-shell opens libusb when it is imported."""
    try:
        from androstep_analysis.device import usb
    except OSError as error:
        raise DeviceError(f"usb: libusb cannot be used ({error}); install libusb-1.0, or use adb") from None
    except ModuleNotFoundError as error:
        raise _lacking("usb", error) from None
    return usb


def _lacking(where: str, error: ModuleNotFoundError) -> DeviceError:
    return DeviceError(
        f"{where}: there is no Python package {error.name}; `pip install 'androstep[device]'`, or use adb"
    )


def _only() -> str:
    found = reachable()[1:]
    if len(found) != 1:
        which = f"several devices are there: {', '.join(found)}" if found else "no device is on USB or known to adb"
        raise DeviceError(f"{which}; name one, as HOST:PORT, usb:SERIAL, adb:SERIAL or local, or in {VARIABLE}")
    return found[0]


def _transport(where: str) -> Transport:
    kind, _, serial = where.partition(":")
    if kind == "local" and not serial:
        return Local()
    if kind == "adb":
        return adb.Adb(serial or None)
    if kind == "usb":
        return cast(Transport, _usb().device(serial or None))
    try:
        from androstep_analysis.device import tcp
    except ModuleNotFoundError as error:
        raise _lacking(where, error) from None
    return tcp.device(where)
