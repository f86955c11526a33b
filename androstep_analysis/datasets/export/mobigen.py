"""Export MobiGen's scripts for mobibench -g (Jeong et al., 2013): a line for each replayable call, by thread.

The lines follow MobiGen's cleaner (described in ingest/syscalls/mobigen.py):

- A path that is not opened read-only is cut to its first two parts, with ``nil`` for each missing part.
- An artificial ``open`` precedes the first read or write of a descriptor number.

A capture of a MobiGen script gives the same lines again, except for paths that it lacks. For other recordings, only
descriptors without an open get an artificial one, because mobibench fails without it; descriptors known not to be files
are omitted.

mobibench unlinks the paths of a script as they are: never run it where these paths are in use.
"""

from __future__ import annotations

from typing import BinaryIO

import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets.export.batches import one_field, write_lines
from androstep_analysis.ingest.syscalls import mobigen

NAMES = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), "open"),
    **dict.fromkeys(("read", "readv"), "read"),
    **dict.fromkeys(("write", "writev"), "write"),
    **dict.fromkeys(("pread", "pread64", "preadv"), "pread"),
    **dict.fromkeys(("pwrite", "pwrite64", "pwritev"), "pwrite"),
    **dict.fromkeys(("fstat", "fstat64"), "fstat64"),
    **dict.fromkeys(("stat", "stat64", "newfstatat", "fstatat64"), "stat64"),
    **dict.fromkeys(("lstat", "lstat64"), "lstat64"),
    **dict.fromkeys(("access", "faccessat", "faccessat2"), "access"),
    **dict.fromkeys(("unlink", "unlinkat"), "unlink"),
    **{name: name for name in ("close", "fsync", "fdatasync")},
}
"""The calls that a script can hold, and their names there."""

_MOVES = ("read", "write", "pread", "pwrite")
_OF_PATHS = ("access", "stat64", "lstat64", "unlink")
_NO_FILES = ("char", "pipe", "socket", "anon", "memfd")
_FAILED = -1
_US_NS = 1000
_CREAT_FLAGS = "O_WRONLY|O_CREAT|O_TRUNC"


def lines(capture: Capture) -> pl.DataFrame:
    """Return a row for each line of the script, in order.

    The columns are thread Int32 (from 0, in the order of their first calls; a script keeps its own numbers), us Int64
    (since the first call), call, fd Int32, path, flags, offset Int64, result Int64 (-1: it failed), inserted Boolean
    (an artificial open). Raises `InputError` for a recording without times, and for one without any replayable call.
    """
    is_script = capture.format == mobigen.FORMAT
    calls = _calls(capture.syscalls)
    if calls.is_empty() and not capture.syscalls.head(1).collect().is_empty():
        raise InputError("no call on files has a descriptor and a result in this recording; record with strace -ttt")
    if calls["ts_ns"].null_count():
        raise InputError("the recording has no times, which a script of MobiGen needs; record with strace -ttt")
    threads = calls.select("tid").unique(maintain_order=True).with_row_index("thread")
    thread = pl.col("tid" if is_script else "thread").cast(pl.Int32)
    grouped = (
        calls.join(threads, on="tid", how="left", nulls_equal=True, maintain_order="left")
        .select(
            thread.alias("thread"),
            (pl.col("ts_ns") - pl.col("ts_ns").min()) // _US_NS,
            *("call", "fd", "path", "flags", "offset", "result"),
        )
        .rename({"ts_ns": "us"})
        .sort("thread", maintain_order=True)
        .with_row_index("at")
    )
    return _with_inserted(grouped, is_script).drop("at")


