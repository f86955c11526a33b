"""MOST's own output and counting: for scripts that read `.po` files, and for comparing with results of MOST.

The lines are those of the AndroStep paper's Table 2 (Jeong et al., ME 2013) as MOST's user program wrote them: time,
action, flags, sector, sectors, thread, name, block type, path. Differences from the original, all on purpose: the
block type is what held at the time of the request and is empty where it is unknown (MOST wrote M); the thread number
has no file class added; a path has one leading slash.
"""

from __future__ import annotations

from typing import TextIO

import numpy as np
import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.link import filetype, intervals

LETTERS = {
    "queue": "Q",
    "getrq": "G",
    "insert": "I",
    "issue": "D",
    "complete": "C",
    "backmerge": "M",
    "frontmerge": "F",
    "remap": "A",
    "split": "X",
    "requeue": "R",
    "bounce": "B",
    "sleep": "S",
}
"""blkparse's letter of each action that a line can state; plugs, unplugs and merges of requests have no sectors."""

BLOCK_TYPES = {"data": "D", "directory": "D", "journal": "J", "metadata": "M"}
"""The paper counts directory entries as data; what is free or unknown has no letter."""


def lines(capture: Capture) -> pl.DataFrame:
    """One row per block event: ts_ns Int64, action, rwbs, sector Int64, nr_sectors Int64, tid Int32, comm, block_type
    (D, J, M or null), path. A `.po` trace gives back what it said itself."""
    events = (
        capture.block_events.filter(pl.col("action").cast(pl.String).is_in(list(LETTERS)))
        .with_columns(action=pl.col("action").cast(pl.String).replace_strict(LETTERS))
        .collect()
    )
    if capture.format == "most_po":
        stated = events.select(pl.col("block_type").cast(pl.String), "path")
    else:
        stated = _mapped(events, capture.io.collect())
    typed = events.select("ts_ns", "action", "rwbs", "sector", "nr_sectors", "tid", "comm").hstack(stated)
    letter = pl.col("block_type").replace_strict(BLOCK_TYPES, default=None, return_dtype=pl.String)
    return typed.with_columns(
        block_type=letter,
        path=pl.when(letter == "D").then("path"),
        sector=pl.col("sector").fill_null(0),
        nr_sectors=pl.col("nr_sectors").fill_null(0),
    )


def _mapped(events: pl.DataFrame, io: pl.DataFrame) -> pl.DataFrame:
    """block_type and path of each event's first sector, by the first request to be completed that holds it."""
    pieces = io.filter(pl.col("nr_sectors") > 0)
    placed = events.with_row_index("at").filter(pl.col("nr_sectors") > 0, pl.col("sector").is_not_null())
    done = pieces.select(pl.coalesce("complete_ns", "issue_ns", "queue_ns")).to_series().to_numpy()
    found = intervals.stab(
        intervals.Queries(
            placed["dev"].fill_null(0).cast(pl.Int64).to_numpy(),
            placed["sector"].to_numpy(),
            np.ones(placed.height, np.int64),
            -placed["ts_ns"].to_numpy(),
        ),
        intervals.Rows(
            pieces["dev"].cast(pl.Int64).to_numpy(),
            pieces["sector"].to_numpy(),
            pieces["nr_sectors"].to_numpy(),
            -done,
            np.full(pieces.height, intervals.FOREVER),
        ),
    )
    row = np.full(events.height, -1)
    row[placed["at"].to_numpy()[found.query]] = found.row
    where = pl.Series(row)
    return pieces.select(pl.col("block_type").cast(pl.String), "path")[where.set(where < 0, None)]


