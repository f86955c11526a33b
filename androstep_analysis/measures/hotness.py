"""Hot and cold: what share of the blocks or files takes what share of the accesses, and which are written again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import polars as pl

from androstep_analysis.measures.blocks import BLOCK_BYTES, KNOWN, of_groups, touches
from androstep_analysis.measures.parts import REQUEST, summed
from androstep_analysis.measures.tables import Table, columns_as_rows

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
    """What share of the accesses goes to the blocks, or files, that are accessed most.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for files and for groups that only pieces know: request_id, dev, sector, nr_sectors,
        op, queue_ns, issue_ns, complete_ns.
    shares : sequence of float
        Shares of the blocks, from 0 to 1: the hottest ones, as many as make up the share, rounded up.
    by : sequence of str
        The columns to group by. Hot are those that the group accesses most.
    of : {"blocks", "files"}
        What is hot. Files are told by column path; accesses to blocks of no known path are in no group.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and top (Float64: share of the blocks or files). Metrics access_ratio [1], the share of the
        accesses to blocks, and size [blocks or files], how many these are; `n` is the number of accesses of the group.

    Raises
    ------
    InputError
        For a size of a block that is no multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, hotness.

    Examples
    --------
    >>> table = measures.hotness(capture.requests, by=[])
    >>> table.filter(metric="access_ratio")["value"].is_sorted()
    True
    """
    objects = ["dev", "block"] if of == "blocks" else ["path"]
    columns = [*by] if of == "blocks" else [*dict.fromkeys([*by, "path"])]
    keys = [*dict.fromkeys([*by, KNOWN, *objects])]
    parts = (part.group_by(keys).agg(n=pl.len().cast(pl.Int64)) for part in touches(requests, columns, block_bytes))
    sums = summed(parts, keys)
    # What is known and what is inferred of one object are accesses to the same.
    of_one = [*dict.fromkeys([*by, *objects])]
    is_first = pl.struct(of_one).is_first_distinct()
    sums = sums.with_columns(uses=pl.when(is_first).then(pl.col("n").sum().over(of_one)))
    if of == "files":
        sums = sums.with_columns(uses=pl.when(pl.col("path").is_not_null()).then("uses"))
    uses = pl.col("uses").drop_nulls()
    tables = [
        of_groups(
            sums,
            by,
            n=uses.sum(),
            size=(uses.len() * share).ceil().cast(pl.Int64),
            access_ratio=uses.sort(descending=True).head((uses.len() * share).ceil().cast(pl.Int64)).sum() / uses.sum(),
        ).with_columns(top=pl.lit(share, pl.Float64))
        for share in shares
    ]
    units = {"access_ratio": "1", "size": of}
    return columns_as_rows(pl.concat(tables).filter(pl.col("n") > 0), [*by, "top"], units)


def block_uses(requests: Table, *, by: Sequence[str] = (), block_bytes: int = BLOCK_BYTES) -> pl.DataFrame:
    """How many of the blocks are only read, written once, or written again.

    Parameters
    ----------
    requests : Table
        As for `hotness`.
    by : sequence of str
        The columns to group by. The class of a block is that in the whole capture; it counts in each group that
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
        For a size of a block that is no multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, block_uses.

    Examples
    --------
    >>> measures.block_uses(capture.requests)["class"].unique().sort().to_list()
    ['read_only', 'rewritten', 'write_once']
    """
    block, written = ["dev", "block"], pl.col(REQUEST).filter(pl.col("op") == "write")
    keys = [*dict.fromkeys([*by, KNOWN, *block])]

    def counted(part: pl.DataFrame) -> pl.DataFrame:
        # All that a request has is in one part: its pieces in one block are one write.
        writes = part.group_by(block).agg(writes=written.n_unique().cast(pl.Int64))
        uses = part.group_by(keys).agg(n=pl.len().cast(pl.Int64))
        # A block's writes are added up once, beside the uses of one group.
        first = uses.select(pl.struct(block).is_first_distinct()).to_series()
        joined = uses.join(writes, on=block, maintain_order="left")
        return joined.with_columns(writes=pl.when(first).then("writes").otherwise(0))

    columns = [*dict.fromkeys([*by, "op", REQUEST])]
    sums = summed((counted(part) for part in touches(requests, columns, block_bytes)), keys)
    writes = pl.col("writes").sum().over(block)
    number = pl.when(writes > 1).then(2).otherwise(writes)
    kind = number.replace_strict(list(range(3)), list(CLASSES), return_dtype=pl.String)
    sums = sums.with_columns(kind.alias("class"))
    groups = of_groups(sums, [*by, "class"], n=pl.struct(block).n_unique().cast(pl.Int64))
    if not by:
        groups = groups.with_columns(coverage=pl.lit(None, pl.Float64))
    whole = pl.col("n").sum().over(by) if by else pl.col("n").sum()
    groups = groups.with_columns(bytes=pl.col("n") * block_bytes, bytes_ratio=pl.col("n") / whole)
    return columns_as_rows(groups, [*by, "class"], {"bytes": "B", "bytes_ratio": "1"})
