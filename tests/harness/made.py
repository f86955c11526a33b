"""How a filesystem under test is made: the difference between one recording and another."""

from __future__ import annotations

from typing import NamedTuple

from harness.kernel import USUAL, Wanted


class Made(NamedTuple):
    """A filesystem, and where it is recorded.

    `mkfs`: arguments of mkfs after those of `host.MKFS` and `guest.MKFS`, which they override; `options`: those of
    mount; `debugfs`: what is done to the new filesystem before it is mounted; `once_mounted`: commands of a guest
    before the workload runs; `kernel`: that of a guest; `blank`: a file of tests/data instead of mkfs; `mapped`: type
    and parameters of a target of device-mapper that the filesystem of a guest is on; `first_byte`: where on the disk
    of a guest the filesystem begins, in a partition of its own unless 0; `encrypted`: a directory of its root, in
    which the workload runs.
    """

    fs_type: str
    mkfs: tuple[str, ...] = ()
    options: str = "noatime"
    on_host: bool = False
    cpus: int = 1
    debugfs: str = ""
    once_mounted: str = ""
    has_own_journal_disk: bool = False
    kernel: Wanted = USUAL
    blank: str = ""
    mapped: tuple[str, str] | None = None
    first_byte: int = 0
    encrypted: str = ""
