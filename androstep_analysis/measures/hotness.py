"""Hot and cold data: the share of accesses to the hottest blocks or files, and the blocks that are rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.measures.blocks import BLOCK_BYTES, bounds, known_touches, of_groups, ranges, runs
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.parts import REQUEST, summed
from androstep_analysis.measures.tables import KNOWN, Table, columns_as_rows

SHARES: Final = (0.01, 0.1, 0.2)

CLASSES: Final = ("read_only", "write_once", "rewritten")


def hotness(
    requests: Table,
    *,
    shares: Sequence[float] = SHARES,
    by: Sequence[str] = ("op",),
    of: Literal["blocks", "files"] = "blocks",
    block_bytes: int = BLOCK_BYTES,
) -> pl.DataFrame:
    """Return the share of accesses that goes to the most accessed blocks or files.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for files and for columns that only `io` has: request_id, dev, sector, nr_sectors, op,
        queue_ns, issue_ns, complete_ns.
    shares : sequence of float
        Shares of the blocks, from 0 to 1. The number of hottest blocks is rounded up.
    by : sequence of str
        The columns to group by. Each group has hottest blocks of its own.
    of : {"blocks", "files"}
        Whether to rank blocks or files. Files are identified by column path; accesses without a known path are left
        out.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and top (Float64: share of the blocks or files). Metrics access_ratio [1], the share of the
        accesses to blocks, and size [blocks or files], the number of hottest ones. `n` is the number of accesses of the
        group.

    Raises
    ------
    InputError
        If `block_bytes` is not a multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, hotness.

    Examples
    --------
    >>> table = measures.hotness(capture.requests, by=[])
    >>> table.filter(metric="access_ratio")["value"].is_sorted()
    True
    """
    used, coverage = (_used_blocks if of == "blocks" else _used_files)(requests, by, block_bytes)
    # Sorted from hot to cold. `before` is the number of blocks or files that were counted already.
    used = used.group_by(*by, "uses").agg(pl.col("size").sum()).sort("uses", descending=True)
    uses, size = pl.col("uses"), pl.col("size")
    before, n = size.cum_sum() - size, (uses * size).sum()
    tables = []
    for share in shares:
        top = (size.sum() * share).ceil().cast(pl.Int64)
        of_top = pl.min_horizontal(size, (top - before).clip(0))
        values = {"n": n, "size": top, "access_ratio": (uses * of_top).sum() / n}
        tables.append(of_groups(used, by, coverage, **values).with_columns(top=pl.lit(share, pl.Float64)))
    return with_inferred(columns_as_rows(pl.concat(tables), [*by, "top"], {"access_ratio": "1", "size": of}), requests)


def _used_blocks(requests: Table, by: Sequence[str], block_bytes: int) -> tuple[pl.DataFrame, float | None]:
    """Return the number of blocks (size) of each group by number of accesses (uses), and the share of known ones."""
    keys = [*dict.fromkeys([*by, "dev", "block"])]
    sums = summed((bounds(part, by) for part in ranges(requests, by, block_bytes)), keys)
    return runs(sums, by).select(*by, "uses", size="nr_blocks"), known_touches(sums, by)


def _used_files(requests: Table, by: Sequence[str], block_bytes: int) -> tuple[pl.DataFrame, float | None]:
    """Return the same as `_used_blocks` for files."""
    keys = [*dict.fromkeys([*by, "path"])]
    n = pl.col("nr_blocks")
    parts = ranges(requests, keys, block_bytes)
    sums = summed((part.group_by(keys).agg(n.sum().alias("n"), known=n.filter(KNOWN).sum()) for part in parts), keys)
    named = sums.filter(pl.col("path").is_not_null())
    return named.select(*by, uses="n", size=pl.lit(1, pl.Int64)), known_touches(sums, by)


def block_uses(requests: Table, *, by: Sequence[str] = (), block_bytes: int = BLOCK_BYTES) -> pl.DataFrame:
    """Return the blocks that are only read, written once, or rewritten.

    Parameters
    ----------
    requests : Table
        As for `hotness`.
    by : sequence of str
        The columns to group by. The class of a block is that in the whole capture. A block counts in each group that
        accesses it.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and class (String: read_only, write_once, rewritten). Metrics bytes [B] of the blocks and
        bytes_ratio [1] (of the group); `n` is the number of blocks.

    Raises
    ------
    InputError
        If `block_bytes` is not a multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, block_uses.

    Examples
    --------
    >>> measures.block_uses(capture.requests)["class"].unique().sort().to_list()
    ['read_only', 'rewritten', 'write_once']
    """
    group, block_keys = [*dict.fromkeys([*by, "dev", "block"])], ["dev", "block"]
    used: pl.DataFrame | None = None
    written: pl.DataFrame | None = None
    for part in ranges(requests, [*dict.fromkeys([*by, "op", REQUEST])], block_bytes):
        found = [bounds(part, by), bounds(_once(part.filter(pl.col("op") == "write")), ())]
        used = summed([found[0]] if used is None else [used, found[0]], group)
        written = summed([found[1]] if written is None else [written, found[1]], block_keys)
    assert used is not None and written is not None, "at least one part is expected"
    groups = runs(used, by)
    sizes = _classes(groups, runs(written, ())).with_columns(groups.select(by), n=groups["nr_blocks"])
    sums = sizes.group_by(by).agg(pl.exclude(by).sum()) if by else sizes.sum()
    long = sums.unpivot(CLASSES, index=[*by, "n"], variable_name="class", value_name="blocks")
    long = long.filter(pl.col("blocks") > 0).with_columns(
        n="blocks",
        bytes=pl.col("blocks") * block_bytes,
        bytes_ratio=pl.col("blocks") / pl.col("n"),
        coverage=pl.lit(known_touches(used, by), pl.Float64),
    )
    return with_inferred(columns_as_rows(long, [*by, "class"], {"bytes": "B", "bytes_ratio": "1"}), requests)


def _once(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges without blocks that an earlier piece of the same request covers.

    All pieces of a request in one block are one write of the block.
    """
    rows = rows.sort(REQUEST, "dev", "first_block")
    end = pl.col("first_block") + pl.col("nr_blocks")
    covered = end.cum_max().shift(1).over(REQUEST, "dev")
    first = pl.max_horizontal("first_block", covered)
    return rows.with_columns(first_block=first, nr_blocks=end - first).filter(pl.col("nr_blocks") > 0)


