"""Read the raw pages and metadata of a Parquet file: to search them for names, and to refuse forged files.

A Parquet reader returns only the values of rows. A dictionary page may hold values that no row uses, and footers, page
headers and indexes repeat values. Page headers use Thrift's compact protocol (apache/parquet-format, README and
parquet.thrift; apache/thrift, thrift-compact-protocol).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.files import limit_of

_DATA_PAGE_V2 = 3

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(1, 9)
_STRUCT = 12


MOST_MIB: Final = 32
"""The default limit of the rows (in 2^16) and of the decompressed pages (in MiB) of a small Parquet file.

A file may have as many rows more as it has bytes, and 16 times its size in pages. Tables of releases have less than one
row in 3 bytes, and at most 3 times their size in pages.
"""

MOST: Final = "ANDROSTEP_MAX_PARQUET_MIB"
"""The environment variable that raises this limit."""


def check(path: Path) -> None:
    """Raise `InputError` unless this is a regular Parquet file that needs no more memory than its size justifies.

    A forged file of some kilobytes can state billions of rows, or pages of gigabytes.
    """
    if not path.is_file():  # Opening a FIFO would wait.
        raise InputError(f"{path}: no regular file; give a Parquet file")
    try:
        metadata = pq.read_metadata(path)
        size = path.stat().st_size
        limit = limit_of(MOST, MOST_MIB)
        rows = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        chunks = [(start, end) for start, end, _, _ in _chunks(metadata)]
        if sum(end - start for start, end in chunks) > size:
            raise ValueError("columns that overlap")
        unpacked = 0
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for start, end in chunks:
                while start < end and unpacked <= (limit << 20) + 16 * size:
                    header, start = _page_header(data, start)
                    start += header[3]
                    unpacked += header[2]
    except (IndexError, KeyError, ValueError, OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: no Parquet file ({str(error).partition(chr(10))[0]}); fetch it again") from None
    if max(rows, metadata.num_rows) > (limit << 16) + size or unpacked > (limit << 20) + 16 * size:
        raise InputError(
            f"{path}: {size} bytes unpack to {rows} rows and {unpacked >> 20} MiB or more, as only forged files do; "
            f"to read it, set {MOST} above {limit}"
        )


@dataclass(frozen=True)
class Parts:
    """`texts` are the decompressed pages of text columns; `around` is the file without the bodies of pages."""

    texts: tuple[bytes, ...]
    around: bytes


def read(path: Path) -> Parts:
    """Split a Parquet file into its parts; `InputError` if it is damaged."""
    data = path.read_bytes()
    texts: list[bytes] = []
    around: list[bytes] = []
    place = 0
    try:
        for start, end, codec, is_text in sorted(_chunks(pq.read_metadata(path))):
            around.append(data[place:start])
            place = start
            while place < end:
                header, body = _page_header(data, place)
                around.append(data[place:body])
                place = body + header[3]
                if is_text:
                    texts.append(_body(data[body:place], header, codec))
        around.append(data[place:])
    except (IndexError, KeyError, ValueError, OSError, MemoryError) as error:
        raise InputError(f"{path}: the Parquet file is damaged ({error}); fetch the release again") from None
    return Parts(tuple(texts), b"\0".join(around))


def _chunks(metadata: pq.FileMetaData) -> Iterator[tuple[int, int, str, bool]]:
    """Yield start, end and codec of each column chunk, and whether it holds text."""
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            offsets = [chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset]
            start = min(offsets)
            yield start, start + chunk.total_compressed_size, chunk.compression, chunk.physical_type == "BYTE_ARRAY"


def _body(body: bytes, header: dict[int, int], codec: str) -> bytes:
    """Decompress a page. Pages of version 2 begin with levels, which are never compressed."""
    levels = header.get(_V2_LEVELS, 0) if header[1] == _DATA_PAGE_V2 else 0
    if codec == "UNCOMPRESSED" or not header.get(_V2_COMPRESSED, 1):
        return body
    plain = _codec(codec).decompress(body[levels:], header[2] - levels, asbytes=True)
    return body[:levels] + plain


def _codec(name: str) -> pa.Codec:
    """Return the decompressor for Parquet's codec `name`; `ValueError` if it is unsupported."""
    codecs = {
        "ZSTD": pa.Codec("zstd"),
        "GZIP": pa.Codec("gzip"),
        "SNAPPY": pa.Codec("snappy"),
        "BROTLI": pa.Codec("brotli"),
        "LZ4": pa.Codec("lz4_raw"),
    }
    if name not in codecs:
        raise ValueError(f"compression {name}, which cannot be searched")
    return codecs[name]


_V2_LEVELS, _V2_COMPRESSED = -1, -2
"""Keys that `_page_header` adds to the field numbers for pages of version 2."""


def _page_header(data: bytes | mmap.mmap, place: int) -> tuple[dict[int, int], int]:
    """Return the integer fields of a PageHeader and the offset of the page's body.

    Field 1 is the type, 2 the uncompressed size, 3 the compressed size.
    """
    fields, place = _struct(data, place)
    header = {number: value for number, value in fields.items() if isinstance(value, int)}
    second = fields.get(8)
    if isinstance(second, dict):
        lengths = [second.get(number, 0) for number in (5, 6)]
        header[_V2_LEVELS] = sum(length for length in lengths if isinstance(length, int))
        header[_V2_COMPRESSED] = int(second.get(7, 1) != 0)
    if header[3] < 0 or header[2] < 0:
        raise ValueError("a page of less than no bytes")
    return header, place


def _struct(data: bytes | mmap.mmap, place: int, depth: int = 0) -> tuple[dict[int, object], int]:
    """Parse a struct into its fields by number. Values are integers, booleans and structs; other types are None."""
    if depth > 8:
        raise ValueError("structs in structs without end")
    fields: dict[int, object] = {}
    number = 0
    while data[place]:
        kind, step = data[place] & 15, data[place] >> 4
        place += 1
        if step:
            number += step
        else:
            raw, place = _varint(data, place)
            number = _signed(raw)
        fields[number], place = _value(data, place, kind, depth)
    return fields, place + 1


def _value(data: bytes | mmap.mmap, place: int, kind: int, depth: int) -> tuple[object, int]:
    if kind in (_TRUE, _FALSE):
        return int(kind == _TRUE), place
    if kind in (_I16, _I32, _I64):
        raw, place = _varint(data, place)
        return _signed(raw), place
    if kind == _BINARY:
        size, place = _varint(data, place)
        return None, place + size
    if kind == _STRUCT:
        return _struct(data, place, depth + 1)
    if kind in (_BYTE, _DOUBLE):
        return None, place + (1 if kind == _BYTE else 8)
    raise ValueError(f"a page header with a field of type {kind}")


def _varint(data: bytes | mmap.mmap, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place += 1
        shift += 7
        if not byte & 128:
            return value, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)
