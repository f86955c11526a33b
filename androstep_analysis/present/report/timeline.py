"""Data of the figures that page.js draws: bytes per second, and requests by time, position, size and latency.

The page has the data as one JSON object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.markup import Element, el, island
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.ingest import clock
from androstep_analysis.measures.parts import of_requests
from androstep_analysis.measures.tables import device_time
from androstep_analysis.present.report.requests import bin_length
from androstep_analysis.present.report.section import has_rows

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

BINS: Final = 1000
"""Maximum number of bins of the rates."""

MOST_REQUESTS: Final = 15_000
"""Up to this number, requests are drawn one by one (a page of about 1 MB). Above it, they are drawn in cells."""

_COLUMNS: Final = 200
_ROWS: Final = 60
"""Number of cells over time and over positions, if there are too many requests."""

_NAMED: Final = {"file": "path", "process": "owner_comm"}
"""Names of each mark, and the column of `io` with them."""


def data(capture: Capture, device: int, waits: Sequence[tuple[int, int]]) -> Element | None:
    """Return the JSON element with all data over time, or None if there is none. Positions are those on `device`.

    `waits` are times that a user waited, in ns of the capture's clock.
    """
    pieces = clock.on_one_axis(measures.counted(capture.io), capture.jumps)
    pieces = pieces.filter(pl.col("bytes") > 0).with_columns(pl.col("op").cast(pl.String))
    timed = clock.on_one_axis(measures.counted(capture.requests), capture.jumps)
    timed = timed.filter(pl.col("nr_sectors") > 0).with_columns(pl.col("op").cast(pl.String))
    if capture.first_ns is None or not has_rows(pieces):
        return None
    first = capture.first_ns
    span = clock.continued(capture.last_ns or first, capture.jumps) - first
    names: dict[str, int] = {}
    timed_there, pieces_there = (table.filter(pl.col("dev") == device) for table in (timed, pieces))
    figures = {
        "span": span,
        "waits": [[clock.continued(time, capture.jumps) - first for time in wait] for wait in waits],
        "rate": _rate(timed, pieces, first, bin_length(0, span, BINS), names),
        "requests": _requests(timed_there, pieces_there, first, names),
    }
    return island(figures | {"names": list(names)}, "timeline")


def chart(kind: str, label: str, caption: str) -> Element:
    """Return the placeholder of a figure that the script draws."""
    return el(
        "figure",
        el("noscript", el("p", "This figure is drawn where scripts run.")),
        el("figcaption", caption),
        class_="chart",
        data_chart=kind,
        aria_label=label,
    )


def _rate(
    requests: pl.LazyFrame, pieces: pl.LazyFrame, first: int, width: int, names: dict[str, int]
) -> dict[str, Any]:
    """Return bytes per second read and written in each bin, with the file and process of most of them."""
    rate = measures.rate(requests, bin_ns=width).filter(metric="bandwidth")
    wide = rate.pivot("op", index="ts_ns", values="value").sort("ts_ns")
    start = int(wide["ts_ns"][0])
    done = pl.coalesce("complete_ns", "issue_ns", "queue_ns")
    of_bins = pieces.filter(pl.col("op").is_in(["read", "write"])).with_columns(bin=(done - start) // width)
    sums = {
        op: wide[op].round().cast(pl.Int64).to_list() if op in wide.columns else [0] * wide.height
        for op in ("read", "write")
    }
    bins = wide.select(bin=pl.int_range(pl.len(), dtype=pl.Int64))
    return {"from": start - first, "width": width, **sums, **_named(of_bins, ["bin"], bins, names)}


def _requests(requests: pl.LazyFrame, pieces: pl.LazyFrame, first: int, names: dict[str, int]) -> dict[str, Any]:
    """Return one mark for each request of a device, or for each cell of time and position."""
    number = requests.select(pl.len()).collect().item()
    requests, pieces = (table.with_columns(time=measures.order_ns() - first) for table in (requests, pieces))
    if number <= MOST_REQUESTS:
        keys, cell = ["request_id"], {"time": 1, "place": 1}
        took = device_time(requests)
        marks = requests.select(*keys, "time", "sector", "op", bytes=_BYTES, took=took, n=pl.lit(1)).collect()
    else:
        keys, cell = ["column", "row", "op"], _cell(requests)
        cells = {"column": pl.col("time") // cell["time"], "row": pl.col("sector") // cell["place"]}
        requests, pieces = (table.with_columns(**cells) for table in (requests, pieces))
        sums = of_requests(requests.with_columns(bytes=_BYTES), keys, bytes=pl.col("bytes").sum(), n=pl.len())
        marks = sums.with_columns(
            time=pl.col("column") * cell["time"],
            sector=pl.col("row") * cell["place"],
            took=pl.lit(None, pl.Int64),
        )
    marks = marks.sort("time", "sector", *keys)
    columns = {name: marks[name].to_list() for name in ("time", "sector", "bytes", "op", "took", "n")}
    return {"exact": number <= MOST_REQUESTS, "cell": cell, **columns, **_named(pieces, keys, marks, names)}


_BYTES: Final = pl.col("nr_sectors") * SECTOR_BYTES


def _cell(requests: pl.LazyFrame) -> dict[str, int]:
    """Return the size of a cell, in ns and in sectors."""
    spans = [(pl.col(name).max() - pl.col(name).min()).alias(name) for name in ("time", "sector")]
    time, place = requests.select(spans).collect().row(0)
    return {"time": time // _COLUMNS + 1, "place": place // _ROWS + 1}


def _named(
    pieces: pl.LazyFrame, keys: list[str], rows: pl.DataFrame, names: dict[str, int]
) -> dict[str, list[int | None]]:
    """Return the file and the process with the most bytes of each row, as indices into `names`; None if unknown."""
    size = pl.col("bytes")
    found: dict[str, list[int | None]] = {}
    for name, column in _NAMED.items():
        sums = pieces.drop_nulls(column).group_by(*keys, column).agg(size.sum()).collect(engine="streaming")
        most = sums.filter(size == size.max().over(keys)).group_by(keys).agg(pl.col(column).min())
        of_rows = rows.select(keys).join(most, on=keys, how="left", maintain_order="left")[column]
        found[name] = [None if one is None else names.setdefault(one, len(names)) for one in of_rows]
    return found
