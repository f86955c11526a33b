"""Relate the device's clocks: commands read CLOCK_REALTIME in nanoseconds, recordings use CLOCK_BOOTTIME.

The only access to CLOCK_BOOTTIME from a shell is ``/proc/uptime``, in units of 10 ms. It is read many times, each time
between two readings of ``date``. Every reading bounds the offset of the clocks. Together the bounds leave an
uncertainty of little more than the time that ``date`` takes to start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import DeviceError

STEP_NS = 10_000_000
"""Resolution of /proc/uptime, which rounds down (fs/proc/uptime.c)."""

_EXCHANGES = 40
_SCRIPT = (
    f"date +%s%N; i=0; while [ $i -lt {_EXCHANGES} ]; do read -r up rest </proc/uptime; echo $up; date +%s%N; "
    "i=$((i+1)); done"
)


@dataclass(frozen=True)
class Relation:
    """CLOCK_BOOTTIME minus CLOCK_REALTIME, between `lo_ns` and `hi_ns`."""

    lo_ns: int
    hi_ns: int

    @property
    def offset_ns(self) -> int:
        """The middle of the range."""
        return (self.lo_ns + self.hi_ns) // 2

    @property
    def error_ns(self) -> int:
        """The largest error of the middle."""
        return self.hi_ns - self.offset_ns

    def with_other(self, other: Relation) -> Relation:
        """Return the intersection of both ranges.

        If they do not overlap, the clock was set between them and either may be true: return the range that covers
        both.
        """
        lo, hi = max(self.lo_ns, other.lo_ns), min(self.hi_ns, other.hi_ns)
        if lo <= hi:
            return Relation(lo, hi)
        return Relation(min(self.lo_ns, other.lo_ns), max(self.hi_ns, other.hi_ns))


def bounded(readings: Sequence[int], coarse: Sequence[int], step_ns: int = STEP_NS) -> Relation:
    """Return the offset of a coarse clock from a fine one, from alternating readings.

    Each coarse reading was taken between two fine ones. A coarse reading `c` means a time in ``[c, c + step_ns)``.
    Raises `ValueError` if the bounds contradict each other, because one of the clocks was set.
    """
    lo = max(one - after for one, after in zip(coarse, readings[1:], strict=True))
    hi = min(one + step_ns - before for one, before in zip(coarse, readings, strict=False))
    if lo > hi:
        raise ValueError("the clock was set while it was read")
    return Relation(lo, hi)


def relation(device: Session) -> Relation:
    """Measure the offset of the device's clocks; raise `DeviceError` if its commands do not print the time."""
    lines = device.ensure(_SCRIPT, "read the device's clocks").split()
    try:
        fine = [int(line) for line in lines[::2]]
        coarse = [int(seconds) * 10**9 + int(hundredths) * STEP_NS for seconds, hundredths in map(_parts, lines[1::2])]
        return bounded(fine, coarse)
    except ValueError as error:
        raise DeviceError(
            f"{device.name}: `date +%s%N` and /proc/uptime give no usable time ({error}); workloads need Android 6 or "
            "later, and a clock that is not set during the run"
        ) from None


def _parts(uptime: bytes) -> list[bytes]:
    """Split a reading of /proc/uptime into seconds and hundredths."""
    parts = uptime.split(b".")
    if len(parts) != 2 or len(parts[1]) != 2:
        raise ValueError(f"{uptime[:20]!r} is no time since the start")
    return parts
