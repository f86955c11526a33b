"""The key that this computer shows to devices: the one that adb uses, made where there is none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from adb_shell.auth.keygen import keygen
from adb_shell.auth.sign_pythonrsa import PythonRSASigner

from androstep_analysis.device.transport import DeviceError

_TOKEN_BYTES = 20
"""TOKEN_SIZE of adb (packages/modules/adb/adb.h): a token stands for a SHA-1."""


class Signer:
    """Signs the tokens of devices, and nothing of another length, which adb-shell would hand on as it comes."""

    def __init__(self, key: PythonRSASigner) -> None:
        self._key = key

    def Sign(self, data: bytes) -> bytes:
        """Sign a token; raise `ConnectionError` where it is none."""
        if len(data) != _TOKEN_BYTES:
            raise ConnectionError(f"an authentication token of {len(data):,} bytes instead of {_TOKEN_BYTES}")
        return bytes(self._key.Sign(data))

    def GetPublicKey(self) -> str:
        """Return the public key, as a device that does not know it yet shows it."""
        return str(self._key.GetPublicKey())


def signer() -> Signer:
    """Signs with ``~/.android/adbkey``, so that a device which trusts adb here trusts this library, too.

    Makes the key where it is missing, readable for its owner only. Raises `DeviceError` where it cannot be used.
    """
    path = Path.home() / ".android" / "adbkey"
    try:
        if not path.exists():
            _make(path)
        if not Path(f"{path}.pub").exists():
            raise DeviceError(f"{path}.pub: missing beside the key; make it with `adb pubkey {path} > {path}.pub`")
        return Signer(PythonRSASigner.FromRSAKeyPath(str(path)))
    except (OSError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, DeviceError):
            raise
        raise DeviceError(
            f"{path}: cannot be used as adb's key ({error}); restore it, or move it away for a new one"
        ) from None


def _make(path: Path) -> None:
    """Both files of a new key; of two who make one at once, the first does. A key never lacks its public part."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-key-", dir=path.parent) as place:  # for its owner only
        new = Path(place) / "adbkey"
        keygen(str(new))
        new.chmod(0o600)
        with contextlib.suppress(FileExistsError):
            os.link(f"{new}.pub", f"{path}.pub")
            os.link(new, path)
