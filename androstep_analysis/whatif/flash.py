"""Simulation of a flash device: copies by garbage collection, and wear, by the process or app that caused them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.tables import Table, columns_as_rows, counted
from androstep_analysis.whatif import hybrid
from androstep_analysis.whatif.log_structured import layer_of
from androstep_analysis.whatif.translation import (
    OPS,
    PAGE_BYTES,
    SEGMENT_BYTES,
    SPARE_SEGMENTS,
    Prepared,
    Use,
    one_device,
    prepared,
)

Mapping = Literal["page", "hybrid"]
Policy = Literal["greedy", "cost_benefit"]

MAPPINGS: Final[tuple[Mapping, ...]] = ("page", "hybrid")

POLICIES: Final[tuple[Policy, ...]] = ("greedy", "cost_benefit")

_UNITS: Final = {
    "host_bytes": "B",
    "copied_bytes": "B",
    "copied_ratio": "1",
    "write_amplification": "1",
    "worn_blocks": "blocks",
}


@dataclass(frozen=True)
class Flash:
    """The result of `flash`.

    Attributes
    ----------
    costs : polars.DataFrame
        Tidy table of costs by `by`.
    erases : polars.DataFrame
        A row for each block: block, erases (Int64).
    merges : polars.DataFrame
        For hybrid mapping, a row for each kind: kind (switch, partial, full), merges (Int64). Otherwise empty.
    """

    costs: pl.DataFrame
    erases: pl.DataFrame
    merges: pl.DataFrame


def flash(
    io: Table,
    *,
    by: Sequence[str] = ("owner_package",),
    capacity_bytes: int | None = None,
    spare_ratio: float = 0.07,
    block_bytes: int = SEGMENT_BYTES,
    mapping: Mapping = "page",
    policy: Policy = "greedy",
    in_use: Use = "all",
) -> Flash:
    """Return the pages that a flash device programs for the writes of a recording, by the columns `by`.

    Parameters
    ----------
    io : Table
        Table `io`, of one device.
    by : sequence of str
        The columns to group by. A page belongs to its last writer.
    capacity_bytes : int, optional
        The visible size of the device; by default up to the last sector of the recording.
    spare_ratio : float
        The additional flash, relative to the visible size. It is at least two blocks, three with hybrid mapping.
    block_bytes : int
        The size of an erase block, in whole pages of 4 KiB.
    mapping : {"page", "hybrid"}
        Whether the device maps each page, or blocks as a whole and the pages of few log blocks (FAST).
    policy : {"greedy", "cost_benefit"}
        The block that a page-mapped device cleans: the one with the fewest pages in use, or with the greatest product
        of age and benefit divided by cost.
    in_use : {"all", "read"}
        The pages that hold data before the recording, as for `log_structured`.

    Returns
    -------
    Flash
        `costs` has dimensions `by` (null: unknown, or data from before the recording). Its metrics are host_bytes [B]
        (in whole pages), copied_bytes [B] (pages of the group that cleaning or merges copied), copied_ratio [1] (of all
        copied bytes), write_amplification [1] (pages programmed per page written) and worn_blocks [blocks] (programmed
        pages, in blocks). write_amplification is null if the group wrote nothing, or if its row includes data from
        before the recording. Without `by`, it is that of the device, with all copies. The sums over `by` are those of
        the device. `n` is the number of pages that the group wrote.

    Raises
    ------
    InputError
        If there are requests of several devices, or beyond the capacity or 8 TiB.
    ValueError
        If `block_bytes` is not a multiple of the page size, or `spare_ratio` is negative.

    Notes
    -----
    With page mapping, all writes and copies go to one open block. A block is cleaned when the last free block is
    needed. The rules of hybrid mapping are at the head of ``whatif/hybrid.py``. A partial write of a page programs the
    whole page. Discards invalidate pages. Memory use depends on the written pages, not on the size of the device.

    References
    ----------
    Kawaguchi, Nishioka, Motoda, A Flash-Memory Based File System, USENIX 1995 (cost-benefit); Desnoyers, Analytic
    Models of SSD Write Performance, ACM Transactions on Storage 10(2), 2014 (used in its tests). Lee et al., A Log
    Buffer-Based Flash Translation Layer Using Fully-Associative Sector Translation, ACM Transactions on Embedded
    Computing Systems 6(3), 2007 (hybrid mapping).

    Examples
    --------
    >>> made = whatif.flash(capture.io, by=["owner_comm"], block_bytes=1 << 20, in_use="read")
    >>> made.costs.filter(pl.col("metric") == "copied_ratio")["value"].sum()
    1.0
    """
    pieces = counted(io).filter(pl.col("op").is_in(list(OPS)), pl.col("sector").is_not_null(), pl.col("nr_sectors") > 0)
    columns = list(dict.fromkeys(["dev", "op", "sector", "nr_sectors", *by]))
    ordered = pieces.sort(order_ns(), "request_id", "piece", nulls_last=True).select(columns).collect()
    one_device(ordered)
    device = prepared(
        ordered,
        capacity_bytes=capacity_bytes,
        spare_ratio=spare_ratio,
        segment_bytes=block_bytes,
        in_use=in_use,
        least_spare=hybrid.SPARE_BLOCKS if mapping == "hybrid" else SPARE_SEGMENTS,
    )
    # Without grouping columns, all rows form one group.
    labels = ordered.with_columns(all=pl.lit(0)).select(*by, "all")
    groups = labels.unique(maintain_order=True).with_row_index("group")
    numbered = labels.join(groups, on=labels.columns, how="left", nulls_equal=True, maintain_order="left")
    of_row = np.ascontiguousarray(numbered["group"].to_numpy())
    if mapping == "hybrid":
        programs, erases, counts = hybrid.run(device, groups.height, of_row)
        merges = pl.DataFrame({"kind": hybrid.MERGES, "merges": counts})
    else:
        programs, erases = _page_mapped(device, groups.height, of_row, policy)
        merges = pl.DataFrame(schema={"kind": pl.String, "merges": pl.Int64})
    worn = pl.DataFrame({"block": np.arange(device.segments), "erases": erases})
    return Flash(_costs(groups, programs, by, block_bytes), worn, merges)


def _page_mapped(
    device: Prepared, groups: int, of_row: npt.NDArray[np.uint32], policy: Policy
) -> tuple[hybrid.Counts, hybrid.Counts]:
    """Return the same as `hybrid.run` for page mapping, without merges."""
    programs, erases = np.empty((groups + 1, 2), np.int64), np.empty(device.segments, np.int64)
    library = native.library()
    with layer_of(device) as layer:
        counting = library.layer_count_groups(layer, groups, POLICIES.index(policy))
        if not counting or not library.layer_run(layer, *device.requests, of_row.ctypes.data):
            raise MemoryError
        library.layer_copy_counts(layer, groups, programs.ctypes.data, erases.ctypes.data)
    return programs, erases


def _costs(groups: pl.DataFrame, programs: np.ndarray, by: Sequence[str], block_bytes: int) -> pl.DataFrame:
    """Return the rows of `Flash.costs`. The last row of `programs` is for data from before the recording."""
    counts = pl.DataFrame(programs, schema=["written", "copied"], orient="row")
    rows = pl.concat([pl.concat([groups, groups.clear(n=1)]), counts], how="horizontal")
    rows = rows.with_columns(before=pl.Series([0] * groups.height + [programs[-1, 1]]))
    written, copied = pl.col("written"), pl.col("copied")
    summed = pl.col("written", "copied", "before").sum()
    sums = rows.group_by(by, maintain_order=True).agg(summed) if by else rows.select(summed)
    is_theirs = pl.col("before") == 0 if by else True
    whole = sums.with_columns(
        n=written,
        coverage=pl.lit(None, pl.Float64),
        host_bytes=written * PAGE_BYTES,
        copied_bytes=copied * PAGE_BYTES,
        copied_ratio=pl.when(copied.sum() > 0).then(copied / copied.sum()),
        write_amplification=pl.when((written > 0) & is_theirs).then((written + copied) / written),
        worn_blocks=(written + copied) * PAGE_BYTES / block_bytes,
    )
    return columns_as_rows(whole.filter((written > 0) | (copied > 0)), list(by), _UNITS)
