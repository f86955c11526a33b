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
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.errors import InputError
from androstep_analysis.measures.locality import order_ns
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.units import SECTOR_BYTES, format_dev
from androstep_analysis.whatif.changed import Changed, Part, changed

PAGE_BYTES: Final = 4096
SEGMENT_BYTES: Final = 4 << 20

KINDS: Final = ("host", "partial", "cleaning", "unmapped")
"""Why the layer reads or writes: for the host; because a page is written in part; to clean a segment; not at all,
because nothing was written there, or it was discarded."""

OPS: Final = {"read": 0, "write": 1, "discard": 2, "secure_erase": 2}
_PAGE_SECTORS: Final = PAGE_BYTES // SECTOR_BYTES
_MOST_PAGES: Final = 1 << 31
_MOST_SECTORS: Final = 1 << 48

Use = Literal["all", "read"]


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


class Prepared(NamedTuple):
    """What the native layer takes: requests (uint8, int64, int64), uint8 for each page of the host, and two counts."""

    op: npt.NDArray[np.uint8]
    sector: npt.NDArray[np.int64]
    nr_sectors: npt.NDArray[np.int64]
    used: npt.NDArray[np.uint8]
    per_segment: int
    segments: int

    @property
    def requests(self) -> list[int]:
        """The addresses of the requests' arrays."""
        return [values.ctypes.data for values in self[:3]]


def prepared(
    requests: pl.DataFrame, *, capacity_bytes: int | None, spare_ratio: float, segment_bytes: int, in_use: Use
) -> Prepared:
    """The device and requests of the arguments of `log_structured`, which raises as this does."""
    placed = pl.col("sector").is_between(0, _MOST_SECTORS) & pl.col("nr_sectors").is_between(1, _MOST_SECTORS)
    for sector, length in requests.filter(~placed).select("sector", "nr_sectors").head(1).iter_rows():
        raise InputError(f"the trace has a request of {length:,} sectors at sector {sector:,}; no device has such")
    ends = (requests["sector"] + requests["nr_sectors"]).max()
    end = int(ends) if isinstance(ends, int) else 0
    pages = -(-end // _PAGE_SECTORS)
    if capacity_bytes is not None and capacity_bytes < pages * PAGE_BYTES:
        raise InputError(
            f"the trace goes up to byte {pages * PAGE_BYTES:,} of the device, beyond the capacity of"
            f" {capacity_bytes:,}; give a greater one, or none"
        )
    pages = pages if capacity_bytes is None else capacity_bytes // PAGE_BYTES
    per_segment = segment_bytes // PAGE_BYTES
    if per_segment < 1 or segment_bytes % PAGE_BYTES or spare_ratio < 0:
        raise ValueError("segments are of whole pages of 4 KiB, one or more, and the spare ratio is not negative")
    filled = -(-pages // per_segment)
    segments = filled + max(2, int(np.ceil(filled * spare_ratio)))
    if segments * per_segment >= _MOST_PAGES:
        raise InputError(f"the device has {pages * PAGE_BYTES:,} bytes; the layer maps less than 8 TiB")
    codes = requests["op"].cast(pl.String).replace_strict(OPS, return_dtype=pl.UInt8)
    op = np.ascontiguousarray(codes.to_numpy())
    sector = np.ascontiguousarray(requests["sector"].to_numpy(), np.int64)
    nr_sectors = np.ascontiguousarray(requests["nr_sectors"].to_numpy(), np.int64)
    used = np.ones(pages, np.uint8) if in_use == "all" else _read_first(op, sector, nr_sectors, pages)
    return Prepared(op, sector, nr_sectors, used, per_segment, segments)


def one_device(requests: pl.DataFrame) -> None:
    devices = requests["dev"].unique().sort().to_list()
    if len(devices) > 1:
        names = ", ".join(map(format_dev, devices))
        raise InputError(f"the trace has requests of several devices ({names}); choose one with --device")


def _read_first(
    op: npt.NDArray[np.uint8], sector: npt.NDArray[np.int64], nr_sectors: npt.NDArray[np.int64], pages: int
) -> npt.NDArray[np.uint8]:
    """Which pages are read, or written in part, before all of them is written or discarded."""
    seen = np.zeros(pages, np.uint8)
    arguments = (values.ctypes.data for values in (op, sector, nr_sectors, seen))
    native_layer().layer_first_use(len(op), *arguments)
    in_use: npt.NDArray[np.uint8] = (seen == 1).astype(np.uint8)
    return in_use


@contextlib.contextmanager
def layer_of(device: Prepared) -> Iterator[int]:
    """The native layer, before the first request."""
    library = native_layer()
    layer = library.layer_new(len(device.used), device.per_segment, device.segments, device.used.ctypes.data)
    if not layer:
        raise MemoryError
    try:
        yield layer
    finally:
        library.layer_free(layer)


def _run(device: Prepared, ops: pl.DataType) -> pl.DataFrame:
    library = native_layer()
    with layer_of(device) as layer:
        if not library.layer_run(layer, len(device.op), *device.requests):
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


@functools.cache
def native_layer() -> ctypes.CDLL:
    """The functions of native/model/log_layer.c."""
    handle, array, size = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    return native.declared(
        ("layer_new", handle, (size, size, size, array)),
        ("layer_first_use", None, (size, array, array, array, array)),
        ("layer_free", None, (handle,)),
        ("layer_run", ctypes.c_bool, (handle, size, array, array, array)),
        ("layer_count_groups", ctypes.c_bool, (handle, size, size, ctypes.c_uint8)),
        ("layer_run_groups", ctypes.c_bool, (handle, size, array, array, array, array)),
        ("layer_copy_counts", None, (handle, size, array, array)),
        ("layer_count", size, (handle,)),
        ("layer_copy", None, (handle, array, array, array, array, array, array)),
    )
