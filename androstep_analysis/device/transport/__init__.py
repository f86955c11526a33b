"""How commands and files get to a device: what every way there can do, and nothing more."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from androstep_analysis.common.errors import InputError

MOST_BYTES = 120_000
"""The longest command: the kernel takes no argument of 128 KiB or more, and a shell gets its command as one."""

MOST_ANSWER_BYTES = 32 << 20
"""The longest answer: a device must not be able to fill this machine's memory. What is longer is pulled as a file."""


class DeviceError(InputError):
    """The device, or the way to it, failed: not there, refused, lost, full, without rights.

    One sentence that names the device, what was tried and what to do.
    """


class LinkLost(DeviceError):
    """The device does not answer any more, or not yet again; what runs there goes on. The same may work later."""


def too_long(name: str) -> DeviceError:
    """What to raise for an answer of more than `MOST_ANSWER_BYTES` from the device of this name."""
    return DeviceError(
        f"{name}: the answer to one command is longer than {MOST_ANSWER_BYTES >> 20} MiB; have the command write a "
        "file, and pull that"
    )


@dataclass(frozen=True)
class Answer:
    """What a command on the device came to: its exit status (128 + n by signal n) and what it wrote.

    Of `errors` the last 64 KiB are kept, without NULs.
    """

    status: int
    output: bytes
    errors: bytes = b""

    @property
    def text(self) -> str:
        """The output as text; bytes that are no UTF-8 become replacement characters."""
        return self.output.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """What it wrote to standard error as text, or the exit status where it wrote nothing."""
        return self.errors.decode("utf-8", "replace").strip() or f"exit status {self.status}"


class Transport(Protocol):
    """One way to one device.

    Every method raises `LinkLost` when the device does not answer, and `DeviceError` for what will not work later
    either. After `LinkLost` the next call connects anew.
    """

    @property
    def name(self) -> str:
        """The device as a user names it: serial number, address and port, ``local``."""

    @property
    def scratch(self) -> str:
        """The directory of the device that any of its users may make files and run programs in."""

    @property
    def is_here(self) -> bool:
        """Whether the device is this machine, and relative paths mean what they mean here."""

    def run(self, line: str, *, timeout_s: float) -> bytes:
        """Runs a line of the device's shell to its end, without input; all that it wrote, both streams mixed.

        `frame.framed` makes lines in whose answers exit status and errors can be told apart. Raises `DeviceError` for
        more than `MOST_ANSWER_BYTES`.
        """

    def push(self, source: Path, target: str) -> None:
        """Copies a file to the device, unverified (`Session.push` verifies)."""

    def close(self) -> None:
        """Ends the connection; nothing is removed from the device, and what runs there goes on."""


def quoted(words: Sequence[str]) -> str:
    """A line for the device's shell that runs exactly these words, whatever is in them; `ValueError` for a NUL."""
    if any("\0" in word for word in words):
        raise ValueError("a word for the device's shell has a NUL")
    return shlex.join(words)
