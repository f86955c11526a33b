"""The text blkparse prints by default.

A line is (blktrace: blkparse_fmt.c, ``process_default``)::

    major,minor cpu sequence seconds.nanoseconds tid action rwbs tail

and the tail depends on the action: ``sector + n [comm]`` for most, ``[error]`` for completions, ``<- (dev) sector``
for remaps, ``sector / new sector`` for splits, ``bytes (command)`` for passthrough requests. A summary follows.
"""

from __future__ import annotations

import re

import polars as pl

from androstep_analysis import schema, units
from androstep_analysis.errors import Loss
from androstep_analysis.ingest import tasks, text
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.staging import Staging

ACTIONS = {
    "Q": "queue",
    "G": "getrq",
    "I": "insert",
    "D": "issue",
    "C": "complete",
    "M": "backmerge",
    "F": "frontmerge",
    "A": "remap",
    "X": "split",
    "R": "requeue",
    "P": "plug",
    "U": "unplug",
    "UT": "unplug",
    "B": "bounce",
    "S": "sleep",
}
"""blkparse's action letters and the step of a request's life each is. Messages (``m``) are no block events."""

_HEAD = (
    r"^ *(?P<major>[0-9]+),(?P<minor>[0-9]+) +(?P<cpu>[0-9]+) +[0-9]+ +"
    rf"(?P<time>{text.SECONDS}\.[0-9]{{9}}) +(?P<tid>[0-9]+) +(?P<event>[A-Z]{{1,2}}|m) +(?P<rwbs>[A-Z]+)(?P<tail>.*)$"
)
_TAIL = (
    r"^ *(?:(?P<number>[0-9]+)(?: (?P<sign>[+/]) (?P<length>[0-9]+))?(?: |$))?"
    r"(?:(?P<elapsed>\( *[0-9]+\)) |(?P<command>\([0-9a-f .]*\)) )?"
    r"(?:<- \((?P<old_major>[0-9]+),(?P<old_minor>[0-9]+)\) (?P<old_sector>[0-9]+)|\[(?P<name>.*)\](?: [0-9]+)?)$"
)
_COMPLETE = r"^[^\[\]]*\[[^\[\]]*\]$"
"""A line that ends in its only bracket is whole; a name with brackets in it could be torn at one of them."""

_WRAP_NS = 1_266_874_889_709_551_616
_DAY_NS = 86_400 * 1_000_000_000

_SUMMARY = r"^(?:CPU[0-9]+|Total) \(.*\):$"
_COMMENT = r"^(?:\s*|Input file .* added)$"
_SKIPS = r"^Skips: [0-9,.']+ forward \(([0-9,.']+) - "
_EVENT_IN_HEAD = re.compile(rb"(?m)^ *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +(?:[A-Z]{1,2}|m) +[A-Z]+")


def sniff(head: bytes) -> bool:
    """Whether `head` holds an event line."""
    return _EVENT_IN_HEAD.search(head) is not None


def read(source: Source) -> Staging:
    """The events of one or several devices, sorted by time: blkparse prints the CPUs one after the other.

    `events` counts lines by action letter. What the summary says was skipped is `lost_events`.
    """
    rows, losses = text.lines(source.data, complete=_COMPLETE)
    fields = pl.col("line").str.strip_suffix("\r").str.extract_groups(_HEAD).struct.unnest()
    parsed = (
        rows.to_frame()
        .lazy()
        .select("line", fields)
        .with_columns(ts_ns=time_ns("time"), cpu=text.number("cpu", pl.Int32), tid=text.number("tid", pl.Int32))
        .collect(engine="streaming")
    )
    is_event = parsed["event"].is_not_null()
    events, other = parsed.filter(is_event), parsed.filter(~is_event)["line"]
    block, no_tail = _block(events)
    lost_events, lost = summary(other)
    first_ns, last_ns = text.span(events["ts_ns"])
    return Staging(
        format="blkparse_text",
        block=block,
        events=text.counts(events["event"]),
        first_ns=first_ns,
        last_ns=last_ns,
        tasks=tasks.seen(block),
        lost_events=lost_events,
        losses=(
            *losses,
            *wrapped(events["ts_ns"]),
            *lost,
            *text.unreadable(no_tail, "events of a known form"),
        ),
    )


