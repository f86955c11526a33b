"""Commands for the device's shell of which exit status, output and errors can be told apart, over any transport.

A line that `framed` makes writes a random token before and behind the output, then the errors and the exit status.
What a command writes cannot be taken for the token, which it does not know; an answer without it did not come whole.
It needs no protocol but bytes, no file on the device, and only sh, printf and tail, and so it works for old devices,
through su, and on a full disk.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from androstep_analysis.device.transport import MOST_BYTES, Answer, DeviceError, quoted
from androstep_analysis.device.transport.parse import count

_ERROR_BYTES = 65536
"""How much of the errors is kept: a shell without printf of its own passes them as one argument."""


@dataclass(frozen=True)
class Framed:
    """A line for the device's shell, and the token in its answer."""

    line: str
    token: str

    def answer(self, raw: bytes) -> Answer | None:
        """The answer in what came back; None where it is not all there. What stands before it is left out."""
        begin, middle, end = (f"{self.token}{mark}".encode() for mark in "bme")
        _, has_begun, rest = raw.partition(begin)
        output, is_parted, rest = rest.rpartition(middle)
        stated, has_ended, _ = rest.rpartition(end)
        if not (has_begun and is_parted and has_ended):
            return None
        errors, _, digits = stated.rpartition(b"x")
        status = count(digits)
        return None if status is None else Answer(status, output, errors)


def framed(command: str, user: str | None = None) -> Framed:
    """`command` (a text for sh) in a frame; run by another user where `user` starts a line that does (``su -c``).

    Errors come by a command substitution, output by descriptor 3. Raises `DeviceError` for a command that is too long
    or that the protocol has no bytes for.
    """
    token = secrets.token_hex(16)
    # The command stands on lines of its own, in a subshell: neither a comment nor `exit` in it reaches the frame.
    line = (
        f"printf %s {token}b; {{ e=$({{ ( :\n{command}\n) 2>&1 >&3 3>&- </dev/null; printf x%d $?; }}"
        f' | tail -c {_ERROR_BYTES}); }} 3>&1; printf %s {token}m"$e"{token}e'
    )
    if user is not None:
        # Its output goes to a pipe: su gives a terminal, which changes line ends, to whoever has one.
        line = f"{user} {quoted([line])} </dev/null 2>&1 | cat"
    try:
        size = len(line.encode())
    except UnicodeEncodeError:
        raise DeviceError("a command has bytes that are no UTF-8, which adb cannot pass on; rename the file") from None
    if size > MOST_BYTES:
        raise DeviceError(f"a command of {size:,} bytes is too long for the device's shell (at most {MOST_BYTES:,})")
    return Framed(line, token)
