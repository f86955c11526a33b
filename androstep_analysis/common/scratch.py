"""Directories for what is not yet whole, of which a killed process leaves nothing for long.

Each is locked (flock) for as long as its process lives. One that is not locked was left by a process that was killed,
and the next process that makes one there removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MARK = "androstep-"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A new directory `path` in `place`, for its owner only; its name begins with a dot and `about`.

    Removes those that were left there. Raises `OSError` where none can be made.
    """

    def __init__(self, place: Path, about: str) -> None:
        prefix = f".{about}.{_MARK}"
        _sweep(place, prefix)
        self.path, self._descriptor = _locked(place, prefix)

    def remove(self) -> None:
        """Removes the directory, unless it has another name now, and lets go of it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)


@contextlib.contextmanager
def directory(about: str, place: Path | None = None) -> Iterator[Path]:
    """A `Scratch` for a block of code, by default where temporary files are made."""
    scratch = Scratch(place or Path(tempfile.gettempdir()), about)
    try:
        yield scratch.path
    finally:
        scratch.remove()


def _locked(place: Path, prefix: str) -> tuple[Path, int]:
    """Make a directory and lock it. Until it is locked another process may take it for left, and remove it."""
    while True:
        path = place / f"{prefix}{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # A medium may have no locks; then nothing on it is taken for left.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists():
            return path, descriptor
        os.close(descriptor)


def _sweep(place: Path, prefix: str) -> None:
    """Removes the directories of this user whose process is gone."""
    named = re.compile(re.escape(prefix) + "[0-9a-f]{16}", re.ASCII)
    try:
        with os.scandir(place) as entries:
            found = [entry.path for entry in entries if named.fullmatch(entry.name)]
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, _FLAGS)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
