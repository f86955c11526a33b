"""Compile forms: patterns for the text after an event's name that map its parts to columns.

A form is literal text with placeholders in braces. ``{column}`` is a decimal number for that column of the table. A
suffix after a colon selects another notation:

====================  =============================================================================================
``x``, ``s``          a hexadecimal number; a number that may be negative ``length``            a number, or null if it
is negative ``o``                 an octal number ``last``              the last byte of a range that begins at
`offset_bytes`; the column is the length of the range ``device``            major and minor number, separated by a comma
or colon ``found``             a number that is valid only if `error` is 0 and the number is not all ones of 32 bits
``text``, ``rest``    as much text as possible; the rest of the line ``quoted``            text in quotation marks, or
``(fault)`` for null; with a number appended, a component of a path ``flags``             capital letters and an
optional hexadecimal number ``f2fs``, ``type``    the type of an F2FS block as a word, as a number ``=N``
no text: the column is N ====================
=============================================================================================

Placeholders without a column: ``{#}`` digits, ``{w}`` a word, ``{?c}`` optional c, ``{*}`` any text, ``{*w}`` any text
up to the start of a word, ``{place}`` the location of a probe, ``{end}`` the end of the line. A form without ``{end}``
may be followed by any text. The compiled matcher is native/decode/text/forms.c.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable

from androstep_analysis.common import schema

_KINDS = {
    **{"literal": 0, "maybe": 1, "digits": 2, "word": 3, "place": 4, "end": 5, "number": 6, "signed": 7, "device": 8},
    **{"flags": 9, "f2fs": 10, "any": 11, "words_end": 12, "text": 13, "rest": 14, "quoted": 15, "set": 16, "type": 17},
}
"""``enum step_kind`` of native/decode/text/forms.h."""

_REQUIRED, _FOUND, _LEVEL, _LENGTH, _LAST = 1, 2, 4, 8, 16
_NO_COLUMN = 255

_PLACES = {"#": "digits", "w": "word", "*": "any", "*w": "words_end", "place": "place", "end": "end"}
_NUMBERS = {"": 10, "x": 16, "o": 8, "found": 10}
_PLACE = re.compile(r"\{([^}]*)\}")


class Step(ctypes.Structure):
    """``struct step`` of native/decode/text/forms.h."""

    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("column", ctypes.c_uint8),
        ("base", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("length", ctypes.c_uint32),
        ("literal", ctypes.c_char_p),
    )


@functools.cache
def compiled(form: str, table: str) -> ctypes.Array[Step]:
    """Return the steps of `form` for columns of `table`. Raise `ValueError` for an unknown placeholder."""
    columns = [column.name for column in schema.table(table).columns]
    return _steps(form, lambda place: _placeholder(place, columns))


@functools.cache
def of_counters(form: str, event: str, unit: Callable[[str, str], str]) -> ctypes.Array[Step]:
    """Return the steps of `form`, whose columns are `dev` and the counters of an event.

    The step of a counter has its name in table `samples`, a space and its unit as the literal.
    """

    def step(place: str) -> Step:
        if place in _PLACES or place == "dev:device":
            return _placeholder(place, ["dev"])
        return _step("number", 0, 10, literal=f"{event}.{place} {unit(event, place)}".encode())

    return _steps(form, step)


def _steps(form: str, placeholder: Callable[[str], Step]) -> ctypes.Array[Step]:
    steps = []
    for number, part in enumerate(_PLACE.split(form)):
        if number % 2:
            steps.append(placeholder(part))
        elif part:
            steps.append(_step("literal", literal=part.encode()))
    return (Step * len(steps))(*steps)


def _step(
    kind: str, column: int = _NO_COLUMN, base: int = 0, flags: int = 0, length: int = 0, literal: bytes = b""
) -> Step:
    return Step(_KINDS[kind], column, base, flags, length or len(literal), literal)


def _placeholder(text: str, columns: list[str]) -> Step:
    if text in _PLACES:
        return _step(_PLACES[text])
    if text.startswith("?"):
        return _step("maybe", literal=text[1:].encode())
    name, _, kind = text.partition(":")
    if name not in columns:
        raise ValueError(f"{text!r}: no such column")
    column = columns.index(name)
    required = _REQUIRED if name in ("dev", "ino") else 0
    if kind in _NUMBERS:
        return _step("number", column, _NUMBERS[kind], _FOUND if kind == "found" else required)
    if kind == "last":
        return _step("number", column, 10, _LAST, length=columns.index("offset_bytes"))
    if kind.startswith("="):
        return _step("set", column, length=int(kind[1:]))
    if kind.startswith("quoted") and kind != "quoted":
        return Step(_KINDS["quoted"], column, 0, _LEVEL, int(kind[6:]), b"")
    if kind in ("s", "length"):
        return _step("signed", column, flags=_LENGTH if kind == "length" else 0)
    if kind == "type":
        return _step("type", column, 10)
    return _step(kind, column, flags=required if kind == "device" else 0)
