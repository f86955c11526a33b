"""The pieces of a capture in order of time, as compact columns: five million of them are filtered at once."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import measures, native
from androstep_analysis.common import quantities, schema, units
from androstep_analysis.common.markup import visible
from androstep_analysis.explore.files import Files
from androstep_analysis.measures.tables import is_inferred

Column = npt.NDArray[Any]

PLANES: Final = ("read", "write", "other")
"""Operations that a picture distinguishes, one plane for each."""

NEAREST: Final = 1 << 16
"""The nearest piece is searched among at most this many."""

NO_GROUP: Final = np.iinfo(np.uint32).max
"""Group of codes that belong to no group."""

_TYPES: Final = {np.dtype(name): number for number, name in enumerate(("u1", "u2", "u4", "i8", "f4"))}
"""Codes of column types in native/explore/pieces.c."""


class _CView(ctypes.Structure):
    """``struct view`` of native/explore/pieces.c."""

    _fields_ = (
        ("begin_ns", ctypes.c_int64),
        ("end_ns", ctypes.c_int64),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
        ("values", ctypes.c_void_p),
        ("type", ctypes.c_uint32),
        ("by", ctypes.c_uint8),
    )


class View(NamedTuple):
    """A rectangle: a range of time (ns), and a range of values of the axis `of` (`Pieces.axes`)."""

    of: str
    begin_ns: int
    end_ns: int
    low: float
    high: float


@dataclass(frozen=True)
class Dimension:
    """A property by which pieces are filtered: the code of each piece, and a label for each code (none for files).

    `absent` explains why a dimension has no values; it is empty otherwise. `sectors` counts the sectors of each code,
    and `inferred` those of them that were only inferred.
    """

    name: str
    codes: Column
    labels: Sequence[str]
    absent: str = ""
    sectors: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    inferred: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def marked(self, name: str, first: int, last: int) -> str:
        """Return a name, marked with the inferred share of the codes ``[first, last)``."""
        whole = self.sectors[first:last].sum()
        return quantities.marked(name, self.inferred[first:last].sum() / whole if whole else None)


class Counts(NamedTuple):
    """Requests and bytes of each code, or of each group of codes."""

    requests: npt.NDArray[np.uint32]
    bytes: npt.NDArray[np.uint64]


class Device(NamedTuple):
    """A device, with the range of its sectors on the axis sector, where devices follow one another."""

    name: str
    base: int
    end: int


def shown(io: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows of table `io` that an explorer displays: all that measures count, except rows without a time."""
    return measures.counted(io).filter(measures.order_ns().is_not_null())


