"""Compute the checksums of jbd2 that Python does not have: CRC-32C, and CRC-32 with the highest bit first.

Both follow the kernel (lib/crc32.c): the seed is the initial register, and there is no inversion before or after.
"""

from __future__ import annotations

import zlib

import numpy as np

SEED = 0xFFFFFFFF

_POLYNOMIAL = 0x82F63B78
"""CRC-32C (Castagnoli), bits reversed."""


def _table() -> np.ndarray:
    register = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = np.where(register & 1, register >> 1 ^ np.uint32(_POLYNOMIAL), register >> 1).astype(np.uint32)
    return register


_TABLE = _table()
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def crc32c(rows: np.ndarray, seed: np.ndarray | int) -> np.ndarray:
    """Return the CRC-32C of each row, uint32 of shape (n,) for uint8 of shape (n, length), with one seed or n seeds."""
    register = np.full(len(rows), seed, dtype=np.uint32)
    for column in np.ascontiguousarray(rows.T):
        register = _TABLE[(register ^ column) & 0xFF] ^ register >> 8
    return register


def crc32_be(data: bytes, seed: int) -> int:
    """Return the CRC-32 (polynomial 0x04C11DB7) with the highest bit first, by reversing the bits for zlib's CRC-32."""
    inverted = _reversed_bits(seed) ^ SEED
    return _reversed_bits(zlib.crc32(data.translate(_REVERSED), inverted) ^ SEED)


def _reversed_bits(number: int) -> int:
    return int(f"{number:032b}"[::-1], 2)
