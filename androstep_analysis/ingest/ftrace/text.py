"""Read ftrace text: ``trace`` and ``trace_pipe`` of tracefs, ``trace-cmd report``, systrace, atrace, perf.

A line is (kernel: kernel/trace/trace_output.c, ``trace_print_context``)::

    comm-tid  (tgid) [cpu] flags  seconds.fraction: event: fields

tgid, flags and their widths depend on options and version. The thread name may contain any character, including
brackets and dashes. Its 15 bytes are too short to contain the text that follows it, so that the first position where
the rest of the pattern matches is correct. The fields of block events follow include/trace/events/block.h, Linux 3.4 to
6.18. The compiled reader of the lines is native/decode/text/ftrace.c.

A line of ``perf script`` (tools/perf/builtin-script.c) has the same fields after a different prefix::

    comm tid [cpu] seconds.fraction: system:event: fields

The prefix has ``pid/tid`` instead of tid if both were requested, and the period before the event. It has no CPU if perf
did not record the whole machine (``perf record -- COMMAND``). With ``-F tid,time,event,trace`` it has no name, with
``-F time,event,trace`` no thread. Call chains are skipped.

The tracer ``blk`` prints no event name. After the thread id it prints a device and then the text of blkparse
(kernel/trace/blktrace.c, ``print_one_line``).
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterable

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest import clock, lines, tasks
from androstep_analysis.ingest.block import blkparse
from androstep_analysis.ingest.ftrace import commands_text, counters, forms, fs_events_text, importance
from androstep_analysis.ingest.ftrace.commands import SCSI_STEPS
from androstep_analysis.ingest.ftrace.fs_events import OTHER_NAMES
from androstep_analysis.ingest.source import HEAD_BYTES, Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, Staging
from androstep_analysis.ingest.syscalls.pairs import Machine, Pairs

ACTIONS = {
    "block_bio_queue": "queue",
    "block_bio_backmerge": "backmerge",
    "block_bio_frontmerge": "frontmerge",
    "block_bio_complete": "complete",
    "block_bio_remap": "remap",
    "block_bio_bounce": "bounce",
    "block_getrq": "getrq",
    "block_sleeprq": "sleep",
    "block_rq_insert": "insert",
    "block_rq_issue": "issue",
    "block_rq_complete": "complete",
    "block_rq_requeue": "requeue",
    "block_rq_merge": "rqmerge",
    "block_rq_remap": "remap",
    "block_rq_error": "other",
    "block_rq_abort": "other",
    "block_split": "split",
    "block_plug": "plug",
    "block_unplug": "unplug",
    "block_io_start": "other",
    "block_io_done": "other",
}
"""The action of each block tracepoint, for all kernel versions.

`block_rq_error` and `block_rq_abort` are accompanied by a `block_rq_complete`. `block_io_start` and `block_io_done`
(6.5) repeat issue and completion for accounting. All four have the action `other`. Completions belong to requests, or
to bios on devices without requests (device-mapper).
"""

_ENDS_IN_ERROR = {"block_bio_complete", "block_rq_complete", "block_rq_requeue", "block_rq_error", "block_rq_abort"}
_HAS_RESULT = _ENDS_IN_ERROR - {"block_rq_requeue"}
_NAMES_NO_DEVICE = {"block_plug", "block_unplug"}
_BLOCK, _FS, _COMMAND, _SCSI, _IMPORTANCE, _COUNTERS = range(1, 7)
"""``enum sort`` of native/decode/text/ftrace.c."""

_LONG_BYTES = 8

_ERROR = [column.name for column in schema.table("fs_events").columns].index("error")
_EVENT_IN_HEAD = re.compile(
    rb"(?m)^.*?-\d+ +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\] +(?:[^ \n]{4,7} +)?\d+\.\d{6}(?:\d{3})?: +"
    rb"(?:\(\+\d+\) +)?[^ :(\n]"
)
_PERF_EVENT_IN_HEAD = re.compile(
    rb"(?m)^(?:(?:.* )?\d+(?:/\d+)? +| *)(?:\[\d{3,}\] +)?\d+\.\d{6}(?:\d{3})?: +(?:\d+ +)?[\w-]+:[\w-]+: "
)
_LATENCY_HEADER = re.compile(rb"\A(?:#[^\n]*\n)+# \S+ latency trace v")
_LATENCY_LINE = re.compile(
    rb"(?m)^(?:\[ *\d+\.\d+\])? *(?:\S.{0,7}-\d+ +\d+[^\s\[\]]{4,7} +(?:\d+us.?|\d+\.\d{6}(?:\d{3})?)"
    rb"|\S.{0,15} +\d+ +\d+ [^\s\[\]]{4,7} [\da-f]{8} [\da-f]{8} \[\d+\.\d+\] +\d+us.?): +[^ :(\n]"
)
"""An event in latency format (Linux, lat_print_generic in kernel/trace/trace_output.c), also with option verbose.