def _calls(syscalls: pl.LazyFrame) -> pl.DataFrame:
    """Return the calls that a script can hold, in the order of the recording."""
    words = pl.col("flags").fill_null("")
    call, name = pl.col("call"), pl.col("call").replace_strict(NAMES, default=None, return_dtype=pl.String)
    of_directory = (call == "unlinkat") & words.str.contains("AT_REMOVEDIR")
    is_file = pl.col("fd_kind").cast(pl.String).is_in(_NO_FILES).fill_null(False).not_()
    has_object = pl.col("fd").is_not_null() | name.is_in(["open", *_OF_PATHS])
    has_result = pl.col("result").is_not_null() | pl.col("error").is_not_null()
    is_known = (pl.col("state") == "whole") & has_object & has_result
    of_descriptor = (name == "stat64") & (pl.col("path") == "")
    of_link = (name == "stat64") & words.str.contains("AT_SYMLINK_NOFOLLOW")
    return (
        syscalls.filter(name.is_not_null() & is_known & is_file & of_directory.not_())
        .select(
            "ts_ns",
            "tid",
            pl.when(of_descriptor)
            .then(pl.lit("fstat64"))
            .when(of_link)
            .then(pl.lit("lstat64"))
            .otherwise(name)
            .alias("call"),
            "fd",
            _path().alias("path"),
            pl.when(call == "creat").then(pl.lit(_CREAT_FLAGS)).otherwise("flags").alias("flags"),
            pl.col("offset_bytes").alias("offset"),
            result=pl.when(pl.col("result") >= 0).then("result").otherwise(_FAILED),
        )
        .collect()
    )


def _path() -> pl.Expr:
    """Return the path of a call from the root, as far as it is known."""
    path = pl.col("path")
    from_directory = pl.concat_str(pl.col("fd_path"), pl.lit("/"), path)
    return pl.coalesce("result_path", pl.when(path.str.starts_with("/")).then(path), from_directory, path)


def _with_inserted(calls: pl.DataFrame, is_script: bool) -> pl.DataFrame:
    """Add an open for each descriptor that mobibench would not know."""
    opened = calls.filter((pl.col("call") == "open") & (pl.col("result") >= 0))["result"].cast(pl.Int32)
    unknown = pl.lit(True) if is_script else pl.col("fd").is_in(opened.implode()).not_()
    inserted = (
        calls.filter(pl.col("call").is_in(_MOVES) & unknown)
        .unique("fd", keep="first", maintain_order=True)
        .with_columns(
            call=pl.lit("open"),
            path=pl.lit(mobigen.INSERTED_PATH),
            flags=pl.lit(mobigen.INSERTED_FLAGS),
            offset=pl.lit(None, pl.Int64),
            result=pl.col("fd").cast(pl.Int64),
            fd=pl.lit(None, pl.Int32),
            inserted=pl.lit(True),
        )
    )
    both = pl.concat([calls.with_columns(inserted=pl.lit(False)), inserted])
    return both.sort("at", "inserted", descending=[False, True])


def write(capture: Capture, file: BinaryIO) -> None:
    """Write `lines` in the format of MobiGen's cleaner."""
    write_lines(lines(capture).select(_line()).to_series(), file)


def _line() -> pl.Expr:
    call = pl.col("call")
    arguments = (
        pl.when(call == "open")
        .then(pl.concat_str(_opened_path(), one_field(pl.col("flags").fill_null("O_RDONLY")), separator=" "))
        .when(call.is_in(_OF_PATHS))
        .then(_quoted())
        .when(call.is_in(["pread", "pwrite"]))
        .then(pl.concat_str("fd", pl.col("offset").fill_null(0), separator=" "))
        .otherwise(pl.col("fd").cast(pl.String))
    )
    return pl.concat_str("thread", "us", "call", arguments, "result", separator=" ")


def _quoted() -> pl.Expr:
    return pl.concat_str(pl.lit('"'), one_field(pl.col("path").fill_null("?")), pl.lit('"'))


def _opened_path() -> pl.Expr:
    """Format a path like the cleaner, which split it at slashes including its quotes."""
    parts = _quoted().str.split("/")
    first, second = (parts.list.get(number, null_on_oob=True).fill_null("nil") for number in (1, 2))
    cut = (
        pl.when(pl.col("path").is_null()).then(pl.lit("nil/nil")).otherwise(pl.concat_str(first, second, separator="/"))
    )
    return (
        pl.when(pl.col("flags").fill_null("O_RDONLY").str.contains("O_RDONLY"))
        .then(_quoted())
        .when(pl.col("inserted"))
        .then(pl.col("path"))
        .otherwise(cut)
    )
