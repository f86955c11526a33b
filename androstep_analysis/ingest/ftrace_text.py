"""Text as ftrace prints it: ``trace`` and ``trace_pipe`` of tracefs, ``trace-cmd report``, systrace and atrace.

A line is (kernel: kernel/trace/trace_output.c, ``trace_print_context``)::

    comm-tid  (tgid) [cpu] flags  seconds.fraction: event: fields

where tgid, flags and their widths depend on options and version. The thread name may hold anything, brackets and
dashes too, but at 15 bytes it is too short to hold what follows it, so that the first place where the rest of the
pattern fits is the right one. The fields of the block events follow include/trace/events/block.h, Linux 3.4 to 6.18.
"""

from __future__ import annotations

import re

import polars as pl

from androstep_analysis import schema, units
from androstep_analysis.errors import Loss
from androstep_analysis.ingest import fs_events_text, tasks, text
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.staging import Staging

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
"""Block tracepoints of all kernel versions and the step of a request's life each is.

`block_rq_error` and `block_rq_abort` come with a `block_rq_complete` of their own; `block_io_start` and
`block_io_done` (6.5) repeat issue and completion for accounting. None of them is a step of its own. Completions are
those of requests and, on devices that have no requests (device-mapper), those of bios.
"""

_HEAD = (
    r"^ *(?P<comm>.*?)-(?P<tid>[0-9]+) +(?:\( *(?P<pid>[0-9]+|-+)\) +)?\[(?P<cpu>[0-9]{3,})\] +(?:[^ ]{4,6} +)?"
    rf"(?P<time>{text.SECONDS}\.[0-9]{{6}}(?:[0-9]{{3}})?): +(?P<event>[^ :(]+)"
)
# Begins behind the seconds: no thread name is long enough to hold what is asked for here.
_BLOCK = (
    r"\.[0-9]{6}(?:[0-9]{3})?: +block_[a-z_]+:? *"
    r"(?:(?P<major>[0-9]+),(?P<minor>[0-9]+) (?P<rwbs>[^ ]*) "
    r"(?:(?:[0-9]+ )?\([0-9a-fA-F ]*\) )?"  # bytes, and the command of a passthrough request
    r"(?P<sector>[0-9]+) (?P<sign>[+/]) (?P<length>[0-9]+)"
    r"(?: [^ \[]+,[0-9]+,[0-9]+)?)?"  # I/O priority (6.5)
    r" ?(?:<- \((?P<old_major>[0-9]+),(?P<old_minor>[0-9]+)\) (?P<old_sector>[0-9]+)(?: [0-9]+)?"
    r"|\[(?P<name>.*)\](?: [0-9]+)?)(?: *|\r|\\n\\)$"
)
_WITH_ERROR = ["block_bio_complete", "block_rq_complete", "block_rq_requeue", "block_rq_error", "block_rq_abort"]
_REALTIME = r": trace_event_clock_sync: realtime_ts=([0-9]{1,13})\b"
_LOST = r"^CPU:[0-9]+ \[(?:LOST )?(?:([0-9]{1,18}) )?EVENTS(?: DROPPED)?\]"
_ENTRIES = r"^# entries-in-buffer/entries-written: (?P<kept>[0-9]{1,18})/(?P<written>[0-9]{1,18})\b"
_NO_EVENT = r"^(?:#|\s*$|version = |cpus=|CPU [0-9]+ is empty|CPU:[0-9]+ \[| => )"

_EVENT_IN_HEAD = re.compile(
    rb"(?m)^.*?-\d+ +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\] +(?:[^ \n]{4,6} +)?\d+\.\d{6}(?:\d{3})?: +[^ :(\n]"
)


def sniff(head: bytes) -> bool:
    """Whether `head` holds an event line, or the header of a trace without any."""
    return head.startswith(b"# tracer: ") or _EVENT_IN_HEAD.search(head) is not None


def read(source: Source) -> Staging:
    """The trace in `source`, which may also be a Markdown file with trace lines in its code blocks."""
    return parse(source.data, "ftrace_text")


