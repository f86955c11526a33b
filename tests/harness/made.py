"""Parameters of a filesystem under test, by which recordings differ."""

from __future__ import annotations

from typing import NamedTuple

from harness.kernel import USUAL, Wanted


class Made(NamedTuple):
    """A filesystem, and where it is recorded.

    mkfs
        Arguments of mkfs, which override those of `host.MKFS` and `guest.MKFS`.
    options
        Mount options.
    debugfs
        A command of debugfs on the new filesystem before it is mounted.
    once_mounted
        Commands of a guest before the workload runs.
    kernel
        The kernel of a guest.
    blank
        A file of tests/data instead of mkfs.
    mapped
        Type and parameters of the device-mapper target under the filesystem of a guest.
    first_byte
        Offset of the filesystem on the disk of a guest. It has a partition of its own unless this is 0.
    encrypted
        Encrypted directory in the root, in which the workload runs.
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
