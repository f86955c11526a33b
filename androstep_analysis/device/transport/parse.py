"""Parse numbers in the output of a device, which is not trusted."""

from __future__ import annotations

import re
from collections.abc import Sequence

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def integer(text: str | None) -> int | None:
    """Return the integer in a text, if it is one of at most 18 digits."""
    stripped = (text or "").strip()
    return int(stripped) if _INTEGER.fullmatch(stripped) else None


def count(output: bytes) -> int | None:
    """Return the non-negative integer that a command wrote, else None."""
    number = integer(output.decode("ascii", "replace"))
    return number if number is not None and number >= 0 else None


def free_bytes(lines: Sequence[str]) -> int | None:
    """Return the available bytes from the last line of ``df -k``; None if it has another form."""
    words = lines[-1].split() if lines else []
    kibibytes = integer(words[3]) if len(words) > 4 else None
    return kibibytes * 1024 if kibibytes is not None and kibibytes >= 0 else None
