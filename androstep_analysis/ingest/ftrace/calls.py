"""Map system call events of binary recordings to rows of table `call_events`, the parts of a call.

The kernel's events are those of group ``syscalls``, one pair for each call, with the arguments as fields in order
(kernel/trace/trace_syscalls.c), and of ``raw_syscalls``, one pair for all calls (include/trace/events/syscalls.h, Linux
2.6.32 to 6.18). Paths and files come from the probes of iotrace: ``call_path`` and ``call_fd``, or the probes that
record file names (probes/iotrace/dynprobes.c).
"""

from __future__ import annotations

import re
from dataclasses import replace

from androstep_analysis.ingest.ftrace import fs_events
from androstep_analysis.ingest.ftrace.event_format import Event, Field
from androstep_analysis.ingest.ftrace.programs import Do, What, code, number, text
from androstep_analysis.ingest.syscalls.pairs import TABLE as TABLE

_REGISTERS = 6
_OF_A_CALL = re.compile(r"sys_(enter|exit)_(\w+)")
_OF_AN_ARGUMENT = re.compile(r"__\w+_val")
_COMMON = ("common_type", "common_flags", "common_preempt_count", "common_pid", "common_lock_depth")
_NUMBER_FIELDS = ("nr", "__syscall_nr")
"""The field with the number of the call. It is redundant except in raw_syscalls."""


def is_call(event: Event) -> bool:
    """Return whether a call begins or ends with the event."""
    return event.name in ("sys_enter", "sys_exit") or _OF_A_CALL.fullmatch(event.name) is not None


def steps(event: Event) -> list[Do]:
    """Return how a record of `event` fills a row of `call_events`; empty for events unrelated to calls."""
    if is_call(event):
        return _call(event)
    if event.name == "call_path":
        return [
            code(TABLE, "phase", "path"),
            Do(What.BITS, "argument0", number(event, "user")),
            Do(What.TEXT, "path", text(event, "path")),
        ]
    if event.name == "call_fd":
        return _descriptor(event)
    if event.name == "task_newtask":
        return [
            code(TABLE, "phase", "task"),
            Do(What.BITS, "argument0", number(event, "clone_flags")),
            Do(What.BITS, "argument1", number(event, "pid")),
        ]
    if event.name == "sched_process_exec":
        return [code(TABLE, "phase", "exec")]
    return _names(event)


def _call(event: Event) -> list[Do]:
    match = _OF_A_CALL.fullmatch(event.name)
    if match is not None:
        named = [code(TABLE, "phase", match[1]), Do(What.NAME, "call", value=match[2])]
    else:
        named = [code(TABLE, "phase", event.name[4:]), Do(What.BITS, "number", number(event, "id"))]
    registers = [Do(What.BITS, f"argument{index}", field) for index, field in enumerate(_arguments(event))]
    return [*named, *registers, *_strings(event), Do(What.BITS, "result", number(event, "ret"))]


def _strings(event: Event) -> list[Do]:
    """Return the first two texts after the arguments. Kernels from 6.19 on add them, each named after its argument."""
    texts = [text(event, name) for name in event.fields if _OF_AN_ARGUMENT.fullmatch(name)]
    present = [field for field in texts if field is not None]
    return [Do(What.SOME_TEXT, column, field) for column, field in zip(("path", "path2"), present, strict=False)]


def _arguments(event: Event) -> list[Field]:
    """Return the fields with the arguments of a call, in order."""
    if (array := event.fields.get("args")) is not None and array.is_array:
        size = array.element_bytes
        indexes = range(min(array.size_bytes // size, _REGISTERS))
        return [
            replace(array, offset=array.offset + index * size, size_bytes=size, is_array=False, is_signed=False)
            for index in indexes
        ]
    if event.name.startswith("sys_exit"):
        return []
    excluded = (*_COMMON, *_NUMBER_FIELDS)
    fields = [field for name, field in event.fields.items() if name not in excluded and not field.is_array]
    return fields[:_REGISTERS]


def _descriptor(event: Event) -> list[Do]:
    return [
        code(TABLE, "phase", "descriptor"),
        Do(What.BITS, "argument0", number(event, "fd")),
        Do(What.BITS, "argument1", number(event, "mode")),
        Do(What.BITS, "argument2", number(event, "size")),
        *_file(event),
    ]


def _file(event: Event) -> list[Do]:
    """Return the steps for device, inode and path of a file that is opened."""
    names = tuple(text(event, f"d{level}") for level in range(fs_events.LEVELS))
    return [
        Do(What.NUMBER, "dev", number(event, "dev")),
        Do(What.NUMBER, "ino", number(event, "ino")),
        Do(What.PATH, "path", fields=names),
    ]


def _names(event: Event) -> list[Do]:
    """Return the steps for the probes that record file names."""
    name = fs_events.PROBES.get(event.name, event.name)
    if name == "name_found":
        return [code(TABLE, "phase", "file"), *_file(event)]
    if name not in ("name_open", "name_unlink", "name_rename"):
        return []
    return [
        code(TABLE, "phase", "path"),
        Do(What.SOME_TEXT, "path", text(event, "name from")),
        Do(What.SOME_TEXT, "path2", text(event, "new_name to")),
    ]
