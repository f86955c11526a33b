"""As much of WebSocket (RFC 6455) as a client of a browser's debugging port needs: texts, one at a time."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import time
from typing import Self
from urllib.parse import urlsplit

from androstep_analysis.device.transport import DeviceError

_KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_FINAL, _MASKED = 0x80, 0x80
_MAX_BYTES = 64 << 20
_HEAD_BYTES = 1 << 16


class WebSocket:
    """A connection to a server at `url` (``ws://HOST:PORT/PATH``); a context manager that ends it.

    Raises `DeviceError` where the server is none, or goes away.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        self._where = f"{host}:{port}"
        self._buffer = b""
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise DeviceError(f"{self._where}: no connection to the browser ({error.strerror or error})") from None
        try:
            self._shake_hands(parts.path or "/")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _shake_hands(self, path: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {self._where}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _HEAD_BYTES:
                raise self._no_websocket()
            self._more(None)
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status, *fields = head.split(b"\r\n")
        wanted = base64.b64encode(hashlib.sha1((key + _KEY).encode(), usedforsecurity=False).digest())
        accepted = [
            value.strip()
            for name, _, value in (field.partition(b":") for field in fields)
            if name.strip().lower() == b"sec-websocket-accept"
        ]
        if b" 101 " not in status + b" " or accepted != [wanted]:
            raise self._no_websocket()

    def _no_websocket(self) -> DeviceError:
        return DeviceError(f"{self._where}: the browser's debugging port does not answer as one; is it a browser's?")

    def send(self, text: str) -> None:
        """Sends a text."""
        self._send(_TEXT, text.encode())

    def _send(self, opcode: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = bytes([_FINAL | opcode, _MASKED | size])
        elif size < 1 << 16:
            head = bytes([_FINAL | opcode, _MASKED | 126]) + size.to_bytes(2, "big")
        else:
            head = bytes([_FINAL | opcode, _MASKED | 127]) + size.to_bytes(8, "big")
        mask = os.urandom(4)
        masked = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")).to_bytes(
            size, "big"
        )
        try:
            self._socket.sendall(head + mask + masked)
        except OSError as error:
            raise self._lost(error) from None

    def receive(self, deadline: float) -> str | None:
        """The next text; None where none came until `deadline` of `time.monotonic`."""
        text = b""
        while True:
            try:
                is_final, opcode, data = self._frame(deadline)
            except TimeoutError:
                return None
            if opcode == _PING:
                self._send(_PONG, data)
            elif opcode == _CLOSE:
                raise DeviceError(f"{self._where}: the browser closed the page; was it ended?")
            elif opcode != _PONG:
                text += data
                if len(text) > _MAX_BYTES:
                    raise DeviceError(f"{self._where}: the browser sent more than {_MAX_BYTES >> 20} MiB at once")
                if is_final:
                    return text.decode("utf-8", "replace")

    def _frame(self, deadline: float) -> tuple[bool, int, bytes]:
        """The next frame; what came of one is kept where it is not whole at the deadline."""
        while True:
            if (whole := self._whole_frame()) is not None:
                return whole
            self._more(deadline)

    def _whole_frame(self) -> tuple[bool, int, bytes] | None:
        if len(self._buffer) < 2:
            return None
        first, size, place = self._buffer[0], self._buffer[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size, place = int.from_bytes(self._buffer[2 : 2 + width], "big"), 2 + width
        if size > _MAX_BYTES:
            raise DeviceError(f"{self._where}: the browser sent more than {_MAX_BYTES >> 20} MiB at once")
        if len(self._buffer) < place + size:
            return None
        data, self._buffer = self._buffer[place : place + size], self._buffer[place + size :]
        return bool(first & _FINAL), first & 0xF, data

    def _more(self, deadline: float | None) -> None:
        """Reads what there is; raises `TimeoutError` at the deadline."""
        try:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
            read = self._socket.recv(1 << 16)
        except TimeoutError:
            if deadline is None:
                raise self._no_websocket() from None
            raise
        except OSError as error:
            raise self._lost(error) from None
        if not read:
            raise self._lost(None)
        self._buffer += read

    def _lost(self, error: OSError | None) -> DeviceError:
        why = f" ({error.strerror or error})" if error is not None else ""
        return DeviceError(f"{self._where}: the connection to the browser was lost{why}; does it still run?")
