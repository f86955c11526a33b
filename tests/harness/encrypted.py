"""Decrypt blocks of files under fscrypt with the key of locker.c, because blocks are identified by their content.

Android uses policies with IV_INO_LBLK_64 if the storage has inline encryption. All files then share one key, and inode
and block number form the initialization vector of a block (Linux Documentation/filesystems/fscrypt.rst). Inode and
number of a block on the disk are found by trying all that the workload wrote.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MASTER = bytes(range(64))
OF_ALL_FILES = 4
"""HKDF_CONTEXT_IV_INO_LBLK_64_KEY."""
AES_256_XTS = 1
HEAD_BYTES = 16
"""A block of the cipher."""

Bytes = npt.NDArray[np.uint8]


class Decryption:
    """Decrypts blocks of a filesystem by their possible first bytes.

    `heads` are (inode, first 16 bytes of one of its blocks at some time). A file has at most `nr_blocks`.
    """

    def __init__(self, fs_uuid: str, heads: Iterable[tuple[int, bytes]], nr_blocks: int) -> None:
        info = b"fscrypt\0" + bytes([OF_ALL_FILES, AES_256_XTS]) + uuid.UUID(fs_uuid).bytes
        self._key = HKDF(SHA512(), 64, None, info).derive(MASTER)
        self._heads = set(heads)
        self._begins = np.unique(_begins(b"".join(head for _, head in self._heads)))
        self._places = [(ino, at) for ino in sorted({ino for ino, _ in self._heads}) for at in range(nr_blocks)]
        vectors = b"".join(self._vector(ino, number) for ino, number in self._places)
        self._tweaks = _as_rows(Cipher(algorithms.AES(self._key[32:]), modes.ECB()).encryptor().update(vectors))

    def plain(self, content: bytes) -> bytes | None:
        """Return the decrypted block; None if it is not encrypted or belongs to another file."""
        masked = self._tweaks ^ np.frombuffer(content[:HEAD_BYTES], np.uint8)
        opened = Cipher(algorithms.AES(self._key[:32]), modes.ECB()).decryptor().update(masked.tobytes())
        heads = (_as_rows(opened) ^ self._tweaks).tobytes()
        for at in np.flatnonzero(np.isin(_begins(heads), self._begins)):
            ino, number = self._places[at]
            if (ino, heads[at * HEAD_BYTES :][:HEAD_BYTES]) in self._heads:
                vector = self._vector(ino, number)
                return Cipher(algorithms.AES(self._key), modes.XTS(vector)).decryptor().update(content)
        return None

    @staticmethod
    def _vector(ino: int, number: int) -> bytes:
        return (ino << 32 | number).to_bytes(16, "little")


def _as_rows(content: bytes) -> Bytes:
    return np.frombuffer(content, np.uint8).reshape(-1, HEAD_BYTES)


def _begins(heads: bytes) -> npt.NDArray[np.uint64]:
    """Return the first half of each head, which suffices to tell them apart."""
    return np.frombuffer(heads, "<u8")[::2]
