"""Write record streams (`.rec`) from tables. probes/FORMAT.md describes the format, `ingest.record` reads it.

The output depends on the tables only, not on time or machine.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.ingest import record

TEXT_BYTES = 16_384
"""The longest string that a record can hold."""

_HEAD = struct.Struct("<4sBBHIII")
_CRC = struct.Struct("<I")
_PAYLOAD_BYTES = record.FRAME_BYTES - _HEAD.size - _CRC.size
_NULL_OFFSET = 0xFFFF
_STRING = np.dtype([("offset", "<u2"), ("length", "<u2")])
_NUMPY = {"int32": "<i4", "int64": "<i8", "uint32": "<u4", "uint64": "<u8", "string": _STRING}
_NULLS = {"int32": -(1 << 31), "int64": -(1 << 63), "string": _NULL_OFFSET}


@dataclass(frozen=True)
class Field:
    """A field of a record: `dtype` is int32, int64, uint32, uint64 or string. Unsigned types have no null."""

    name: str
    dtype: str
    meaning: str
    nullable: bool = False
    unit: str | None = None


@dataclass(frozen=True)
class Type:
    """A record type: `table` is the table of schemas/ that its records become, if they become one."""

    name: str
    meaning: str
    fields: tuple[Field, ...]
    table: str | None = None

    @property
    def numpy(self) -> np.dtype[np.void]:
        """The layout of a record in a file."""
        return np.dtype([(field.name, _NUMPY[field.dtype]) for field in self.fields])


def write(path: Path, probe: str, version: str, tables: Sequence[tuple[Type, pl.DataFrame]]) -> None:
    """Make or replace file `path` with the rows of each type, in this order.

    The columns of a table are the fields of its type: Int32, Int64, UInt32, UInt64, and String or Enum for strings of
    at most `TEXT_BYTES`. Fields that are not nullable have no nulls.
    """
    blocks = [
        (record.FIRST_RECORDS + number, count, payload)
        for number, (record_type, table) in enumerate(tables)
        for count, payload in _blocks(record_type, table)
    ]
    seed = _seed(blocks)
    header = _header(probe, version, [record_type for record_type, _ in tables], seed)
    frames = [(record.HEADER, 0, header), *blocks, (record.HEADER, 0, header)]
    frames.append((record.TRAILER, 0, _trailer(len(frames), tables)))
    with path.open("wb") as file:
        for sequence, (kind, count, payload) in enumerate(frames):
            head = _HEAD.pack(record.MAGIC, record.VERSION, 0, kind, sequence, count, len(payload))
            crc = zlib.crc32(payload, zlib.crc32(head, 0 if kind == record.HEADER else seed))
            file.write(head + _CRC.pack(crc) + payload)


def _seed(blocks: Sequence[tuple[int, int, bytes]]) -> int:
    """Return a seed that is derived from the contents, so that it differs between files."""
    digest = hashlib.blake2b(digest_size=4)
    for kind, _, payload in blocks:
        digest.update(_CRC.pack(kind) + payload)
    return int.from_bytes(digest.digest(), "little")


def _header(probe: str, version: str, types: Sequence[Type], seed: int) -> bytes:
    about: dict[str, Any] = {
        "format": "androstep record",
        "version": record.VERSION,
        "probe": probe,
        "probe_version": version,
        "types": [_described(record_type, record.FIRST_RECORDS + number) for number, record_type in enumerate(types)],
        **dict.fromkeys(("boot_id", "kernel", "machine")),
        **dict.fromkeys(("clock", "opened_ns", "realtime_offset_ns", "monotonic_offset_ns")),
        "seed": seed,
    }
    return json.dumps(about).encode()


def _described(record_type: Type, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": record_type.name,
        "table": record_type.table,
        "meaning": record_type.meaning,
        "record_bytes": record_type.numpy.itemsize,
        "fields": [
            {
                "name": field.name,
                "dtype": field.dtype,
                "null": _NULLS[field.dtype] if field.nullable else None,
                "unit": field.unit,
                "meaning": field.meaning,
            }
            for field in record_type.fields
        ],
    }


def _trailer(blocks: int, tables: Sequence[tuple[Type, pl.DataFrame]]) -> bytes:
    records = {record_type.name: table.height for record_type, table in tables}
    return json.dumps({"closed_ns": None, "blocks": blocks, "records": records, "losses": []}).encode()


# -- records ----------------------------------------------------------------------------------------------------------


def _blocks(record_type: Type, table: pl.DataFrame) -> Iterator[tuple[int, bytes]]:
    """Yield the number of rows and the payload of each block.

    The values of enums are stored once in each block, before the strings of the rows.
    """
    texts = [field.name for field in record_type.fields if table.schema[field.name] == pl.String]
    rows, values = _rows(record_type, table)
    lengths = np.column_stack([np.zeros((table.height, 0), np.int64), *(rows[name]["length"] for name in texts)])
    # Where the strings of a row begin among those of all rows, string after string.
    ends = np.cumsum(lengths.ravel()).reshape(lengths.shape).astype(np.int64)
    before = np.concatenate(([0], ends[:-1, -1] if texts else [0] * max(table.height - 1, 0))).astype(np.int64)
    filled = np.concatenate(([0], np.cumsum(rows.dtype.itemsize + lengths.sum(axis=1, dtype=np.int64))))
    joined = _joined(table, texts)
    start = 0
    while start < table.height:
        end = int(np.searchsorted(filled, filled[start] + _PAYLOAD_BYTES - len(values), "right")) - 1
        block = rows[start:end]
        for column, name in enumerate(texts):
            places = len(values) + ends[start:end, column] - lengths[start:end, column] - before[start]
            block[name]["offset"] = np.where(block[name]["offset"] == _NULL_OFFSET, _NULL_OFFSET, places)
        text = joined[before[start] : ends[end - 1, -1]] if texts else b""
        yield end - start, block.tobytes() + values + text
        start = end


def _rows(record_type: Type, table: pl.DataFrame) -> tuple[npt.NDArray[np.void], bytes]:
    """Return the records, with preliminary string offsets, and the values of enums, whose offsets are final."""
    rows = np.zeros(table.height, record_type.numpy)
    values = b""
    for field in record_type.fields:
        column = table[field.name]
        if isinstance(column.dtype, pl.Enum):
            words = [word.encode() for word in column.dtype.categories]
            rows[field.name] = _places(words, len(values))[column.to_physical().fill_null(len(words)).to_numpy()]
            values += b"".join(words)
        elif column.dtype == pl.String:
            rows[field.name]["offset"] = np.where(column.is_null().to_numpy(), _NULL_OFFSET, 0)
            rows[field.name]["length"] = column.str.len_bytes().fill_null(0).to_numpy()
        else:
            rows[field.name] = (column.fill_null(_NULLS[field.dtype]) if field.nullable else column).to_numpy()
    return rows, values


def _places(words: Sequence[bytes], start: int) -> npt.NDArray[np.void]:
    """Return the position of each word if they are stored consecutively from `start`; the last entry is null."""
    lengths = np.array([len(word) for word in words], np.int64)
    places = np.zeros(len(words) + 1, _STRING)
    places["offset"][:-1] = start + np.cumsum(lengths) - lengths
    places["length"][:-1] = lengths
    places["offset"][-1] = _NULL_OFFSET
    return places


def _joined(table: pl.DataFrame, texts: Sequence[str]) -> bytes:
    """Return the strings of all rows, row after row."""
    if not texts or not table.height:
        return b""
    rows = table.select(pl.concat_str([pl.col(name).fill_null("") for name in texts]).str.join(""))
    return str(rows.item()).encode()
