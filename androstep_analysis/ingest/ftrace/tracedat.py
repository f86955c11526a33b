"""trace-cmd's ``trace.dat``, as trace-cmd and iotrace write it: the kernel's own records, decoded by its own formats.

Whatever the kernel, a record is read by the format file saved beside it. Times stay in the clock that was traced.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest import record
from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.ingest.syscalls import opened_before

_DESCRIPTION = "recording.json"
"""What iotrace writes beside its trace."""

_LISTING = "before.rec"
"""What iotrace listed before it recorded, beside that."""

_MINOR_BITS = 20


def sniff(head: bytes) -> bool:
    """Whether `head` begins as trace-cmd's files do."""
    return head.startswith(tracedat_file.MAGIC)


def read(source: Source, spool: Spool) -> Staging:
    """The events of all instances in the file (`ftrace.read`).

    Where iotrace left its own description beside the file, paths of files begin where their filesystem is mounted, and
    what processes had open before is told by calls that had returned by then (`opened_before`).
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
        return json.loads(file.data)
    except (ValueError, RecursionError):
        return None


def _mounts(description: Any) -> dict[int, str]:
    """The first place where each filesystem was mounted, by its device; nothing of a damaged description."""
    try:
        return {_dev(row["dev"]): str(row["path"]) for row in reversed(description["mounts"])}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _narrow(description: Any) -> frozenset[int]:
    """Processes of 32-bit programs on a machine of 64 bits."""
    try:
        return frozenset(pid for pid in description["syscall_numbers"]["narrow"] if isinstance(pid, int))
    except (LookupError, TypeError):
        return frozenset()


def _opened(source: Source, description: Any, machine: str | None) -> pl.DataFrame | None:
    """What was open before the recording; of a listing that cannot be read, what it holds of the device says so."""
    try:
        listed = record.table(source.load_sibling(_LISTING), opened_before.TABLE)
    except InputError:
        return None
    return None if listed is None else opened_before.rows(listed, machine, *_recorded(description))


def _recorded(description: Any) -> tuple[int | None, int | None]:
    """The processes of iotrace and of the command that it ran."""
    try:
        recorder, command = int(description["instance"].split(".")[1]), description["command_pid"]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None, None
    return recorder, command if isinstance(command, int) else None


def _dev(text: str) -> int:
    """Column `dev` of a device that is told as ``254:0``."""
    major, minor = map(int, text.split(":"))
    return major << _MINOR_BITS | minor
