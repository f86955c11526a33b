"""Writes made log-structured: a virtual controller between host and device (EasyCo's Flash SuperCharger).

Every write goes where the last one ended, in pages of 4 KiB, from segment to segment; a map tells where each page is.
Reads go through the map, so that a sequential read may become several. A page of which only a part is written is read
first. When a segment is full, the next free one is taken; when it is the last free one, the segment that has the fewest
pages in use is cleaned into it: they are read, and written again.

What the slides do not tell, and what is taken here: the map is in memory and costs no I/O; cleaning is greedy and waits
for nothing (it is done when it is needed, and the write that needs it waits); a flush stays a flush; discards forget
pages; before the trace, pages lie where the host says.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.measures.locality import order_ns
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.whatif.changed import Changed, Part, changed
from androstep_analysis.whatif.translation import OPS, SEGMENT_BYTES, Prepared, Use, one_device, prepared

KINDS: Final = ("host", "partial", "cleaning", "unmapped")
"""Why the layer reads or writes: for the host; because a page is written in part; to clean a segment; not at all,
because nothing was written there, or it was discarded."""


def log_structured(
    requests: Table,
    *,
    capacity_bytes: int | None = None,
    spare_ratio: float = 0.07,
    segment_bytes: int = SEGMENT_BYTES,
    in_use: Use = "all",
) -> Changed:
    """Table `requests`, of one device, as a controller passes them on that makes all writes linear.

    Parameters
    ----------
    requests : Table
        Table `requests`.
    capacity_bytes : int, optional
        The size that the layer shows to the host; by default up to the last sector of the trace.
    spare_ratio : float
        How much more of it the device has, two segments at least.
    segment_bytes : int
        Length of a segment, in whole pages of 4 KiB.
    in_use : {"all", "read"}
        What of the device holds data before the trace: all (the worst there is: cleaning begins when the spare segments
        are written), or only what the trace reads before it writes it.

    Returns
    -------
    Changed
        Requests carry the times of those that caused them and are not longer than 1 MiB. What is not a read, write,
        discard or flush stays as it is.

    Raises
    ------
    InputError
        For requests of several devices, or beyond the capacity or 8 TiB.
    ValueError
        For segments that are not of whole pages, or a negative spare ratio.

    Notes
    -----
    Pages are appended from segment to segment, and a map, which costs no I/O, tells where they are. When the last free
    segment is needed, the one with the fewest pages in use is cleaned into it. What the slides do not tell and is taken
    here stands at the head of ``whatif/log_structured.py``.

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
        *(Part("added", change, done.filter(pl.col("kind") == kind)) for kind, change in _TOLD.items()),
        Part(
            "unknown", "read and never written: the layer has nothing there", done.filter(pl.col("kind") == "unmapped")
        ),
    ]
    return changed(before, pl.concat([rest, after]), parts)


_TOLD: Final = {
    "host": "read or written where the layer says",
    "partial": "read to write a page in part",
    "cleaning": "read and written to clean segments",
}


def write_amplification(made: Changed) -> float | None:
    """Bytes that the layer of `log_structured` writes for each byte that the host writes.

    Parameters
    ----------
    made : Changed
        Of `log_structured`.

    Returns
    -------
    float or None
        None where the host writes nothing.

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
    """What the layer reads and writes for these rows of table `requests`, which have sectors, in their order.

    Columns row (Int64, of the request), kind (Enum, `KINDS`), op (Enum of `requests`), page (Int64, the first page as
    the host numbers them), sector (on the device; of what is unmapped the host's), nr_sectors (Int64).
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
    library = native_layer()
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
    """What the layer does as rows of table `requests`, with times and flags of the request that caused it."""
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
    """The native layer, before the first request."""
    library = native_layer()
    layer = library.layer_new(*device.layout)
    if not layer:
        raise MemoryError
    try:
        yield layer
    finally:
        library.layer_free(layer)


@functools.cache
def native_layer() -> ctypes.CDLL:
    """The functions of native/model/log_layer.c."""
    handle, array, size = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    return native.declared(
        ("layer_new", handle, (size, array, size, size, array)),
        ("layer_free", None, (handle,)),
        ("layer_count_groups", ctypes.c_bool, (handle, size, ctypes.c_uint8)),
        ("layer_run", ctypes.c_bool, (handle, size, array, array, array, array)),
        ("layer_copy_counts", None, (handle, size, array, array)),
        ("layer_count", size, (handle,)),
        ("layer_copy", None, (handle, array, array, array, array, array, array)),
    )
