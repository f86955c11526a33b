"""What files under fscrypt hold, by the key that locker.c gives them: the content is what tells whose a block is.

Of a policy with IV_INO_LBLK_64, as Android's where storage has inline encryption, one key is that of all files, and
inode and block number make a block's initialization vector (Linux Documentation/filesystems/fscrypt.rst): which they
are of a block on the disk is found by trying all that the workload wrote.
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
    """Finds what blocks of a filesystem hold, of which it is known how they may begin.

    `heads` are (inode, the first 16 bytes that a block of it had at some time); a file has at most `nr_blocks`.
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
        """The block as the file has it; None where it is none of these files' or not encrypted."""
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
    """The first half of each: what is another's differs in it already."""
    return np.frombuffer(heads, "<u8")[::2]
