"""Convert device numbers, and define the units of sectors, sizes and times. Readers convert their input once."""

from __future__ import annotations

import re

SECTOR_BYTES = 512
"""Size of a sector in every table. Linux counts 512-byte sectors for every device (kernel: SECTOR_SHIFT)."""

NS_PER_S = 1_000_000_000

NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": NS_PER_S, "min": 60 * NS_PER_S, "h": 3600 * NS_PER_S}
"""Units of time in text input, in nanoseconds."""

BYTES = {
    **{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
    **{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40},
}
"""Units of size in text input, in bytes; the single letters are fio's."""

MINOR_BITS = 20
"""Minor bits of the kernel's internal dev_t (include/linux/kdev_t.h), the encoding of every `dev` column."""


def dev(major: int, minor: int) -> int:
    """Return the `dev` column value of a device: ``major << 20 | minor``."""
    return major << MINOR_BITS | minor


def dev_from_stat(st_dev: int) -> int:
    """Return the `dev` column value of a `stat` device number.

    Userland's encoding differs from the kernel's. It is that of glibc's `gnu_dev_major` (sys/sysmacros.h), which for
    small numbers is ``major << 8 | minor``.
    """
    major = (st_dev >> 8) & 0xFFF | (st_dev >> 32) & ~0xFFF
    minor = st_dev & 0xFF | (st_dev >> 12) & ~0xFF
    return dev(major, minor)


def parse_dev(text: str) -> int:
    """Return the `dev` column value of ``MAJ:MIN`` or ``MAJ,MIN``; `ValueError` for other text."""
    match = re.fullmatch(r"([0-9]{1,4})[:,]([0-9]{1,7})", text)
    if match is None or int(match[1]) >= 1 << 12 or int(match[2]) >= 1 << MINOR_BITS:
        raise ValueError(f"{text!r} is not a device number; write MAJOR:MINOR, for example 259:13")
    return dev(int(match[1]), int(match[2]))


def format_dev(value: int) -> str:
    """Return ``MAJ:MIN`` of a `dev` column value."""
    return f"{value >> MINOR_BITS}:{value & ((1 << MINOR_BITS) - 1)}"
