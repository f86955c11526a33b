"""Export blktrace's binary stream (include/uapi/linux/blktrace_api.h, version 7), like ``blktrace -o -``.

All CPUs are in one stream, in order of time. fio replays it, ``blkparse -i -`` prints it, and btt reads blkparse's
result. Letters of rwbs without a bit in blktrace are lost, and so is what table block_events does not hold: sequence
numbers are counted anew for each CPU, unplugs have no number of requests, and requeues no error.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common import units
from androstep_analysis.datasets.export.batches import batches
from androstep_analysis.link.requests import rwbs

_MAGIC = 0x65617407

_RECORD = np.dtype(
    [
        *(("magic", "<u4"), ("sequence", "<u4"), ("time", "<u8"), ("sector", "<u8"), ("bytes", "<u4")),
        *(("action", "<u4"), ("pid", "<u4"), ("device", "<u4"), ("cpu", "<u4"), ("error", "<u2")),
        *(("pdu_bytes", "<u2"), ("pdu", "V16")),
    ]
)
_HEADER_BYTES = 48

_READ, _WRITE, _FLUSH, _SYNC, _QUEUE, _REQUEUE, _ISSUE, _COMPLETE = (1 << (16 + bit) for bit in range(8))
_NOTIFY, _AHEAD, _META, _DISCARD, _FUA = (1 << (16 + bit) for bit in (10, 11, 12, 13, 15))

ACTIONS = {
    "queue": 1 | _QUEUE,
    "backmerge": 2 | _QUEUE,
    "frontmerge": 3 | _QUEUE,
    "getrq": 4 | _QUEUE,
    "sleep": 5 | _QUEUE,
    "requeue": 6 | _REQUEUE,
    "issue": 7 | _ISSUE,
    "complete": 8 | _COMPLETE,
    "plug": 9 | _QUEUE,
    "unplug": 10 | _QUEUE,
    "insert": 12 | _QUEUE,
    "split": 13,
    "bounce": 14,
    "remap": 15 | _QUEUE,
}
"""The kernel's number and category of each action."""

_PDU_BYTES = {"remap": 16, "split": 8, "unplug": 8}
_COMM_BYTES = 16


def write(capture: Capture, file: BinaryIO) -> None:
    """Write a record per block event, and the name of a thread before its first event under that name.

    If times begin at or below 0, all are moved to begin at 1, because blkparse treats 0 as missing.
    """
    events = capture.block_events.filter(pl.col("action").cast(pl.String).is_in(list(ACTIONS)))
    printed: dict[int, int] = {}
    names: dict[int, str] = {}
    shift = None
    for batch in batches(events):
        if shift is None:
            shift = max(0, 1 - int(batch["ts_ns"][0]))
        rows = batch.with_columns(
            pl.col("ts_ns") + shift,
            pl.col("action").cast(pl.String),
            pl.col("cpu", "tid", "error", "sector", "nr_sectors", "dev").fill_null(0),
        )
        of_cpu = pl.int_range(1, pl.len() + 1).over("cpu")
        before = pl.col("cpu").replace_strict(printed, default=0, return_dtype=pl.Int64)
        called = pl.col("tid").replace_strict(names, default=None, return_dtype=pl.String)
        rows = rows.with_columns(sequence=of_cpu + before, known=pl.coalesce(_name_before(), called))
        printed |= dict(rows.group_by("cpu").agg(pl.col("sequence").max()).iter_rows())
        names |= dict(rows.drop_nulls("comm").group_by("tid").agg(pl.col("comm").last()).iter_rows())
        file.write(_bytes(rows))


def _name_before() -> pl.Expr:
    """Return the thread's name in its previous event."""
    return pl.col("comm").forward_fill().shift(1).over("tid")


def _bytes(rows: pl.DataFrame) -> bytes:
    """Return the records of the events. A record with the thread's name precedes an event if the name is new."""
    events = np.zeros((rows.height, 2), _RECORD)
    lengths = np.zeros((rows.height, 2), np.int64)
    _fill_names(rows, events[:, 0], lengths[:, 0])
    _fill_events(rows, events[:, 1], lengths[:, 1])
    events["magic"] = _MAGIC
    plain = np.ascontiguousarray(events).view(np.uint8).reshape(-1, _RECORD.itemsize)
    return plain[np.arange(_RECORD.itemsize) < lengths.reshape(-1, 1)].tobytes()


