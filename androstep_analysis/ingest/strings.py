"""Gather strings from a buffer and decode them all at once as a column."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_LONG_RUN = 1 << 10
"""The mean length in bytes above which copying runs one by one is faster than indexing all bytes at once."""


def gather(data: Bytes, start: Int64s, length: Int64s) -> tuple[Bytes, Int64s]:
    """Return the concatenated bytes of all strings, and their offsets (one more than strings). Lengths must be >= 0."""
    offsets = np.concatenate(([0], np.cumsum(length)))
    begin, end = _runs(start, length)
    if len(begin) * _LONG_RUN <= offsets[-1]:
        view = data.data
        runs = zip(begin.tolist(), end.tolist(), strict=True)
        return np.frombuffer(b"".join(view[first:last] for first, last in runs), np.uint8), offsets
    index = np.arange(int(offsets[-1])) + np.repeat(start - offsets[:-1], length)
    return data[index], offsets


def _runs(start: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """Return the begin and end of runs of strings that are adjacent in the buffer."""
    is_any = length > 0
    begin, end = start[is_any], (start + length)[is_any]
    is_first = np.ones(len(begin), np.bool_)
    is_first[1:] = begin[1:] != end[:-1]
    return begin[is_first], end[np.roll(is_first, -1)]


def series(name: str, data: Bytes, offsets: Int64s, null: npt.NDArray[np.bool_]) -> pl.Series:
    """Return the result of `gather` as a string series. Bytes that are not UTF-8 appear as ``\\xNN``."""
    valid = pa.py_buffer(np.packbits(~null, bitorder="little").data)
    offset_buffer, text = pa.py_buffer(offsets.data), pa.py_buffer(data.data)
    if _is_utf8(data, offsets):
        return pl.Series(name, pa.LargeStringArray.from_buffers(len(null), offset_buffer, text, valid), pl.String)
    distinct = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(null), [valid, offset_buffer, text]
    ).dictionary_encode()
    texts = pa.array([bytes(raw).decode(errors="backslashreplace") for raw in distinct.dictionary.to_numpy(False)])
    return pl.Series(name, pa.DictionaryArray.from_arrays(distinct.indices, texts)).cast(pl.String)


def _is_utf8(data: Bytes, offsets: Int64s) -> bool:
    """Return whether each string is UTF-8: the concatenation is, and no string begins within a character."""
    if data.size == 0 or int(data.max()) < 0x80:
        return True
    begins = data[offsets[:-1][offsets[:-1] < len(data)]]
    if ((begins & 0xC0) == 0x80).any():
        return False
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