def time_ns(column: str) -> pl.Expr:
    """Int64 nanoseconds since the start of the trace, as blkparse prints them.

    Events of other CPUs may be from before the start. blkparse counts those modulo 2^64 ns and then cuts the
    seconds to 32 bits (blkparse_fmt.c: ``(int) SECONDS(t->time)``), so that the last nanosecond before the start is
    printed as 1266874889.709551615. Times in the day up to there are turned back into negative ones.
    """
    printed = units.seconds_to_ns(pl.col(column))
    before = printed - _WRAP_NS
    return pl.when(before.is_between(-_DAY_NS, -1)).then(before).otherwise(printed)


def wrapped(ts_ns: pl.Series) -> tuple[Loss, ...]:
    """How many times `time_ns` repaired (blkparse itself never prints a negative one), as a `Loss`."""
    count = int((ts_ns < 0).sum())
    if not count:
        return ()
    message = f"{count} events from before the start of the trace had wrapped times, now negative"
    return (Loss("wrapped", count, message),)


def summary(other: pl.Series) -> tuple[int, tuple[Loss, ...]]:
    """What the lines that are no events say: how many events were lost, and the `Loss` of that and of other lines.

    The summary counts gaps in the sequence numbers and, in brackets, the events in them. Lines before the summary
    that are no events cannot be read.
    """
    digits = other.str.extract(_SKIPS, 1).drop_nulls().str.replace_all("[^0-9]", "")
    skipped = int(digits.cast(pl.Int64, strict=False).sum())
    losses = (Loss("dropped", skipped, f"the recorder dropped {skipped} events (blkparse: skips)"),) if skipped else ()
    before = other.filter(~other.str.contains(_SUMMARY).cum_max() & ~other.str.contains(_COMMENT))
    return skipped, losses + text.unreadable(before, "blkparse events")


def _block(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Table `block_events` of all events but messages, and the lines whose tail cannot be read."""
    fields = pl.col("tail").str.extract_groups(_TAIL).struct.unnest()
    lines = events.lazy().filter(pl.col("event") != "m").with_columns(fields)
    parsed = lines.collect(engine="streaming")
    is_read = (pl.col("name").is_not_null() | pl.col("old_sector").is_not_null()) & pl.col("event").is_in(list(ACTIONS))

    completed, plug = pl.col("event").is_in(["C", "R"]), pl.col("event").is_in(["P", "U", "UT"])
    # A number alone is the sector of an empty flush in a completion (or with -t), else the bytes of a passthrough.
    alone = pl.col("number").is_not_null() & pl.col("sign").is_null()
    is_bytes = alone & ~completed & pl.col("elapsed").is_null()
    printed = text.number("number", pl.Int64)
    sector = pl.when(~is_bytes).then(printed)
    length = text.number("length", pl.Int64)
    nr_sectors = (
        pl.when(plug)
        .then(None)
        .when(pl.col("sign") == "+")
        .then(length)
        .when(pl.col("sign") == "/")  # the place of the cut, modulo 2^32; the length is that of the part before it
        .then((length - printed) % (1 << 32))
        .when(is_bytes)
        .then(printed // units.SECTOR_BYTES)
        .when(completed & pl.col("number").is_null())  # a passthrough request: its length is not printed
        .then(None)
        .otherwise(0)
    )
    block = parsed.filter(is_read).select(
        "ts_ns",
        "cpu",
        "tid",
        "event",
        "rwbs",
        comm=pl.when(~completed).then("name"),
        action=pl.col("event").replace_strict(ACTIONS, return_dtype=schema.enum("block_events", "action")),
        dev=text.device("major", "minor"),
        sector=sector,
        nr_sectors=nr_sectors,
        error=pl.when(pl.col("event") == "C").then(text.number("name", pl.Int32)),
        old_dev=text.device("old_major", "old_minor"),
        old_sector=text.number("old_sector", pl.Int64),
    )
    return text.block_events(block), parsed.filter(~is_read)["line"]
