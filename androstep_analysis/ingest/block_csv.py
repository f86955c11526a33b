"""CSV with one row per block request: process, device, direction, sector, size in sectors, time in seconds.

The traces of Pixel 6a phones that accompany a SYSTOR 2024 paper (acsl-technion/MobileBlockIOTraces) are such files.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis import schema
from androstep_analysis.errors import Loss
from androstep_analysis.ingest import tasks, text
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.staging import Staging

COLUMNS = {
    "proces": "task",
    "process": "task",
    "device": "dev",
    "dev": "dev",
    "rw_flag": "rw",
    "rw": "rw",
    "sector": "sector",
    "size": "size",
    "timestamp": "time",
    "time": "time",
}
"""Header names that have been seen, and the column they mean."""

REPEAT_NS = 50_000_000
"""Rows that repeat an earlier one within this time are counted: the files mix two tracepoints of one request."""

# The process is the only column that may hold a comma, so that the others tell where it ends.
_CELLS = {
    "task": r'"?(?P<comm>.*?)(?:-(?P<tid>[0-9]+))?"?',
    "dev": r"(?P<dev>[0-9]+)",
    "rw": r"(?P<rw>[A-Z]+)",
    "sector": r"(?P<sector>[0-9]+)",
    "size": r"(?P<size>[0-9]+)",
    "time": rf"(?P<seconds>{text.SECONDS})(?:\.(?P<fraction>[0-9]+))?",
}


def sniff(head: bytes) -> bool:
    """Whether the first line names the columns."""
    return _header(head) is not None


def read(source: Source) -> Staging:
    """The requests, sorted by time.

    The files give one time per request and no completion; it is taken for the queueing. `device` is the kernel's
    dev_t. A process is ``COMM-TID``, or a name without its thread, which then is null. Times carry the noise of
    binary fractions (159273.83748699998) and are rounded to the nanosecond.
    """
    header = _header(source.head) or []
    rows, losses = text.lines(source.data)
    pattern = "^" + ",".join(_CELLS[column] for column in header) + r"\r?$"
    fields = pl.col("line").str.extract_groups(pattern).struct.unnest()
    parsed = rows.slice(1).to_frame().lazy().select("line", fields).collect(engine="streaming")
    is_row = parsed["sector"].is_not_null()
    block = _block(parsed.filter(is_row))
    other = parsed.filter(~is_row)["line"]
    first_ns, last_ns = text.span(block["ts_ns"])
    return Staging(
        format="block_csv",
        block=block,
        events=text.counts(block["event"]),
        first_ns=first_ns,
        last_ns=last_ns,
        tasks=tasks.seen(block),
        losses=(
            *losses,
            *text.unreadable(other.filter(~other.str.contains(r"^\s*$")), "rows of the table"),
            *_repeated(block),
        ),
    )


def _header(head: bytes) -> list[str] | None:
    """The meanings of the columns in order; None if this is no header of such a table."""
    names = head.partition(b"\n")[0].decode(errors="replace").strip("\r\ufeff").split(",")
    columns = [COLUMNS.get(name.strip().lower(), "") for name in names]
    return columns if sorted(columns) == sorted(_CELLS) else None


def _block(rows: pl.DataFrame) -> pl.DataFrame:
    """Table `block_events` of the rows."""
    # Three digits more than nanoseconds have, to round with.
    picoseconds = pl.col("fraction").fill_null("").str.slice(0, 12).str.pad_end(12, "0").cast(pl.Int64)
    block = rows.select(
        ts_ns=pl.col("seconds").cast(pl.Int64) * 1_000_000_000 + (picoseconds + 500) // 1000,
        tid=text.number("tid", pl.Int32),
        comm=pl.when(pl.col("comm") != "<...>").then("comm"),
        event="rw",
        action=pl.lit("queue", schema.enum("block_events", "action")),
        dev=pl.col("dev").cast(pl.UInt32, strict=False),
        sector=text.number("sector", pl.Int64),
        nr_sectors=text.number("size", pl.Int64),
        rwbs="rw",
    )
    return text.block_events(block)


def _repeated(block: pl.DataFrame) -> tuple[Loss, ...]:
    """Rows that come within `REPEAT_NS` after one of the same device, direction, sector and size, as a `Loss`.

    None of them is dropped: the caller cannot know which of the two is the request.
    """
    since = pl.col("ts_ns").diff().over("dev", "rwbs", "sector", "nr_sectors")
    count = int(block.select((since <= REPEAT_NS).sum()).item())
    if not count:
        return ()
    message = (
        f"{count} of {len(block)} rows ({count / len(block):.1%}) repeat an earlier one within"
        f" {REPEAT_NS // 1_000_000} ms, as if two tracepoints were mixed; they are kept"
    )
    return (Loss("repeated", count, message),)
