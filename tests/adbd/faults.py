"""Faults of a device or of the connection to it, which a test can inject."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Literal

Way = Literal["push", "pull", "shell"]


@dataclass(frozen=True)
class Break:
    """The connection ends after this many more bytes; `gone`: the device goes with it."""

    after: int
    gone: bool


@dataclass
class Faults:
    """The faults, all off by default. Sizes are in bytes.

    Each cut, reboot, corruption and kill happens `times` times (None: always).

    - cut_*_after: every connection ends after this much of a file, or of a command's output.
    - reboot_*_after: the same, and the device is gone afterwards.
    - corrupt_*_at: this byte of a file is changed on the way.
    - bytes_per_s: a slow link.
    - silent: no packet is answered any more; silent_after: from this many sent bytes on.
    - kill: processes of this name get SIGKILL, once the command has written `kill_after_output`.
    - disk_bytes, no_tracefs, missing_tools: how the phone is made; later changes have no effect.
    """

    cut_push_after: int | None = None
    cut_pull_after: int | None = None
    cut_shell_after: int | None = None
    reboot_push_after: int | None = None
    reboot_pull_after: int | None = None
    reboot_shell_after: int | None = None
    corrupt_push_at: int | None = None
    corrupt_pull_at: int | None = None
    bytes_per_s: float | None = None
    silent: bool = False
    silent_after: int | None = None
    kill: str | None = None
    kill_after_output: int = 0
    times: int | None = 1
    disk_bytes: int | None = None
    no_tracefs: bool = False
    missing_tools: tuple[str, ...] = ()
    _done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def strikes(self) -> bool:
        """Return whether a limited fault may happen now, and count it."""
        with self._lock:
            if self.times is not None and self._done >= self.times:
                return False
            self._done += 1
            return True

    def breaks(self, way: Way, so_far: int, more: int) -> Break | None:
        """Return where in the next `more` bytes the connection breaks, if it does."""
        for kind, gone in (("cut", False), ("reboot", True)):
            after: int | None = getattr(self, f"{kind}_{way}_after")
            if after is not None and so_far <= after < so_far + more and self.strikes():
                return Break(after - so_far, gone)
        return None

    def corrupted(self, way: Literal["push", "pull"], so_far: int, data: bytes) -> bytes:
        """Return the data as they arrive; the first is byte `so_far` of the file."""
        at: int | None = getattr(self, f"corrupt_{way}_at")
        if at is None or not so_far <= at < so_far + len(data) or not self.strikes():
            return data
        changed = bytearray(data)
        changed[at - so_far] ^= 0x01
        return bytes(changed)
