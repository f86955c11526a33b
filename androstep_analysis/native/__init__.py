"""Call the compiled decoders through ctypes.

The C sources are in the subdirectories of this package. Their functions fill the numpy arrays of a `Table`. The library
does not use Python's C API, so that one wheel serves every Python version. tools/build_native.py builds it with the zig
compiler from PyPI.
"""

from __future__ import annotations

import ctypes
import functools
import json
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from androstep_analysis.common import schema

LIBRARY = Path(__file__).with_name("libandrostep.so")
PROTOTYPES = Path(__file__).with_name("libandrostep.so.json")

_MAX_COLUMNS = 48

_KINDS: dict[str, tuple[int, type[np.generic], int]] = {
    "int64": (0, np.int64, -(1 << 63)),
    "int32": (1, np.int32, -(1 << 31)),
    "uint32": (2, np.uint32, (1 << 32) - 1),
    "bool": (3, np.uint8, (1 << 8) - 1),
    "string": (4, np.uint32, (1 << 32) - 1),
    "enum": (5, np.uint8, (1 << 8) - 1),
}
"""Each dtype of the schemas: its kind in core/table.h, its numpy type and the value that encodes null."""


def none(dtype: str) -> int:
    """Return the value that encodes null in a column of this schema dtype."""
    return _KINDS[dtype][2]


