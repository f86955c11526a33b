"""Interfere with a program: hide a system call from it, or exchange the entries of its directory.

attacker.py without-openat2 COMMAND…         run a command without openat2, as on a kernel before Linux 5.6
attacker.py without-fiemap COMMAND…          run a command without FIEMAP, as on FAT
attacker.py plant DIRECTORY TARGET SECONDS   create and exchange links to TARGET, pipes, sockets and devices
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NR_OPENAT2 = 437
FS_IOC_FIEMAP = 0xC020660B
RENAME_EXCHANGE = 2


def hide(call: int, error: int, argument: int | None = None) -> None:
    """Let a system call fail in this process and its children; with `argument` only if that is its second one."""
    pr_set_no_new_privs, pr_set_seccomp, mode_filter = 38, 22, 2
    load, jump_if_equal, finish, number_at, argument_at = 0x20, 0x15, 0x06, 0, 24
    refuse, allow = 0x00050000 | error, 0x7FFF0000
    rules = [(load, 0, 0, number_at), (jump_if_equal, 0, 1 if argument is None else 3, call)]
    if argument is not None:
        rules += [(load, 0, 0, argument_at), (jump_if_equal, 0, 1, argument)]
    rules += [(finish, 0, 0, refuse), (finish, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = struct.pack("HP", len(rules), ctypes.addressof(code))
    if LIBC.prctl(pr_set_no_new_privs, 1, 0, 0, 0) or LIBC.prctl(pr_set_seccomp, mode_filter, program):
        raise OSError(ctypes.get_errno(), "seccomp")


def without(name: str) -> None:
    if name == "without-openat2":
        hide(NR_OPENAT2, errno.ENOSYS)
    else:
        hide({"x86_64": 16, "aarch64": 29}[os.uname().machine], errno.EOPNOTSUPP, FS_IOC_FIEMAP)


def plant(directory: Path, target: str, seconds: float) -> None:
    """Interfere from the first file of the replay on. Every entry may exist already, or vanish at any time."""
    end = time.monotonic() + seconds
    while not (directory / "spare").exists() and time.monotonic() < end:
        time.sleep(0.001)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    steps: list[Callable[[], None]] = [
        lambda: os.mkdir("flip", 0o700, dir_fd=place),
        lambda: os.symlink(target, "flop", dir_fd=place),
        lambda: os.symlink(target, "link", dir_fd=place),
        lambda: os.mknod("pipe", 0o666 | stat.S_IFIFO, dir_fd=place),
        lambda: os.mknod("socket", 0o666 | stat.S_IFSOCK, dir_fd=place),
        lambda: os.mknod("device", 0o666 | stat.S_IFCHR, os.makedev(1, 3), dir_fd=place),
    ]
    while time.monotonic() < end:
        for step in steps:
            with contextlib.suppress(OSError):
                step()
        for _ in range(100):
            LIBC.renameat2(place, b"flip", place, b"flop", RENAME_EXCHANGE)


if __name__ == "__main__":
    if sys.argv[1] == "plant":
        plant(Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
    else:
        without(sys.argv[1])
        os.execvp(sys.argv[2], sys.argv[2:])
