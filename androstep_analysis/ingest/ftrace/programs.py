"""Programs that decode the records of an event for the compiled decoder (native/decode/ftrace/state.h).

A program is a list of `Do` steps. Each step fills a column of a table from a field of the record. A program is created
once for each event from the format file in the recording, and run on all records.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from androstep_analysis.common import schema
from androstep_analysis.ingest.ftrace.event_format import Event, Field
from androstep_analysis.native import Table


class What(enum.IntEnum):
    """The operation of a step. `field`, `other`, `fields`, `value` and `choices` are those of `Do`."""

    NUMBER = 0
    """The number `field`, if it fits into the column."""
    PLACE = 1
    """The number `field`, unless all its bits are set, or all those of `other`."""
    CONSTANT = 2
    """The number `value`."""
    NAME = 3
    """The name `value`."""
    TEXT = 4
    """The text `field`."""
    SOME_TEXT = 5
    """The text `field`, unless it is empty."""
    CUT = 6
    """`other` minus `field`, if that is not negative."""
    ERRNO = 7
    """The number `field`, if it is not positive."""
    CHOICE = 8
    """The name or number in `choices` for the number `field`. Other numbers have no effect."""
    FLAGS = 9
    """The letters in `choices` for the bits of `field`, followed by the remaining bits as a hexadecimal number."""
    DEVICE = 10
    """The device with the numbers in the text `field` (``8:0``)."""
    CHILD = 11
    """The number `field`, if the number `other` is 0 and `field` is not all ones of 32 bits."""
    UNLESS = 12
    """Replace the value with the number `value` if the number `field` is 0 or missing."""
    NO_TEXT = 13
    """Replace the value with the empty text if the number `field` is 0 or missing."""
    PATH = 14
    """The path composed of the texts `fields`, which begin with the last name."""
    PRODUCT = 15
    """The product of `field` and `other`."""
    WITH = 16
    """The number `field`, if the number `other` is not 0."""
    FIRST = 17
    """The first of the numbers `fields` that is not 0, else 0."""
    STEP = 18
    """The number in `choices` for the text `field`. Other texts have no effect."""
    ADDRESS = 19
    """The numbers `fields`, joined by colons."""
    SCSI_LBA = 20
    """The first block of the SCSI command in the bytes `field`."""
    SCSI_BLOCKS = 21
    """The number of blocks of the SCSI command in the bytes `field`."""
    BITS = 22
    """The number `field`, as unsigned bits."""


@dataclass(frozen=True)
class Do:
    """One step of a program. `choices` are pairs of a number and a name, code or letter."""

    what: What
    column: str
    field: Field | None = None
    other: Field | None = None
    value: int | str = 0
    choices: tuple[tuple[int, int | str], ...] = ()
    fields: tuple[Field | None, ...] = ()


def number(event: Event, names: str) -> Field | None:
    """Return the first of several fields (names separated by spaces) that the event has, if it is a number."""
    return next((event.fields[n] for n in names.split() if n in event.fields and not event.fields[n].is_array), None)


def text(event: Event, names: str) -> Field | None:
    """Return the first of several fields (names separated by spaces) that the event has, if it is text."""
    return next((event.fields[n] for n in names.split() if n in event.fields and event.fields[n].is_text), None)


def code(table: str, column: str, value: str) -> Do:
    """Return a step that sets the same enum value in every row."""
    return Do(What.CONSTANT, column, value=schema.table(table).column(column).values.index(value))


# --- C structures ------------------------------------------------------------------------------------------------


class CField(ctypes.Structure):
    """``struct field``: one field of an event."""

    _fields_ = (
        ("offset", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("is_signed", ctypes.c_uint8),
        ("place", ctypes.c_uint8),
        ("is_there", ctypes.c_uint8),
        ("pad", ctypes.c_uint8),
    )


_PLACES = {None: 0, "__data_loc": 1, "__rel_loc": 2}


def c_field(field: Field | None) -> CField:
    """Return `field` as a C structure, which is marked as missing for None."""
    if field is None:
        return CField()
    return CField(field.offset, field.size_bytes, field.is_signed, _PLACES[field.place], True, 0)


class _COp(ctypes.Structure):
    _fields_ = (
        ("what", ctypes.c_uint8),
        ("column", ctypes.c_uint8),
        ("count", ctypes.c_uint16),
        ("pad", ctypes.c_uint32),
        ("value", ctypes.c_int64),
        ("field", CField),
        ("other", CField),
    )


class _CChoice(ctypes.Structure):
    _fields_ = (("number", ctypes.c_uint64), ("stands", ctypes.c_uint32), ("pad", ctypes.c_uint32))


class CProgram(ctypes.Structure):
    """``struct program``: how to decode the records of an event."""

    _fields_ = (
        ("first", ctypes.c_uint32),
        ("next", ctypes.c_uint32),
        ("count", ctypes.c_uint16),
        ("target", ctypes.c_uint8),
        ("kind", ctypes.c_uint8),
        ("subject", CField),
        ("flags", CField),
        ("name", CField),
        ("new_name", CField),
    )


class _CNames(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char_p), ("ends", ctypes.c_void_p), ("count", ctypes.c_uint64))


class _CTarget(ctypes.Structure):
    _fields_ = (
        ("table", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
        ("ts_ns", ctypes.c_uint8),
        ("cpu", ctypes.c_uint8),
        ("tid", ctypes.c_uint8),
        ("pid", ctypes.c_uint8),
        ("comm", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
    )


_NR_TARGETS = 6
_NO_COLUMN = 255


class CCode(ctypes.Structure):
    """``struct code``: the steps of all programs and the tables that they fill."""

    _fields_ = (
        ("ops", ctypes.c_void_p),
        ("choices", ctypes.c_void_p),
        ("fields", ctypes.c_void_p),
        ("names", _CNames),
        ("targets", _CTarget * _NR_TARGETS),
    )


Rows = Sequence[tuple[str, Sequence[Do]]]
"""The rows to build from an event: the table and the steps of each."""


class Code:
    """Programs for C. `places` has the index in `programs` of the program for the first row of each event."""

    def __init__(self, wanted: Mapping[int, Rows], names: Sequence[str]) -> None:
        """Compile the rows of each event (`wanted`, by its number). `names` are further names in use."""
        self.tables = tuple(dict.fromkeys(table for rows in wanted.values() for table, _ in rows))
        self.names = list(dict.fromkeys([*names, *_names_in(wanted)]))
        self.places: dict[int, int] = {}
        self._index = {name: number for number, name in enumerate(self.names)}
        self._ops: list[_COp] = []
        self._choices: list[_CChoice] = []
        self._fields: list[CField] = []
        programs: list[CProgram] = []
        for number, rows in wanted.items():
            self.places[number] = len(programs)
            for place, (table, steps) in enumerate(rows, 1):
                first = len(self._ops)
                self._ops.extend(self._op(table, step) for step in steps)
                following = len(programs) + 1 if place < len(rows) else 0
                programs.append(CProgram(first, following, len(steps), self.tables.index(table), 0))
        self.programs = _array(CProgram, programs)
        self._c_ops, self._c_choices = _array(_COp, self._ops), _array(_CChoice, self._choices)
        self._c_fields = _array(CField, self._fields)
        texts = [name.encode() for name in self.names]
        self._text = b"".join(texts)
        self._ends = np.cumsum([len(text) for text in texts], dtype=np.uint32)

    def bound(self, tables: Mapping[str, Table]) -> tuple[CCode, object]:
        """Return the code that fills the empty `tables`, and the objects that it points to."""
        bound = CCode(
            ctypes.addressof(self._c_ops),
            ctypes.addressof(self._c_choices),
            ctypes.addressof(self._c_fields),
            _CNames(self._text, self._ends.ctypes.data, len(self.names)),
        )
        pointees: list[object] = []
        for number, name in enumerate(self.tables):
            numbers = np.array([tables[name].strings.add(text.encode()) for text in self.names], np.uint32)
            places = {column.name: place for place, column in enumerate(tables[name].columns)}
            common = (places.get(column, _NO_COLUMN) for column in ("ts_ns", "cpu", "tid", "pid", "comm"))
            bound.targets[number] = _CTarget(tables[name].address, numbers.ctypes.data, *common)
            pointees.append(numbers)
        return bound, pointees

    def _op(self, table: str, step: Do) -> _COp:
        columns = [column.name for column in schema.table(table).columns]
        value = self._index[step.value] if isinstance(step.value, str) else step.value
        count = 0
        if step.fields:
            value, count = len(self._fields), len(step.fields)
            self._fields.extend(c_field(field) for field in step.fields)
        elif step.choices:
            value, count = len(self._choices), len(step.choices)
            self._choices.extend(_CChoice(number, self._choice_value(step, target)) for number, target in step.choices)
        op = _COp(step.what, columns.index(step.column), count, 0, value)
        op.field, op.other = c_field(step.field), c_field(step.other)
        return op

    def _choice_value(self, step: Do, target: int | str) -> int:
        if isinstance(target, int):
            return target
        return ord(target) if step.what == What.FLAGS else self._index[target]


def _names_in(wanted: Mapping[int, Rows]) -> list[str]:
    steps = [step for rows in wanted.values() for _, steps in rows for step in steps]
    chosen = [target for step in steps if step.what != What.FLAGS for _, target in step.choices]
    return [name for name in (*(step.value for step in steps), *chosen) if isinstance(name, str)]


def _array(kind: Any, items: Sequence[Any]) -> Any:
    """Return a C array of `items`, which is never empty."""
    return (kind * max(len(items), 1))(*items)
