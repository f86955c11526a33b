"""The requests without the fsyncs of SQLite, whose writes then wait in the page cache (Luo et al., SQLITE_NO_SYNC).

The model assumes Linux with its defaults:

- A write with REQ_SYNC to a database, rollback journal, WAL or shared memory was caused by an fsync. Without the fsync,
  its pages stay in the page cache from the time of the write until writeback. All dirty pages of a file are written
  back at the first tick of the flusher (every 5 s) at which the oldest is 30 s old (`PERIOD_NS`, `EXPIRE_NS`:
  vm.dirty_writeback_centisecs, vm.dirty_expire_centisecs). Of several writes of a page in that time, only the last one
  is written. Pages that are freed before are never written. Adjacent pages are one request, which is not longer than
  the longest write of the trace. Memory is never short, and nothing else syncs these files.
- A read of dirty pages is served by the page cache.
- A flush, or a commit of the filesystem's journal with its flushes, belongs to SQLite if every synchronous write of
  file data that ended since the previous one is SQLite's. A commit without such a write belongs to SQLite if all
  processes with handles in it write synchronously nothing but SQLite's files in the whole trace. Such flushes are
  dropped. Such commits occur only when ext4 commits by itself: of those that begin in the same 5 s
  (`barriers.COMMIT_INTERVAL_NS`), the largest one is kept, at the end of these 5 s, since the others write the same
  blocks. Flushes and commits that also belong to others, or to unknown processes (fsync of a directory), are kept and
  counted.
- Shorter waits do not make the app continue sooner: its requests keep their recorded times.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.whatif import barriers
from androstep_analysis.whatif.changed import Changed, Part, changed, without_pieces

FILES: Final = ("sqlite_db", "sqlite_journal", "sqlite_wal", "sqlite_shm")

EXPIRE_NS: Final = 30_000_000_000
PERIOD_NS: Final = 5_000_000_000

WRITEBACK_DEPTH: Final = 32
"""The number of requests of writeback that are in flight at a time."""

_PAGE_SECTORS: Final = 8


def without_fsync(requests: Table, io: Table, extents: Table) -> Changed:
    """Return tables `requests`, `io` and `extents` without the fsyncs of SQLite: its writes wait in the page cache.

    Parameters
    ----------
    requests, io, extents : Table
        The tables of these names, of one capture.

    Returns
    -------
    Changed
        The change. Synchronous writes to files of unknown type are kept and counted as `unknown`.

    Raises
    ------
    InputError
        If no synchronous write is known to be SQLite's.

    Notes
    -----
    Dirty pages of a file are written back once, at the first tick of 5 s at which the oldest is 30 s old. Pages that
    are freed before are not written. Flushes of SQLite alone are dropped, and of its commits in the same 5 s the
    largest is kept. Requests keep their recorded times. The head of ``whatif/sqlite.py`` lists all assumptions.

    References
    ----------
    Luo, Jiang and Cohen, Why Do We Always Blame The Storage Stack?, 2016, section 4.1 (SQLITE_NO_SYNC); Linux
    Documentation/admin-guide/sysctl/vm.rst, dirty_expire_centisecs and dirty_writeback_centisecs; ext4's mount option
    ``commit``.

    Examples
    --------
    >>> made = whatif.without_fsync(capture.requests, capture.io, capture.extents)
    >>> written = made.account.filter(op="write")
    >>> dict(written.filter(pl.col("effect").is_in(["before", "after"])).select("effect", "bytes").rows())
    {'before': 37240832, 'after': 24977408}
    """
    before, pieces = lazy(requests, ("requests",)).collect(), lazy(io, ("io",)).collect()
    data = pieces.filter(pl.col("op") == "write", pl.col("sync"), pl.col("block_type") == "data")
    own = data.filter(pl.col("file_type").is_in(FILES))
    if own.is_empty():
        raise InputError(
            "no synchronous write is known to be of a SQLite file: the trace has none, or the contents of its blocks"
            " are unknown; give an image of the filesystem with --image-after"
        )
    causes = _causes(before, pieces, data)
    delayed, merged, dropped = _commits(before, causes)
    remaining, waiting = without_pieces(before, own)
    pages = _pages(own, lazy(extents, ("extents",)).collect())
    written, overwritten, freed = _written_back(pages, before)
    reads = _served_by_cache(remaining, pages)
    removed = pl.concat([merged, dropped, reads["request_id"]])
    remaining = remaining.filter(~pl.col("request_id").is_in(removed.implode()))
    after = pl.concat([_delayed(remaining, delayed), written])
    parts = [
        Part("removed", "written out by an fsync of SQLite", waiting),
        Part("added", "written back", written),
        Part("removed", "flush of SQLite", before.filter(_in(dropped))),
        Part("removed", "commit of the journal, one with another", before.filter(_in(merged))),
        Part("removed", "read of pages that wait in the cache", reads),
        Part("moved", "commit of the journal, when it commits by itself", before.filter(_in(delayed["request_id"]))),
        Part("moved", "of what was written out: overwritten before writeback", overwritten),
        Part("moved", "of what was written out: freed before writeback", freed),
        Part("unknown", "synchronous write, of unknown file", _unknown(pieces)),
        Part("unknown", "flush or commit of unknown or several causes", before.filter(_in(_unclear(causes)))),
    ]
    return changed(before, after, parts, pieces)


def _in(ids: pl.Series) -> pl.Expr:
    return pl.col("request_id").is_in(ids.implode())


def _unknown(pieces: pl.DataFrame) -> pl.DataFrame:
    of_file = (pl.col("block_type") == "data") & (pl.col("file_type") == "unknown").fill_null(True)
    return pieces.filter(pl.col("op") == "write", "sync", of_file | (pl.col("block_type") == "unknown"))


# -- flushes and commits ----------------------------------------------------------------------------------------------


def _causes(requests: pl.DataFrame, io: pl.DataFrame, data: pl.DataFrame) -> pl.DataFrame:
    """Return the requests of flushes and commits, and their causes.

    Columns are request_id, dev, commit (Int64, null for a flush by itself), begun_ns, is_flush, cause (String: sqlite,
    other, both, none).
    """
    commits = barriers.commits(requests, io)
    served = barriers.served(requests)
    with_flushes = served.join(commits, on="request_id").select(
        "dev", "commit", "begun_ns", request_id="flush_id", is_flush=pl.lit(value=True)
    )
    others = served.join(commits, on="request_id", how="anti")["flush_id"]
    of_commits = pl.concat(
        [
            commits.select("dev", "commit", "begun_ns", "request_id", is_flush=pl.lit(value=False)),
            with_flushes.filter(~_in(others)),
        ]
    ).unique("request_id", keep="first", maintain_order=True)
    single_flushes = requests.filter(pl.col("op") == "flush", ~_in(of_commits["request_id"]), ~_in(others)).select(
        "dev",
        pl.lit(None, pl.Int64).alias("commit"),
        pl.coalesce("issue_ns", "complete_ns").alias("begun_ns"),
        "request_id",
        is_flush=pl.lit(value=True),
    )
    rows = pl.concat([of_commits, single_flushes]).with_columns(
        barrier=pl.coalesce(pl.col("commit"), -1 - pl.col("request_id"))
    )
    begun = rows.select("dev", "barrier", "begun_ns").unique().sort("begun_ns", "barrier")
    ended = data.select(
        "dev",
        is_sqlite=pl.col("file_type").is_in(FILES).fill_null(value=False),
        at=pl.coalesce("complete_ns", "issue_ns"),
    ).filter(pl.col("at").is_not_null())
    found = (
        ended.sort("at")
        .join_asof(begun, left_on="at", right_on="begun_ns", by="dev", strategy="forward", check_sortedness=False)
        .group_by("dev", "barrier")
        .agg(sqlite=pl.col("is_sqlite").any(), other=(~pl.col("is_sqlite")).any())
    )
    cause = (
        pl.when(pl.col("sqlite").is_null())
        .then(pl.lit("none"))
        .when(pl.col("sqlite") & pl.col("other"))
        .then(pl.lit("both"))
        .when("sqlite")
        .then(pl.lit("sqlite"))
        .otherwise(pl.lit("other"))
    )
    with_cause = rows.join(found, on=["dev", "barrier"], how="left").with_columns(cause=cause)
    own = with_cause.join(_owned(commits, io, data), on=["dev", "commit"], how="left", maintain_order="left")
    by_owner = (pl.col("cause") == "none") & pl.col("is_owned").fill_null(value=False)
    return own.select(
        "request_id",
        "dev",
        "commit",
        "begun_ns",
        "is_flush",
        cause=pl.when(by_owner).then(pl.lit("sqlite")).otherwise("cause"),
    )


def _owned(commits: pl.DataFrame, io: pl.DataFrame, data: pl.DataFrame) -> pl.DataFrame:
    """Return columns dev, commit, is_owned: all its handles are of processes that sync nothing but SQLite's files."""
    writers = (
        data.filter(pl.col("owner_pid").is_not_null())
        .group_by("owner_pid", "owner_comm")
        .agg(is_own=pl.col("file_type").is_in(FILES).fill_null(value=False).all())
    )
    handles = barriers.journal_pieces(io).filter(pl.col("owner_via") == "handle")
    return (
        handles.join(writers, on=["owner_pid", "owner_comm"], how="left", nulls_equal=True)
        .join(commits.select("request_id", "dev", "commit"), on=["request_id", "dev"])
        .group_by("dev", "commit")
        .agg(is_owned=pl.col("is_own").fill_null(value=False).all())
    )


