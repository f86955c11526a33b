"""`androstep measure`: compute one measure of a capture, by any dimensions of its table."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import replace

import polars as pl

from androstep_analysis import capture, compare
from androstep_analysis.commands.command import (
    add_classes,
    add_format,
    add_table_output,
    add_where,
    complete,
    duration,
    keep_source,
    positive,
    write_table,
)
from androstep_analysis.common import csvfile, schema
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.compare.measures import dimensions, known, measured
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.ranked import ranked
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present import wide

FORMATS = ("text", "csv", "json", "md")


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        f"""
The measures, defined in docs/definitions.md, with examples in docs/measure.md:

{_list()}

example: androstep measure mycapture volume --by app,file --where path=*.db* --top 10
        """,
    )
    command.add_argument("path", metavar="CAPTURE", nargs="?", help="capture directory or trace file")
    command.add_argument("name", metavar="NAME", nargs="?", help="name of a measure (default: list them)")
    command.add_argument(
        "--by",
        metavar="DIMENSION,…",
        type=lambda text: text.split(","),
        default=[],
        help="one row for each value of these dimensions, for example app,file",
    )
    add_where(command)
    command.add_argument(
        "--window", metavar="TIME", type=duration, help="one row for each window of time, for example 10s"
    )
    command.add_argument(
        "--sort",
        metavar="COLUMN",
        help="sort by a metric or quantile, largest first, or by a dimension (default: by value; times and size"
        " classes in their natural order)",
    )
    command.add_argument("--reverse", action="store_true", help="reverse the order")
    command.add_argument("--top", metavar="N", type=positive, help="only the first N rows (of each window)")
    command.add_argument(
        "--format", dest="output_format", choices=FORMATS, default=FORMATS[0], help="output format (default: text)"
    )
    command.add_argument(
        "--json",
        dest="output_format",
        action="store_const",
        const="json",
        help="print a JSON array of rows (as --format json)",
    )
    add_format(command, is_alone=True)
    add_classes(command)
    add_table_output(command)


def run(arguments: argparse.Namespace) -> None:
    if arguments.name is None:
        print(_list())
        return
    measures = compare.measures()
    if arguments.name not in measures:
        order = "; the capture comes before the measure" if arguments.path in measures else ""
        raise InputError(f"there is no measure {arguments.name}; there are {', '.join(measures)}{order}")
    keep_source(arguments)
    chosen = known(arguments.name, arguments.window)
    by = _columns(arguments.name, chosen, arguments.by)
    opened = capture.open(arguments.path, format=arguments.format, classes=arguments.classes)
    rows = measured(Recording.of(opened), chosen, arguments.window, by, arguments.where).table
    table, omitted = _in_order(_tidy(rows, arguments.window), chosen, arguments)
    if arguments.output is not None:
        write_table(table.lazy(), arguments.output)
    elif arguments.output_format == "json":
        print(to_json(table))
    elif arguments.output_format == "csv":
        print(csvfile.text(table), end="")
    else:
        shown = wide.laid_out(table, max(wide.MOST, arguments.top or 0))
        shown = replace(shown, more=shown.more + omitted)
        print(shown.markdown() if arguments.output_format == "md" else shown)
        empty = [name for name in chosen.needs if not opened.about["rows"].get(name)]
        if table.is_empty() and empty:
            print(f"Empty tables of this capture: {', '.join(empty)}. `androstep summary` says what was recorded.")


def _in_order(table: pl.DataFrame, chosen: Measure, arguments: argparse.Namespace) -> tuple[pl.DataFrame, int]:
    """Return the rows that --sort, --reverse and --top ask for, and the number of omitted rows."""
    order = {"sort": arguments.sort, "is_reversed": arguments.reverse, "top": arguments.top}
    # Benchmark configurations are listed by their dimensions, in the order of the columns.
    natural = table.columns if chosen.has_repetitions else ("window", *chosen.natural)
    return ranked(table, natural=natural, words=chosen.dimensions, **order)


def _list() -> str:
    """List the measures, each with its dimensions."""
    lines = []
    for name, one in compare.measures().items():
        lines.append(f"{name:<11} {one.description}")
        by = textwrap.fill(", ".join(one.dimensions), 61)
        lines += textwrap.indent(f"--by {textwrap.indent(by, ' ' * 5).strip()}", " " * 12).splitlines() if by else []
    return "\n".join(lines)


def _columns(name: str, chosen: Measure, wanted: list[str]) -> tuple[str, ...]:
    """Return the columns that --by names, without those that always distinguish rows of this measure."""
    dims = chosen.dimensions
    if unknown := [one for one in wanted if one not in dims]:
        has = f"has {', '.join(dims)}" if dims else "takes none"
        raise InputError(f"--by {unknown[0]}: {name}, which is of table {chosen.needs[0]}, {has}")
    columns = dict.fromkeys(dims[one] for one in wanted)
    return tuple(column for column in columns if column not in chosen.own)


def _tidy(found: pl.DataFrame, window_ns: int | None) -> pl.DataFrame:
    """Drop the facts of the capture, which are equal in all rows, and name the windows' column."""
    dims = dimensions(found)
    kept = [name for name in dims if name not in schema.table("captures").polars]
    front = ["repeat"] if window_ns is not None or found["repeat"].null_count() < found.height else []
    certainty = ["inferred"] if "inferred" in found.columns else []
    rows = found.select("metric", *front, *kept, "value", "unit", "n", "coverage", *certainty)
    return rows.rename({"repeat": "window"}) if window_ns is not None else rows
