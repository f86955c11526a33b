"""Map device addresses to transports."""

from __future__ import annotations

import os
from types import ModuleType
from typing import cast

from androstep_analysis.device.transport import DeviceError, Transport, adb
from androstep_analysis.device.transport.local import Local

VARIABLE = "ANDROSTEP_DEVICE"


def transport(address: str | None) -> Transport:
    """Return the transport for `address`, not yet connected.

    The default address is the environment variable ANDROSTEP_DEVICE, or else the only device found.
    """
    address = address or os.environ.get(VARIABLE) or _only()
    kind, _, serial = address.partition(":")
    if kind == "local" and not serial:
        return Local()
    if kind == "adb":
        return adb.Adb(serial or None)
    if kind == "usb":
        return cast(Transport, _usb().device(serial or None))
    try:
        from androstep_analysis.device.transport import tcp
    except ModuleNotFoundError as error:
        raise _lacking(address, error) from None
    return tcp.device(address)


def reachable() -> list[str]:
    """Return all addresses found: this machine, devices on USB, and devices known to adb's server."""
    by_adb = adb.serials()
    on_usb = [serial for serial in _on_usb() if serial not in by_adb]  # adb's server has claimed those it knows
    return ["local", *(f"usb:{serial}" for serial in on_usb), *(f"adb:{serial}" for serial in by_adb)]


def _only() -> str:
    phones = reachable()[1:]
    if len(phones) != 1:
        which = f"several devices are there: {', '.join(phones)}" if phones else "no device is on USB or known to adb"
        raise DeviceError(f"{which}; name one, as HOST:PORT, usb:SERIAL, adb:SERIAL or local, or in {VARIABLE}")
    return phones[0]


def _on_usb() -> list[str]:
    try:
        serials: list[str] = _usb().serials()
    except DeviceError:  # without libusb or adb-shell, devices can still be reached in other ways
        return []
    return serials


def _usb() -> ModuleType:
    """Import module `usb`, which fails without libusb."""
    try:
        from androstep_analysis.device.transport import usb
    except OSError as error:
        raise DeviceError(f"usb: libusb cannot be used ({error}); install libusb-1.0, or use adb") from None
    except ModuleNotFoundError as error:
        raise _lacking("usb", error) from None
    return usb


def _lacking(address: str, error: ModuleNotFoundError) -> DeviceError:
    return DeviceError(
        f"{address}: there is no Python package {error.name}; `pip install 'androstep[device]'`, or use adb"
    )
