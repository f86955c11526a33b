"""Read oracleGeneral, the binary traces of cache simulators (libCacheSim: traceReader/customizedReader/oracle).

A record of 24 bytes, little-endian and packed, describes one use of an object: u32 time in seconds, u64 object, u32
bytes, i64 index of the record with the object's next use (-1 or the greatest number if there is none). Operation,
device, process and latency are not recorded.

If all objects have one size, as in files of `androstep export`, they are treated as blocks, and `sector` is the object
number times the size. If sizes differ, or the numbers are too large, `sector` is null, and no requests are built.

The format has no magic number. A file is recognised by the next uses: each must be a later record of the same object.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
RECORD_BYTES = RECORD.itemsize

_NEVER = (-1, (1 << 63) - 1)
_PIECE_BYTES = RECORD_BYTES << 16
_SECOND_NS = 10**9
_EVENT = "use"


def sniff(head: bytes) -> bool:
    """Return whether the records in `head` are sorted by time and have correct next uses."""
    records = np.frombuffer(head, RECORD, len(head) // RECORD_BYTES)
    if not len(records) or not records["size"].any() or (np.diff(records["time"].astype(np.int64)) < 0).any():
        return False
    place = np.arange(len(records))
    following = np.where(np.isin(records["next"], _NEVER), -1, records["next"])
    if ((following >= 0) & (following < place) | (following < -1) | (following >= 1 << 40)).any():
        return False
    # libCacheSim counts records from 0, other converters from 1.
    return any(_fits(records["object"], following, place, first) for first in (0, 1))


def _fits(
    objects: npt.NDArray[np.uint64], following: npt.NDArray[np.int64], place: npt.NDArray[np.int64], first: int
) -> bool:
    """Return whether next uses within the head refer to the same object, if the first record has the number `first`."""
    target = following - first
    is_here = (following >= 0) & (target < len(objects))
    return bool((target[is_here] > place[is_here]).all() and (objects[target[is_here]] == objects[is_here]).all())


def read(source: Source, spool: Spool) -> Staging:
    """Read the uses as queued requests. Their operation and device are unknown."""
    count = source.size // RECORD_BYTES
    block_bytes = _block_bytes(source)
    span: list[int] = []
    for records in _records(source):
        times = records["time"].astype(np.int64) * _SECOND_NS
        span += [int(times.min()), int(times.max())]
        sectors = -(-records["size"].astype(np.int64) // units.SECTOR_BYTES)
        place = records["object"].astype(np.int64) * (block_bytes // units.SECTOR_BYTES) if block_bytes else None
        rows = pl.DataFrame({"ts_ns": times, "nr_sectors": sectors}).with_columns(
            event=pl.lit(_EVENT),
            action=pl.lit("queue", schema.enum("block_events", "action")),
            sector=pl.lit(None, pl.Int64) if place is None else pl.Series(place),
        )
        spool.append("block_events", schema.complete(rows, "block_events"))
    return Staging(
        format="oraclegeneral",
        events={_EVENT: count} if count else {},
        first_ns=min(span, default=None),
        last_ns=max(span, default=None),
        clock="since the start" if span and not min(span) else "unknown",
        losses=_losses(source, block_bytes),
    )


def _records(source: Source) -> Iterator[npt.NDArray[np.void]]:
    """Yield the whole records of the file, many at once."""
    for piece in source.pieces(_PIECE_BYTES):
        if count := len(piece) // RECORD_BYTES:
            yield np.frombuffer(piece, RECORD, count)


def _block_bytes(source: Source) -> int | None:
    """Return the common size of all objects; None if it is not whole sectors, or if an offset would not fit."""
    sizes, greatest = set(), 0
    for records in _records(source):
        sizes |= {int(records["size"].min()), int(records["size"].max())}
        greatest = max(greatest, int(records["object"].max()))
        if len(sizes) > 1:
            return None
    size = sizes.pop() if sizes else 0
    is_block = size and not size % units.SECTOR_BYTES and (greatest + 1) * (size // units.SECTOR_BYTES) < 1 << 63
    return size if is_block else None


def _losses(source: Source, block_bytes: int | None) -> tuple[Loss, ...]:
    losses = []
    if source.size % RECORD_BYTES:
        losses.append(Loss("torn", 1, "the last record has no end and was dropped"))
    if block_bytes is None:
        message = "objects are not blocks of one size: their offsets are unknown, and no requests can be built"
    else:
        message = f"objects are treated as blocks of {block_bytes} B, located by their numbers"
    return (*losses, Loss("objects", 1, message, ()))
