"""The device's clocks: commands tell CLOCK_REALTIME to the nanosecond, recordings are in CLOCK_BOOTTIME.

A shell has no command that tells CLOCK_BOOTTIME but ``/proc/uptime``, in steps of 10 ms. Read many times between two
readings of ``date`` each, it still tells how the two clocks lie to each other: every reading bounds that, and all
bounds together leave little more than the time that ``date`` takes to start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import DeviceError

STEP_NS = 10_000_000
"""In what steps /proc/uptime is stated, rounded down (fs/proc/uptime.c)."""

_EXCHANGES = 40
_SCRIPT = (
    f"date +%s%N; i=0; while [ $i -lt {_EXCHANGES} ]; do read -r up rest </proc/uptime; echo $up; date +%s%N; "
    "i=$((i+1)); done"
)


@dataclass(frozen=True)
class Relation:
    """CLOCK_BOOTTIME minus CLOCK_REALTIME, no less than `lo_ns` and no more than `hi_ns`."""

    lo_ns: int
    hi_ns: int

    @property
    def offset_ns(self) -> int:
        """The middle of what it may be."""
        return (self.lo_ns + self.hi_ns) // 2

    @property
    def error_ns(self) -> int:
        """How far from the truth the middle may be."""
        return self.hi_ns - self.offset_ns

    def with_other(self, other: Relation) -> Relation:
        """What both say; where they exclude each other the clock was set between them, and either may be true."""
        lo, hi = max(self.lo_ns, other.lo_ns), min(self.hi_ns, other.hi_ns)
        if lo <= hi:
            return Relation(lo, hi)
        return Relation(min(self.lo_ns, other.lo_ns), max(self.hi_ns, other.hi_ns))


def bounded(readings: Sequence[int], coarse: Sequence[int], step_ns: int = STEP_NS) -> Relation:
    """What readings of a fine clock tell of a coarse one, each of which was read between two of the fine.

    A coarse reading of `c` stands for a time in ``[c, c + step_ns)``. `ValueError` where they exclude each other: one
    of the clocks was set meanwhile.
    """
    lo = max(one - after for one, after in zip(coarse, readings[1:], strict=True))
    hi = min(one + step_ns - before for one, before in zip(coarse, readings, strict=False))
    if lo > hi:
        raise ValueError("the clock was set while it was read")
    return Relation(lo, hi)


def relation(device: Session) -> Relation:
    """How the device's clocks lie to each other now; raises `DeviceError` where its commands do not tell."""
    lines = device.ensure(_SCRIPT, "read the device's clocks").split()
    try:
        fine = [int(line) for line in lines[::2]]
        coarse = [int(seconds) * 10**9 + int(hundredths) * STEP_NS for seconds, hundredths in map(_parts, lines[1::2])]
        return bounded(fine, coarse)
    except ValueError as error:
        raise DeviceError(
            f"{device.name}: `date +%s%N` and /proc/uptime do not tell the time ({error}); workloads need Android 6 or "
            "later, and a clock that nobody sets meanwhile"
        ) from None


def _parts(uptime: bytes) -> list[bytes]:
    """Seconds and hundredths of a reading of /proc/uptime."""
    parts = uptime.split(b".")
    if len(parts) != 2 or len(parts[1]) != 2:
        raise ValueError(f"{uptime[:20]!r} is no time since the start")
    return parts
