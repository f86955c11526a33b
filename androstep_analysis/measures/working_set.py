"""The working set: the number of different blocks that are touched in a window of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.measures.blocks import BLOCK_BYTES, bounds, known_touches, ranges, runs
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.parts import summed
from androstep_analysis.measures.recording import Tables
from androstep_analysis.measures.tables import Table, columns_as_rows

WINDOW_NS = 1_000_000_000


def working_set(
    requests: Table,
    *,
    window_ns: int = WINDOW_NS,
    by: Sequence[str] = ("op",),
    block_bytes: int = BLOCK_BYTES,
) -> pl.DataFrame:
    """Return the size of the different blocks that are read or written in each window of time.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for columns that only `io` has: request_id, dev, sector, nr_sectors, op, queue_ns,
        issue_ns, complete_ns. Rows without a time are left out.
    window_ns : int
        Length of a window, in ns. Windows begin at multiples of it in the capture's clock.
    by : sequence of str
        The columns to group by. A block that several groups touch counts in each of them.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64, start of the window) and `by`. Metric working_set [B]. `n` is the number of accesses to
        blocks. A window without accesses of a group has no row.

    Raises
    ------
    InputError
        If `window_ns` is not positive, or `block_bytes` is not a multiple of 512.

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
    parts = [_counted(part, keys) for part in _windows(requests, window_ns, by, block_bytes)]
    rows = pl.concat(parts).filter(pl.col("n") > 0)
    size = pl.col("blocks") * block_bytes
    wide = rows.select(*keys, "n", coverage=pl.lit(known_touches(rows, by), pl.Float64), working_set=size)
    return with_inferred(columns_as_rows(wide, keys, {"working_set": "B"}), requests)


def _counted(sums: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return columns `keys`, n, known and blocks (different ones) of summed bounds."""
    different = runs(sums, keys).group_by(keys).agg(blocks=pl.col("nr_blocks").sum())
    touched = sums.group_by(keys).agg(pl.col("n", "known").sum())
    return touched.join(different, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _windows(requests: Table, window_ns: int, by: Sequence[str], block_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield the bounds of touched ranges by ts_ns and `by`, with all rows of a window in one part.

    Parts are in order of time, so only the last window of a part can continue in the next.
    """
    keys = ["ts_ns", *by]
    bound_keys = [*dict.fromkeys([*keys, "dev", "block"])]
    held: pl.DataFrame | None = None
    for part in ranges(requests, by, block_bytes):
        timed = part.filter(pl.col("at") > pl.Int64.min()).with_columns(ts_ns=pl.col("at") // window_ns * window_ns)
        seen = bounds(timed, keys)
        both = summed([seen] if held is None else [held, seen], bound_keys)
        is_last = pl.col("ts_ns") == pl.col("ts_ns").max()
        yield both.filter(~is_last)
        held = both.filter(is_last)
    if held is not None:
        yield held


def _mean_and_largest(tables: Tables, by: tuple[str, ...]) -> pl.DataFrame:
    """Return the mean and the maximum over all windows, from the first to the last."""
    found = working_set(tables["io"], by=(*by, "op"), window_ns=NS_PER_S)
    start = pl.col("ts_ns")
    number = found.select((start.max() - start.min()) // NS_PER_S + 1).item()
    sums = found.group_by(*by, "op", "coverage", maintain_order=True).agg(
        pl.col("n").sum(), mean=pl.col("value").sum() / number, largest=pl.col("value").max()
    )
    return with_inferred(columns_as_rows(sums, [*by, "op"], {"mean": "B", "largest": "B"}), tables["io"])


WORKING_SET: Final = Measure(
    "different blocks touched in a second", ("io",), _mean_and_largest, own=("op",), has_windows=False
)