class _CTable(ctypes.Structure):
    """Mirror of ``struct table`` in core/table.h."""

    _fields_ = (
        ("rows", ctypes.c_size_t),
        ("nulled", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("nr_columns", ctypes.c_size_t),
        ("strings", ctypes.c_void_p),
        ("values", ctypes.c_void_p * _MAX_COLUMNS),
        ("kinds", ctypes.c_uint8 * _MAX_COLUMNS),
    )


_TYPES: dict[str, Any] = {
    **{"void": None, "bool": ctypes.c_bool, "int": ctypes.c_int, "unsigned": ctypes.c_uint, "double": ctypes.c_double},
    **{f"{kind}{bits}_t": getattr(ctypes, f"c_{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{"size_t": ctypes.c_size_t, "void *": ctypes.c_void_p, "char *": ctypes.c_char_p},
    "uint64_t *": ctypes.POINTER(ctypes.c_uint64),
}
"""The types in prototypes (tools/build_native.py)."""


@functools.cache
def library() -> ctypes.CDLL:
    """Load the compiled library, with the prototypes of its functions."""
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
        prototypes = json.loads(PROTOTYPES.read_text("utf-8"))
    except OSError as error:
        raise ImportError(
            f"{LIBRARY}: the decoders are not built ({error}); run `make setup` in the checkout"
        ) from None
    for name, (result, *arguments) in prototypes.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = _TYPES[result], [_TYPES[argument] for argument in arguments]
    return loaded


def owned(owner: object, free: Callable[[int], None], handle: int | None) -> int:
    """Return the address of a C object, which is freed with `owner`. Raise `MemoryError` if there is none."""
    if not handle:
        raise MemoryError
    weakref.finalize(owner, free, handle)
    return handle


class Strings:
    """Interned strings: each distinct string that the decoders read is stored once and has an index."""

    def __init__(self) -> None:
        self.handle = owned(self, library().strings_free, library().strings_new())

    def __len__(self) -> int:
        return int(library().strings_count(self.handle))

    @property
    def nr_bytes(self) -> int:
        """Total size of all strings in bytes."""
        return int(library().strings_bytes(self.handle))

    def add(self, text: bytes) -> int:
        """Intern `text` and return its index."""
        return int(library().strings_add(self.handle, text, len(text)))

    def array(self) -> pa.StringArray:
        """Return all strings in the order of their indices; bytes that are not UTF-8 become ``\\xNN``."""
        text = np.empty(self.nr_bytes, np.uint8)
        offsets = np.empty(len(self) + 1, np.int32)
        library().strings_copy(self.handle, text.ctypes.data, offsets.ctypes.data)
        offset_buffer, text_buffer = pa.py_buffer(offsets.data), pa.py_buffer(text.data)
        array = pa.StringArray.from_buffers(len(self), offset_buffer, text_buffer)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raw = pa.BinaryArray.from_buffers(pa.binary(), len(self), [None, offset_buffer, text_buffer]).to_pylist()
            return pa.array([(value or b"").decode(errors="backslashreplace") for value in raw], pa.string())
        return array


class Table:
    """Column buffers for up to `capacity` rows of table `name` (a file of schemas/), filled by C functions.

    C functions take `pointer` as ``struct table *``. String columns hold indices into `strings`. Several tables may
    share one `Strings`.
    """

    def __init__(self, name: str, capacity: int, strings: Strings | None = None) -> None:
        self.columns = schema.table(name).columns
        self.strings = Strings() if strings is None else strings
        self._c = _CTable(0, 0, capacity, len(self.columns), self.strings.handle)
        self._values: list[npt.NDArray[np.generic]] = []
        for index, column in enumerate(self.columns):
            kind, dtype, _ = _KINDS[column.dtype]
            values = np.empty(capacity, dtype)
            self._values.append(values)
            self._c.values[index] = values.ctypes.data
            self._c.kinds[index] = kind
        self._set_rows(0)

    @property
    def pointer(self) -> ctypes._Pointer[_CTable] | object:
        """Reference to pass to a C function as ``struct table *``."""
        return ctypes.byref(self._c)

    @property
    def address(self) -> int:
        """Memory address, for a C structure that points to the table. The table must outlive that structure."""
        return ctypes.addressof(self._c)

    @property
    def rows(self) -> int:
        """Number of rows filled so far."""
        return int(self._c.rows)

    @property
    def capacity(self) -> int:
        """Maximum number of rows."""
        return int(self._c.capacity)

    def clear(self) -> None:
        """Remove all rows, but not the strings."""
        self.keep(np.empty(0, np.int64))

    def keep(self, rows: npt.NDArray[np.int64]) -> None:
        """Remove all rows except those with these ascending indices. The strings stay."""
        for values in self._values:
            values[: len(rows)] = values[rows]
        self._set_rows(len(rows))

    def _set_rows(self, count: int) -> None:
        self._c.rows = self._c.nulled = count
        library().table_null(self.pointer)  # C appends to rows without values

    def fill(self, frame: pl.DataFrame) -> None:
        """Replace all rows by those of `frame`, which has the table's columns and at most `capacity` rows."""
        self._set_rows(frame.height)
        for column, values in zip(self.columns, self._values, strict=True):
            _, dtype, none = _KINDS[column.dtype]
            series = frame[column.name]
            if column.dtype == "enum":
                series = series.to_physical()
            elif column.dtype == "string":
                distinct = series.unique().drop_nulls()
                indices = [self.strings.add(word.encode()) for word in distinct]
                series = series.replace_strict(distinct, indices, default=None, return_dtype=pl.UInt32)
            values[: frame.height] = series.cast(pl.Int64).fill_null(none).to_numpy().astype(dtype)

    def column(self, name: str) -> npt.NDArray[np.generic]:
        """Return a view of one column in its C encoding, in which null is a sentinel (core/table.h: NO_...)."""
        index = next(index for index, column in enumerate(self.columns) if column.name == name)
        return self._values[index][: self.rows]

    def arrow(self, order: npt.NDArray[np.int64] | None = None) -> pa.Table:
        """Copy the rows into an Arrow table for `Spool.append`, with strings and enums dictionary-encoded (int32).

        `order` holds the indices of the rows to copy, in the order of the result; without it all rows are copied.
        """
        texts = self.strings.array()
        arrays = [self._array(index, texts, order) for index in range(len(self.columns))]
        return pa.table(arrays, names=[column.name for column in self.columns])

    def _array(self, index: int, texts: pa.StringArray, order: npt.NDArray[np.int64] | None) -> pa.Array[Any]:
        """Copy a column into an Arrow array.

        The buffers come from malloc, which reuses freed pages. Faulting in new pages would cost more than the copy.
        """
        column, rows = self.columns[index], self.rows if order is None else len(order)
        dtype = _DICTIONARY if column.dtype in _TEXTS else column.arrow
        if not library().table_present(self.pointer, index):
            return _nulls(dtype, self.capacity).slice(0, rows)
        plain = pa.int32() if column.dtype in _TEXTS else column.arrow
        pool = pa.system_memory_pool()  # Arrow's default pool returns freed memory to the kernel at once.
        values = pa.allocate_buffer(-(-rows * plain.bit_width // 8), memory_pool=pool)
        bits = pa.allocate_buffer(-(-rows // 8), memory_pool=pool)
        indices = None if order is None else order.ctypes.data
        present = library().table_copy(self.pointer, index, indices, rows, values.address, bits.address)
        array: Any = pa.Array.from_buffers(plain, rows, [None if present == rows else bits, values], rows - present)
        if column.dtype in _TEXTS:
            categories = texts if column.dtype == "string" else _texts(column.values)
            array = pa.DictionaryArray.from_arrays(array, categories, safe=False)
        copied: pa.Array[Any] = array
        return copied


def array(column: pl.Series, dtype: str | None = None) -> npt.NDArray[np.generic]:
    """Return a column as a contiguous array for C. With the schema dtype, nulls become the value that encodes them."""
    values = column.to_physical()
    if dtype is not None and values.null_count():
        values = values.fill_null(none(dtype))
    return np.ascontiguousarray(values.rechunk().to_numpy())


def columns(rows: int, arrays: Iterable[npt.NDArray[Any]]) -> ctypes.Array[ctypes.c_uint64]:
    """Return a C structure of the number of rows and the address of each column. The arrays must outlive it."""
    addresses = [values.ctypes.data for values in arrays]
    return (ctypes.c_uint64 * (1 + len(addresses)))(rows, *addresses)


def check(is_done: bool) -> None:
    """Raise `MemoryError` if a C function reports that memory ran out."""
    if not is_done:
        raise MemoryError


def frame(columns: Mapping[str, npt.NDArray[np.generic]]) -> pl.DataFrame:
    """Return numpy arrays as a DataFrame by way of Arrow: polars' own path imports numpy.ma, which takes 50 ms."""
    arrays = {}
    for name, values in columns.items():
        buffer = pa.py_buffer(np.ascontiguousarray(values).data)
        arrays[name] = pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])
    return pl.DataFrame(pa.table(arrays))


_TEXTS = ("string", "enum")
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())


@functools.cache
def _nulls(dtype: Any, rows: int) -> pa.Array[Any]:
    array: pa.Array[Any] = pa.nulls(rows, dtype)
    return array


@functools.cache
def _texts(values: tuple[str, ...]) -> pa.StringArray:
    raw = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, raw)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(raw), pa.py_buffer(ends.data), pa.py_buffer(b"".join(raw)))
