"""Log-structured writes: a virtual controller between host and device (EasyCo's Flash SuperCharger).

Every write is appended at the end of the previous one, in pages of 4 KiB, from segment to segment. A map has the
location of each page. Reads go through the map, so a sequential read may become several. A page that is written only in
part is read first. When a segment is full, the next free one is used. When the last free one is needed, the segment
with the fewest pages in use is cleaned into it: its pages are read, and written again.

The slides leave some points open. These are assumptions of this model:

- The map is in memory and costs no I/O.
- Cleaning is greedy and is not done in advance: the write that needs it waits.
- A flush stays a flush.
- Discards invalidate pages.
- Before the trace, pages are at the host's addresses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.whatif.changed import Changed, Part, changed
from androstep_analysis.whatif.translation import OPS, SEGMENT_BYTES, Prepared, Use, one_device, prepared

KINDS: Final = ("host", "partial", "cleaning", "unmapped")
"""Reasons for an access of the layer: the host, a partial write of a page, cleaning of a segment, or none, because the
page was never written or was discarded."""


def log_structured(
    requests: Table,
    *,
    capacity_bytes: int | None = None,
    spare_ratio: float = 0.07,
    segment_bytes: int = SEGMENT_BYTES,
    in_use: Use = "all",
) -> Changed:
    """Return table `requests`, of one device, as issued by a controller that makes all writes sequential.

    Parameters
    ----------
    requests : Table
        Table `requests`.
    capacity_bytes : int, optional
        The size that is visible to the host; by default up to the last sector of the trace.
    spare_ratio : float
        The additional space of the device, relative to the visible size; at least two segments.
    segment_bytes : int
        Length of a segment, in whole pages of 4 KiB.
    in_use : {"all", "read"}
        The pages that hold data before the trace: all (the worst case: cleaning begins when the spare segments are
        written), or only those that the trace reads before it writes them.

    Returns
    -------
    Changed
        The change. Requests have the times of those that caused them and are not longer than 1 MiB. Operations other
        than read, write, discard and flush are unchanged.

    Raises
    ------
    InputError
        If there are requests of several devices, or beyond the capacity or 8 TiB.
    ValueError
        If `segment_bytes` is not a multiple of the page size, or `spare_ratio` is negative.

    Notes
    -----
    Pages are appended from segment to segment. A map, which costs no I/O, has their locations. When the last free
    segment is needed, the one with the fewest pages in use is cleaned into it. The head of ``whatif/log_structured.py``
    lists the assumptions where the slides are silent.

    References
    ----------
    Dumitru, Optimizing Storage Performance on Android, EasyCo, slides, 2012, slides 11 to 13 (Flash SuperCharger).

    Examples
    --------
    >>> made = whatif.log_structured(capture.requests, segment_bytes=1 << 20, in_use="read")
    >>> made.account.filter(effect="added", op="write").select("change", "count").rows()
    [('read and written to clean segments', 22), ('read or written where the layer says', 2357)]
    """
    before = lazy(requests, ("requests",)).collect()
    moved = before.filter(pl.col("op").is_in(list(OPS)), pl.col("sector").is_not_null(), pl.col("nr_sectors") > 0)
    moved = moved.sort(order_ns(), "request_id", nulls_last=True)
    rest = before.join(moved.select("request_id"), on="request_id", how="anti")
    one_device(before)
    done = accesses(
        moved,
        capacity_bytes=capacity_bytes,
        spare_ratio=spare_ratio,
        segment_bytes=segment_bytes,
        in_use=in_use,
    )
    after = _as_requests(moved, done.filter(pl.col("kind") != "unmapped"))
    discards = moved.filter(pl.col("op").is_in(["discard", "secure_erase"]))
    data = pl.col("op").is_in(["read", "write"])
    parts = [
        Part("removed", "read or written where the host says", moved.filter(data)),
        Part("removed", "discarded: the layer forgets the pages", discards),
        *(Part("added", change, done.filter(pl.col("kind") == kind)) for kind, change in _CHANGES.items()),
        Part(
            "unknown", "read and never written: the layer has nothing there", done.filter(pl.col("kind") == "unmapped")
        ),
    ]
    return changed(before, pl.concat([rest, after]), parts)


_CHANGES: Final = {
    "host": "read or written where the layer says",
    "partial": "read to write a page in part",
    "cleaning": "read and written to clean segments",
}


def write_amplification(made: Changed) -> float | None:
    """Return the bytes that the layer of `log_structured` writes for each byte that the host writes.

    Parameters
    ----------
    made : Changed
        The result of `log_structured`.

    Returns
    -------
    float or None
        The ratio; None if the host writes nothing.

    Examples
    --------
    >>> made = whatif.log_structured(capture.requests, segment_bytes=1 << 20, in_use="read")
    >>> round(whatif.write_amplification(made), 3)
    1.122
    """
    written = made.account.filter(pl.col("op") == "write")
    host = int(written.filter(pl.col("effect") == "removed")["bytes"].sum())
    layer = int(written.filter(pl.col("effect") == "added")["bytes"].sum())
    return layer / host if host else None


def accesses(
    requests: pl.DataFrame,
    *,
    capacity_bytes: int | None = None,
    spare_ratio: float = 0.07,
    segment_bytes: int = SEGMENT_BYTES,
    in_use: Use = "all",
) -> pl.DataFrame:
    """Return the accesses of the layer for these rows of table `requests`, which have sectors, in their order.

    Columns are row (Int64, of the request), kind (Enum, `KINDS`), op (Enum of `requests`), page (Int64, the first page
    in the host's numbering), sector (on the device; for unmapped accesses the host's) and nr_sectors (Int64).
    """
    device = prepared(
        requests,
        capacity_bytes=capacity_bytes,
        spare_ratio=spare_ratio,
        segment_bytes=segment_bytes,
        in_use=in_use,
    )
    return _run(device, requests.schema["op"])


def _run(device: Prepared, ops: pl.DataType) -> pl.DataFrame:
    library = native.library()
    with layer_of(device) as layer:
        if not library.layer_run(layer, *device.requests, None):
            raise MemoryError
        rows = int(library.layer_count(layer))
        numbers = {name: np.empty(rows, np.int64) for name in ("row", "page", "sector", "nr_sectors")}
        codes = {name: np.empty(rows, np.uint8) for name in ("kind", "op")}
        outputs = [*(values.ctypes.data for values in numbers.values()), *(code.ctypes.data for code in codes.values())]
        library.layer_copy(layer, *outputs)
    words = {"kind": KINDS, "op": ("read", "write")}
    enums: dict[str, pl.DataType] = {"kind": pl.Enum(KINDS), "op": ops}
    return (
        pl.DataFrame(numbers)
        .with_columns(
            pl.Series(name, values).replace_strict(range(len(words[name])), words[name], return_dtype=enums[name])
            for name, values in codes.items()
        )
        .select("row", "kind", "op", "page", "sector", "nr_sectors")
    )


def _as_requests(requests: pl.DataFrame, done: pl.DataFrame) -> pl.DataFrame:
    """Return accesses of the layer as rows of table `requests`, with times and flags of their request."""
    like = requests.drop("op", "sector", "nr_sectors").with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    number = pl.int_range(pl.len()).over("row")
    ends = done.with_columns(is_first=number == 0, is_last=number == pl.len().over("row") - 1)
    rows = ends.join(like, on="row", how="left", maintain_order="left")
    return rows.with_columns(
        preflush=pl.col("preflush") & pl.col("is_first"),
        fua=pl.col("fua") & pl.col("is_last"),
        part_sector=pl.lit(None, pl.Int64),
        rwbs=pl.when(pl.col("kind") == "host").then("rwbs"),
    ).select(requests.columns)


@contextlib.contextmanager
def layer_of(device: Prepared) -> Iterator[int]:
    """Yield the native layer in its initial state."""
    library = native.library()
    layer = library.layer_new(*device.layout)
    if not layer:
        raise MemoryError
    try:
        yield layer
    finally:
        library.layer_free(layer)
