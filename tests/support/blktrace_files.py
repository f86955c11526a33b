"""Write blktrace records by hand: the kernel's blk_io_trace and blk_io_trace2."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

# Categories (bits) and actions (include/uapi/linux/blktrace_api.h).
READ, WRITE, FLUSH, SYNC, QUEUE, REQUEUE, ISSUE, COMPLETE, FS, PC, NOTIFY = range(11)
AHEAD, META, DISCARD, DRV_DATA, FUA = range(11, 16)
ZONE_APPEND, ZONE_RESET, ZONE_RESET_ALL, ZONE_FINISH, ZONE_OPEN, ZONE_CLOSE, WRITE_ZEROES = range(16, 23)

Q, M, F, G, S, R, D, C, P, U, UT, INSERT, X, B, A, ABORT, DRIVER, ZP, ZU = range(1, 20)
PROCESS, TIMESTAMP, MESSAGE = range(3)
CGROUP = 1 << 8

OF_QUEUE = (Q, M, F, G, S, P, U, UT, INSERT, A, ABORT, ZP, ZU)
OF = {R: REQUEUE, D: ISSUE, C: COMPLETE, DRIVER: DRV_DATA} | dict.fromkeys(OF_QUEUE, QUEUE)
"""The category of an action."""

MAGIC = 0x65617400


def action(what: int, *categories: int) -> int:
    """Return the field action: the action itself, its category and others."""
    own = OF.get(what & ~CGROUP)
    bits = {*categories} | ({own} if own is not None else set())
    return what | sum(1 << 16 + bit for bit in bits)


def note(what: int) -> int:
    """Return the field action of a note."""
    return what | 1 << 16 + NOTIFY


@dataclass(frozen=True)
class Record:
    """One record; `pdu` follows it unchanged."""

    action: int
    time: int = 0
    sequence: int = 0
    sector: int = 800
    bytes: int = 4096
    pid: int = 77
    device: int = 8 << 20
    cpu: int = 0
    error: int = 0
    pdu: bytes = b""

    def packed(self, order: str = "<", version: int = 7) -> bytes:
        """Return the record in a byte order of struct, in version 7 or 8."""
        head = (MAGIC | version, self.sequence, self.time % (1 << 64), self.sector, self.bytes)
        tail = (self.device, self.cpu, self.error % (1 << 16), len(self.pdu))
        if version == 7:
            return struct.pack(f"{order}IIQQIIIIIHH", *head, self.action % (1 << 32), self.pid, *tail) + self.pdu
        return struct.pack(f"{order}IIQQIIQIIHH12x", *head, self.pid, self.action, *tail) + self.pdu

    def later(self, shift_ns: int) -> Record:
        """Return the record at a later time."""
        return replace(self, time=self.time + shift_ns)


def name(pid: int, comm: bytes, time: int = 0) -> Record:
    """Return the kernel's note of a thread's name."""
    return Record(note(PROCESS), time, pid=pid, sector=0, bytes=0, device=0, pdu=comm.ljust(16, b"\0"))


def clock(seconds: int, nanoseconds: int, time: int, order: str = "<") -> Record:
    """Return the kernel's note of the time of day."""
    pdu = struct.pack(f"{order}II", seconds, nanoseconds)
    return Record(note(TIMESTAMP), time, pid=0, sector=0, bytes=0, device=0, pdu=pdu)


def remap(old_dev: int, dev: int, old_sector: int) -> bytes:
    """Return the payload of a remap: big-endian on every machine."""
    return struct.pack(">IIQ", old_dev, dev, old_sector)


def number(value: int) -> bytes:
    """Return the payload of a split or an unplug: big-endian on every machine."""
    return struct.pack(">Q", value)
