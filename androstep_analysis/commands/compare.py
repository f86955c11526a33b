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
    "windows": "A repeat is a window of time: what is shown holds for these recordings, had they gone on longer; for"
    " others like them where a group has three or more.",
    "pairs": "A repeat is a pair of captures: what is shown holds for other such pairs.",
}

LACKING = {
    "captures": ": at least 3 captures on each side, and values that vary",
    "repetitions": ": at least 3 repetitions on each side, and values that vary",
    "windows": ": more windows, and values that vary",
    "pairs": ": at least 3 pairs, and values that vary",
}

EXIT_STATUS = {"within": 0, "beyond": 3, "undecided": 4}
"""Of --gate, the worst of what is said."""

MOST_SENTENCES = 12


def add(command: argparse.ArgumentParser) -> None:
    names = ", ".join(compare.measures())
    complete(
        command,
        run,
        """
        Every two groups of captures are compared: how large is the difference, in which interval does it lie, and is
        it more than chance? One capture a group needs --windows, which makes every window of time a repeat. A dataset
        of `androstep release` stands for all captures in it. docs/compare.md explains the statistics, and --json.

        With --gate it is a check for test labs: exit status 0 where every change is shown to stay within the limit, 3
        where one is shown to be beyond, 4 where that is undecided.

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
    command.add_argument("--baseline", metavar="GROUP", help="compare every other group with this one only")
    command.add_argument(
        "--smallest",
        metavar="PERCENT",
        type=_percent,
        help="smallest difference that matters, as 5%%: points of shares",
    )
    command.add_argument(
        "--gate", metavar="LIMIT", type=_limit, help="how much higher (<+5%%) or lower (>-5%%) the second may be"
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
    chosen = {
        **{"by": arguments.by, "paired_by": arguments.paired_by, "baseline": arguments.baseline},
        "correction": arguments.correction,
    }
    ranked = compare.ranking(measured, by=arguments.by)
    compared = compare.compare(measured, smallest=arguments.smallest, **chosen)
    gated = None if arguments.gate is None else compare.gate(measured, limit=arguments.gate, **chosen)
    dims = dimensions(measured)
    if arguments.json:
        print(json.dumps(_json(arguments, captures, measured, ranked, compared, gated), indent=2))
    else:
        parts = _text(captures, measured, ranked, compared, dims, arguments.by)
        print("\n\n".join([*parts, *([] if gated is None else [_gates(gated, dims)])]))
    if gated is not None and (status := _status(gated)):
        raise SystemExit(status)


def _percent(text: str) -> float:
    """A positive part of the whole, as 5%."""
    number = text.removesuffix("%")
    try:
        value = float(number) / 100
    except ValueError:
        value = -1.0
    if number == text or not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of the whole; write 5%")
    return value


def _limit(text: str) -> float:
    """The limit of a gate: <+5% is 0.05, >-5% is -0.05."""
    for start, sign in (("<+", 1), (">-", -1)):
        if text.startswith(start):
            return sign * _percent(text.removeprefix(start))
    raise argparse.ArgumentTypeError(f"{text!r} is no limit; write <+5% or >-5%, in quotes")


def _status(gated: pl.DataFrame) -> int:
    """The exit status of a gate; undecided where nothing was compared."""
    said = set(gated["gate"])
    worst = next((name for name in ("beyond", "undecided", "within") if name in said), "undecided")
    return EXIT_STATUS[worst]


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
    gated: pl.DataFrame | None,
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
    } | ({} if gated is None else {"limit": arguments.gate, "gates": _rows(gated)})


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
    if sentences := _sentences(compared, dims):
        parts.append("\n".join(sentences))
    parts.append(f"Comparisons, with 95 % intervals\n{_comparisons(compared, dims)}")
    parts.append(f"{compared.height:,} comparisons: {_counts(compared)}")
    parts += [REPEATS[name] for name in compared["repeats"].drop_nulls().unique(maintain_order=True)]
    tests = compared["tested_by"].drop_nulls().unique(maintain_order=True)
    return [*parts, *(f"Tested by {name}, which takes: {compare.TESTS[name]}." for name in tests)]


def _sentences(compared: pl.DataFrame, dims: Sequence[str]) -> list[str]:
    """What is shown, in words, the largest effects first."""
    shown = compared.filter(pl.col("verdict").is_in(["higher", "lower"])).sort(pl.col("effect").abs(), descending=True)
    lines = [_sentence(row, dims) for row in shown.head(MOST_SENTENCES).iter_rows(named=True)]
    return lines + ([f"… and {shown.height - len(lines):,} more"] if shown.height > len(lines) else [])


def _sentence(row: dict[str, Any], dims: Sequence[str]) -> str:
    unit = row["unit"]
    what = " ".join(part for part in _key(row, dims) if part != "–")
    first, second = (visible(row[f"group_{side}"]) for side in ("first", "second"))
    values = f"{first} {_shown(row['first'], unit)}, {second} {_shown(row['second'], unit)}"
    if unit == "1":
        lo, hi = sorted(abs(100 * row[name]) for name in ("difference_lo", "difference_hi"))
        apart = f"{abs(100 * row['difference']):.3g} points {row['verdict']} [{lo:.3g} to {hi:.3g}]"
    elif row["ratio"] is not None and row["ratio_lo"] is not None:
        apart = f"{row['ratio']:.3g} times as much [{row['ratio_lo']:.3g} to {row['ratio_hi']:.3g}]"
    else:
        apart = f"{_shown(abs(row['difference']), unit)} {row['verdict']}"
    return f"{what}: {values}: {apart}"


def _gates(gated: pl.DataFrame, dims: Sequence[str]) -> str:
    rows = [
        [
            *_key(row, dims),
            row["group_first"],
            row["group_second"],
            *(_shown(row[side], row["unit"]) for side in ("first", "second")),
            "–" if row["p_gate"] is None else f"{row['p_gate']:.2g}",
            row["gate"],
        ]
        for row in gated.iter_rows(named=True)
    ]
    return f"Gate\n{terminal.table(['metric', *dims, 'first', 'second', 'first is', 'second is', 'p', 'limit'], rows)}"


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
    if row["longer"] is not None:
        said += f": {row['longer']:.2g} times as long would, if it is what it seems"
    elif said == "insufficient data":
        said += LACKING[row["repeats"]]
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
