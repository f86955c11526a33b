"""The interface of all connections to a device: run a command, copy a file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from androstep_analysis.common.errors import InputError

MOST_BYTES = 120_000
"""The longest command in bytes: a shell gets it as one argument, which the kernel limits to 128 KiB."""

MOST_ANSWER_BYTES = 32 << 20
"""The largest output of one command in bytes. It keeps a device from filling this machine's memory.

Larger output must go to a file that is pulled.
"""


class DeviceError(InputError):
    """The device or the connection failed: not found, refused, lost, full, or permission denied.

    The message is one sentence that names the device, what was tried and what to do.
    """


class LinkLost(DeviceError):
    """The device does not answer at present. Its programs keep running, and a retry may succeed."""


def too_long(name: str) -> DeviceError:
    """Return the error for a command of device `name` that wrote more than `MOST_ANSWER_BYTES`."""
    return DeviceError(
        f"{name}: the answer to one command is longer than {MOST_ANSWER_BYTES >> 20} MiB; have the command write a "
        "file, and pull that"
    )


@dataclass(frozen=True)
class Answer:
    """The result of a command on the device: its exit status (128 + n if signal n ended it) and its output.

    `errors` holds the last 64 KiB of standard error, without NUL bytes.
    """

    status: int
    output: bytes
    errors: bytes = b""

    @property
    def text(self) -> str:
        """The output as text. Bytes that are not UTF-8 become replacement characters."""
        return self.output.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """Standard error as text, or the exit status if that is empty."""
        return self.errors.decode("utf-8", "replace").strip() or f"exit status {self.status}"


class Transport(Protocol):
    """A connection to a device.

    Every method raises `LinkLost` if the device does not answer, and `DeviceError` for failures that a retry cannot
    fix. After `LinkLost` the next call connects again.
    """

    @property
    def name(self) -> str:
        """The device's name for the user: serial number, address and port, or ``local``."""

    @property
    def scratch(self) -> str:
        """A directory of the device in which all its users may create files and run programs."""

    @property
    def is_here(self) -> bool:
        """Whether the device is this machine, so that relative paths are valid on both sides."""

    def run(self, line: str, *, timeout_s: float) -> bytes:
        """Run a shell command line to its end without input, and return its output and errors mixed.

        `frame.framed` makes command lines that report exit status and errors separately. Raises `DeviceError` for more
        than `MOST_ANSWER_BYTES`.
        """

    def push(self, source: Path, target: str) -> None:
        """Copy a file to the device without verification (`Session.push` verifies)."""

    def close(self) -> None:
        """End the connection. Files and programs on the device remain."""


def quoted(words: Sequence[str]) -> str:
    """Return a shell command line that runs exactly these words; `ValueError` if one contains NUL."""
    if any("\0" in word for word in words):
        raise ValueError("a word for the device's shell has a NUL")
    return shlex.join(words)