def _classes(used: pl.DataFrame, written: pl.DataFrame) -> pl.DataFrame:
    """Return the number of blocks of each class in each row of `used`, from the `runs` of written blocks."""
    found = np.zeros((3, used.height), np.int64)
    begins, ends = (used[name].to_numpy() for name in ("block", "nr_blocks"))
    ends = begins + ends
    for (dev,), runs_of_dev in written.group_by("dev"):
        rows = np.flatnonzero((used["dev"] == dev).to_numpy())
        for number, is_of_class in ((1, pl.col("uses") == 1), (2, pl.col("uses") > 1)):
            of_class = runs_of_dev.filter(is_of_class).sort("block")
            found[number, rows] = _before(ends[rows], of_class) - _before(begins[rows], of_class)
    found[0] = used["nr_blocks"].to_numpy() - found[1] - found[2]
    return pl.DataFrame(dict(zip(CLASSES, found, strict=True)))


def _before(blocks: npt.NDArray[np.int64], ordered: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the number of blocks of the ordered runs that lie before each of `blocks`."""
    # Insert an empty run before the first one.
    first, lengths = (np.append(0, ordered[name].to_numpy()) for name in ("block", "nr_blocks"))
    row = np.searchsorted(first[1:], blocks, "left")
    before: npt.NDArray[np.int64] = (np.cumsum(lengths) - lengths)[row] + np.minimum(blocks - first[row], lengths[row])
    return before


HOTNESS: Final = Measure(
    "share of accesses to the hottest blocks",
    ("io",),
    lambda t, by: hotness(t["io"], by=(*by, "op")),
    own=("op",),
    has_windows=False,
    natural=("top",),
)

BLOCK_USES: Final = Measure(
    "blocks only read, written once, rewritten",
    ("io",),
    lambda t, by: block_uses(t["io"], by=by),
    within=(),
    has_windows=False,
    applied=Applied.AFTER,
)