``trace-cmd report -l`` prints the time of other formats instead of that since the first event. A dump to the kernel's
log (``ftrace_dump_on_oops``) has the time of its lines first.
"""
_FENCE = re.compile(rb"(?m)^```")
_JSON = re.compile(rb'\A\s*\{\s*"')


def sniff(head: bytes) -> bool:
    """Return whether `head` contains an event line, or the header of an empty trace.

    JSON that quotes such lines is rejected.
    """
    if head.startswith(b"# tracer: "):
        return not is_latency_format(head)
    if _JSON.match(head) is not None:
        return False
    return _EVENT_IN_HEAD.search(head) is not None or _PERF_EVENT_IN_HEAD.search(head) is not None


def is_latency_format(head: bytes) -> bool:
    """Return whether `head` has events, or the header, of the latency format and no events of another form.

    The latency format truncates names of threads to 8 characters.
    """
    is_latency = _LATENCY_HEADER.match(head) is not None or _LATENCY_LINE.search(head) is not None
    return is_latency and _EVENT_IN_HEAD.search(head) is None


def read(source: Source, spool: Spool) -> Staging:
    """Read the trace in `source`, which may also be a Markdown file with trace lines in its code blocks."""
    return parse(source.pieces(), spool, "ftrace_text")


def parse(pieces: Iterable[bytes], spool: Spool, format_name: str) -> Staging:
    """Read the trace in the lines of `pieces`, which may end anywhere.

    `lost_events` is the larger of two counts: entries written minus entries in the buffer, from the header, and the sum
    of the ``[LOST n EVENTS]`` lines. Both count the events that were overwritten before they were read.

    `events` counts each line by its first word after the time. A line that is neither an event nor a known comment
    counts as unreadable. If the first `HEAD_BYTES` contain a Markdown code block, only lines in code blocks with events
    are read.
    """
    whole = iter(pieces)
    first = next(whole, b"")
    trace = _Trace(has_fences=_FENCE.search(first[:HEAD_BYTES]) is not None)
    # Text does not state the machine.
    calls = Pairs(spool, Machine(None, _LONG_BYTES))
    reader = lines.Reader(
        trace.handle,
        spool,
        ("block_events", "fs_events", "commands", importance.TABLE, counters.TABLE),
        trace.names,
        True,
        calls,
    )
    truncated = reader.read(itertools.chain((first,), whole), lambda: _library().ftrace_text_end(trace.handle))
    totals = reader.totals
    lost_events, lost = _lost(totals)
    first_ns, last_ns = totals.span
    return Staging(
        format=format_name,
        events=reader.events,
        first_ns=first_ns,
        last_ns=last_ns,
        tasks=tasks.seen(reader.seen().sort("ts_ns", maintain_order=True)),
        realtime_offset_ns=None if totals.realtime_offset_ns == lines.NO_TIME else totals.realtime_offset_ns,
        lost_events=lost_events,
        jumps=totals.setback_times,
        losses=(
            *truncated,
            *clock.set_back(totals),
            *lost,
            *totals.refused[lines.LINES].losses("trace events"),
            *totals.refused[lines.BLOCK].losses("block events of a known form"),
            *totals.refused[lines.FS].losses("filesystem events of a known form"),
            *totals.refused[lines.COMMANDS].losses("commands of a known form"),
            *totals.refused[lines.CALLS].losses("system calls of a known form"),
            *totals.refused[lines.IMPORTANCE].losses("oom_score_adj of a known form"),
            *totals.refused[lines.COUNTERS].losses("counters of a known form"),
            *calls.finish(),
        ),
        flags=FLAGS,
    )


class _Trace:
    """``struct ftrace_text`` of native/decode/text/ftrace.c, with the events of all tables registered."""

    def __init__(self, has_fences: bool) -> None:
        library = _library()
        self.names = native.Strings()
        self.handle = native.owned(
            self, library.ftrace_text_free, library.ftrace_text_new(self.names.handle, has_fences)
        )
        self._forms: list[list[ctypes.Array[forms.Step]]] = []  # the C structure points to these
        actions = schema.table("block_events").column("action").values
        for letters, action in blkparse.ACTIONS.items():
            library.ftrace_text_action(self.handle, letters.encode(), len(letters), actions.index(action))
        for name, action in ACTIONS.items():
            flags = (name in _ENDS_IN_ERROR) | (name in _HAS_RESULT) << 1 | (name in _NAMES_NO_DEVICE) << 2
            self._add(name, _BLOCK, actions.index(action), flags)
        commands, steps_of = (schema.table("commands").column(name).values for name in ("event", "step"))
        for name, step in SCSI_STEPS.items():
            self._add(name, _SCSI, commands.index(name), steps_of.index(step))
        for table, sort, fields, others in (
            ("fs_events", _FS, fs_events_text.FIELDS, OTHER_NAMES),
            ("commands", _COMMAND, commands_text.FIELDS, {}),
            (importance.TABLE, _IMPORTANCE, importance.FIELDS, {}),
        ):
            codes = schema.table(table).column("event").values
            forms_of = {name: [forms.compiled(form, table) for form in fields[name]] for name in fields}
            for name, event in {**{name: name for name in fields}, **others}.items():
                self._add_forms(self._add(name, sort, codes.index(event), 0), forms_of[event])
        for name, of_event in counters.FIELDS.items():
            compiled = [forms.of_counters(form, name, counters.unit) for form in of_event]
            self._add_forms(self._add(name, _COUNTERS, 0, 0), compiled)

    def _add_forms(self, number: int, compiled: list[ctypes.Array[forms.Step]]) -> None:
        self._forms += [compiled]
        for steps in compiled:
            if not _library().ftrace_text_form(self.handle, number, steps, len(steps)):
                raise ValueError("native/decode/text/ftrace.c has no room for a form")

    def _add(self, name: str, sort: int, code: int, flags: int) -> int:
        text_ = name.encode()
        return int(_library().ftrace_text_event(self.handle, text_, len(text_), sort, code, flags, _ERROR))


_library = native.library


def _lost(totals: lines.Totals) -> tuple[int, tuple[Loss, ...]]:
    """Return the number of events lost according to the header and the recorder's lines, and the losses."""
    lost = max(totals.written - totals.buffered, totals.lost)
    losses: tuple[Loss, ...] = ()
    if lost > 0:
        where = f" ({totals.gaps} gaps)" if totals.gaps else ""
        losses += (Loss("overwritten", lost, f"{lost} events were overwritten before they were read{where}"),)
    if totals.buffered > totals.events:
        message = f"the header counts {totals.buffered} events, {totals.events} are in the file"
        losses += (Loss("missing", totals.buffered - totals.events, message),)
    return lost, losses
