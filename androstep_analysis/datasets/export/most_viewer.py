"""Count like the MOST Viewer, to compare with results of MOST (`export.most` writes its lines)."""

from __future__ import annotations

import polars as pl

from androstep_analysis.link.evidence import filetype


def counts(table: pl.DataFrame) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    """Return block and file types as the MOST Viewer counted completion lines (definitions.toml, most).

    The input is the table of `export.most.lines`. The result is ``{"block_types": {"R"|"W": {"D"|"J"|"M": {"count",
    "kb"}}}, "file_types": {"R"|"W": {class: …}}}``. Direction N is present only if a line has it.
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
    """Return direction R, W or N of a line. If the flags say neither, the previous line's direction is used."""
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
    """Return the eight data files of the MOST Viewer from `counts`: file name to content.

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
    """Format shares of the row's sum like a float in Python 2: 12 significant digits, at least one decimal."""
    total = sum(row)
    if not total:
        return ["0"] * len(row)
    return [repr(float(f"{100 * value / total:.12g}")) for value in row]
