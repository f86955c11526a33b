"""Locks for resources that a machine has only once, across test processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

KERNEL = "/sys/kernel"
"""The kernel's tracing. A starting recorder removes the remains of dead ones."""

MOUNTS = "/sys/fs"
"""The machine's mounts.

A new mount namespace copies all mounts, and umount does not affect the copies. The filesystem is written back, and its
loop device becomes free, only once the copy is gone too.
"""

WORKLOAD = "/sys/block"
"""The harness's workload on this machine: system calls are recorded of the whole machine, and name its processes."""


@contextlib.contextmanager
def shared(place: str) -> Iterator[None]:
    """Hold the lock in shared mode."""
    with _locked(place, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def alone(place: str) -> Iterator[None]:
    """Hold the lock exclusively."""
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
