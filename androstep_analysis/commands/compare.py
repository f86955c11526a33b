"""`androstep compare`: a measure across captures, and whether the differences are more than chance."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import capture, compare, measures, population, terminal
from androstep_analysis.capture import Capture
from androstep_analysis.commands.command import complete, duration
from androstep_analysis.compare.measures import dimensions
from androstep_analysis.errors import InputError
from androstep_analysis.markup import visible

REPEATS = {
    "captures": "A repeat is a capture: what is shown holds for other captures like these.",
    "repetitions": "A repeat is a repetition: what is shown holds for these machines.",
    "windows": "A repeat is a window of time: what is shown holds for these recordings, had they gone on longer.",
    "pairs": "A repeat is a pair of captures: what is shown holds for other such pairs.",
}


def add(command: argparse.ArgumentParser) -> None:
    names = ", ".join(compare.measures())
    complete(
        command,
        run,
        """
        Every two groups of captures are compared: how large is the difference, in which interval does it lie, and is
        it more than chance? One capture a group needs --windows, which makes every window of time a repeat. A dataset
        of `androstep release` stands for all captures in it. docs/compare.md explains the statistics, and --json.

        example: androstep compare mail game --measure locality --by workload --windows 10s
        """,
    )
    command.add_argument("paths", nargs="+", metavar="CAPTURE", help="captures, traces, results, released datasets")
    command.add_argument(
        "--measure", required=True, metavar="NAME", choices=list(compare.measures()), help=f"what is compared: {names}"
    )
    command.add_argument("--metric", metavar="NAME", help="only this metric of the measure, as count_ratio")
    command.add_argument(
        "--where",
        metavar="DIMENSION=VALUE",
        type=_condition,
        action="append",
        default=[],
        help="only rows with this value, as op=read; with none, as call=; may be given several times",
    )
    command.add_argument(
        "--by", metavar="FACT,…", type=_names, default=["capture"], help="facts that make a group (default: capture)"
    )
    command.add_argument(
        "--windows", metavar="TIME", type=duration, help="windows of so much time, as 10s, are repeats"
    )
    command.add_argument(
        "--paired-by", metavar="FACT,…", type=_names, default=[], help="compare only captures equal in these facts"
    )
    command.add_argument(
        "--correction", choices=["holm", "bh"], default="holm", help="for many comparisons (default: holm)"
    )
    command.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> None:
    if arguments.paired_by and arguments.windows:
        arguments.wrong_usage("--paired-by pairs captures: leave out --windows")
    captures = [one for path in arguments.paths for one in _opened(Path(path))]
    measured = compare.measure_all(captures, arguments.measure, window_ns=arguments.windows)
    conditions = [*arguments.where, *([("metric", arguments.metric)] if arguments.metric else [])]
    for name, value in conditions:
        measured = _only(measured, name, value)
    ranked = compare.ranking(measured, by=arguments.by)
    compared = compare.compare(
        measured, by=arguments.by, paired_by=arguments.paired_by, correction=arguments.correction
    )
    dims = dimensions(measured)
    if arguments.json:
        print(json.dumps(_json(arguments, captures, measured, ranked, compared), indent=2))
    else:
        print("\n\n".join(_text(captures, measured, ranked, compared, dims, arguments.by)))


def _condition(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no condition; write DIMENSION=VALUE")
    return name, value or None


def _only(measured: pl.DataFrame, name: str, value: str | None) -> pl.DataFrame:
    """The rows with this metric, or with this value of a dimension."""
    dims = ["metric", *dimensions(measured)]
    if name not in dims:
        raise InputError(f"the measure has no dimension {name}; it has {', '.join(dims)}")
    text = measured[name].cast(pl.String)
    rows = measured.filter(text.is_null() if value is None else text == value)
    if rows.is_empty() and not measured.is_empty():
        known = ", ".join(text.unique(maintain_order=True).fill_null("(none)"))
        raise InputError(f"nothing has {name} {value or '(none)'}; there are {known}")
    return rows


def _names(text: str) -> list[str]:
    return text.split(",")


def _opened(path: Path) -> Sequence[Capture | compare.Recording]:
    return compare.of_release(path) if (path / "tables" / "captures").is_dir() else [capture.open(path)]


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json(
    arguments: argparse.Namespace,
    captures: Sequence[Capture | compare.Recording],
    measured: pl.DataFrame,
    ranked: pl.DataFrame,
    compared: pl.DataFrame,
) -> dict[str, Any]:
    """The object that docs/compare.md describes."""
    return {
        "measure": arguments.measure,
        "by": arguments.by,
        "paired_by": arguments.paired_by,
        "window_ns": arguments.windows,
        "correction": arguments.correction,
        "captures": [
            {"capture": one.title, "rows": measured.filter(capture_id=one.facts["capture_id"]).height}
            | {name: value for name, value in one.facts.items() if value is not None}
            | ({"population": counts} if (counts := _population(one)) else {})
            for one in captures
        ],
        "groups": _rows(ranked),
        "comparisons": _rows(compared),
    }


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows, each without the columns that are null in it."""
    rows = table.with_columns(pl.col(pl.Enum).cast(pl.String)).iter_rows(named=True)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


