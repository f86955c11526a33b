"""Reach devices by adb's own protocol over TCP (`tcp`) or USB (`usb`), without the program adb.

The protocol is implemented by adb-shell. Version 0.4.4 has two gaps that are closed here:

- It does not report the exit status. `frame.framed` adds it.
- After a time-out it takes the answer to one command for the answer to the next. Therefore every failure ends the
  connection, and the next call makes a new one.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from adb_shell import exceptions
from adb_shell.adb_device import AdbDevice
from adb_shell.constants import MAX_ADB_DATA
from adb_shell.transport.base_transport import BaseTransport

from androstep_analysis.device.transport import MOST_ANSWER_BYTES, DeviceError, LinkLost, too_long
from androstep_analysis.device.transport.keys import signer
from androstep_analysis.device.transport.notices import notify

_CONNECT_S = 10.0
_ACCEPT_S = 60.0
"""How long the user may take to allow this computer on the device's screen, in seconds."""
_PUSH_S = 60.0
_MOST_READS = 1 << 17
"""Limit of reads from the link for one answer: adb-shell keeps 1 KiB for each, however few bytes it brought."""

_QUOTED = 200
"""How many characters of a device's message an error message may quote."""

_FAILURES = (
    *(OSError, ValueError, KeyError, struct.error),
    *(exceptions.AdbConnectionError, exceptions.AdbTimeoutError, exceptions.TcpTimeoutException),
    *(exceptions.InvalidChecksumError, exceptions.InvalidCommandError, exceptions.InvalidResponseError),
    *(exceptions.UsbReadFailedError, exceptions.UsbWriteFailedError, exceptions.AdbCommandFailureException),
)
"""What adb-shell raises for a broken connection, and for invalid data from the device."""


@BaseTransport.register
class _Bounded:
    """A link that limits the data that one command may read.

    A packet states its own length in 32 bits, and adb-shell stores all of it, even packets of streams that were never
    opened.
    """

    def __init__(self, name: str, link: BaseTransport) -> None:
        self._name, self._link = name, link
        self.connect, self.close, self.bulk_write = link.connect, link.close, link.bulk_write
        self.begin_answer()

    def begin_answer(self) -> None:
        """Reset the limits, because the next read belongs to a new command."""
        self._left_bytes, self._left_reads = MOST_ANSWER_BYTES, _MOST_READS

    def bulk_read(self, numbytes: int, transport_timeout_s: float | None) -> bytes:
        if numbytes > MAX_ADB_DATA:
            raise ConnectionError(f"a packet of {numbytes:,} bytes, where at most {MAX_ADB_DATA:,} were agreed")
        read = bytes(self._link.bulk_read(numbytes, transport_timeout_s))
        self._left_bytes -= len(read)
        self._left_reads -= 1
        if self._left_bytes < 0 or self._left_reads < 0:
            raise too_long(self._name)
        return read


class AdbProtocol:
    """`Transport` by adb's protocol."""

    scratch = "/data/local/tmp"
    is_here = False

    def __init__(self, name: str, link: Callable[[], BaseTransport]) -> None:
        self.name = name
        self._link = link
        self._bounded: _Bounded | None = None
        self._device: AdbDevice | None = None

    def run(self, line: str, *, timeout_s: float) -> bytes:
        with self._connected() as device:
            times = dict.fromkeys(("transport_timeout_s", "read_timeout_s", "timeout_s"), timeout_s)
            return bytes(device.exec_out(line, decode=False, **times))

    def push(self, source: Path, target: str) -> None:
        with self._connected() as device:
            device.push(str(source), target, transport_timeout_s=_PUSH_S, read_timeout_s=_PUSH_S)

    def close(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            with contextlib.suppress(*_FAILURES):
                device.close()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[AdbDevice]:
        """Connect if necessary and yield the device; close the connection after any exception."""
        try:
            if self._device is None:
                self._device = self._connect()
            assert self._bounded is not None
            self._bounded.begin_answer()
            self._device._io_manager._packet_store.clear_all()
            yield self._device
        except exceptions.PushFailedError as error:
            self.close()
            reason = bytes(error.args[0])[:_QUOTED].decode("utf-8", "replace")
            raise DeviceError(f"{self.name}: the device refused a file: {reason}; is it full?") from None
        except _FAILURES as error:
            self.close()
            if isinstance(error, DeviceError):
                raise
            raise LinkLost(self._lost(error)) from None
        except BaseException:
            self.close()
            raise

    def _lost(self, error: Exception) -> str:
        if "STLS" in str(error):
            return f"{self.name}: wants encryption, which only adb has; run `adb connect {self.name}`, use adb:SERIAL"
        if isinstance(error, ConnectionRefusedError):
            return f"{self.name}: no device listens there; run `adb tcpip 5555` on it once, and check its address"
        return f"{self.name}: the link to the device was lost ({str(error)[:_QUOTED]}); check cable or network"

    def _connect(self) -> AdbDevice:
        self._bounded = _Bounded(self.name, self._link())
        device = AdbDevice(self._bounded)
        try:
            device.connect([signer()], _CONNECT_S, _ACCEPT_S, _CONNECT_S, lambda _: self._request_consent())
        except exceptions.DeviceAuthError as error:
            raise DeviceError(f"{self.name}: the device refuses this computer ({str(error)[:_QUOTED]})") from None
        except BaseException:
            with contextlib.suppress(*_FAILURES):
                device.close()
            raise
        return device

    def _request_consent(self) -> None:
        notify(f"{self.name}: allow this computer on the device's screen (waiting for {_ACCEPT_S:.0f} s)")
