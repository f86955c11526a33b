"""Names of the flags and requests of system calls that a replay knows, and their numbers in asm-generic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from androstep_analysis.ingest.syscalls.words import words

_COMMENT = re.compile(r"/\*.*?\*/")
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Words:
    """Numbers of names. Texts join several names with ``|``, and have numbers for values without a name."""

    numbers: Mapping[str, int]

    def number(self, text: str) -> int:
        """Return the bitwise or of all names and numbers in `text`. Unknown names (a signal of clone) count as 0."""
        number = 0
        for word in _COMMENT.sub("", text).split("|"):
            number |= self.numbers[word.strip()] if word.strip() in self.numbers else _literal(word.strip())
        return number


def _literal(word: str) -> int:
    try:
        value = int(word, 8 if re.fullmatch(r"0[0-7]+", word) else 0)
    except ValueError:
        return 0
    return value if 0 <= value < _LARGEST else 0


def _of(name: str, bits: int = _LARGEST - 1) -> dict[str, int]:
    """Return the names of a set (`ingest.syscalls.words`) within these bits, and their numbers on x86-64."""
    return {word.name: word.value for word in words(name, "x86_64") if word.value | bits == bits}


_OPEN = {
    **{name: number for name, number in _of("open").items() if name != "O_ACCMODE" and not name.startswith("__")},
    "O_NDELAY": 0o4000,
    "O_ASYNC": 0o20000,
}

_OF_DESCRIPTORS = {
    **dict.fromkeys(("SOCK_CLOEXEC", "EFD_CLOEXEC", "EPOLL_CLOEXEC", "TFD_CLOEXEC", "SFD_CLOEXEC"), 0o2000000),
    **dict.fromkeys(("IN_CLOEXEC", "FD_CLOEXEC", "MFD_CLOEXEC", "PERF_FLAG_FD_CLOEXEC"), 0o2000000),
    **_of("closing"),
}
"""Flags that close a descriptor on exec. All of them become O_CLOEXEC, whatever their own numbers are."""

_AT = {**_of("at", 0x1F00), **_of("access_at"), **_of("statx"), **_of("access"), **_of("renaming")}

_FILE = {
    **_of("transfer", 0x1F),
    **_of("range_sync"),
    **_of("allocation", 0x7F),
    **_of("splicing", 0x7),
}

_MEMORY = {**_of("mapping", ~0x40), **_of("memory_sync")}

_CLONE = _of("clone", 0x10700)

FLAGS = Words({**_OPEN, **_OF_DESCRIPTORS, **_AT, **_FILE, **_MEMORY, **_CLONE})

UNKNOWN_REQUEST = 1 << 30
CHANGES_FILE = 1
"""The number for all ioctl requests that change a file or share its blocks. No operation repeats them."""

_CHANGING = re.compile(
    r"FICLONE|FIDEDUPE|BTRFS_IOC_CLONE|FS_IOC_(?:SETFLAGS|FSSETXATTR|RESVSP|UNRESVSP|ZERO_RANGE)|F2FS_IOC_"
)


class Requests(Words):
    """As `Words`, for the request argument of a call.

    A text without a known number is a request that does not matter.
    """

    def number(self, text: str) -> int:
        if _CHANGING.search(text):
            return CHANGES_FILE
        words = [word.strip() for word in text.split("|")]
        if all(word in self.numbers for word in words) or re.fullmatch(r"0|[1-9]\d*|0x[0-9a-f]+", text):
            return min(super().number(text), UNKNOWN_REQUEST)
        return UNKNOWN_REQUEST


_DESCRIPTOR_COMMANDS = ("F_DUPFD", "F_GETFD", "F_SETFD", "F_GETFL", "F_SETFL", "F_DUPFD_CLOEXEC")

REQUESTS = Requests(
    {
        **_of("whence"),
        **{name: number for name, number in _of("command").items() if name in _DESCRIPTOR_COMMANDS},
        **_of("protection"),
        **{"PROT_GROWSDOWN": 0x1000000, "PROT_GROWSUP": 0x2000000},
        **_of("advice"),
        **{"FIOCLEX": 0x5451, "FIONCLEX": 0x5450},
    }
)