class Pieces:
    """The pieces of table `io` that are `shown`, in order of time.

    A piece begins when its request was issued (else queued, else completed). Its duration is from issue to completion.
    `row` is the index of each piece among the rows `shown`. `axes` has the columns for the vertical axis with their
    ranges. `bits` has the bit of each filter: one for each of `dimensions`, ``box`` and ``search``. Table `tasks` shows
    why the apps of the owners are unknown.
    """

    def __init__(self, io: pl.LazyFrame, tasks: pl.LazyFrame | None = None) -> None:
        self._tasks = tasks
        counted = shown(io)
        # Collect one column at a time: only one is then in memory with the wide type of the table.
        request = _column(counted, pl.col("request_id").rank("dense").cast(pl.UInt32))
        begin = _column(counted, measures.order_ns().min().over("request_id"))
        self.row = np.lexsort((request, begin)).astype(np.uint32)
        self.begin_ns = begin[self.row]
        self.request = request[self.row]
        del begin, request
        took = pl.col("complete_ns") - pl.col("issue_ns")
        self.took_ns = self._ordered(counted, pl.when(took >= 0).then(took).cast(pl.Float32).fill_null(np.nan))
        self.sectors = self._ordered(counted, pl.col("nr_sectors").cast(pl.UInt32))
        self.devices, place = _places(counted)
        self.place = place[self.row]
        with np.errstate(divide="ignore"):
            self.latency = np.log10(self.took_ns, where=self.took_ns > 0, out=np.full(len(self), np.nan, np.float32))
        self.files = Files(counted)
        self.dimensions = {one.name: one for one in self._dimensions(counted)}
        self.bits = {name: 1 << number for number, name in enumerate((*self.dimensions, "box", "search"))}
        self.plane = np.minimum(self.dimensions["operation"].codes, len(PLANES) - 1)
        self.excluded = np.zeros(len(self), np.uint8)
        self.chosen: dict[str, list[tuple[int, int]]] = {}
        self.box: View | None = None
        self.searched = ""
        self._longest_ns = int(np.nanmax(self.took_ns, initial=0))
        self.axes = self._axes()
        # ``struct pieces`` of native/explore/pieces.c
        columns = (self.begin_ns, self.took_ns, self.request, self.sectors, self.plane, self.excluded)
        self._c = native.columns(len(self), columns)
        self._library = _library()

    def __len__(self) -> int:
        return len(self.row)

    @property
    def nr_bytes(self) -> int:
        """Memory of all columns in bytes."""
        shared = (self.row, self.begin_ns, self.request, self.took_ns, self.sectors, self.place, self.latency)
        codes = (one.codes for one in self.dimensions.values())
        return sum(column.nbytes for column in (*shared, self.plane, self.excluded, *codes))

    # -- columns -------------------------------------------------------------------------------------------------------

    def _ordered(self, io: pl.LazyFrame, value: pl.Expr) -> Column:
        return _column(io, value)[self.row]

    def _dimensions(self, io: pl.LazyFrame) -> Iterable[Dimension]:
        absent = "" if len(self.files) > 1 else "Files: no event and no image shows which files these blocks belong to."
        files = Dimension("file", _narrow(self.files.numbers, len(self.files))[self.row], (), absent)
        yield self._with_certainty(io, files, "path", "ino")
        apps = self._named(io, "app", ["owner_package"], "")
        if apps.labels == ("unknown",):
            apps = replace(apps, absent=f"Apps: {_why_no_apps(io, self._tasks)}.")
        yield self._with_certainty(io, apps, "owner_package")
        processes = self._named(
            io, "process", ["owner_comm", "owner_pid"], "Processes: the owners of all pieces are unknown."
        )
        yield self._with_certainty(io, processes, "owner_comm", "owner_pid")
        for name, column in (("block type", "block_type"), ("operation", "op")):
            kinds = schema.table("io").column(column).values
            codes = self._ordered(io, pl.col(column).to_physical().cast(pl.UInt8).fill_null(len(kinds)))
            is_unknown = name == "block type" and not np.isin(codes, _codes(kinds, ("unknown",)), invert=True).any()
            absent = "Block types: no event and no image shows what these blocks hold." if is_unknown else ""
            named = Dimension(name, codes, (*(word.replace("_", " ") for word in kinds), "no blocks"), absent)
            yield self._with_certainty(io, named, column)
        size = (pl.col("nr_sectors").sum().over("request_id") - 1).cast(pl.Float64)
        power = pl.when(size < 0).then(0).when(size < 1).then(1).otherwise(size.log(2).floor() + 2)
        sizes = self._ordered(io, power.cast(pl.UInt8))
        labels = [quantities.size(units.SECTOR_BYTES << power) for power in range(max(int(sizes.max(initial=0)), 1))]
        yield Dimension("size", sizes, ("no data", *(f"≤ {label}" for label in labels)))

    def _with_certainty(self, io: pl.LazyFrame, one: Dimension, *columns: str) -> Dimension:
        """Return the dimension with the sectors of each code, in all and inferred. It is derived from `columns`."""
        names = io.collect_schema().names()
        is_likely = self._ordered(io, pl.any_horizontal(is_inferred([column], names) for column in columns))
        sectors = self.sectors.astype(np.float64)
        return replace(
            one,
            sectors=np.bincount(one.codes, sectors).astype(np.float64),
            inferred=np.bincount(one.codes, np.where(is_likely, sectors, 0.0)).astype(np.float64),
        )

    def _named(self, io: pl.LazyFrame, name: str, columns: list[str], absent: str) -> Dimension:
        """Return a dimension with a code for each distinct row of `columns`. Code 0 is unknown."""
        is_known = pl.any_horizontal(pl.col(columns).is_not_null())
        found = io.select(columns).filter(is_known).unique().sort(columns, nulls_last=True).collect()
        found = found.with_row_index("code", offset=1)
        if found.is_empty():
            return Dimension(name, np.zeros(len(self), np.uint8), ("unknown",), absent)
        codes = io.select(columns).join(found.lazy(), on=columns, how="left", nulls_equal=True, maintain_order="left")
        numbers = _narrow(_column(codes, pl.col("code").fill_null(0)), found.height + 1)[self.row]
        return Dimension(name, numbers, ("unknown", *(_called(*row) for row in found.select(columns).iter_rows())))

    def _axes(self) -> dict[str, tuple[float, float]]:
        """Return the columns that the vertical axis can have, with their ranges."""
        axes = {}
        if self.devices and self.devices[-1].end:
            axes["sector"] = (float(self.devices[0].base), float(self.devices[-1].end))
        if not self.dimensions["file"].absent:
            axes["file"] = (0.0, float(len(self.files)))
        if np.isfinite(self.latency).any():
            axes["latency"] = (float(np.floor(np.nanmin(self.latency))), float(np.ceil(np.nanmax(self.latency) + 0.01)))
        return axes

    def values(self, of: str) -> Column:
        """Return the column of an axis."""
        return {"sector": self.place, "latency": self.latency, "file": self.dimensions["file"].codes}[of]

    # -- filters -------------------------------------------------------------------------------------------------------

    def choose(self, name: str, ranges: Collection[tuple[int, int]]) -> None:
        """Filter by a dimension: keep pieces with codes in one of the `ranges` (begin, end).

        No ranges remove the filter.
        """
        codes = self.dimensions[name].codes
        self.chosen[name] = sorted(ranges)
        is_out = np.full(int(codes.max(initial=0)) + 1, bool(ranges))
        for first, last in ranges:
            is_out[first:last] = False
        self._exclude(self.bits[name], is_out[codes])

    def choose_box(self, box: View | None) -> None:
        """Filter by a box: keep pieces that begin in it. None removes the filter."""
        self.box = box
        if box is None:
            self._exclude(self.bits["box"], np.zeros(len(self), bool))
            return
        first, last = self._within(box)
        values = self.values(box.of)[first:last]
        is_out = np.ones(len(self), bool)
        is_out[first:last] = ~((values >= box.low) & (values < box.high))
        self._exclude(self.bits["box"], is_out)

    def search(self, text: str) -> None:
        """Filter by text: keep pieces whose file, app or process name contains it. Case is ignored.

        An empty text removes the filter.
        """
        self.searched = text
        is_out = np.full(len(self), bool(text))
        if text:
            for name in ("file", "app", "process"):
                one = self.dimensions[name]
                holds = self.files.holding(text) if name == "file" else _holding(one.labels, text)
                is_out &= ~holds[one.codes]
        self._exclude(self.bits["search"], is_out)

    def _exclude(self, bit: int, is_out: npt.NDArray[np.bool_]) -> None:
        self.excluded &= np.uint8(0xFF ^ bit)
        np.bitwise_or(self.excluded, np.uint8(bit), out=self.excluded, where=is_out)

    @property
    def selected(self) -> pl.Series:
        """For each row that is `shown`, whether it matches all filters."""
        is_chosen = np.zeros(len(self), bool)
        is_chosen[self.row] = self.excluded == 0
        return pl.Series("selected", is_chosen)

    # -- queries -------------------------------------------------------------------------------------------------------

    def _within(self, view: View) -> tuple[int, int]:
        first, last = np.searchsorted(self.begin_ns, [view.begin_ns, view.end_ns])
        return int(first), int(last)

    def _seen(self, view: View, without: str | None) -> Any:
        """Return the view for C, with all filters except `without`."""
        values = self.values(view.of)
        by = 0xFF if without is None else 0xFF ^ self.bits[without]
        bounds = view.begin_ns, view.end_ns, view.low, view.high
        return ctypes.byref(_CView(*bounds, values.ctypes.data, _TYPES[values.dtype], by))

    def cells(self, view: View, width: int, height: int) -> tuple[npt.NDArray[np.uint32], int]:
        """Count the pieces in each cell of a picture, and the pieces in its time range that have no value on its axis.

        The shape is (planes, height, width), with the lowest value first. The box is ignored, because the page draws
        it.
        """
        cells = np.zeros((len(PLANES), height, width), np.uint32)
        first, last = self._within(view)
        seen = self._seen(view, "box")
        without = self._library.pieces_cells(ctypes.byref(self._c), seen, first, last, width, height, cells.ctypes.data)
        return cells, int(without)

    def rows(self, view: View, most: int) -> tuple[npt.NDArray[np.uint32], bool]:
        """Return at most `most` pieces that are in flight within the view, and whether these are all.

        The box is ignored.
        """
        first = int(np.searchsorted(self.begin_ns, view.begin_ns - self._longest_ns))
        rows = np.empty(most, np.uint32)
        seen, last = self._seen(view, "box"), self._within(view)[1]
        count = self._library.pieces_rows(ctypes.byref(self._c), seen, first, last, rows.ctypes.data, most)
        return rows[:count], count <= most

    def nearest(self, view: View) -> int | None:
        """Return the piece nearest to the middle of the view, or None if the view is empty."""
        found, is_all = self.rows(view, NEAREST)
        while not is_all and view.end_ns - view.begin_ns > 8:  # zoom in on the inner half
            across, up = (view.end_ns - view.begin_ns) // 4, (view.high - view.low) / 4
            view = View(view.of, view.begin_ns + across, view.end_ns - across, view.low + up, view.high - up)
            found, is_all = self.rows(view, NEAREST)
        if not found.size:
            return None
        begin = self.begin_ns[found] - (view.begin_ns + view.end_ns) / 2
        across_ns = begin + np.clip(-begin, 0, np.nan_to_num(self.took_ns[found]))  # 0 while it is in flight
        up_by = self.values(view.of)[found] - (view.low + view.high) / 2
        distance = np.hypot(across_ns / (view.end_ns - view.begin_ns), up_by / (view.high - view.low))
        return int(found[np.argmin(distance)])

    def neighbour(self, row: int, by: int) -> int | None:
        """Return the next (`by` is 1) or previous (-1) row that matches all filters."""
        rest = self.excluded[row + 1 :] if by > 0 else self.excluded[: max(row, 0)][::-1]
        is_in = rest == 0
        at = int(is_in.argmax()) if is_in.size else 0
        return (row + (at + 1) * by) if is_in.size and is_in[at] else None

    def counts(self, name: str, view: View, groups: npt.NDArray[np.uint32] | None = None) -> Counts:
        """Count requests and bytes of each code of a dimension in the time range of the view.

        All filters apply except the one of this dimension. With `groups`, count each group of codes instead: it has the
        group of each code, or `NO_GROUP`.
        """
        codes = self.dimensions[name].codes
        size = (
            int(codes.max(initial=0)) + 1
            if groups is None
            else int(groups.max(where=groups != NO_GROUP, initial=0)) + 1
        )
        return self._count(codes, size, 0xFF ^ self.bits[name], view, groups)

    def total(self, view: View | None = None) -> tuple[int, int]:
        """Return the requests and bytes that match all filters, optionally only in the time range of a view."""
        counts = self._count(self.plane, len(PLANES), 0xFF, view, None)  # a request has one operation
        return int(counts.requests.sum()), int(counts.bytes.sum())

    def _count(
        self, codes: Column, size: int, by: int, view: View | None, groups: npt.NDArray[np.uint32] | None
    ) -> Counts:
        first, last = (0, len(self)) if view is None else self._within(view)
        latest = np.full(size, np.iinfo(np.uint32).max, np.uint32)
        requests, sectors = np.zeros(size, np.uint32), np.zeros(size, np.uint64)
        self._library.pieces_count(
            ctypes.byref(self._c), codes.ctypes.data, _TYPES[codes.dtype],
            None if groups is None else groups.ctypes.data, by, first, last,
            latest.ctypes.data, requests.ctypes.data, sectors.ctypes.data,
        )  # fmt: skip
        return Counts(requests, sectors * np.uint64(units.SECTOR_BYTES))


