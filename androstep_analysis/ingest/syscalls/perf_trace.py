"""Read the system calls that ``perf trace`` prints.

A line is (tools/perf/builtin-trace.c, ``trace__fprintf_entry_head`` and ``trace__sys_exit``)::

    milliseconds ( duration ms): [[comm/]tid] call(name: value, …) = result

The time is that of the begin of the call, since the first event. The name of the thread has at most 14 characters, and
is ``:tid`` if it is unknown. A call that another thread interrupts takes two lines. The first one ends in ``...`` and
has the arguments, the second one is ``... [continued]: call()) = result``. Both have the time of the begin. Arguments
that are 0 may be missing, and paths may be pointers, so that their columns are null.
"""

from __future__ import annotations

import errno
import re
from typing import Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest import lines
from androstep_analysis.ingest.matched import Matched
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_RESULT: Final = r"= (?P<result{0}>\?|0x[0-9a-f]{{1,16}}|-?\d{{1,19}})(?: (?P<error{0}>E[A-Z0-9]+)\b)?"
_CALL: Final = "".join(
    (
        r"^ *(?P<at>\d{1,12}\.\d{3}) +\((?: *(?P<ms>\d{1,12}\.\d{3}) ms| *)\): +",
        r"(?:(?:(?P<comm>\S.{0,13}?)/)?(?P<tid>\d{1,9}) +)?",
        r"(?:\.\.\. \[continued\]: (?P<continued>[a-z_]\w{0,40})\(\)\) *" + _RESULT.format("_of_end"),
        r"|(?P<last>exit(?:_group)?)\(",
        r"|(?P<call>[a-z_]\w{0,40})\((?P<arguments>.*?)\) *(?:(?P<begun>\.\.\.) *$|" + _RESULT.format("") + "))",
    )
)
_SNIFF: Final = re.compile(_CALL)
_LOST: Final = re.compile(rb"(?m)^LOST (\d{1,18}) events!\r?$")
_HEAD_LINES: Final = 50
_COMM_BYTES: Final = 14
_OF_LINES: Final = ("at", "is_begun", "is_continued")
"""Columns about the lines of a call, which table `syscalls` has not."""

_NUMBERS: Final = {"bytes": "count|len|length", "offset_bytes": "pos|offset|off"}
"""The names of the arguments with a number, for each column."""

_PATHS: Final = {"path": "filename|pathname|path|oldname", "path2": "newname"}
_ERRORS: Final = {name: -number for number, name in errno.errorcode.items()}
_OPENS: Final = ("open", "openat", "openat2")
_CWD: Final = "-100"  # AT_FDCWD


def sniff(head: bytes) -> bool:
    """Return whether one of the first lines is a call."""
    return any(map(_SNIFF.match, head.decode(errors="replace").splitlines()[:_HEAD_LINES]))


def read(source: Source, spool: Spool) -> Staging:
    """Read the calls. `events` counts them by call. A call whose end is not in the file is `unfinished`."""
    log = _Log(spool)
    for text in lines.whole(source):
        log.read(text)
    return log.finish(lines.truncated(source))


class _Log(Matched):
    """Output that is being read."""

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool)
        self._begun: pl.DataFrame | None = None
        self._dropped = 0

    def read(self, text: bytes) -> None:
        """Read several whole lines."""
        self._dropped += sum(map(int, _LOST.findall(text)))
        rows = self.rows(_LOST.sub(b"", text), _CALL)
        is_call = pl.col("call").is_not_null() | pl.col("continued").is_not_null()
        others = rows.filter(~is_call.fill_null(False), pl.col("last").is_null(), pl.col("text").str.contains(r"\S"))
        self.refuse(others.with_columns(pl.col("text").str.strip_chars()))
        calls = _columns(rows.filter(is_call))
        begun = calls.filter("is_begun")
        if self._begun is not None:
            begun = pl.concat([self._begun, begun])
        ended = _joined(calls.filter(pl.col("is_continued")), begun)
        keys = ["tid", "at", "call"]
        self._begun = begun.join(ended, on=keys, how="anti", nulls_equal=True)
        whole = calls.filter(~pl.col("is_begun") & ~pl.col("is_continued"))
        self.append(pl.concat([whole, ended]).drop(_OF_LINES))

    def finish(self, truncated: tuple[Loss, ...]) -> Staging:
        """Return the result of the reader after the last line."""
        if self._begun is not None:
            unfinished = pl.lit("unfinished", schema.enum("syscalls", "state"))
            self.append(self._begun.drop(_OF_LINES).with_columns(state=unfinished))
        return self.staging(
            "perf_trace",
            tasks=self.seen.table(),
            clock="relative",
            lost_events=self._dropped,
            losses=(
                *truncated,
                *lines.dropped(self._dropped),
                *self.unreadable("of perf trace are no system calls"),
            ),
        )