def write(table: pl.DataFrame, file: TextIO) -> None:
    """Write `lines` as a `.po` file, in the columns of MOST's README (``%5T.%9t\\t%a\\t%d\\t%8S\\t%4n\\t%4p\\t%20C``).

    Control characters in a name are written as ``?``: a tab or line break would break the line, an escape sequence
    would reach the terminal that the lines are printed on.
    """
    seconds = pl.col("ts_ns") // 1_000_000_000
    nanos = (pl.col("ts_ns") % 1_000_000_000).cast(pl.String).str.pad_start(9, "0")
    text = table.select(
        pl.concat_str(
            seconds.cast(pl.String).str.pad_start(5) + "." + nanos,
            "action",
            pl.col("rwbs").fill_null("N"),
            pl.col("sector").cast(pl.String).str.pad_start(8),
            pl.col("nr_sectors").cast(pl.String).str.pad_start(4),
            pl.col("tid").fill_null(0).cast(pl.String).str.pad_start(4),
            _one_field(pl.col("comm").fill_null("")).str.pad_start(20),
            pl.col("block_type"),
            _one_field(pl.col("path")),
            separator="\t",
            ignore_nulls=True,
        )
    ).to_series()
    for part in text.to_frame().iter_slices(100_000):
        file.write("".join(f"{line}\n" for line in part.to_series()))


def _one_field(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all(r"\p{Cc}", "?")


def counts(table: pl.DataFrame) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    """`block_types` and `file_types` as the MOST Viewer counted completion lines (definitions.toml, most).

    ``{"block_types": {"R"|"W": {"D"|"J"|"M": {"count", "kb"}}}, "file_types": {"R"|"W": {class: …}}}``; a direction N
    stands only where a line has it.
    """
    done = table.filter(pl.col("action") == "C").with_columns(
        direction=_direction(), kb=pl.col("nr_sectors") // 2, file_class=filetype.most_viewer_class(pl.col("path"))
    )
    data = done.filter(pl.col("block_type") == "D")
    directions = ["R", "W", *(["N"] if (done["direction"] == "N").any() else [])]
    classes = data.schema["file_class"]
    assert isinstance(classes, pl.Enum)
    return {
        "block_types": _count(done, directions, "block_type", ["D", "J", "M"]),
        "file_types": _count(data, directions, "file_class", classes.categories.to_list()),
    }


def _direction() -> pl.Expr:
    """R, W or N of a line; where the flags say neither, what the line before had."""
    rwbs = pl.col("rwbs")
    said = (
        pl.when(rwbs.str.contains("R", literal=True))
        .then(pl.lit("R"))
        .when(rwbs.str.contains("W", literal=True))
        .then(pl.lit("W"))
        .when(rwbs == "N")
        .then(pl.lit("N"))
    )
    return said.forward_fill()


def _count(
    table: pl.DataFrame, directions: list[str], column: str, values: list[str]
) -> dict[str, dict[str, dict[str, int]]]:
    sums = {
        (direction, value): {"count": count, "kb": kb}
        for direction, value, count, kb in table.group_by("direction", pl.col(column).cast(pl.String))
        .agg(pl.len(), pl.col("kb").sum())
        .iter_rows()
    }
    return {d: {value: sums.get((d, value), {"count": 0, "kb": 0}) for value in values} for d in directions}


def viewer_tables(counted: dict[str, dict[str, dict[str, dict[str, int]]]]) -> dict[str, str]:
    """The eight data files of the MOST Viewer from `counts`: file name to content.

    For block types and file types each: 1 counts, 2 their percentages, 3 KB, 4 their percentages (of each direction).
    """
    tables = {}
    for stem, kind in (("block", "block_types"), ("file", "file_types")):
        columns = list(counted[kind]["R"])
        for number, (what, unit) in enumerate((("count", ""), ("kb", "KB"))):
            values = {
                d: [counted[kind].get(d, {}).get(column, {}).get(what, 0) for column in columns]
                for d in ("R", "W", "N")
            }
            plain = [[d, *map(str, row)] for d, row in values.items()]
            shares = [[f"{d}:{sum(row)}{unit}", *_percentages(row)] for d, row in values.items()]
            for offset, rows in enumerate((plain, shares)):
                text = ["\t".join(["", *columns]), *("\t".join(row) for row in rows)]
                tables[f"{stem}_rwbs{2 * number + offset + 1}.dat"] = "".join(f"{line}\n" for line in text)
    return tables


def _percentages(row: list[int]) -> list[str]:
    """Shares of the row's sum as Python 2 printed a float: 12 significant digits, at least one after the point."""
    total = sum(row)
    if not total:
        return ["0"] * len(row)
    return [repr(float(f"{100 * value / total:.12g}")) for value in row]