def parse(data: bytes, format_name: str) -> Staging:
    """The trace in the lines of `data`.

    `lost_events` is the larger of what the header says (entries written less entries in the buffer) and what the
    ``[LOST n EVENTS]`` lines add up to: both count the events that were overwritten before they were read.
    `events` counts each line by its first word after the time. A line that is neither an event nor a known comment
    is counted as unreadable.
    """
    rows, losses = text.lines(data)
    # The streaming engine runs the regular expressions on all cores.
    parsed = (
        _code_blocks(rows)
        .to_frame()
        .lazy()
        .select("line", pl.col("line").str.extract_groups(_HEAD).struct.unnest())
        .with_columns(
            ts_ns=units.seconds_to_ns(pl.col("time")),
            cpu=text.number("cpu", pl.Int32),
            tid=text.number("tid", pl.Int32),
            pid=text.number("pid", pl.Int32),
            comm=pl.when(pl.col("comm") != "<...>").then("comm"),
        )
        .collect(engine="streaming")
    )
    is_event = parsed["event"].is_not_null()
    events, comments = parsed.filter(is_event), parsed.filter(~is_event)["line"]
    block, no_fields = _block(events)
    fs_events, no_fs_fields = fs_events_text.read(events)
    lost_events, lost = _lost(comments, len(events))
    first_ns, last_ns = text.span(events["ts_ns"])
    return Staging(
        format=format_name,
        block=block,
        fs_events=fs_events,
        events=text.counts(events["event"]),
        first_ns=first_ns,
        last_ns=last_ns,
        tasks=tasks.seen(events),
        realtime_offset_ns=_realtime_offset(events),
        lost_events=lost_events,
        losses=(
            *losses,
            *lost,
            *text.unreadable(comments.filter(~comments.str.contains(_NO_EVENT)), "trace events"),
            *text.unreadable(no_fields, "block events of a known form"),
            *text.unreadable(no_fs_fields, "filesystem events of a known form"),
        ),
    )


def _code_blocks(rows: pl.Series) -> pl.Series:
    """Only the lines of fenced code blocks with events in them, if the text has such blocks; else all lines."""
    fence = rows.str.starts_with("```")
    if not fence.any():
        return rows
    block = fence.cast(pl.UInt32).cum_sum()
    inside = pl.DataFrame({"line": rows, "block": block}).filter(~fence & (block % 2 == 1))
    return inside.filter(pl.col("line").str.contains(_HEAD).any().over("block"))["line"]


def _block(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Table `block_events` of the block tracepoints, and the lines of them that cannot be read."""
    fields = pl.col("line").str.extract_groups(_BLOCK).struct.unnest()
    lines = events.lazy().filter(pl.col("event").is_in(list(ACTIONS))).with_columns(fields)
    parsed = lines.collect(engine="streaming")
    # Every event names a device or a task, and all but the plugs name a device.
    on_device = pl.col("major").is_not_null()
    is_read = on_device | (pl.col("event").is_in(["block_plug", "block_unplug"]) & pl.col("name").is_not_null())
    has_error = pl.col("event").is_in(_WITH_ERROR)
    # Before Linux 4.12 the error is the driver's own status, which may be positive and then says nothing here.
    errno = text.number("name", pl.Int32)
    is_result = has_error & (pl.col("event") != "block_rq_requeue") & (errno <= 0)
    sector, length = text.number("sector", pl.Int64), text.number("length", pl.Int64)
    block = parsed.filter(is_read).select(
        "ts_ns",
        "cpu",
        "tid",
        "pid",
        "event",
        "rwbs",
        # The event's own name of the task is from the time of the event, that of the line may be from later.
        comm=pl.when(~has_error & pl.col("name").is_not_null()).then("name").otherwise("comm"),
        action=pl.col("event").replace_strict(ACTIONS, return_dtype=schema.enum("block_events", "action")),
        dev=text.device("major", "minor"),
        sector=sector,  # all ones, the sector of an empty flush, is no Int64 and becomes null
        # A split prints where it cuts: the length is that of the part before the cut.
        nr_sectors=pl.when(pl.col("sign") == "+").then(length).when(length >= sector).then(length - sector),
        error=pl.when(is_result).then(errno),
        old_dev=text.device("old_major", "old_minor"),
        old_sector=text.number("old_sector", pl.Int64),
    )
    return text.block_events(block), parsed.filter(~is_read)["line"]


def _lost(comments: pl.Series, n_events: int) -> tuple[int, tuple[Loss, ...]]:
    """What the header and the recorder's own lines say was lost, and events that the file should hold and does not."""
    entries = comments.str.extract_groups(_ENTRIES).struct.unnest().drop_nulls().cast(pl.Int64)
    kept, written = int(entries["kept"].sum()), int(entries["written"].sum())
    gaps = comments.filter(comments.str.contains(_LOST)).str.extract(_LOST, 1).cast(pl.Int64).fill_null(1)
    lost = max(written - kept, int(gaps.sum()))
    losses: tuple[Loss, ...] = ()
    if lost > 0:
        where = f" ({len(gaps)} gaps)" if len(gaps) else ""
        losses += (Loss("overwritten", lost, f"{lost} events were overwritten before they were read{where}"),)
    if kept > n_events:
        message = f"the header counts {kept} events, {n_events} are in the file"
        losses += (Loss("missing", kept - n_events, message),)
    return lost, losses


def _realtime_offset(events: pl.DataFrame) -> int | None:
    """CLOCK_REALTIME minus the trace clock, from atrace's first clock mark, which counts milliseconds."""
    mark = events.lazy().filter(pl.col("line").str.contains(_REALTIME)).head(1)
    milliseconds = pl.col("line").str.extract(_REALTIME, 1).cast(pl.Int64, strict=False)
    offsets = mark.select(milliseconds * 1_000_000 - pl.col("ts_ns")).collect().to_series()
    return text.span(offsets)[0]
