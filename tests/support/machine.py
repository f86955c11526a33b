"""What a machine has once, locked for one test after the other, whichever process each runs in."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

KERNEL = "/sys/kernel"
"""Its tracing: what a dead recorder left there, the next one that starts removes."""

MOUNTS = "/sys/fs"
"""Its mounts: a new mount namespace begins with a copy of them all, and what a copy holds is not unmounted by umount.
Its filesystem is then written back, and its loop device free, only when the copy is gone, too."""


@contextlib.contextmanager
def shared(place: str) -> Iterator[None]:
    """Holds the lock together with others that share it."""
    with _locked(place, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def alone(place: str) -> Iterator[None]:
    """Holds the lock while nobody else does."""
    with _locked(place, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def _locked(place: str, how: int) -> Iterator[None]:
    directory = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(directory, how)
        yield
    finally:
        os.close(directory)
