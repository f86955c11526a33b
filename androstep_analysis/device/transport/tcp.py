"""Reach devices that listen on the network, as after ``adb tcpip 5555``."""

from __future__ import annotations

import select
import socket
from functools import partial

from adb_shell.transport.base_transport import BaseTransport

from androstep_analysis.device.transport import DeviceError
from androstep_analysis.device.transport.adb_protocol import AdbProtocol


def device(address: str) -> AdbProtocol:
    """Return the device at ``HOST:PORT``. It connects at first use."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise DeviceError(f"{address}: is not an address; give HOST:PORT, such as 192.168.1.20:5555")
    return AdbProtocol(address, partial(_Socket, host.removeprefix("[").removesuffix("]"), int(port)))


@BaseTransport.register
class _Socket:
    """A TCP connection that fails as soon as the peer closes it, and always writes all data or fails.

    adb-shell's own class waits for a time-out instead, and reports a partial write as complete.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None

    def connect(self, transport_timeout_s: float | None) -> None:
        self._socket = socket.create_connection(self._address, timeout=transport_timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Keepalive detects a peer that vanished without closing the connection, such as a pulled cable.
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
