"""Read the scripts of MobiGen: calls that its cleaner extracts from a strace log for mobibench -g (Jeong et al., 2013).

A line is ``thread microseconds call arguments result``. The lines of one thread are consecutive. Threads are numbered
in the order in which strace named them. Results are complete, except that a failed call is only ``-1``. Requested sizes
are missing. Rows are sorted by time, and rows with equal times by line.

Two changes of the cleaner are undone here:

- Before the first read or write of each descriptor it inserts an ``open`` of ``/data/data`` that never happened, even
  if the descriptor was open or was a pipe or a socket. Those lines yield no rows. They are unambiguous: no other path
  without quotes begins with a slash.
- Of a path that was not opened read-only, it keeps only the first two parts between slashes. Such a truncated path is
  null here. If the path had at most two parts, the closing quote shows that it is complete. It is then assumed to be
  absolute, as the paths of apps are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest import lines
from androstep_analysis.ingest.matched import QUOTED, Matched
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

FORMAT = "mobigen"

INSERTED_PATH = "/data/data"
INSERTED_FLAGS = "O_WRONLY|O_CREAT|O_TRUNC|O_LARGEFILE"
"""Path and flags of the opens that the cleaner inserts."""

_INSERTED = "open (inserted)"
"""The name under which these are counted among the events."""

_PROCESS = 0
"""The traced process, whose id is not in scripts."""

_US_NS = 1000

_NUMBER = r"-?[0-9]{1,18}"
_DESCRIPTOR = r"-?[0-9]{1,9}"
_LINE = (
    r"^(?P<tid>[0-9]{1,9}) (?P<us>[0-9]{1,15}) (?:"
    rf"(?P<plain>read|write|close|fsync|fdatasync|fstat(?:64)?) (?P<fd>{_DESCRIPTOR}) (?P<result>{_NUMBER})"
    rf"|(?P<placed>p(?:read|write)(?:64)?) (?P<placed_fd>{_DESCRIPTOR}) (?P<offset>{_NUMBER}) (?P<moved>{_NUMBER})"
    rf'|(?P<named>access|l?stat(?:64)?|unlink) "(?P<path>.*)" (?P<found>{_NUMBER})'
    rf'|(?P<open>open) (?:"(?P<whole>.*)"|(?P<cut>[^ ]+)) (?P<flags>O_[A-Z_|0-9a-fx]+) (?P<opened>{_DESCRIPTOR})'
    r")$"
)
_SHORT = r'^([^"]*)"(?:/nil)?$'
"""The remains of a path with at most two parts."""

_FIRST_LINE = re.compile((_LINE.removesuffix("$") + r"\r?\n").encode())


def sniff(head: bytes) -> bool:
    """Return whether `head` begins with a line of a script."""
    return _FIRST_LINE.match(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the calls of a script. `events` counts all calls by name, the inserted ones as ``open (inserted)``."""
    script = _Script(spool)
    for text in lines.whole(source):
        script.read(text)
    return script.finish(lines.truncated(source))


class _Script(Matched):
    """A script that is being read."""

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool)
        self._tids = pl.Series("tid", [], pl.Int32)
        self._nameless = 0

    def read(self, text: bytes) -> None:
        """Read several whole lines."""
        parsed = self.rows(text, _LINE)
        self.refuse(parsed.filter(pl.col("tid").is_null()))
        calls = _calls(parsed.filter(pl.col("tid").is_not_null()))
        is_inserted = ((pl.col("cut") == INSERTED_PATH) & (pl.col("flags") == INSERTED_FLAGS)).fill_null(False)
        inserted, rows = calls.filter(is_inserted), calls.filter(~is_inserted)
        self.count(pl.repeat(_INSERTED, inserted.height, eager=True), inserted["ts_ns"])
        self._nameless += rows.filter(pl.col("cut").is_not_null() & pl.col("path").is_null()).height
        self._tids = pl.concat([self._tids, rows["tid"]]).unique()
        self.append(rows.drop("cut"))

    def finish(self, truncated: tuple[Loss, ...]) -> Staging:
        """Return the result of the reader after the last line."""
        return self.staging(
            FORMAT,
            tasks=_tasks(self._tids.sort()),
            clock="since the start",
            losses=(*truncated, *self._losses()),
        )

    def _losses(self) -> Iterator[Loss]:
        if self.nr_unreadable:
            line, text = self.first_unreadable
            first = f"line {line}: “{printable(text[:QUOTED])}{'…' * (len(text) > QUOTED)}”"
            message = f"{self.nr_unreadable} lines are not calls of a script; the first is {first}"
            yield Loss("unreadable", self.nr_unreadable, message)
        if inserted := self.events[_INSERTED]:
            message = (
                f"{inserted} opens that MobiGen's cleaner inserted were left out: the files of their descriptors are"
            )
            yield Loss("missing", inserted, f"{message} not recorded")
        if self._nameless:
            message = f"{self._nameless} opens have no path: MobiGen's cleaner kept only the beginning of it"
            yield Loss("missing", self._nameless, message)


def _calls(lines: pl.DataFrame) -> pl.DataFrame:
    """Return columns of table `syscalls`, and `cut`, the raw text of a path without quotes."""
    result = pl.coalesce("result", "moved", "found", "opened").cast(pl.Int64)
    return lines.select(
        "line",
        pl.col("tid").cast(pl.Int32),
        "flags",
        "cut",
        ts_ns=pl.col("us").cast(pl.Int64) * _US_NS,
        call=pl.coalesce("plain", "placed", "named", "open"),
        state=pl.lit("whole", schema.enum("syscalls", "state")),
        fd=pl.coalesce("fd", "placed_fd").cast(pl.Int32),
        path=pl.coalesce("path", "whole", "/" + pl.col("cut").str.extract(_SHORT)),
        offset_bytes=pl.col("offset").cast(pl.Int64),
        result=pl.when(result >= 0).then(result),
        error=pl.when(result < 0).then(pl.lit("?")),
    )


def _tasks(tids: pl.Series) -> pl.DataFrame:
    """Return table `tasks`. All threads belong to one process, since they share their descriptors."""
    kind = pl.lit("other", schema.enum("tasks", "kind"))
    return schema.complete(pl.DataFrame(tids).with_columns(pid=pl.lit(_PROCESS, pl.Int32), kind=kind), "tasks")
