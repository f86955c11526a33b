"""Read record streams (`.rec`), which the probes write.

probes/FORMAT.md specifies the format. The header of a file describes the fields of its records.

``records = record.read("after.rec"); records.tables["extent"]``
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from androstep_analysis.common import files
from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.ingest.source import Source, load

MAGIC = b"\xa7REC"
VERSION = 1
FRAME_BYTES = 1 << 16
"""The largest size of a frame, including its head."""

HEADER, TRAILER, FIRST_RECORDS = 0, 1, 2

_TEXTS = ("probe", "probe_version", "boot_id", "kernel", "machine", "clock")
_NUMBERS = ("page_bytes", "clock_hz", "opened_ns", "realtime_offset_ns", "monotonic_offset_ns")
"""Members of the header."""

_HEAD = struct.Struct("<4sBBHIIII")
_CHECKED_BYTES = _HEAD.size - 4
_DTYPES: dict[str, tuple[Any, type[pl.DataType]]] = {
    "int32": ("<i4", pl.Int32),
    "int64": ("<i8", pl.Int64),
    "uint32": ("<u4", pl.UInt32),
    "uint64": ("<u8", pl.UInt64),
    "string": ([("offset", "<u2"), ("length", "<u2")], pl.String),
}
_NULL_OFFSET = 0xFFFF


@dataclass(frozen=True)
class Records:
    """The records of one file.

    Attributes
    ----------
    header
        The header of the file as JSON.
    tables
        A DataFrame for each record type in `header`, including empty ones. The columns are the fields in order, with
        the
        polars types of their dtypes. Bytes that are not UTF-8 appear as ``\\xNN``. Rows are in file order.
    losses
        What the probe could not record, and what could not be read from the file.
    complete
        Whether the probe closed the file and all of it was read.
    """

    header: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    losses: tuple[Loss, ...]
    complete: bool

    def __repr__(self) -> str:
        rows = ", ".join(f"{table.height} {name}" for name, table in self.tables.items())
        return f"<Records of {self.header.get('probe')}: {rows}, {sum(loss.count for loss in self.losses)} lost>"


@dataclass(frozen=True)
class _Type:
    """A record type as described by the header."""

    id: int
    name: str
    dtype: np.dtype[np.void]
    nulls: dict[str, int | None]
    kinds: dict[str, str]


@dataclass(frozen=True)
class _Frame:
    type: int
    sequence: int
    count: int
    start: int  # of the payload
    end: int


@dataclass(frozen=True)
class _Totals:
    """The trailer: the number of `records` of each type, and what the probe could not record."""

    records: dict[str, int]
    losses: tuple[Loss, ...]


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a record stream."""
    return head.startswith(MAGIC)


def is_of(head: bytes, probe: str) -> bool:
    """Return whether a file that begins with `head` is a record stream written by `probe`."""
    return sniff(head) and f'"probe":"{probe}"'.encode() in head.replace(b'": "', b'":"')


def read(path: str | Path) -> Records:
    """Return all readable records of a file, plain or compressed. See probes/FORMAT.md for the effects of damage.

    Raises
    ------
    InputError
        If the file is not a record stream, has another version of the format, or has no intact copy of the header.
    """
    return of(load(Path(path)))


def of(source: Source) -> Records:
    """Return all readable records of `source`, as `read` does."""
    data = source.data
    header = _header(source, data)
    types = _types(source, header)
    frames, skipped_bytes = _frames(data, _seed(source, header))
    totals = _totals(data, frames)
    tables: dict[str, pl.DataFrame] = {}
    malformed = 0
    for record_type in types:
        tables[record_type.name], wrong = _table(data, record_type, frames)
        malformed += wrong
    losses = [
        *source.losses,
        *(totals.losses if totals else ()),
        *_frame_losses(frames, tables, totals),
        *_skipped_losses(skipped_bytes, malformed),
    ]
    damaged = source.losses or skipped_bytes or malformed or _missing(frames)
    return Records(header, tables, tuple(losses), complete=totals is not None and not damaged)


