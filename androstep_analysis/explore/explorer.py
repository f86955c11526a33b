"""The Python side of the explorer: it answers the messages of the page, explorer.js."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import anywidget
import numpy as np
import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.losses import Losses
from androstep_analysis.common.markup import visible
from androstep_analysis.explore.files import Entry
from androstep_analysis.explore.pieces import NO_GROUP, PLANES, Counts, Dimension, Pieces, View, shown
from androstep_analysis.explore.story import Stories

_HERE = Path(__file__).parent

POINTS: Final = 3000
"""Up to this number, pieces are drawn one by one. Above it the page draws a density picture."""

LISTED: Final = 100
"""Entries displayed of a list or a directory: those with the most requests."""

UNFOLDED: Final = 20
"""A search that finds at most this many files displays them without opening their directories."""

_NAMES = 12
"""Names of files next to a picture, at most."""


class _Page(anywidget.AnyWidget):
    """The page. Everything that it displays arrives as messages."""

    _esm = _HERE / "explorer.js"
    _css = _HERE / "explorer.css"


class Explorer:
    """Explorer of a capture's requests: a timeline, lists that filter it, and the details of each request.

    The last line of a notebook cell displays it. `widget` is the page, for layouts of your own.

    Parameters
    ----------
    tables : mapping of str to polars.LazyFrame
        Tables requests, io and fs_events of a capture, and tasks if there is one.
    title : str
        Name of the capture.
    begin_ns : int, optional
        Origin of the displayed times (default: the first request).
    page_bytes : int, optional
        Size of the kernel's pages, if the recording reports it.
    lost : Losses, optional
        Events that the recording lost.

    Raises
    ------
    InputError
        If there are no requests.
    """

    def __init__(
        self,
        tables: Mapping[str, pl.LazyFrame],
        title: str,
        *,
        begin_ns: int | None = None,
        page_bytes: int | None = None,
        lost: Losses | None = None,
    ) -> None:
        self._io = tables["io"]
        self._pieces = Pieces(self._io, tables.get("tasks"))
        if not len(self._pieces):
            raise InputError(f"{title}: no requests to explore")
        self._title = title
        self._begin_ns = int(self._pieces.begin_ns[0]) if begin_ns is None else begin_ns
        self._stories = Stories(tables, page_bytes, self._begin_ns, Losses() if lost is None else lost)
        self.widget = _Page()
        self.widget.on_msg(lambda _, message, __: self._answer(message))

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        return self.widget._repr_mimebundle_(**asked)

    @property
    def selection(self) -> pl.DataFrame:
        """Rows of table `io` that match all filters, in the order of the table.

        Without filters these are all rows that measures count.

        Returns
        -------
        polars.DataFrame
            One row for each piece, with the columns of table `io`.
        """
        return shown(self._io).filter(self._pieces.selected).collect()

    # -- messages ------------------------------------------------------------------------------------------------------

    def _answer(self, message: Mapping[str, Any]) -> None:
        """Reply to one message of the page. `from` identifies the page: the explorer may be displayed several times."""
        kind, page = message["kind"], message["from"]
        try:
            answer, buffers = getattr(self, f"_on_{kind}")(message)
        except Exception as error:  # after any error: else the page would wait for ever
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self.widget.send({"kind": "failed", "from": page, "asked": kind, "why": visible(why)})
            raise
        self.widget.send({"kind": kind, "from": page, **answer}, buffers)

    def _on_about(self, _: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return the title, time range, axes and dimensions, and the current filters."""
        pieces = self._pieces
        last = int(pieces.begin_ns[-1]), int(np.nanmax(pieces.begin_ns[-1000:] + np.nan_to_num(pieces.took_ns[-1000:])))
        answer = {
            "title": visible(self._title),
            "begin": int(pieces.begin_ns[0]) - self._begin_ns,
            "end": max(*last, int(pieces.begin_ns[0]) + 1) - self._begin_ns,
            "axes": pieces.axes,
            "devices": [device._asdict() for device in pieces.devices],
            "dimensions": [{"name": one.name, "absent": one.absent} for one in pieces.dimensions.values()],
            "planes": PLANES,
        }
        return answer | self._brushed(), []

    def _brushed(self) -> dict[str, Any]:
        box = self._pieces.box
        shown_box = None if box is None else box._asdict() | {
            "begin_ns": box.begin_ns - self._begin_ns, "end_ns": box.end_ns - self._begin_ns
        }  # fmt: skip
        return {"chosen": self._pieces.chosen, "box": shown_box, "search": self._pieces.searched}

    def _view(self, asked: Mapping[str, Any]) -> View:
        begin, end = (round(asked[name]) + self._begin_ns for name in ("begin_ns", "end_ns"))
        return View(asked["of"], begin, max(end, begin + 1), float(asked["low"]), float(asked["high"]))

    def _on_picture(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return the pieces themselves if they are few, or a picture of their density."""
        view = self._view(message["view"])
        answer = {"view": message["view"], "names": self._names(view)}
        rows, is_all = self._pieces.rows(view, POINTS)
        if is_all:
            return answer | {"rows": len(rows)}, self._points(view, rows)
        width, height = int(message["width"]), int(message["height"])
        cells, without = self._pieces.cells(view, width, height)
        most = int(cells.max())
        planes = [plane for plane in range(len(PLANES)) if cells[plane].any()]
        scale = 255 / np.log1p(most, dtype=np.float32) if most else 0
        buffers = [
            np.ceil(np.log1p(cells[plane], dtype=np.float32) * scale).astype(np.uint8).tobytes() for plane in planes
        ]
        answer |= {"width": width, "height": height, "planes": planes, "most": most, "without": without}
        return answer, buffers

    def _points(self, view: View, rows: Any) -> list[bytes]:
        """Return begin and duration (ns, NaN if unknown), value, sectors and plane of each piece."""
        pieces = self._pieces
        begin = (pieces.begin_ns[rows] - self._begin_ns).astype(np.float64)
        columns = (
            begin,
            pieces.took_ns[rows].astype(np.float64),
            pieces.values(view.of)[rows].astype(np.float64),
            pieces.sectors[rows],
            pieces.plane[rows],
        )
        return [column.tobytes() for column in columns]

    def _names(self, view: View) -> list[tuple[float, str]]:
        """Return positions and names of files for the vertical axis; empty for other axes."""
        if view.of != "file":
            return []
        first, last = max(int(np.ceil(view.low)), 0), min(int(view.high), len(self._pieces.files))
        step = max(-(-(last - first) // _NAMES), 1)
        files = self._pieces.dimensions["file"]
        name = self._pieces.files.name
        return [(number + 0.5, files.marked(name(number), number, number + 1)) for number in range(first, last, step)]

    def _on_brush(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        ranges = [(int(first), int(last)) for first, last in message["ranges"]]
        self._pieces.choose(message["dimension"], ranges)
        return self._brushed(), []

    def _on_box(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        self._pieces.choose_box(None if message["view"] is None else self._view(message["view"]))
        return self._brushed(), []

    def _on_clear(self, _: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        for name in self._pieces.chosen:
            self._pieces.choose(name, [])
        self._pieces.choose_box(None)
        self._pieces.search("")
        return self._brushed(), []

    def _on_search(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        self._pieces.search(message["text"])
        return self._brushed(), []

    def _on_lists(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return the entries of each list: files, apps and so on, in the box, or else in the visible time."""
        view = self._pieces.box or self._view(message["view"])
        opened = {(int(first), int(last)) for first, last in message["open"]}
        lists = {
            one.name: list(self._tree(view, opened) if one.name == "file" else self._list(one.name, view))
            for one in self._pieces.dimensions.values()
            if not one.absent
        }
        requests, nr_bytes = self._pieces.total(view)
        chosen, chosen_bytes = self._pieces.total()
        answer = {
            "lists": lists,
            "shown": f"{requests:,} requests, {quantities.size(nr_bytes)}",
            "selected": f"{chosen:,} requests, {quantities.size(chosen_bytes)}",
            "is_brushed": bool(self._pieces.box or self._pieces.searched or any(self._pieces.chosen.values())),
        }
        return answer, []

    def _list(self, name: str, view: View) -> Iterator[dict[str, Any]]:
        one, counts = self._pieces.dimensions[name], self._pieces.counts(name, view)
        kept = {first for first, _ in self._pieces.chosen.get(name, ())}
        present = np.flatnonzero(counts.requests)
        order = (
            present
            if name == "size"
            else present[np.argsort(-counts.requests[present].astype(np.int64), kind="stable")]
        )
        codes = [*order[:LISTED].tolist(), *sorted(kept - {*order[:LISTED].tolist()})]
        for code in codes:
            yield _row(one, Entry(code, code + 1, one.labels[code], 0, False), counts, code)
        if len(order) > LISTED:
            yield {"more": len(order) - LISTED, "depth": 0}

    def _tree(self, view: View, opened: set[tuple[int, int]]) -> Iterator[dict[str, Any]]:
        """Yield the rows of the file tree, including the entries of open directories.

        Each level is counted in one pass over the pieces.
        """
        files = self._pieces.files
        weights = self._pieces.counts("file", view).requests
        chosen = self._pieces.chosen.get("file", ())
        is_unfolded = bool(self._pieces.searched) and np.count_nonzero(weights) <= UNFOLDED
        weights = np.concatenate([weights, np.zeros(len(files) - len(weights), np.uint32)])

        def below(level: list[tuple[Entry | None, list[Entry], int]]) -> dict[Entry | None, list[dict[str, Any]]]:
            """Return the rows of each directory of a level, including open subdirectories."""
            entries = [entry for _, children, _ in level for entry in children]
            if not entries:
                return {}
            groups = np.full(len(files), NO_GROUP, np.uint32)
            for number, entry in enumerate(entries):
                groups[entry.first : entry.last] = number
            counts = self._pieces.counts("file", view, groups)
            numbers = {entry: number for number, entry in enumerate(entries)}
            is_open = [
                entry
                for entry in entries
                if entry.is_directory and (is_unfolded or (entry.first, entry.last) in opened)
            ]
            inner = below([(entry, *files.children(entry, weights, LISTED)) for entry in is_open])
            rows: dict[Entry | None, list[dict[str, Any]]] = {}
            for directory, children, more in level:
                lines = rows[directory] = []
                for entry in sorted(children, key=lambda one: -int(counts.requests[numbers[one]])):
                    if not counts.requests[numbers[entry]] and (entry.first, entry.last) not in chosen:
                        continue
                    lines.append(
                        _row(self._pieces.dimensions["file"], entry, counts, numbers[entry])
                        | {"is_open": entry in is_open}
                    )
                    lines += inner.get(entry, ())
                if more:
                    lines.append({"more": more, "depth": children[0].depth})
            return rows

        yield from below([(None, *files.top(weights, LISTED))])[None]

    def _on_story(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return the details of a piece: the one in the middle of a small view, or `by` pieces from the piece `row`."""
        row = self._pieces.nearest(self._view(message["view"])) if "view" in message else self._step(message)
        if row is None:
            return {"row": None}, []
        request_id, piece = self._piece_at(row)
        mark = {
            "row": row,
            "begin_ns": int(self._pieces.begin_ns[row]) - self._begin_ns,
            "values": {name: float(self._pieces.values(name)[row]) for name in self._pieces.axes},
        }
        sections = self._stories.tell(request_id, piece)
        return {"mark": mark, "row": row, "sections": [section._asdict() for section in sections]}, []

    def _step(self, message: Mapping[str, Any]) -> int | None:
        """Return the next or previous piece that matches all filters, starting from another piece or from a time."""
        start = message["row"]
        if start is None:
            time_ns = round(message["begin_ns"]) + self._begin_ns
            start = int(np.searchsorted(self._pieces.begin_ns, time_ns)) - 1
        return self._pieces.neighbour(start, int(message["by"]))

    def _piece_at(self, row: int) -> tuple[int, int]:
        """Return request ID and piece index of a row."""
        index = int(self._pieces.row[row])
        request_id, piece = shown(self._io).select("request_id", "piece").slice(index, 1).collect().row(0)
        return int(request_id), int(piece)


def _row(one: Dimension, entry: Entry, counts: Counts, number: int) -> dict[str, Any]:
    """Return one row of the list of a dimension."""
    requests, nr_bytes = int(counts.requests[number]), int(counts.bytes[number])
    return {
        "first": entry.first,
        "last": entry.last,
        "name": one.marked(entry.name, entry.first, entry.last),
        "depth": entry.depth,
        "is_directory": entry.is_directory,
        "requests": requests,
        "size": quantities.size(nr_bytes),
    }
