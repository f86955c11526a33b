"""The working set: how many different blocks are touched in a window of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from androstep_analysis.errors import InputError
from androstep_analysis.measures.blocks import BLOCK_BYTES, KNOWN, touches
from androstep_analysis.measures.tables import Table, columns_as_rows

WINDOW_NS = 1_000_000_000


def working_set(
    requests: Table,
    *,
    window_ns: int = WINDOW_NS,
    by: Sequence[str] = ("op",),
    block_bytes: int = BLOCK_BYTES,
) -> pl.DataFrame:
    """Different blocks that are read or written in each window of time.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for groups that only pieces know: request_id, dev, sector, nr_sectors, op, queue_ns,
        issue_ns, complete_ns. What has no time is left out.
    window_ns : int
        Length of a window, in ns. Windows begin at multiples of it in the capture's clock.
    by : sequence of str
        The columns to group by. A block that several groups touch counts in each.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64, start of the window) and `by`. Metric working_set [B]; `n` is the number of accesses to
        blocks. A window in which a group touches nothing has no row.

    Raises
    ------
    InputError
        For a window that has no length, and for a size of a block that is no multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, working_set; Denning (CACM 1968).

    Examples
    --------
    >>> table = measures.working_set(capture.requests, by=[])
    >>> bool((table["value"] <= 4096 * table["n"]).all())
    True
    """
    if window_ns <= 0:
        raise InputError(f"window_ns is {window_ns}: a window must be at least 1 ns long")
    keys = ["ts_ns", *by]
    sums = {
        "n": pl.col("n").sum(),
        "known": pl.col("n").filter(KNOWN).sum(),
        "blocks": pl.struct("dev", "block").n_unique().cast(pl.Int64),
    }
    windows = _windows(requests, window_ns, by, block_bytes)
    rows = pl.concat(part.group_by(keys).agg(**sums) for part in windows)
    whole, known = rows.select(pl.col("n", "known").sum()).row(0)
    share = known / whole if by and whole else None
    size = pl.col("blocks") * block_bytes
    told = rows.select(*keys, "n", coverage=pl.lit(share, pl.Float64), working_set=size)
    return columns_as_rows(told, keys, {"working_set": "B"})


def _windows(requests: Table, window_ns: int, by: Sequence[str], block_bytes: int) -> Iterator[pl.DataFrame]:
    """Columns ts_ns, `by`, KNOWN, dev, block and n (touches), all rows of a window in one part.

    Parts are in order of time: only the last window of one can go on in the next.
    """
    keys = [*dict.fromkeys(["ts_ns", *by, KNOWN, "dev", "block"])]
    held: pl.DataFrame | None = None
    for part in touches(requests, by, block_bytes):
        timed = part.filter(pl.col("at") > pl.Int64.min()).with_columns(ts_ns=pl.col("at") // window_ns * window_ns)
        seen = timed.group_by(keys).agg(n=pl.len().cast(pl.Int64))
        both = seen if held is None else pl.concat([held, seen])
        both = both.group_by(keys).agg(pl.col("n").sum())
        is_last = pl.col("ts_ns") == pl.col("ts_ns").max()
        yield both.filter(~is_last)
        held = both.filter(is_last)
    if held is not None:
        yield held