# -- text -------------------------------------------------------------------------------------------------------------


def _text(
    captures: Sequence[Capture | compare.Recording],
    measured: pl.DataFrame,
    ranked: pl.DataFrame,
    compared: pl.DataFrame,
    dims: Sequence[str],
    by: Sequence[str],
) -> list[str]:
    """The parts of what is printed."""
    empty = [one.title for one in captures if measured.filter(capture_id=one.facts["capture_id"]).is_empty()]
    parts = [f"{visible(title)}: nothing of this measure is in it" for title in empty]
    parts += [
        f"{visible(one.title)}: {population.sentence(counts)}"
        for one in captures
        if (counts := _population(one)) and not population.is_whole(counts)
    ]
    if ranked.is_empty():
        return parts
    groups = ranked.select(by).unique().height
    parts.append(f"Values, with 95 % intervals\n{_groups(ranked, dims, by)}")
    if groups == 1:
        return [*parts, "One group: there is nothing to compare it with."]
    parts.append(f"Comparisons, with 95 % intervals\n{_comparisons(compared, dims)}")
    parts.append(f"{compared.height:,} comparisons: {_counts(compared)}")
    return [*parts, *(REPEATS[name] for name in compared["repeats"].drop_nulls().unique(maintain_order=True))]


def _population(one: Capture | compare.Recording) -> dict[str, int]:
    """Of which requests the numbers of a recording are; empty where it has none."""
    counts = measures.population(one.tables["requests"]) if "requests" in one.tables else {}
    return counts if any(counts.values()) else {}


def _groups(ranked: pl.DataFrame, dims: Sequence[str], by: Sequence[str]) -> str:
    rows = [
        [
            *_key(row, dims),
            *(row[name] for name in by),
            _shown(row["value"], row["unit"]),
            _shown(row["lo"], row["unit"]),
            _shown(row["hi"], row["unit"]),
            f"{row['n']:,}",
            _rank(row),
        ]
        for row in ranked.iter_rows(named=True)
    ]
    return terminal.table(["metric", *dims, *by, "value", "from", "to", "n", "rank"], rows)


def _rank(row: dict[str, Any]) -> str:
    first, last = row["rank_from"], row["rank_to"]
    return f"{first}" if first == last else f"{first} to {last}"


def _comparisons(compared: pl.DataFrame, dims: Sequence[str]) -> str:
    rows = [
        [
            *_key(row, dims),
            row["group_first"],
            row["group_second"],
            *(_shown(row[side], row["unit"]) for side in ("first", "second", "difference")),
            *(_shown(row[side], row["unit"]) for side in ("difference_lo", "difference_hi")),
            "–" if row["ratio"] is None else f"{row['ratio']:.3g}",
            "–" if row["p_adjusted"] is None else f"{row['p_adjusted']:.2g}",
            _verdict(row),
        ]
        for row in compared.iter_rows(named=True)
    ]
    header = ["metric", *dims, "first", "second", "first is", "second is", "difference", "from", "to", "ratio", "p"]
    return terminal.table([*header, "the second is"], rows)


def _verdict(row: dict[str, Any]) -> str:
    """The verdict in plain words, with what else there is to know."""
    said = row["verdict"]
    if row["least_n"] is not None:
        said += f": at least {row['least_n']:,} {row['repeats']} on each side"
    elif said == "insufficient data":
        said += ": the values do not vary" if row["p"] is None else ": too many comparisons"
    return f"{said} ({row['note']})" if row["note"] else said


def _counts(compared: pl.DataFrame) -> str:
    counts = compared.group_by("verdict").len().sort("verdict")
    return ", ".join(f"{count:,} {verdict}" for verdict, count in counts.iter_rows())


def _key(row: dict[str, Any], dims: Sequence[str]) -> list[str]:
    return [row["metric"], *("–" if row[name] is None else str(row[name]) for name in dims)]


def _shown(value: float | None, unit: str) -> str:
    """A value in a unit that reads well."""
    if value is None:
        return "–"
    if unit == "1":
        return f"{value:.1%}"
    scale, name = {"ns": (1e6, " ms"), "B": (1e6, " MB"), "B/s": (1e6, " MB/s")}.get(unit, (1.0, ""))
    return f"{value / scale:,.4g}{name}"