def _column(io: pl.LazyFrame, value: pl.Expr) -> Column:
    return io.select(value.alias("value")).collect()["value"].to_numpy()


def _why_no_apps(io: pl.LazyFrame, tasks: pl.LazyFrame | None) -> str:
    """Return why no owner has an Android package. Listings of users and packages would show it."""
    owners = io.select(pid="owner_pid").drop_nulls().unique()
    if owners.head(1).collect().is_empty():
        return "the processes that own the pieces are unknown"
    if tasks is None or tasks.filter(pl.col("uid").is_not_null()).join(owners, on="pid").head(1).collect().is_empty():
        return "no listing of processes has the users of the owners, which would show their packages"
    if tasks.filter(pl.col("package").is_not_null()).head(1).collect().is_empty():
        return "the users of the owners are known, but no list of packages was recorded"
    return "no owner is a process of a listed package"


def _narrow(codes: Column, count: int) -> Column:
    """Return the codes in the narrowest unsigned type for `count` codes."""
    return codes.astype(np.min_scalar_type(max(count - 1, 0)), copy=False)


def _codes(words: Sequence[str], chosen: Collection[str]) -> list[int]:
    """Return the codes of these words of an enum, and the code of null."""
    return [*(words.index(word) for word in chosen), len(words)]


def _places(io: pl.LazyFrame) -> tuple[list[Device], Column]:
    """Return the devices one after the other, and the position of each piece (Int64, -1 if it has none)."""
    end = (pl.col("sector") + pl.col("nr_sectors")).max()
    ends = io.filter(pl.col("sector").is_not_null()).group_by("dev").agg(end=end).sort("dev").collect()
    based = ends.with_columns(base=pl.col("end").cum_sum() - pl.col("end"))
    devices = [Device(units.format_dev(dev), base, base + end) for dev, end, base in based.iter_rows()]
    placed = io.join(based.lazy(), on="dev", how="left", maintain_order="left")
    return devices, _column(placed, (pl.col("sector") + pl.col("base")).fill_null(-1))


def _holding(labels: Sequence[str], text: str) -> npt.NDArray[np.bool_]:
    """Return for each label whether it contains the text. The first label means unknown and never matches."""
    return np.array([number > 0 and text.lower() in label.lower() for number, label in enumerate(labels)])


def _called(name: str | None, pid: int | None = None) -> str:
    called = visible(name) if name else "a process without a known name"
    return called if pid is None else f"{called} ({pid})"


_library = native.library