def _fill_names(rows: pl.DataFrame, records: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> None:
    is_new = rows.select((pl.col("comm") != pl.col("known")) | pl.col("known").is_null() & pl.col("comm").is_not_null())
    new = is_new.to_series().fill_null(False).to_numpy()
    records["time"] = rows["ts_ns"].to_numpy().astype(np.uint64)
    records["action"] = _NOTIFY
    records["pid"] = rows["tid"].to_numpy()
    records["cpu"] = rows["cpu"].to_numpy()
    records["pdu_bytes"] = _COMM_BYTES
    distinct = rows["comm"].drop_nulls().unique(maintain_order=True)
    raw = np.array([*(name.encode()[: _COMM_BYTES - 1] for name in distinct.to_list()), b""], f"S{_COMM_BYTES}")
    numbers = rows["comm"].replace_strict(distinct, range(len(distinct)), default=len(distinct), return_dtype=pl.Int64)
    records["pdu"] = raw[numbers.fill_null(len(distinct)).to_numpy()].view("V16")
    lengths[:] = np.where(new, _HEADER_BYTES + _COMM_BYTES, 0)


def _fill_events(rows: pl.DataFrame, records: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> None:
    action = rows["action"]
    sector = rows["sector"].to_numpy()
    nr_sectors = rows["nr_sectors"].to_numpy()
    records["sequence"] = rows["sequence"].to_numpy()
    records["time"] = rows["ts_ns"].to_numpy().astype(np.uint64)
    records["sector"] = sector
    records["bytes"] = nr_sectors * units.SECTOR_BYTES
    records["action"] = action.replace_strict(ACTIONS, return_dtype=pl.Int64).to_numpy() | _flags(rows["rwbs"])
    records["pid"] = rows["tid"].to_numpy()
    records["device"] = rows["dev"].to_numpy()
    records["cpu"] = rows["cpu"].to_numpy()
    records["error"] = (-rows["error"].to_numpy()).astype(np.uint16)
    pdu_bytes = action.replace_strict(_PDU_BYTES, default=0, return_dtype=pl.Int64).to_numpy()
    records["pdu_bytes"] = pdu_bytes
    pdu = np.zeros((rows.height, 2), ">u8")  # payloads are big-endian
    old_dev = rows["old_dev"].fill_null(0).to_numpy().astype(np.uint64)
    is_remap = (action == "remap").to_numpy()
    both = old_dev << np.uint64(32) | rows["dev"].to_numpy().astype(np.uint64)
    pdu[:, 0] = np.where(is_remap, both, np.where(action == "split", (sector + nr_sectors).astype(np.uint64), 0))
    pdu[:, 1] = np.where(is_remap, rows["old_sector"].fill_null(0).to_numpy(), 0)
    records["pdu"] = pdu.view("V16")[:, 0]
    lengths[:] = _HEADER_BYTES + pdu_bytes


def _flags(letters: pl.Series) -> npt.NDArray[np.int64]:
    """Return blktrace's bits for operation and flags."""
    distinct = letters.unique(maintain_order=True).fill_null("")
    bits = [_bits(rwbs.meaning(text)) for text in distinct.to_list()]
    return letters.fill_null("").replace_strict(distinct, bits, return_dtype=pl.Int64).to_numpy()


def _bits(meaning: rwbs.Meaning) -> int:
    operation = {"write": _WRITE, "read": _READ, "discard": _WRITE | _DISCARD, "secure_erase": _WRITE | _DISCARD}
    flags = {"sync": _SYNC, "meta": _META, "fua": _FUA, "preflush": _FLUSH, "readahead": _AHEAD}
    of_flags = sum(bit for name, bit in flags.items() if getattr(meaning, name))
    return operation.get(meaning.op, 0) | of_flags