def _unclear(causes: pl.DataFrame) -> pl.Series:
    return causes.filter(pl.col("cause").is_in(["both", "none"]))["request_id"]


def _commits(requests: pl.DataFrame, causes: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series, pl.Series]:
    """Return the changes of SQLite's commits and flushes: requests that are delayed (by_ns), merged, and dropped."""
    own = causes.filter(pl.col("cause") == "sqlite")
    dropped = own.filter(pl.col("commit").is_null())["request_id"]
    sized = (
        own.filter(pl.col("commit").is_not_null())
        .join(requests.select("request_id", "nr_sectors"), on="request_id")
        .with_columns(
            window=pl.col("begun_ns") // barriers.COMMIT_INTERVAL_NS,
            sectors=pl.col("nr_sectors").sum().over("dev", "commit"),
        )
    )
    most = sized.sort("sectors", "commit").group_by("dev", "window").agg(pl.col("commit").last().alias("largest"))
    sized = sized.join(most, on=["dev", "window"])
    at_ns = (pl.col("window") + 1) * barriers.COMMIT_INTERVAL_NS
    delayed = sized.filter(pl.col("commit") == pl.col("largest")).select("request_id", by_ns=at_ns - pl.col("begun_ns"))
    merged = sized.filter(pl.col("commit") != pl.col("largest"))["request_id"]
    return delayed, merged, dropped


