"""The RSA key with which this computer authenticates to devices. It is shared with adb."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from adb_shell.auth.keygen import keygen
from adb_shell.auth.sign_pythonrsa import PythonRSASigner

from androstep_analysis.device.transport import DeviceError

_TOKEN_BYTES = 20
"""TOKEN_SIZE of adb (packages/modules/adb/adb.h): a token has the length of a SHA-1."""


class Signer:
    """Signs the tokens of devices. Data of any other length, which adb-shell would pass through, is refused."""

    def __init__(self, key: PythonRSASigner) -> None:
        self._key = key

    def Sign(self, data: bytes) -> bytes:
        """Sign a token; raise `ConnectionError` if the data has another length."""
        if len(data) != _TOKEN_BYTES:
            raise ConnectionError(f"an authentication token of {len(data):,} bytes instead of {_TOKEN_BYTES}")
        return bytes(self._key.Sign(data))

    def GetPublicKey(self) -> str:
        """Return the public key, which a device that does not know it shows to its user."""
        return str(self._key.GetPublicKey())


def signer() -> Signer:
    """Return a signer with ``~/.android/adbkey``, so that devices that trust adb here trust this library.

    The key is created if it is missing, readable by its owner only. Raises `DeviceError` if it cannot be used.
    """
    path = Path.home() / ".android" / "adbkey"
    try:
        if not path.exists():
            _make(path)
        if not Path(f"{path}.pub").exists():
            raise DeviceError(f"{path}.pub: not a public key; make it with `adb pubkey {path} > {path}.pub`")
        return Signer(PythonRSASigner.FromRSAKeyPath(str(path)))
    except (OSError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, DeviceError):
            raise
        raise DeviceError(
            f"{path}: cannot be used as adb's key ({error}); restore it, or remove it so that a new one is created"
        ) from None


def _make(path: Path) -> None:
    """Create both files of a new key. The public key is linked first, so that a key never lacks it.

    If two processes create a key at once, the first one wins.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-key-", dir=path.parent) as place:  # mode 0700
        new = Path(place) / "adbkey"
        keygen(str(new))
        new.chmod(0o600)
        with contextlib.suppress(FileExistsError):
            os.link(f"{new}.pub", f"{path}.pub")
            os.link(new, path)