def table(source: Source, name: str) -> pl.DataFrame | None:
    """Return only the records of type `name`, or None if the header has no such type. Losses are not reported."""
    data = source.data
    header = _header(source, data)
    record_type = next((entry for entry in _types(source, header) if entry.name == name), None)
    if record_type is None:
        return None
    return _table(data, record_type, _frames(data, _seed(source, header))[0])[0]


def join(parts: Sequence[Path], out: Path) -> None:
    """Write the streams of several runs of one probe as one stream.

    The result has the header of the first part. It has a trailer only if all parts have one.

    Raises
    ------
    InputError
        If a part is damaged, or if the record types of the parts differ.
    """
    chunks: list[bytes] = []
    heads: list[dict[str, Any]] = []
    records: Counter[str] = Counter()
    losses: dict[tuple[str, str], int] = {}
    closed_ns: list[int] = []

    def add(kind: int, count: int, payload: bytes) -> None:
        head = _HEAD.pack(MAGIC, VERSION, 0, kind, len(chunks), count, len(payload), 0)[:_CHECKED_BYTES]
        seed = 0 if kind == HEADER else int(heads[0]["seed"])
        chunks.append(head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head, seed))) + payload)

    for part in parts:
        source = load(part)
        data = source.data
        heads.append(_header(source, data))
        frames, skipped_bytes = _frames(data, _seed(source, heads[-1]))
        if skipped_bytes or _missing(frames) or heads[-1]["types"] != heads[0]["types"]:
            raise InputError(
                f"{source.name}: it is damaged, or its record types differ from those of the other streams"
            )
        for frame in frames if not chunks else frames[1:]:
            payload = data[frame.start : frame.end]
            if frame.type == TRAILER:
                trailer = files.parse_json(payload)
                closed_ns.append(trailer["closed_ns"])
                records.update(trailer["records"])
                for loss in trailer["losses"]:
                    key = (loss["kind"], loss["message"])
                    losses[key] = losses.get(key, 0) + loss["count"]
            elif frame.type != HEADER or not chunks:
                add(frame.type, frame.count, payload)
    add(HEADER, 0, json.dumps(heads[0]).encode("utf-8", "surrogatepass"))
    if len(closed_ns) == len(parts):
        loss_rows = [{"kind": kind, "count": count, "message": message} for (kind, message), count in losses.items()]
        trailer = {"closed_ns": closed_ns[-1], "blocks": len(chunks), "records": records, "losses": loss_rows}
        add(TRAILER, 0, json.dumps(trailer).encode())
    out.write_bytes(b"".join(chunks))


# -- header -----------------------------------------------------------------------------------------------------------