def _delayed(requests: pl.DataFrame, delayed: pl.DataFrame) -> pl.DataFrame:
    by = pl.col("by_ns").fill_null(0)
    times = ("queue_ns", "insert_ns", "issue_ns", "complete_ns")
    moved = requests.join(delayed, on="request_id", how="left", maintain_order="left")
    return moved.with_columns(pl.col(name) + by for name in times).drop("by_ns")


# -- writeback --------------------------------------------------------------------------------------------------------


def _pages(own: pl.DataFrame, extents: pl.DataFrame) -> pl.DataFrame:
    """Return every page that SQLite wrote, once for each write.

    Columns are request_id, dev, sector, nr_sectors (Int64, at most 8), dirty_ns, out_ns (time of writeback) and
    freed_ns (when its block was freed, null if it was not). Pages are identified by their first sector.
    """
    first, end = pl.col("sector"), pl.col("sector") + pl.col("nr_sectors")
    starts = pl.int_ranges(first // _PAGE_SECTORS, (end + _PAGE_SECTORS - 1) // _PAGE_SECTORS)
    pages = (
        own.with_columns(dirty_ns=pl.coalesce("queue_ns", "issue_ns", "complete_ns"), page=starts, end=end)
        .explode("page")
        .with_columns(from_sector=pl.max_horizontal(first, pl.col("page") * _PAGE_SECTORS))
        .with_columns(to_sector=pl.min_horizontal("end", (pl.col("page") + 1) * _PAGE_SECTORS))
        .select(
            "request_id",
            "dev",
            "ino",
            "incarnation",
            "dirty_ns",
            sector="from_sector",
            nr_sectors=pl.col("to_sector") - pl.col("from_sector"),
        )
        .sort("dev", "ino", "incarnation", "dirty_ns", "request_id", "sector")
        .with_row_index("row")
    )
    # Without a known inode, every page counts as a file of its own.
    file = pl.struct("dev", "ino", "incarnation", pl.when(pl.col("ino").is_null()).then("sector")).rle_id()
    of_file = pages.select(file.alias("file"), "dirty_ns")
    out = _writeback_ns(of_file["file"].to_numpy(), of_file["dirty_ns"].to_numpy())
    return pages.with_columns(out_ns=pl.Series(out)).join(_freed(pages, extents), on="row", how="left").drop("row")


def _writeback_ns(file: npt.NDArray[np.uint32], dirty_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the time of writeback for these dirty times. Rows are grouped by file, in order of time."""
    out = np.empty(len(dirty_ns), np.int64)
    bounds = np.flatnonzero(np.diff(file, prepend=np.uint32(0)) != 0)
    for first, end in zip([0, *bounds[bounds > 0]], [*bounds[bounds > 0], len(file)], strict=True):
        begin = int(first)
        while begin < end:
            due = -(-(int(dirty_ns[begin]) + EXPIRE_NS) // PERIOD_NS) * PERIOD_NS
            until = begin + int(np.searchsorted(dirty_ns[begin:end], due))
            out[begin:until] = due
            begin = until
    return out


def _freed(pages: pl.DataFrame, extents: pl.DataFrame) -> pl.DataFrame:
    """Return columns row, freed_ns: the end of the file's extent that contained the page, if it ended."""
    ended = extents.filter(pl.col("valid_to_ns").is_not_null(), pl.col("ino").is_not_null()).select(
        extent_dev="dev",
        extent_ino="ino",
        extent_incarnation=pl.col("incarnation").fill_null(0),
        first="sector",
        last=pl.col("sector") + pl.col("nr_sectors"),
        begun_ns=pl.col("valid_from_ns").fill_null(-(1 << 62)),
        freed_ns="valid_to_ns",
    )
    found = pages.select("row", "dev", "ino", "incarnation", "sector", "dirty_ns").join_where(
        ended,
        pl.col("sector") >= pl.col("first"),
        pl.col("sector") < pl.col("last"),
        pl.col("dev") == pl.col("extent_dev"),
        pl.col("ino") == pl.col("extent_ino"),
        pl.col("incarnation").fill_null(0) == pl.col("extent_incarnation"),
        pl.col("dirty_ns") >= pl.col("begun_ns"),
        pl.col("dirty_ns") < pl.col("freed_ns"),
    )
    return found.group_by("row").agg(pl.col("freed_ns").min())


def _written_back(pages: pl.DataFrame, requests: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the requests of writeback, and the written pages that are overwritten or freed before writeback."""
    page_keys = ["dev", "sector", "nr_sectors", "out_ns"]
    op = pl.lit("write").cast(requests.schema["op"]).alias("op")
    ordered = pages.sort("dirty_ns", "request_id", maintain_order=True).with_columns(op)
    is_freed = (pl.col("freed_ns") <= pl.col("out_ns")).fill_null(value=False)
    waiting = ordered.filter(~is_freed)
    last = waiting.unique(page_keys, keep="last", maintain_order=True)
    overwritten = waiting.join(last, on=[*page_keys, "request_id"], how="anti")
    longest = int(requests.select(pl.col("nr_sectors").filter(pl.col("op") == "write").max()).item())
    return _as_requests(_joined(last, longest), requests), overwritten, ordered.filter(is_freed)


def _joined(pages: pl.DataFrame, longest: int) -> pl.DataFrame:
    """Join adjacent pages of one writeback: columns dev, sector, nr_sectors, out_ns, request_id (of the first page)."""
    rows = pages.sort("out_ns", "dev", "sector")
    end = (pl.col("sector") + pl.col("nr_sectors")).shift(1).over("dev", "out_ns", order_by="sector")
    rows = rows.with_columns(run=(pl.col("sector") != end).fill_null(True).cum_sum())
    reached = pl.col("nr_sectors").cum_sum().over("run") - pl.col("nr_sectors")
    return (
        rows.with_columns(part=reached // longest)
        .group_by("out_ns", "dev", "run", "part", maintain_order=True)
        .agg(pl.col("sector").first(), pl.col("nr_sectors").sum(), pl.col("request_id").first())
    )


def _as_requests(rows: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """Return runs of pages as requests of writeback, `WRITEBACK_DEPTH` at a time, with the mean duration of writes."""
    writes = requests.filter(pl.col("op") == "write")
    took = writes.select((pl.col("complete_ns") - pl.col("issue_ns")).mean()).item()
    each_ns = int(took) if took else 1_000_000
    turn = pl.int_range(pl.len()).over("out_ns") // WRITEBACK_DEPTH
    at = pl.col("out_ns") + turn * each_ns
    like = requests.select(pl.exclude("sector", "nr_sectors", "dev"))
    return (
        rows.join(like, on="request_id")
        .sort("out_ns", "dev", "sector")
        .with_columns(
            part_sector=pl.lit(None, pl.Int64),
            sync=pl.lit(value=False),
            fua=pl.lit(value=False),
            preflush=pl.lit(value=False),
            rwbs=pl.lit("W"),
            queue_ns=at,
            insert_ns=pl.lit(None, pl.Int64),
            issue_ns=at,
            complete_ns=at + each_ns,
        )
        .select(requests.columns)
    )


def _served_by_cache(requests: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Return the reads with all sectors in dirty pages."""
    reads = requests.filter(pl.col("op") == "read", pl.col("nr_sectors") > 0).with_columns(
        end=pl.col("sector") + pl.col("nr_sectors"), at=pl.coalesce("queue_ns", "issue_ns", "complete_ns")
    )
    waiting = pages.group_by("dev", "sector", "nr_sectors", "out_ns").agg(pl.col("dirty_ns").min())
    waiting = waiting.select(
        page_dev="dev",
        first="sector",
        last=pl.col("sector") + pl.col("nr_sectors"),
        dirty_ns="dirty_ns",
        out_ns="out_ns",
    )
    found = reads.select("request_id", "dev", "sector", "end", "at").join_where(
        waiting,
        pl.col("sector") < pl.col("last"),
        pl.col("end") > pl.col("first"),
        pl.col("dev") == pl.col("page_dev"),
        pl.col("at") >= pl.col("dirty_ns"),
        pl.col("at") < pl.col("out_ns"),
    )
    inside = pl.min_horizontal("end", "last") - pl.max_horizontal("sector", "first")
    covered = found.group_by("request_id").agg(sectors=inside.sum())
    whole = reads.join(covered, on="request_id").filter(pl.col("sectors") >= pl.col("nr_sectors"))
    return requests.join(whole.select("request_id"), on="request_id", how="semi")
