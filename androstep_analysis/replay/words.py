"""Names of the flags and requests of system calls, and their numbers in asm-generic (include/uapi, Linux 6.18)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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


_OPEN = {
    "O_RDONLY": 0,
    "O_WRONLY": 0o1,
    "O_RDWR": 0o2,
    "O_CREAT": 0o100,
    "O_EXCL": 0o200,
    "O_NOCTTY": 0o400,
    "O_TRUNC": 0o1000,
    "O_APPEND": 0o2000,
    "O_NONBLOCK": 0o4000,
    "O_NDELAY": 0o4000,
    "O_DSYNC": 0o10000,
    "O_ASYNC": 0o20000,
    "FASYNC": 0o20000,
    "O_DIRECT": 0o40000,
    "O_LARGEFILE": 0o100000,
    "O_DIRECTORY": 0o200000,
    "O_NOFOLLOW": 0o400000,
    "O_NOATIME": 0o1000000,
    "O_CLOEXEC": 0o2000000,
    "O_SYNC": 0o4010000,
    "O_PATH": 0o10000000,
    "O_TMPFILE": 0o20200000,
}

_OF_DESCRIPTORS = {
    **dict.fromkeys(("SOCK_CLOEXEC", "EFD_CLOEXEC", "EPOLL_CLOEXEC", "TFD_CLOEXEC", "SFD_CLOEXEC"), 0o2000000),
    **dict.fromkeys(("IN_CLOEXEC", "FD_CLOEXEC", "MFD_CLOEXEC", "PERF_FLAG_FD_CLOEXEC"), 0o2000000),
    "CLOSE_RANGE_UNSHARE": 2,
    "CLOSE_RANGE_CLOEXEC": 4,
}
"""Flags that close a descriptor on exec. All of them become O_CLOEXEC, whatever their own numbers are."""

_AT = {
    "AT_SYMLINK_NOFOLLOW": 0x100,
    "AT_REMOVEDIR": 0x200,
    "AT_EACCESS": 0x200,
    "AT_SYMLINK_FOLLOW": 0x400,
    "AT_NO_AUTOMOUNT": 0x800,
    "AT_EMPTY_PATH": 0x1000,
    "AT_STATX_FORCE_SYNC": 0x2000,
    "AT_STATX_DONT_SYNC": 0x4000,
    "F_OK": 0,
    "X_OK": 1,
    "W_OK": 2,
    "R_OK": 4,
    "RENAME_NOREPLACE": 1,
    "RENAME_EXCHANGE": 2,
    "RENAME_WHITEOUT": 4,
}

_FILE = {
    "RWF_HIPRI": 1,
    "RWF_DSYNC": 2,
    "RWF_SYNC": 4,
    "RWF_NOWAIT": 8,
    "RWF_APPEND": 16,
    "SYNC_FILE_RANGE_WAIT_BEFORE": 1,
    "SYNC_FILE_RANGE_WRITE": 2,
    "SYNC_FILE_RANGE_WAIT_AFTER": 4,
    "FALLOC_FL_KEEP_SIZE": 1,
    "FALLOC_FL_PUNCH_HOLE": 2,
    "FALLOC_FL_NO_HIDE_STALE": 4,
    "FALLOC_FL_COLLAPSE_RANGE": 8,
    "FALLOC_FL_ZERO_RANGE": 16,
    "FALLOC_FL_INSERT_RANGE": 32,
    "FALLOC_FL_UNSHARE_RANGE": 64,
    "SPLICE_F_MOVE": 1,
    "SPLICE_F_NONBLOCK": 2,
    "SPLICE_F_MORE": 4,
}

_MEMORY = {
    "MAP_SHARED": 1,
    "MAP_PRIVATE": 2,
    "MAP_SHARED_VALIDATE": 3,
    "MAP_FIXED": 0x10,
    "MAP_ANONYMOUS": 0x20,
    "MAP_GROWSDOWN": 0x100,
    "MAP_DENYWRITE": 0x800,
    "MAP_EXECUTABLE": 0x1000,
    "MAP_LOCKED": 0x2000,
    "MAP_NORESERVE": 0x4000,
    "MAP_POPULATE": 0x8000,
    "MAP_NONBLOCK": 0x10000,
    "MAP_STACK": 0x20000,
    "MAP_HUGETLB": 0x40000,
    "MAP_SYNC": 0x80000,
    "MAP_FIXED_NOREPLACE": 0x100000,
    "MS_ASYNC": 1,
    "MS_INVALIDATE": 2,
    "MS_SYNC": 4,
}

_CLONE = {
    "CLONE_VM": 0x100,
    "CLONE_FS": 0x200,
    "CLONE_FILES": 0x400,
    "CLONE_THREAD": 0x10000,
}

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


REQUESTS = Requests(
    {
        "SEEK_SET": 0,
        "SEEK_CUR": 1,
        "SEEK_END": 2,
        "SEEK_DATA": 3,
        "SEEK_HOLE": 4,
        "F_DUPFD": 0,
        "F_GETFD": 1,
        "F_SETFD": 2,
        "F_GETFL": 3,
        "F_SETFL": 4,
        "F_DUPFD_CLOEXEC": 1030,
        "PROT_NONE": 0,
        "PROT_READ": 1,
        "PROT_WRITE": 2,
        "PROT_EXEC": 4,
        "PROT_SEM": 8,
        "PROT_GROWSDOWN": 0x1000000,
        "PROT_GROWSUP": 0x2000000,
        "POSIX_FADV_NORMAL": 0,
        "POSIX_FADV_RANDOM": 1,
        "POSIX_FADV_SEQUENTIAL": 2,
        "POSIX_FADV_WILLNEED": 3,
        "POSIX_FADV_DONTNEED": 4,
        "POSIX_FADV_NOREUSE": 5,
        "FIOCLEX": 0x5451,
        "FIONCLEX": 0x5450,
    }
)
