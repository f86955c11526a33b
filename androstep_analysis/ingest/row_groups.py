"""A Parquet file of row groups that were encoded apart, so that several threads can work for one file.

pyarrow encodes the row groups of a file one after the other. Here each is a Parquet file of its own in memory, and what
those files hold is put one behind the other in the end: pages stay as they are, and where they lie is moved in the
footer. The footer is a Thrift struct in the compact protocol (parquet.thrift, ``FileMetaData``; thrift-compact-protocol
of Apache Thrift); of it only the places are looked at here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

_MAGIC = b"PAR1"

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
"""Types of the compact protocol; there are no maps in FileMetaData."""

_NR_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _ORDINAL, _METADATA = 1, 7, 3
_PLACES_IN_ROW_GROUP, _PLACES_IN_COLUMN, _PLACES_IN_METADATA = (5,), (2, 4, 6), (9, 10, 11, 14)
"""Numbers of fields: of FileMetaData, RowGroup and ColumnChunk, and of those in which a place in the file stands."""

_Struct = dict[int, tuple[int, Any]]
"""The fields of a struct by number: type and value."""


class RowGroups:
    """The Parquet file at `path` while it is written; `close` completes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = path.write_bytes(_MAGIC)
        self._footer: _Struct = {}
        self._nr_rows = 0
        self._groups: list[_Struct] = []

    def append(self, encoded: pa.Buffer) -> None:
        """Append the row groups of a Parquet file in memory; all such files must have one schema and equal metadata."""
        view = memoryview(encoded)
        end = len(view) - 8 - int.from_bytes(view[-8:-4], "little")
        self._footer, _ = _struct(bytes(view[end:-8]), 0)
        self._nr_rows += self._footer[_NR_ROWS][1]
        for group in self._footer[_ROW_GROUPS][1][1]:
            _move(group, self._place - len(_MAGIC))
            self._groups.append(group)
        with self._path.open("ab") as file:
            self._place += file.write(view[len(_MAGIC) : end])

    def close(self) -> None:
        """Write the footer; there must be one row group at least."""
        rows, groups = self._footer[_NR_ROWS], self._footer[_ROW_GROUPS]
        self._footer[_NR_ROWS] = (rows[0], self._nr_rows)
        self._footer[_ROW_GROUPS] = (groups[0], (_STRUCT, self._groups))
        footer = bytearray()
        _put_struct(footer, self._footer)
        with self._path.open("ab") as file:
            file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)


def _move(group: _Struct, by: int) -> None:
    """All places in a row group, so much further on. 0 stands for no place."""
    group.pop(_ORDINAL, None)
    _move_fields(group, _PLACES_IN_ROW_GROUP, by)
    for column in group[_COLUMNS][1][1]:
        _move_fields(column, _PLACES_IN_COLUMN, by)
        _move_fields(column[_METADATA][1], _PLACES_IN_METADATA, by)


def _move_fields(fields: _Struct, numbers: tuple[int, ...], by: int) -> None:
    for number in numbers:
        if number in fields and fields[number][1]:
            fields[number] = (fields[number][0], fields[number][1] + by)


# --- the compact protocol --------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _struct(data: bytes, at: int) -> tuple[_Struct, int]:
    fields: _Struct = {}
    number = 0
    while header := data[at]:
        at += 1
        if header >> 4:
            number += header >> 4
        else:
            number, at = _integer(data, at)
        kind = header & 0xF
        value, at = (kind == _TRUE, at) if kind in (_TRUE, _FALSE) else _value(data, at, kind)
        fields[number] = (kind, value)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == _STRUCT:
        return _struct(data, at)
    if kind in _INTEGERS:
        return _integer(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind in (_LIST, _SET):
        length, of, at = data[at] >> 4, data[at] & 0xF, at + 1
        if length == 0xF:
            length, at = _varint(data, at)
        values = []
        for _ in range(length):
            value, at = _value(data, at, of)
            values.append(value)
        return (of, values), at
    length = 8 if kind == _DOUBLE else 1  # a byte, or a bool in a list
    return data[at : at + length], at + length


def _put_varint(to: bytearray, value: int) -> None:
    while value >= 0x80:
        to.append(value & 0x7F | 0x80)
        value >>= 7
    to.append(value)


def _put_integer(to: bytearray, value: int) -> None:
    _put_varint(to, value << 1 if value >= 0 else ~(value << 1))


def _put_struct(to: bytearray, fields: _Struct) -> None:
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        if 0 < number - last < 0x10:
            to.append((number - last) << 4 | kind)
        else:
            to.append(kind)
            _put_integer(to, number)
        if kind not in (_TRUE, _FALSE):
            _put_value(to, kind, value)
        last = number
    to.append(0)


def _put_value(to: bytearray, kind: int, value: Any) -> None:
    if kind == _STRUCT:
        _put_struct(to, value)
    elif kind in _INTEGERS:
        _put_integer(to, value)
    elif kind == _BINARY:
        _put_varint(to, len(value))
        to += value
    elif kind in (_LIST, _SET):
        of, values = value
        to.append(min(len(values), 0xF) << 4 | of)
        if len(values) >= 0xF:
            _put_varint(to, len(values))
        for each in values:
            _put_value(to, of, each)
    else:
        to += value
