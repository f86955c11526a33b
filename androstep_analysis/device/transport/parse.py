"""Numbers in the answers of a device, which may be anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def integer(text: str | None) -> int | None:
    """The number that a text is, if it is one of at most 18 digits."""
    stripped = (text or "").strip()
    return int(stripped) if _INTEGER.fullmatch(stripped) else None


def count(output: bytes) -> int | None:
    """The number that a command wrote, if that is one which counts something."""
    number = integer(output.decode("ascii", "replace"))
    return number if number is not None and number >= 0 else None


def free_bytes(lines: Sequence[str]) -> int | None:
    """What the last line of ``df -k`` says is available; None where it says something else."""
    words = lines[-1].split() if lines else []
    kibibytes = integer(words[3]) if len(words) > 4 else None
    return kibibytes * 1024 if kibibytes is not None and kibibytes >= 0 else None
