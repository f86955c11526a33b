"""Authentication of hosts: those that sign the device's token with a known key, and new ones that the user accepts."""

from __future__ import annotations

import base64
import binascii
import secrets
import struct
from dataclasses import dataclass, field

TOKEN_BYTES = 20

_SHA1_PREFIX = bytes.fromhex("3021300906052b0e03021a05000414")
"""Prefix of a SHA-1 in a PKCS #1 v1.5 signature (RFC 8017, section 9.2). The token replaces the hash."""

_WORDS = 64
_KEY = struct.Struct(f"<2I{_WORDS * 4}s{_WORDS * 4}sI")
"""Words of the modulus, -1/n mod 2^32, modulus and R^2 mod n (little-endian), exponent."""


@dataclass(frozen=True)
class PublicKey:
    """A 2048-bit RSA key in the format of adb hosts."""

    modulus: int
    exponent: int

    def verifies(self, token: bytes, signature: bytes) -> bool:
        """Return whether the owner of the private key signed the token."""
        if len(signature) != _WORDS * 4:
            return False
        opened = pow(int.from_bytes(signature, "big"), self.exponent, self.modulus).to_bytes(_WORDS * 4, "big")
        tail = b"\x00" + _SHA1_PREFIX + token
        return opened == b"\x00\x01" + b"\xff" * (_WORDS * 4 - 2 - len(tail)) + tail


def public_key(payload: bytes) -> PublicKey | None:
    """Return the key in ``base64 user@host``; None for anything else."""
    try:
        words, _inverse, modulus, _square, exponent = _KEY.unpack(
            base64.b64decode(payload.split(b" ")[0].rstrip(b"\0"), validate=True)
        )
    except (binascii.Error, struct.error):
        return None
    return PublicKey(int.from_bytes(modulus, "little"), exponent) if words == _WORDS else None


@dataclass
class Doorkeeper:
    """The keys that a device knows. `accepts`: the user accepts every new one."""

    accepts: bool
    known: set[PublicKey] = field(default_factory=set)

    def token(self) -> bytes:
        """Return a token for a host to sign."""
        return secrets.token_bytes(TOKEN_BYTES)

    def knows(self, token: bytes, signature: bytes) -> bool:
        """Return whether a known key signed the token."""
        return any(key.verifies(token, signature) for key in self.known)

    def is_offered(self, payload: bytes) -> bool:
        """Return whether the user accepts this key; if so, store it as known."""
        key = public_key(payload)
        if key is None or not self.accepts:
            return False
        self.known.add(key)
        return True