def _header(source: Source, data: bytes) -> dict[str, Any]:
    """Return the header at the start, or if that is damaged, the copy before the trailer."""
    frame = _frame(data, 0, None)
    if frame is None:
        # Only the last can be trusted: any other might be a name in a listed directory.
        position = data.rfind(MAGIC)
        while position >= 0 and frame is None:
            frame = _frame(data, position, None)
            position = data.rfind(MAGIC, 0, position) if position else -1
    if frame is None:
        hint = "it is not a record stream, or was truncated within its first block"
        raise InputError(f"{source.name}: no header of a record stream (magic A7 52 45 43) was found; {hint}")
    try:
        header = files.parse_json(data[frame.start : frame.end].decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise _bad_header(source, f"valid JSON ({error})") from error
    if not isinstance(header, dict) or header.get("format") != "androstep record" or header.get("version") != VERSION:
        raise _bad_header(source, f"format “androstep record” of version {VERSION}")
    for name in _TEXTS:
        if not isinstance(header.get(name), str | None):
            raise _bad_header(source, f"a text for {name}")
    for name in _NUMBERS:
        value = header.get(name)
        if value is not None and (type(value) is not int or value.bit_length() > 63):
            raise _bad_header(source, f"a number of 64 bits for {name}")
    return header


def _bad_header(source: Source, expected: str) -> InputError:
    return InputError(
        f"{source.name}: its header should have {expected}; record again with a matching version of the probe"
    )


def _seed(source: Source, header: dict[str, Any]) -> int:
    seed = header.get("seed")
    if not isinstance(seed, int) or not 0 <= seed < 1 << 32:
        raise _bad_header(source, "a seed of 32 bits")
    return seed


def _types(source: Source, header: dict[str, Any]) -> list[_Type]:
    try:
        types = [_type(entry) for entry in header["types"]]
    except (KeyError, TypeError, ValueError) as error:
        raise _bad_header(source, f"a list of record types ({printable(repr(error))})") from error
    if len({entry.id for entry in types}) != len(types) or len({entry.name for entry in types}) != len(types):
        raise _bad_header(source, "record types with unique names and numbers")
    return types


def _type(entry: dict[str, Any]) -> _Type:
    fields = entry["fields"]
    kinds = {str(field["name"]): str(field["dtype"]) for field in fields}
    dtype = np.dtype([(name, _DTYPES[kind][0]) for name, kind in kinds.items()])
    if dtype.itemsize != entry["record_bytes"] or len(kinds) != len(fields) or not kinds:
        raise ValueError(f"{entry['name']}: the fields do not make {entry['record_bytes']} bytes")
    nulls = {str(field["name"]): None if field["null"] is None else int(field["null"]) for field in fields}
    return _Type(int(entry["id"]), str(entry["name"]), dtype, nulls, kinds)


# -- frames -----------------------------------------------------------------------------------------------------------


def _frame(data: bytes, position: int, seed: int | None) -> _Frame | None:
    """Return the intact frame at `position`, or None. Without `seed`, only a header frame is accepted."""
    if position + _HEAD.size > len(data):
        return None
    magic, version, _, kind, sequence, count, length, crc = _HEAD.unpack_from(data, position)
    start, end = position + _HEAD.size, position + _HEAD.size + length
    if magic != MAGIC or version != VERSION or length > FRAME_BYTES - _HEAD.size or end > len(data):
        return None
    if kind != HEADER and seed is None:
        return None
    view = memoryview(data)
    checked = zlib.crc32(view[position : position + _CHECKED_BYTES], 0 if kind == HEADER else seed or 0)
    if zlib.crc32(view[start:end], checked) != crc:
        return None
    return _Frame(kind, sequence, count, start, end)


def _frames(data: bytes, seed: int) -> tuple[list[_Frame], int]:
    """Return all intact frames in order, and the number of bytes outside of them."""
    frames: list[_Frame] = []
    position = skipped_bytes = 0
    while 0 <= position < len(data):
        frame = _frame(data, position, seed)
        if frame is not None:
            frames.append(frame)
            position = frame.end
            continue
        following = _resume(data, position, seed)
        skipped_bytes += following - position
        position = following
    return frames, skipped_bytes


def _resume(data: bytes, position: int, seed: int) -> int:
    """Return the start of the next intact frame after the damage at `position`; the end of `data` if there is none."""
    if position + _HEAD.size <= len(data):
        end = position + _HEAD.size + _HEAD.unpack_from(data, position)[6]
        if _frame(data, end, seed) is not None:
            return int(end)
    position = data.find(MAGIC, position + 1)
    while position >= 0 and _frame(data, position, seed) is None:
        position = data.find(MAGIC, position + 1)
    return position if position >= 0 else len(data)


def _totals(data: bytes, frames: list[_Frame]) -> _Totals | None:
    """Return the contents of the trailer, or None if it is missing or malformed."""
    for frame in reversed(frames):
        if frame.type == TRAILER:
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                return _as_totals(files.parse_json(data[frame.start : frame.end]))
    return None


def _as_totals(trailer: dict[str, Any]) -> _Totals:
    losses = [
        Loss(
            str(entry["kind"]), int(entry["count"]), printable(f"the probe counted {entry['count']} {entry['message']}")
        )
        for entry in trailer["losses"]
    ]
    return _Totals({str(name): int(count) for name, count in trailer["records"].items()}, tuple(losses))


# -- losses -----------------------------------------------------------------------------------------------------------


def _missing(frames: list[_Frame]) -> int:
    """Return the number of frames missing before the last one, by the sequence numbers."""
    numbers = [-1, *(frame.sequence for frame in frames)]
    return sum(max(after - before - 1, 0) for before, after in pairwise(numbers))


def _frame_losses(frames: list[_Frame], tables: dict[str, pl.DataFrame], totals: _Totals | None) -> list[Loss]:
    """Return the losses for missing frames and for a missing trailer."""
    losses = []
    if missing := _missing(frames):
        what = "with an unknown number of records"
        if totals is not None:
            lost = {name: totals.records.get(name, 0) - table.height for name, table in tables.items()}
            what = "with " + (", ".join(f"{count} {name}" for name, count in lost.items() if count) or "no records")
        losses.append(Loss("damaged", missing, f"{missing} blocks are damaged or missing, {what}"))
    if totals is None:
        message = (
            "the file has no trailer: it was truncated, or the probe was killed; later records and losses are unknown"
        )
        losses.append(Loss("torn", 1, message))
    return losses


def _skipped_losses(skipped_bytes: int, malformed: int) -> list[Loss]:
    losses = []
    if skipped_bytes:
        losses.append(Loss("unreadable", skipped_bytes, f"{skipped_bytes} bytes belong to no intact block"))
    if malformed:
        message = f"{malformed} blocks or strings have a correct checksum, but do not match the header"
        losses.append(Loss("malformed", malformed, message))
    return losses


# -- records ----------------------------------------------------------------------------------------------------------


def _table(data: bytes, record_type: _Type, frames: list[_Frame]) -> tuple[pl.DataFrame, int]:
    """Return the records of one type, and the number of frames and strings that exceed their bounds."""
    size = record_type.dtype.itemsize
    mine = [frame for frame in frames if frame.type == record_type.id]
    frames = [frame for frame in mine if frame.count * size <= frame.end - frame.start]
    view = memoryview(data)
    middles = [frame.start + frame.count * size for frame in frames]
    rows = np.frombuffer(
        b"".join(view[frame.start : middle] for frame, middle in zip(frames, middles, strict=True)), record_type.dtype
    )
    counts = np.array([frame.count for frame in frames], dtype=np.int64)
    # Offsets of strings count from the end of the records in their frame.
    first = np.repeat(np.array(middles, dtype=np.int64), counts)
    end = np.repeat(np.array([frame.end for frame in frames], dtype=np.int64), counts)
    columns: list[pl.Series] = []
    wrong = len(mine) - len(frames)
    for name, kind in record_type.kinds.items():
        if kind == "string":
            references = rows[name]
            start = first + references["offset"]
            stop = start + references["length"]
            null = references["offset"] == _NULL_OFFSET
            outside = ~null & (stop > end)
            wrong += int(outside.sum())
            columns.append(_strings(name, data, start, stop, null | outside))
        else:
            columns.append(_numbers(name, kind, rows[name], record_type.nulls[name]))
    return pl.DataFrame(columns), wrong


def _numbers(name: str, kind: str, values: np.ndarray, null: int | None) -> pl.Series:
    series = pl.Series(name, np.ascontiguousarray(values), dtype=_DTYPES[kind][1])
    return series if null is None else series.set(series == null, None)


def _strings(name: str, data: bytes, start: np.ndarray, stop: np.ndarray, null: np.ndarray) -> pl.Series:
    """Return the strings ``data[start:stop]``. Bytes that are not UTF-8 appear as ``\\xNN``."""
    part = pl.lit(data).bin.slice(pl.Series(start), pl.Series(np.where(null, 0, stop - start)))
    raw = pl.select(pl.when(pl.Series(~null)).then(part).alias(name)).to_series()
    try:
        return raw.cast(pl.String)
    except pl.exceptions.ComputeError:
        distinct = raw.drop_nulls().unique()
        texts = [part.decode(errors="backslashreplace") for part in distinct]
        return raw.replace_strict(distinct, texts, default=None, return_dtype=pl.String)
