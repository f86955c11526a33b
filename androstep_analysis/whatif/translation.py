"""Input of the simulated translation layers: requests, and the pages of a device that must be distinguished."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.units import SECTOR_BYTES, format_dev

PAGE_BYTES: Final = 4096
SEGMENT_BYTES: Final = 4 << 20
SPARE_SEGMENTS: Final = 2
"""The least number of spare segments: one to write to, and one to clean into."""

OPS: Final = {"read": 0, "write": 1, "discard": 2, "secure_erase": 2}
_PAGE_SECTORS: Final = PAGE_BYTES // SECTOR_BYTES
_MOST_PAGES: Final = 1 << 31
_MOST_SECTORS: Final = 1 << 48

Use = Literal["all", "read"]


class Prepared(NamedTuple):
    """Input of the native layers.

    - The requests (uint8, int64, int64).
    - The first page of each run of pages that are always used together, and the number of pages (uint32).
    - The first use of each run (uint8, 1: it holds data; None: all runs hold data).
    - The numbers of pages in a segment and of segments.
    """

    op: npt.NDArray[np.uint8]
    sector: npt.NDArray[np.int64]
    nr_sectors: npt.NDArray[np.int64]
    first_pages: npt.NDArray[np.uint32]
    uses: npt.NDArray[np.uint8] | None
    per_segment: int
    segments: int

    @property
    def requests(self) -> list[int]:
        """The number of requests, and the addresses of their arrays."""
        return [len(self.op), *(values.ctypes.data for values in self[:3])]

    @property
    def runs(self) -> list[int]:
        """The number of runs, the address of their first pages, and the number of pages in a segment."""
        return [len(self.first_pages) - 1, self.first_pages.ctypes.data, self.per_segment]

    @property
    def layout(self) -> list[int | None]:
        """The runs, the number of segments, and the address of the uses."""
        return [*self.runs, self.segments, None if self.uses is None else self.uses.ctypes.data]


def prepared(
    requests: pl.DataFrame,
    *,
    capacity_bytes: int | None,
    spare_ratio: float,
    segment_bytes: int,
    in_use: Use,
    least_spare: int = SPARE_SEGMENTS,
) -> Prepared:
    """Return device and requests for the parameters of `log_structured`. Raises the same exceptions."""
    placed = pl.col("sector").is_between(0, _MOST_SECTORS) & pl.col("nr_sectors").is_between(1, _MOST_SECTORS)
    for sector, length in requests.filter(~placed).select("sector", "nr_sectors").head(1).iter_rows():
        raise InputError(f"the trace has a request of {length:,} sectors at sector {sector:,}, which is impossible")
    ends = (requests["sector"] + requests["nr_sectors"]).max()
    end = int(ends) if isinstance(ends, int) else 0
    pages = -(-end // _PAGE_SECTORS)
    if capacity_bytes is not None and capacity_bytes < pages * PAGE_BYTES:
        raise InputError(
            f"the trace goes up to byte {pages * PAGE_BYTES:,} of the device, beyond the capacity of"
            f" {capacity_bytes:,}; give a larger capacity, or none"
        )
    pages = pages if capacity_bytes is None else capacity_bytes // PAGE_BYTES
    per_segment = segment_bytes // PAGE_BYTES
    if per_segment < 1 or segment_bytes % PAGE_BYTES or spare_ratio < 0:
        raise ValueError("segments must be one or more whole pages of 4 KiB, and the spare ratio must not be negative")
    filled = -(-pages // per_segment)
    segments = filled + max(least_spare, int(np.ceil(filled * spare_ratio)))
    if segments * per_segment >= _MOST_PAGES:
        raise InputError(f"the device has {pages * PAGE_BYTES:,} bytes; the layer maps less than 8 TiB")
    codes = requests["op"].cast(pl.String).replace_strict(OPS, return_dtype=pl.UInt8)
    op = np.ascontiguousarray(codes.to_numpy())
    sector = np.ascontiguousarray(requests["sector"].to_numpy(), np.int64)
    nr_sectors = np.ascontiguousarray(requests["nr_sectors"].to_numpy(), np.int64)
    whole = Prepared(op, sector, nr_sectors, np.empty(0, np.uint32), None, per_segment, segments)
    device = _with_runs(whole, pages)
    return device if in_use == "all" else device._replace(uses=_first_use(device))


def one_device(requests: pl.DataFrame) -> None:
    """Raise `InputError` if there are requests of several devices."""
    devices = requests["dev"].unique().sort().to_list()
    if len(devices) > 1:
        names = ", ".join(map(format_dev, devices))
        raise InputError(f"the trace has requests of several devices ({names}); choose one with --device")


def _with_runs(device: Prepared, pages: int) -> Prepared:
    """Return the device with its `first_pages`.

    A written page is a run of its own. Other runs extend to the next page at which a request begins or ends.
    """
    marks = np.zeros(pages // 64 + 1, np.uint64)
    count = _native().runs_mark(*device.requests, pages, device.per_segment, marks.ctypes.data)
    first_pages = np.empty(count, np.uint32)
    _native().runs_list(marks.ctypes.data, pages, first_pages.ctypes.data)
    return device._replace(first_pages=first_pages)


def _first_use(device: Prepared) -> npt.NDArray[np.uint8]:
    """Return 1 for runs that are read, or written in part, before all of them is written or discarded; else 0 or 2."""
    uses = np.zeros(len(device.first_pages), np.uint8)
    if not _native().runs_first_use(*device.runs, *device.requests, uses.ctypes.data):
        raise MemoryError
    return uses


_native = native.library
