"""Create temporary directories for incomplete output, and clean up those of killed processes.

Each directory is locked (flock) as long as its process runs. One without a lock was left by a killed process. The next
process that creates a scratch directory with the same parent and name removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

_MARK = "androstep-"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A new directory `path` in `parent` with mode 0700; its name begins with a dot and `about`.

    Creating it removes leftover directories with the same parent and name. The directory is removed with this object,
    unless it was renamed. Raises `OSError` if it cannot be created.
    """

    path: Path

    def __init__(self, parent: Path, about: str) -> None:
        prefix = f".{about}.{_MARK}"
        _sweep(parent, prefix)
        while not self._create(parent / f"{prefix}{secrets.token_hex(8)}"):
            pass

    def _create(self, path: Path) -> bool:
        """Create and lock the directory; return False if another process removed it before it was locked.

        What removes it is registered before it exists, because the handler of a signal may raise after any call.
        """
        self.path = path
        weakref.finalize(self, _remove, path)
        path.mkdir(mode=0o700)
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            return False
        weakref.finalize(self, os.close, descriptor)
        with contextlib.suppress(OSError):  # On a filesystem without locks, `_sweep` fails as well and removes nothing.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return path.exists()

    def remove(self) -> None:
        """Remove the directory now, unless it was renamed."""
        _remove(self.path)


@contextlib.contextmanager
def directory(about: str, parent: Path | None = None) -> Iterator[Path]:
    """Provide a `Scratch` as a context manager, by default in the system's temporary directory."""
    scratch = Scratch(parent or Path(tempfile.gettempdir()), about)
    try:
        yield scratch.path
    finally:
        scratch.remove()


def _remove(path: Path) -> None:
    """Remove a directory with all that is in it, also if the handler of a signal raises meanwhile."""
    try:
        shutil.rmtree(path, ignore_errors=True)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _sweep(parent: Path, prefix: str) -> None:
    """Remove this user's directories of processes that have ended."""
    named = re.compile(re.escape(prefix) + "[0-9a-f]{16}", re.ASCII)
    try:
        with os.scandir(parent) as entries:
            leftovers = [entry.path for entry in entries if named.fullmatch(entry.name)]
    except OSError:
        return
    for path in leftovers:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, _FLAGS)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
