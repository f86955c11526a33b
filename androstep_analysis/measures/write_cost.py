"""Bytes on the device for the bytes that processes write, and their outcome (definitions.toml, write_cost)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.losses import Losses
from androstep_analysis.measures import write_outcomes
from androstep_analysis.measures.measure import of_costs
from androstep_analysis.measures.tables import Table, is_known, is_named, ordered
from androstep_analysis.measures.write_causes import FILE, OWNER
from androstep_analysis.measures.write_shares import WriteData, shares, write_data

WRITTEN: Final = ("data", "rewritten", "directory", "journal", "node", "metadata", "unknown")
"""Parts of the bytes of write requests."""
PARTS: Final = (*WRITTEN, "discard", *(outcome for outcome in write_outcomes.OUTCOMES if outcome != "unknown"))

BY: Final = ("dev", *OWNER, *FILE)
"""The columns that costs can be grouped by."""


def write_cost(
    tables: Mapping[str, Table],
    *,
    by: Sequence[str] = (),
    page_bytes: int | None = None,
    recorded: Collection[str] | None = None,
    lost: Losses | None = None,
) -> pl.DataFrame:
    """Return the bytes written to the device by process and file, and the outcome of the bytes written to files.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `requests`, `io`, `fs_events`, `files` and `tasks` of one capture (`Capture.tables`). Without the last
        three, only the attribution in `io` is used.
    by : sequence of str
        The columns to group by: any of dev, owner_pid, owner_comm, owner_package, ino, path, file_type, package.
    page_bytes : int, optional
        Size of the kernel's pages (``capture.facts["page_bytes"]``); by default the size that follows from the events.
    recorded : collection of str, optional
        Names of the events that were recorded, including those that never occurred (``capture.manifest.events``); by
        default those in the table.
    lost : Losses, optional
        The losses of the recording; by default none.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and part (Enum). Metric cost [B] is the bytes of requests by type: data, rewritten (data at the
        same offset of a file again), directory, journal, node, metadata, unknown, and discard. Without discard, they
        add up to the bytes of all write requests. Bytes without a known process or file are in rows with a null. Metric
        written [B] is the bytes written to files, if such events were recorded, by outcome: out, overwritten, dropped,
        kept, unknown. Metric cost_per_byte [1] is the cost of each part for a byte written, if both are known. `n` is
        the number of requests, for `written` that of writes. `coverage` is the share of the metric's bytes for which
        part and `by` are known. `inferred` is the share of a row's bytes for which `by` is only inferred, null if a
        dimension is unknown.

    Raises
    ------
    ValueError
        If costs cannot be grouped by a column in `by`.

    References
    ----------
    ``schemas/definitions.toml``, write_cost.

    Examples
    --------
    >>> table = measures.write_cost(capture.tables)
    >>> written = table.filter(pl.col("part") != "discard", metric="cost")["value"].sum()
    >>> written == measures.volume(capture.io, by=()).filter(metric="bytes", op="write")["value"].item()
    True
    """
    if strange := [name for name in by if name not in BY]:
        raise ValueError(f"{', '.join(strange)}: costs can be grouped by {', '.join(BY)}")
    known = write_data(tables, page_bytes, lost, recorded)
    groups = [*by, "part"]
    cut = shares(known, [name for name in by if name != "dev"])
    cost = _summed((_in_groups(part, groups, pl.col("request_id").n_unique()) for part in cut), groups, "cost")
    written = _summed([_in_groups(_writes(known, by), groups, pl.col("writes").sum())], groups, "written")
    whole = written.group_by(by).agg(whole=pl.col("value").sum()) if by else written.select(whole=pl.sum("value"))
    both = cost.join(whole, on=by, nulls_equal=True) if by else cost.join(whole, how="cross")
    ratio = both.filter(pl.col("whole") > 0).with_columns(
        metric=pl.lit("cost_per_byte"), value=pl.col("value") / pl.col("whole"), unit=pl.lit("1")
    )
    return ordered(pl.concat([cost, written, ratio.select(cost.columns)]), groups)


def _writes(known: WriteData, by: Sequence[str]) -> pl.DataFrame:
    """Return the bytes and writes of each writer of a file by outcome (`part`), and those of direct writes.

    Columns are `BY`, part, bytes, writes, and inferred: whether `by` is only inferred.
    """
    disks = known.pieces.select("part_dev", disk="dev").unique("part_dev")
    buffered = known.causes.writers.join(disks, left_on="dev", right_on="part_dev", how="left").with_columns(
        dev=pl.coalesce("disk", "dev")
    )
    rows = buffered.unpivot(
        write_outcomes.OUTCOMES, index=[*BY, "writes"], variable_name="part", value_name="bytes"
    )  # fmt: skip
    has_writers = pl.col("part_dev").is_in(known.causes.writers["dev"].implode())
    direct = known.pieces.filter(has_writers, part="data", owner_via="submitter")
    is_inferred = is_named(by) & ~is_known(by, direct.columns)
    direct = direct.with_columns(part=pl.lit("out"), writes=pl.lit(1, pl.Int64), inferred=is_inferred)
    rows = rows.with_columns(inferred=pl.lit(False))
    return pl.concat([rows, direct.select(rows.columns)]).filter(pl.col("bytes") > 0)


def _in_groups(rows: pl.DataFrame, groups: Sequence[str], number: pl.Expr) -> pl.DataFrame:
    """Return bytes, inferred bytes and n of the rows by `groups`."""
    size = pl.col("bytes")
    return rows.group_by(groups).agg(size.sum(), inferred=size.filter("inferred").sum(), n=number.cast(pl.Int64))


def _summed(parts: Iterable[pl.DataFrame], groups: Sequence[str], metric: str) -> pl.DataFrame:
    """Return metric `metric` from the parts of `_in_groups`. `groups` are the dimensions, with part as the last."""
    rows = pl.concat(parts).group_by(groups).agg(pl.col("bytes", "inferred", "n").sum())
    *by, _ = groups
    is_known = pl.all_horizontal(pl.col("part") != "unknown", *(pl.col(name).is_not_null() for name in by))
    known, whole = rows.select(pl.col("bytes").filter(is_known).sum(), whole=pl.sum("bytes")).row(0)
    return (
        rows.select(
            *groups,
            "n",
            metric=pl.lit(metric),
            value=pl.col("bytes").cast(pl.Float64),
            unit=pl.lit("B"),
            coverage=pl.lit(known / whole if whole else None, pl.Float64),
            inferred=pl.when(is_named(by)).then(pl.col("inferred") / pl.col("bytes")),
        )
        .with_columns(pl.col("part").cast(pl.Enum(PARTS)))
        .select("metric", *groups, "value", "unit", "n", "coverage", "inferred")
    )


WRITE_COST: Final = of_costs("bytes on the device for the bytes that processes write", ("io",), write_cost, takes=BY)
