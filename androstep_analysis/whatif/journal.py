"""The requests without the filesystem's journal (Luo et al., EXT4_NO_JOURNAL).

- Removed: all writes to the journal, and the flushes that its commits waited for.
- Kept: the last flush of each requested commit (`barriers.COMMIT_INTERVAL_NS`), since an fsync without a journal ends
  in a flush of its own (ext4_sync_file).
- Everything else keeps its location and time. This is an assumption: without a journal, an fsync writes the inode in
  place immediately. With it, this is done later, once for several commits. docs/whatif.md quantifies the difference.
- Reads of the journal (recovery at mount) are not included.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.whatif import barriers
from androstep_analysis.whatif.changed import Changed, Part, changed, without_pieces


def without_journal(requests: Table, io: Table) -> Changed:
    """Return tables `requests` and `io` without the journal of ext4.

    Parameters
    ----------
    requests, io : Table
        The tables of these names, of one capture.

    Returns
    -------
    Changed
        The change. Requests of unknown block type are kept and counted as `unknown`.

    Raises
    ------
    InputError
        If no request is known to write a journal. F2FS has none; its checkpoints and node blocks do not correspond to a
        journal.

    Notes
    -----
    All writes to the journal are removed, and the flushes that its commits waited for. The last flush of a requested
    commit (less than 5 s after the previous one) is kept as that of the fsync. The write of the inode in place by such
    an fsync is not modelled; docs/whatif.md quantifies it.

    References
    ----------
    Luo, Jiang and Cohen, Why Do We Always Blame The Storage Stack?, 2016, section 4.1 (EXT4_NO_JOURNAL); Linux
    block/blk-flush.c; fs/ext4/fsync.c, ext4_sync_file.

    Examples
    --------
    >>> made = whatif.without_journal(capture.requests, capture.io)
    >>> made.account.filter(effect="removed").select("change", "op", "count").rows()
    [('flush of a commit', 'flush', 408), ('written to the journal', 'write', 809)]
    """
    before, pieces = lazy(requests, ("requests",)).collect(), lazy(io, ("io",)).collect()
    of_journal = barriers.journal_pieces(pieces)
    if of_journal.is_empty():
        raise InputError(
            "no request is known to write a filesystem's journal: the trace has none, the filesystem has no journal"
            " (F2FS), or the contents of its blocks are unknown; give an image of the filesystem with --image-after"
        )
    remaining, removed = without_pieces(before, of_journal)
    dropped, moved = _flushes(before, pieces)
    unknown = pieces.filter(pl.col("block_type") == "unknown", pl.col("op") == "write")
    after = remaining.filter(~pl.col("request_id").is_in(dropped.implode()))
    parts = [
        Part("removed", "written to the journal", removed),
        Part("removed", "flush of a commit", before.filter(pl.col("request_id").is_in(dropped.implode()))),
        Part("moved", "flush of a commit, kept as the fsync's own", before.filter(_in(moved))),
        Part("unknown", "written, of unknown block type", unknown),
    ]
    return changed(before, after, parts, pieces)


def _in(ids: pl.Series) -> pl.Expr:
    return pl.col("request_id").is_in(ids.implode())


def _flushes(requests: pl.DataFrame, io: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """Return the flushes that are dropped, and those that are kept in place of an fsync's."""
    commits = barriers.commits(requests, io)
    served = barriers.served(requests)
    of_commits = served.join(commits, on="request_id")
    shared = served.join(commits, on="request_id", how="anti")["flush_id"]
    own = of_commits.filter(~pl.col("flush_id").is_in(shared.implode()))
    last = (
        own.filter(pl.col("is_forced").fill_null(True))
        .sort("is_behind", "flush_id")
        .group_by("dev", "commit")
        .agg(pl.col("flush_id").last())["flush_id"]
        .unique()
    )
    dropped = own.filter(~pl.col("flush_id").is_in(last.implode()))["flush_id"].unique()
    return dropped, last
