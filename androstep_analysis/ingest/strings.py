"""Strings that lie at known places of a buffer, as columns: gathered and decoded all at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


def gather(data: Bytes, start: Int64s, length: Int64s) -> tuple[Bytes, Int64s]:
    """The bytes of all places one after the other, and where each begins (one more than places); lengths >= 0."""
    offsets = np.concatenate(([0], np.cumsum(length)))
    index = np.arange(int(offsets[-1])) + np.repeat(start - offsets[:-1], length)
    return data[index], offsets


def series(name: str, data: Bytes, offsets: Int64s, null: npt.NDArray[np.bool_]) -> pl.Series:
    """String series of what `gather` returns; bytes that are no UTF-8 are written ``\\xNN``."""
    valid = pa.py_buffer(np.packbits(~null, bitorder="little").data)
    places, text = pa.py_buffer(offsets.data), pa.py_buffer(data.data)
    if _is_utf8(data, offsets):
        return pl.Series(name, pa.LargeStringArray.from_buffers(len(null), places, text, valid), pl.String)
    distinct = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(null), [valid, places, text]).dictionary_encode()
    texts = pa.array([bytes(raw).decode(errors="backslashreplace") for raw in distinct.dictionary.to_numpy(False)])
    return pl.Series(name, pa.DictionaryArray.from_arrays(distinct.indices, texts)).cast(pl.String)


def _is_utf8(data: Bytes, offsets: Int64s) -> bool:
    """Whether each string is UTF-8: the whole is, and none begins within a character."""
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
