"""MOST's tables: tab-separated blkparse output, with the block type and path that MOST adds (a ``.po`` file).

MOST (Jeong et al., USENIX ATC 2013) feeds on ``blkparse -f "%5T.%9t\\t%a\\t%d\\t%8S\\t%4n\\t%4p\\t%20C\\n"`` and writes
each line back with ``\\tD``, ``\\tJ`` or ``\\tM`` behind it, and for data the path. Both are read here: the first as
format ``most_blkparse``, the second as ``most_po``. Neither names the device.
"""

from __future__ import annotations

import re

import polars as pl

from androstep_analysis import schema
from androstep_analysis.ingest import blkparse_text, tasks, text
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.staging import Staging

BLOCK_TYPES = {"D": "data", "J": "journal", "M": "metadata"}
"""MOST's letters. Its M is whatever it found in no file, free blocks and deleted files included."""

_LINE = (
    rf"^ *(?P<time>{text.SECONDS}\.[0-9]{{9}})\t(?P<event>[A-Za-z]{{1,2}})\t(?P<rwbs>[A-Z]*)\t *(?P<number>[0-9]+)"
    r"\t *(?P<length>[0-9]+)\t *(?P<task>[0-9]+)\t *(?P<comm>[^\t]*)"
    r"(?P<analysed>\t(?P<type>[DJM]?)(?:\t(?P<file>[^\t]*))?)?$"
)
_LINE_IN_HEAD = re.compile(rb"(?m)^ *\d+\.\d{9}\t[A-Za-z]{1,2}\t[A-Z]*\t *\d+\t *\d+\t *\d+\t")

_CLASS = 100_000
"""MOST's kernel adds to the pid of an event a hundred thousand times the class of its file name (1 to 5)."""
_MAX_CLASS = 5
_MAX_PID = 32_768
"""Largest pid of the kernels MOST patched (2.6.35 to 3.10)."""


def sniff(head: bytes) -> bool:
    """Whether `head` holds a line of seven or more tab-separated fields as MOST's README asks for them."""
    return _LINE_IN_HEAD.search(head) is not None


def read(source: Source) -> Staging:
    """The events, sorted by time. `events` counts lines by action letter."""
    rows, losses = text.lines(source.data)
    fields = pl.col("line").str.extract_groups(_LINE).struct.unnest()
    parsed = (
        rows.to_frame()
        .lazy()
        .select("line", fields)
        .with_columns(ts_ns=blkparse_text.time_ns("time"))
        .collect(engine="streaming")
    )
    is_event = parsed["event"].is_not_null()
    events, other = parsed.filter(is_event), parsed.filter(~is_event)["line"]
    block = _block(events)
    lost_events, lost = blkparse_text.summary(other)
    first_ns, last_ns = text.span(events["ts_ns"])
    return Staging(
        format="most_po" if events["analysed"].count() else "most_blkparse",
        block=block,
        events=text.counts(events["event"]),
        first_ns=first_ns,
        last_ns=last_ns,
        tasks=tasks.seen(block),
        lost_events=lost_events,
        losses=(*losses, *blkparse_text.wrapped(events["ts_ns"]), *lost),
    )


def _block(events: pl.DataFrame) -> pl.DataFrame:
    """Table `block_events`: what blkparse knows as an action; messages are none."""
    known = events.filter(pl.col("event").is_in(list(blkparse_text.ACTIONS)))
    # Plugs have no sector; the format prints 0.
    has_sector = ~pl.col("event").is_in(["P", "U", "UT"])
    block = known.select(
        "ts_ns",
        "event",
        "rwbs",
        "comm",
        tid=_tid(known["task"]),
        action=pl.col("event").replace_strict(
            blkparse_text.ACTIONS, return_dtype=schema.enum("block_events", "action")
        ),
        sector=pl.when(has_sector).then(text.number("number", pl.Int64)),
        nr_sectors=pl.when(has_sector).then(text.number("length", pl.Int64)),
        block_type=pl.col("type").replace_strict(
            BLOCK_TYPES, default=None, return_dtype=schema.enum("block_events", "block_type")
        ),
        path=pl.when(pl.col("file") != "file-NONE").then("file"),  # what MOST's Viewer writes for no file
    )
    return text.block_events(block)


def _tid(printed: pl.Series) -> pl.Series:
    """The thread without the class that MOST's kernel adds to it.

    Only where every large number of the file can be a class and a pid of the time: later kernels have pids above a
    hundred thousand themselves.
    """
    numbers = printed.cast(pl.Int64, strict=False)
    large = numbers.filter(numbers >= _CLASS)
    from_most = bool(((large // _CLASS <= _MAX_CLASS) & (large % _CLASS <= _MAX_PID)).all())
    return (numbers % _CLASS if from_most else numbers).cast(pl.Int32, strict=False)