def _columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return columns of table `syscalls`, and whether each line is the first or the second one of its call."""
    arguments, call = pl.col("arguments"), pl.coalesce("call", "continued")
    fd = arguments.str.extract(r"(?:^|, )(?:fd|dfd|olddfd|out_fd|fd_in): (CWD|-?\d{1,9})\b").replace("CWD", _CWD)
    fd_path = arguments.str.extract(r"(?:^|, )(?:fd|dfd|olddfd|out_fd|fd_in): (?:CWD|-?\d+)<(.*?)>(?:, |$)")
    flags = arguments.str.extract(r"(?:^|, )flags: ([A-Z][A-Z0-9_|]*)")
    flags = pl.when(call.is_in(_OPENS)).then(flags.str.replace_all(r"(^|\|)", "${1}O_")).otherwise(flags)
    comm = pl.when(~pl.col("comm").str.starts_with(":")).then("comm")
    error, result = pl.coalesce("error", "error_of_end"), pl.coalesce("result", "result_of_end")
    failed = error.replace_strict(_ERRORS, default=None, return_dtype=pl.Int64)
    number = (
        pl.when(result.str.starts_with("0x"))
        .then(result.str.strip_prefix("0x").str.to_integer(base=16, strict=False))
        .otherwise(result.cast(pl.Int64, strict=False))
    )
    return rows.select(
        "line",
        pl.col("at"),
        is_begun=pl.col("begun").is_not_null(),
        is_continued=pl.col("continued").is_not_null(),
        ts_ns=_ns("at"),
        duration_ns=_ns("ms"),
        pid=pl.lit(None, pl.Int32),
        tid=pl.col("tid").cast(pl.Int32),
        # A longer name was truncated.
        comm=pl.when(comm.str.len_bytes() == _COMM_BYTES).then(comm + "…").otherwise(comm),
        call=call,
        state=pl.lit("whole", schema.enum("syscalls", "state")),
        fd=fd.cast(pl.Int32, strict=False),
        fd_path=fd_path,
        flags=flags,
        **{name: _number(arguments, names) for name, names in _NUMBERS.items()},
        **{name: _path(arguments, names) for name, names in _PATHS.items()},
        result=pl.when(error.is_not_null()).then(failed).otherwise(number),
        error=error,
    )  # fmt: skip


def _joined(ended: pl.DataFrame, begun: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of second lines with the arguments of their first lines, if these were recorded."""
    if ended.is_empty():
        return ended
    of_end = ("duration_ns", "result", "error", "is_begun", "is_continued")
    keys = ["tid", "at", "call"]
    first = begun.drop(*of_end).unique(keys, keep="last", maintain_order=True)
    joined = ended.join(first, on=keys, how="left", nulls_equal=True, suffix="_begun", maintain_order="left")
    names = [name for name in ended.columns if name not in (*of_end, *keys)]
    return joined.with_columns(pl.coalesce(f"{name}_begun", name).alias(name) for name in names).select(ended.columns)


def _ns(name: str) -> pl.Expr:
    """Return a number of milliseconds with three decimals in nanoseconds."""
    return pl.col(name).str.replace(".", "", literal=True).cast(pl.Int64) * 1000


def _number(arguments: pl.Expr, names: str) -> pl.Expr:
    return arguments.str.extract(rf"(?:^|, )(?:{names}): (-?\d{{1,18}})\b").cast(pl.Int64, strict=False)


def _path(arguments: pl.Expr, names: str) -> pl.Expr:
    quoted = arguments.str.extract(rf'(?:^|, )(?:{names}): "((?:[^"\\]|\\.)*)"')
    bare = arguments.str.extract(rf"(?:^|, )(?:{names}): (/.*?)(?:, [a-z_]+: |$)")
    return pl.coalesce(quoted, bare)
