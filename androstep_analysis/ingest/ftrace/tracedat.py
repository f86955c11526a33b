"""Read the ``trace.dat`` files of trace-cmd and iotrace.

Every record is decoded by the format file stored with it, so that the kernel version does not matter. Times stay in the
trace clock.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from androstep_analysis.common import files
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest import record
from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.ingest.syscalls import opened_before

_DESCRIPTION = "recording.json"
"""The description that iotrace writes next to its trace."""

_LISTING = "before.rec"
"""The listing that iotrace writes before the recording."""

_MINOR_BITS = 20


def sniff(head: bytes) -> bool:
    """Return whether `head` begins like a file of trace-cmd."""
    return head.startswith(tracedat_file.MAGIC)


def read(source: Source, spool: Spool) -> Staging:
    """Read the events of all instances in the file (`binary.read`).

    If iotrace's description is in the same directory, paths begin with the mount point of their filesystem. Files that
    processes had open before the recording are described by calls that had returned by then (`opened_before`).
    """
    container = tracedat_file.open_container(source)
    if _DESCRIPTION in source.siblings:
        description = _described(source.load_sibling(_DESCRIPTION))
        container.mounts = _mounts(description)
        container.narrow = _narrow(description)
        if _LISTING in source.siblings:
            container.opened = _opened(source, description, container.machine)
    return binary.read(container, spool, "trace.dat")


def _described(file: Source) -> Any:
    try:
        return files.parse_json(file.data)
    except (ValueError, RecursionError):
        return None


def _mounts(description: Any) -> dict[int, str]:
    """Return the first mount point of each filesystem by its device; empty if the description is damaged."""
    try:
        return {_dev(row["dev"]): str(row["path"]) for row in reversed(description["mounts"])}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _narrow(description: Any) -> frozenset[int]:
    """Return the processes of 32-bit programs on a 64-bit machine."""
    try:
        return frozenset(pid for pid in description["syscall_numbers"]["narrow"] if isinstance(pid, int))
    except (LookupError, TypeError):
        return frozenset()


def _opened(source: Source, description: Any, machine: str | None) -> pl.DataFrame | None:
    """Return the files that were open before the recording.

    Damage of the listing is reported where its extents are read.
    """
    try:
        listed = record.table(source.load_sibling(_LISTING), opened_before.TABLE)
    except InputError:
        return None
    return None if listed is None else opened_before.rows(listed, machine, *_recorded(description))


def _recorded(description: Any) -> tuple[int | None, int | None]:
    """Return the processes of iotrace and of the command that it started."""
    try:
        recorder, command = int(description["instance"].split(".")[1]), description["command_pid"]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None, None
    return recorder, command if isinstance(command, int) else None


def _dev(text: str) -> int:
    """Return column `dev` of a device written as ``254:0``."""
    major, minor = map(int, text.split(":"))
    return major << _MINOR_BITS | minor
