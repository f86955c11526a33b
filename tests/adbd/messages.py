"""Messages between an adb host and a device: 24 bytes of header, little-endian, then the payload."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

CNXN, AUTH, OPEN, OKAY, WRTE, CLSE = (
    int.from_bytes(name, "little") for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE")
)

VERSION_CHECKSUMS, VERSION = 0x01000000, 0x01000001
"""The older version has a sum of the payload's bytes in every header; the newer one has 0."""

AUTH_TOKEN, AUTH_SIGNATURE, AUTH_PUBLIC_KEY = 1, 2, 3

_HEADER = struct.Struct("<6I")
_LARGEST = 16 << 20


class Lost(Exception):
    """The peer is gone or violates the protocol."""


@dataclass(frozen=True)
class Message:
    """A message; the meaning of the two numbers depends on the command."""

    command: int
    first: int
    second: int
    payload: bytes = b""

    def packed(self, version: int) -> bytes:
        """Return the bytes on the wire."""
        total = sum(self.payload) & 0xFFFFFFFF if version < VERSION else 0
        return (
            _HEADER.pack(self.command, self.first, self.second, len(self.payload), total, self.command ^ 0xFFFFFFFF)
            + self.payload
        )


def receive(connection: socket.socket) -> Message:
    """Return the next message; raise `Lost` at the end of the connection, and for an invalid header."""
    command, first, second, length, total, magic = _HEADER.unpack(exactly(connection, _HEADER.size))
    if magic != command ^ 0xFFFFFFFF or length > _LARGEST:
        raise Lost("no header of a message")
    payload = exactly(connection, length)
    if total and total != sum(payload) & 0xFFFFFFFF:
        raise Lost("a payload with another checksum")
    return Message(command, first, second, payload)


def exactly(connection: socket.socket, nr_bytes: int) -> bytes:
    """Return this many bytes, or raise `Lost`."""
    parts, missing = [], nr_bytes
    while missing:
        try:
            part = connection.recv(min(missing, 1 << 20))
        except OSError as error:
            raise Lost(str(error)) from None
        if not part:
            raise Lost("end of the connection")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
