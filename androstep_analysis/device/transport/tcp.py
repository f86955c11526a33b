"""Devices that listen on the network, as after ``adb tcpip 5555``."""

from __future__ import annotations

import select
import socket
from functools import partial

from adb_shell.transport.base_transport import BaseTransport

from androstep_analysis.device.transport import DeviceError
from androstep_analysis.device.transport.adb_protocol import AdbProtocol


def device(address: str) -> AdbProtocol:
    """The device at ``HOST:PORT``; connects when it is first used."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise DeviceError(f"{address}: is no address; give HOST:PORT, as 192.168.1.20:5555")
    return AdbProtocol(address, partial(_Socket, host.removeprefix("[").removesuffix("]"), int(port)))


@BaseTransport.register
class _Socket:
    """A connection that fails as soon as the other end is gone, and writes all or fails.

    adb-shell's own waits for a time-out instead, and takes the part of a packet that the socket took for the whole.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None

    def connect(self, transport_timeout_s: float | None) -> None:
        self._socket = socket.create_connection(self._address, timeout=transport_timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A cable that was pulled ends no connection: the kernel asks whether the other end is there.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def bulk_read(self, numbytes: int, transport_timeout_s: float | None) -> bytes:
        opened = self._opened()
        if not select.select([opened], [], [], transport_timeout_s)[0]:
            raise TimeoutError(f"no answer for {transport_timeout_s:.0f} s")
        read = opened.recv(numbytes)
        if not read:
            raise ConnectionResetError("the device ended the connection")
        return read

    def bulk_write(self, data: bytes, transport_timeout_s: float | None) -> int:
        opened = self._opened()
        opened.settimeout(transport_timeout_s)
        opened.sendall(data)
        return len(data)

    def _opened(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionResetError("the connection is closed")
        return self._socket
