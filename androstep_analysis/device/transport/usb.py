"""Reach devices on USB without the program adb."""

from __future__ import annotations

from functools import partial

import usb1
from adb_shell import exceptions
from adb_shell.transport.base_transport import BaseTransport
from adb_shell.transport.usb_transport import UsbTransport

from androstep_analysis.device.transport import DeviceError, LinkLost
from androstep_analysis.device.transport.adb_protocol import AdbProtocol


def device(serial: str | None = None) -> AdbProtocol:
    """Return the device with this serial number, or the only one. It connects at first use."""
    return AdbProtocol("usb" if serial is None else f"usb:{serial}", partial(_link, serial))


def serials() -> list[str]:
    """Return the serial numbers of all devices on USB that offer adb and that this user may open."""
    opened = []
    for transport in UsbTransport.find_all_adb_devices():
        try:
            opened.append(str(transport.serial_number))
        except usb1.USBError:
            continue
    return sorted(opened)


def _link(serial: str | None) -> BaseTransport:
    try:
        if serial is None and len(there := serials()) > 1:
            raise DeviceError(f"several devices are on USB: {', '.join(there)}; name one as usb:SERIAL")
        return _Usb(UsbTransport.find_adb(serial))
    except exceptions.UsbDeviceNotFoundError:
        which = "no device" if serial is None else f"no device {serial}"
        raise LinkLost(f"{which} with USB debugging is on USB; connect it, and switch on USB debugging") from None
    except usb1.USBError as error:
        raise DeviceError(f"USB cannot be used ({error}); check the rights on /dev/bus/usb") from None


@BaseTransport.register
class _Usb:
    """adb-shell's USB transport with readable error messages."""

    def __init__(self, transport: UsbTransport) -> None:
        self._transport = transport
        self.close, self.bulk_read, self.bulk_write = transport.close, transport.bulk_read, transport.bulk_write

    def connect(self, transport_timeout_s: float | None) -> None:
        try:
            self._transport.connect(transport_timeout_s)
        except usb1.USBErrorBusy:
            raise DeviceError(
                "adb holds the device on USB; end it with `adb kill-server`, or go through it with adb:SERIAL"
            ) from None
        except usb1.USBError as error:
            raise DeviceError(f"the device on USB cannot be opened ({error}); check the rights on it") from None
