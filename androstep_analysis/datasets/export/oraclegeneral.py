"""Export to oracleGeneral, a binary trace of cache simulators (libCacheSim: traceReader/customizedReader/oracle).

`ingest.block.oraclegeneral` reads it and describes its records.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import measures, native
from androstep_analysis.capture import Capture
from androstep_analysis.common import units
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.files import limit_of
from androstep_analysis.datasets.export.batches import batches
from androstep_analysis.ingest.block.oraclegeneral import RECORD_BYTES

BLOCK_BITS = 40
"""An object id has the block's number in these bits, and the number of its device or file above them."""

MAX_SPACES = 1 << (64 - BLOCK_BITS)

MOST_GIB = 4
"""The default limit of the file's size: a request of a few bytes in a trace may state terabytes of blocks."""

MOST = "ANDROSTEP_MAX_EXPORT_GIB"
"""The environment variable that raises this limit."""

USES = 1 << 20
"""Number of uses written at once."""


def write(
    capture: Capture,
    file: BinaryIO,
    *,
    block_bytes: int = 4096,
    objects: Literal["blocks", "files"] = "blocks",
    op: Literal["read", "write"] | None = None,
) -> None:
    """Write the uses of blocks of `block_bytes` by reads and writes (or only those of `op`), in order of issue.

    An object is a block of a device, or with ``objects="files"`` a block of a file wherever it is stored; blocks
    without known file remain blocks of their device. A partial use counts as a use. A record is completed at the next
    use of its block, so `file` must be readable, writable and seekable. Memory grows with the number of different
    blocks (32 bytes each at most). Raises `InputError` for a file of more than `MOST_GIB`.
    """
    pieces = _pieces(capture, objects, op, block_bytes)
    first_ns, uses = pieces.select(pl.col("time_ns").min(), pl.col("blocks").sum()).collect().row(0)
    if not uses:
        return
    if uses * RECORD_BYTES > limit_of(MOST, MOST_GIB) << 30:
        raise InputError(
            f"{uses:,} accesses to blocks need {uses * RECORD_BYTES:,} B and more memory than that; give a larger"
            f" block_bytes (--block-size), or set {MOST} to a larger number"
        )
    if not file.seekable():
        raise InputError("oracleGeneral cannot be written to standard output; give a file with -o")
    try:
        file.truncate(uses * RECORD_BYTES)
        if hasattr(os, "posix_fallocate"):  # without this, a full disk would kill the process with SIGBUS
            os.posix_fallocate(file.fileno(), 0, uses * RECORD_BYTES)
    except OSError as error:
        raise InputError(
            f"{uses:,} accesses to blocks need {uses * RECORD_BYTES:,} B ({error.strerror}); give a larger block_bytes"
        ) from None
    with mmap.mmap(file.fileno(), uses * RECORD_BYTES) as records:
        start = np.frombuffer(records, np.uint8)
        try:
            reuse = _Reuse()
            for times, blocks in _uses(pieces, first_ns):
                reuse.add(start, times, blocks, block_bytes)
                if hasattr(mmap, "MADV_DONTNEED"):  # keeps the pages in the page cache only
                    records.madvise(mmap.MADV_DONTNEED)
        finally:
            del start


class _Reuse:
    """The last use of every object (native/export/oracle.c)."""

    def __init__(self) -> None:
        library = native.library()
        self._handle = native.owned(self, library.reuse_free, library.reuse_new())

    def add(
        self,
        records: npt.NDArray[np.uint8],
        times: npt.NDArray[np.uint32],
        blocks: npt.NDArray[np.uint64],
        block_bytes: int,
    ) -> None:
        added = native.library().reuse_add(
            self._handle, records.ctypes.data, len(times), times.ctypes.data, blocks.ctypes.data, block_bytes
        )
        if added != len(times):
            raise MemoryError


def _pieces(capture: Capture, objects: str, op: str | None, block_bytes: int) -> pl.LazyFrame:
    """Return columns space (number of the device or file), block (first), blocks (count), time_ns of each piece."""
    is_used = pl.col("op").cast(pl.String).is_in([op] if op else ["read", "write"])
    placed = measures.counted(capture.io).filter(is_used & pl.col("sector").is_not_null() & (pl.col("bytes") > 0))
    is_file = pl.lit(objects == "files") & pl.col("ino").is_not_null() & pl.col("file_offset_bytes").is_not_null()
    placed = placed.select(
        "dev",
        ino=pl.when(is_file).then("ino"),
        incarnation=pl.when(is_file).then("incarnation"),
        path=pl.when(is_file).then("path"),
        start=pl.when(is_file).then("file_offset_bytes").otherwise(pl.col("sector") * units.SECTOR_BYTES),
        bytes="bytes",
        time_ns=measures.order_ns(),
    )
    keys = ["dev", "ino", "incarnation", "path"]
    spaces = placed.select(keys).unique().sort(keys).collect()
    if spaces.height > MAX_SPACES:
        raise InputError(f"{capture.title}: {spaces.height} files, but the limit is {MAX_SPACES}")
    numbered = placed.join(
        spaces.with_row_index("space").lazy(), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    first = pl.col("start") // block_bytes
    last = (pl.col("start") + pl.col("bytes") - 1) // block_bytes
    return numbered.select("space", "time_ns", block=first, blocks=last - first + 1)


def _uses(pieces: pl.LazyFrame, first_ns: int) -> Iterator[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]]:
    """Yield time (seconds since the first) and object of each use, about `USES` at a time."""
    for batch in batches(pieces):
        counts = batch["blocks"].to_numpy()
        ends = np.cumsum(counts)
        seconds = ((batch["time_ns"].to_numpy() - first_ns) // 1_000_000_000).astype(np.uint32)
        first = batch["space"].to_numpy().astype(np.uint64) << np.uint64(BLOCK_BITS) | batch["block"].to_numpy().astype(
            np.uint64
        )
        # Split at every USES blocks: a discard may cover the whole device, so one row may fill several parts.
        for begin in range(0, int(ends[-1]), USES):
            number = np.arange(begin, min(begin + USES, int(ends[-1])))
            row = np.searchsorted(ends, number, "right")
            within = (number - (ends[row] - counts[row])).astype(np.uint64)
            yield seconds[row], first[row] + within
