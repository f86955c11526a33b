"""Frame shell commands so that exit status, output and errors stay separate over any transport.

A framed command line writes a random token before and after the output, then the errors and the exit status. The
command does not know the token and so cannot write it by accident. An answer without the last token is incomplete.

The device needs only sh, printf and tail, and no file. Therefore framing also works on old devices, through su, and on
a full disk.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from androstep_analysis.device.transport import MOST_BYTES, Answer, DeviceError, quoted
from androstep_analysis.device.transport.parse import count

_ERROR_BYTES = 65536
"""How many bytes of standard error are kept. A shell without builtin printf passes them as one argument."""


@dataclass(frozen=True)
class Framed:
    """A command line for the device's shell, and the token in its answer."""

    line: str
    token: str

    def answer(self, raw: bytes) -> Answer | None:
        """Parse the raw output; None if it is incomplete. Anything before the first token is ignored."""
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
    """Frame `command`, a text for sh.

    `user` is the start of a command line that runs a command as another user, such as ``su -c``. Standard error comes
    through a command substitution, standard output through descriptor 3. Raises `DeviceError` for a command that is too
    long or not UTF-8.
    """
    token = secrets.token_hex(16)
    # The command is on lines of its own and in a subshell, so that a comment or `exit` in it cannot affect the frame.
    line = (
        f"printf %s {token}b; {{ e=$({{ ( :\n{command}\n) 2>&1 >&3 3>&- </dev/null; printf x%d $?; }}"
        f' | tail -c {_ERROR_BYTES}); }} 3>&1; printf %s {token}m"$e"{token}e'
    )
    if user is not None:
        # The pipe keeps su from allocating a terminal, which would change line ends.
        line = f"{user} {quoted([line])} </dev/null 2>&1 | cat"
    try:
        size = len(line.encode())
    except UnicodeEncodeError:
        raise DeviceError("a command is not valid UTF-8, which adb requires; rename the file") from None
    if size > MOST_BYTES:
        raise DeviceError(f"a command of {size:,} bytes is too long for the device's shell (at most {MOST_BYTES:,})")
    return Framed(line, token)
