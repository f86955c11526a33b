"""Identify the program that left files on a device, and whether it still runs."""

from __future__ import annotations

import os
from pathlib import Path

from androstep_analysis.device.transport.parse import integer


def process(pid: int) -> str | None:
    """Return a unique name of a process across machines: boot id, process id and start time.

    None if there is no such process, or no /proc.
    """
    try:
        began = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return None
    boot = _boot()
    return None if boot is None else f"{boot} {pid} {began}"


def is_at_work(name: object) -> bool:
    """Return whether the process of this name (`process`) is alive on this machine and is not this one."""
    pid = _pid(name)
    return pid is not None and pid != os.getpid() and process(pid) == name


def was_killed(name: str) -> bool:
    """Return whether the process of this name (`process`) ran on this machine and has ended.

    False if that is unknown: for other machines, and for processes from before the last restart.
    """
    pid, boot = _pid(name), _boot()
    return pid is not None and boot is not None and name.startswith(f"{boot} ") and process(pid) != name


def _pid(name: object) -> int | None:
    words = name.split() if isinstance(name, str) else []
    return integer(words[1]) if len(words) == 3 else None


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
