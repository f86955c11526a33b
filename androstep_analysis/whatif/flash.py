"""What a flash device would do for the writes of a recording: copies to clean blocks, and wear, by who caused them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.measures.locality import order_ns
from androstep_analysis.measures.tables import Table, columns_as_rows, counted
from androstep_analysis.whatif import hybrid
from androstep_analysis.whatif.log_structured import layer_of, native_layer
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
    """What `flash` gives.

    Attributes
    ----------
    costs : polars.DataFrame
        Tidy, by who caused it.
    erases : polars.DataFrame
        A row for each block: block, erases (Int64).
    merges : polars.DataFrame
        Of hybrid mapping, a row for each kind: kind (switch, partial, full), merges (Int64). Else without rows.
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
    """What a flash device programs for the writes of a recording, and for whom.

    Parameters
    ----------
    io : Table
        Table `io`, of one device.
    by : sequence of str
        The columns to tell apart. A page is of whom wrote it last.
    capacity_bytes : int, optional
        The size that the device shows; by default up to the last sector of the recording.
    spare_ratio : float
        How much more flash it has: two blocks at least, three with hybrid mapping.
    block_bytes : int
        What is erased at once, in whole pages of 4 KiB.
    mapping : {"page", "hybrid"}
        Whether the device maps each page, or blocks as a whole and the pages of few log blocks (FAST).
    policy : {"greedy", "cost_benefit"}
        Which block a page-mapped device cleans: that with the fewest pages in use, or that where its age times what is
        won by what it costs is greatest.
    in_use : {"all", "read"}
        What holds data before the recording, as of `log_structured`.

    Returns
    -------
    Flash
        `costs` has dimensions `by` (null: nobody knows who, or what was there before the recording) and metrics
        host_bytes [B] (in whole pages), copied_bytes [B] (pages of theirs that cleaning or merges moved), copied_ratio
        [1] (of all that was copied), write_amplification [1] (of their pages: programmed over written; null where they
        wrote none, or with them stand copies of what was there before the recording; without `by` it is that of the
        device, with all copies) and worn_blocks [blocks] (what they programmed, in blocks). The sums over `by` are
        those of the device. `n` is how many pages they wrote.

    Raises
    ------
    InputError
        For requests of several devices, or beyond the capacity or 8 TiB.
    ValueError
        For blocks that are not of whole pages, or a negative spare ratio.

    Notes
    -----
    With page mapping all writes, copies too, go to one open block; cleaning is done when the last free block is needed.
    The rules of hybrid mapping stand at the head of ``whatif/hybrid.py``. A page that is written in part is programmed
    as a whole. Discards forget pages. Memory follows the pages that are written, not the size of the device.

    References
    ----------
    Kawaguchi, Nishioka, Motoda, A Flash-Memory Based File System, USENIX 1995 (cost-benefit); Desnoyers, Analytic
    Models of SSD Write Performance, ACM Transactions on Storage 10(2), 2014, by which it is tested. Lee et al., A Log
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
    # Without anything to tell apart all are of one group.
    told = ordered.with_columns(all=pl.lit(0)).select(*by, "all")
    groups = told.unique(maintain_order=True).with_row_index("group")
    numbered = told.join(groups, on=told.columns, how="left", nulls_equal=True, maintain_order="left")
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
    """As `hybrid.run`, without merges."""
    programs, erases = np.empty((groups + 1, 2), np.int64), np.empty(device.segments, np.int64)
    library = native_layer()
    with layer_of(device) as layer:
        counting = library.layer_count_groups(layer, groups, POLICIES.index(policy))
        if not counting or not library.layer_run(layer, *device.requests, of_row.ctypes.data):
            raise MemoryError
        library.layer_copy_counts(layer, groups, programs.ctypes.data, erases.ctypes.data)
    return programs, erases


def _costs(groups: pl.DataFrame, programs: np.ndarray, by: Sequence[str], block_bytes: int) -> pl.DataFrame:
    """The rows of `Flash.costs`; the last row of `programs` is of what was there before."""
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
