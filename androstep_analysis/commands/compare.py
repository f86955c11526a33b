"""`androstep compare`: compare captures, and test whether differences are more than chance."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import compare
from androstep_analysis.commands.command import add_classes, complete, duration, positive
from androstep_analysis.common import quantities
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.compare import words
from androstep_analysis.compare.collections import collection
from androstep_analysis.compare.measures import dimensions, together
from androstep_analysis.compare.overview import Overview, of_observed
from androstep_analysis.compare.result import Result
from androstep_analysis.present import changes, terminal
from androstep_analysis.present.terminal import text

EXIT_STATUS = {"within": 0, "beyond": 3, "undecided": 4}
"""Exit status of --gate, of the worst verdict."""

# Timeout for the scheduler of a cluster. Dask retries the connection until then.
CONNECT_SECONDS = 10


def add(command: argparse.ArgumentParser) -> None:
    names = ", ".join(compare.measures())
    complete(
        command,
        run,
        """
        Give two captures, or two directories of repeated captures, to see what changed between them. At most twelve
        rows are printed, the most important first. Each has a verdict on the second side: worse, better, different,
        same within a stated margin, or undecided and which data would decide it.

        Give --measure to compare that measure between all groups of captures (--by): the size of the difference, its
        95 % interval, and whether it is more than chance. A group with one capture needs --windows, which uses
        windows of time as repetitions. A dataset of `androstep release` counts as all captures in it. docs/compare.md
        explains the verdicts and --json, docs/statistics.md the tests.

        Give --gate to fail a test run on a regression. The exit status is 0 if every change is shown to be within the
        limit, 3 if one is shown to be beyond it, and 4 if that is undecided.

        example: androstep compare before after
        example: androstep compare mail game --measure locality --by workload --windows 10s
        """,
    )
    command.add_argument(
        "paths",
        nargs="+",
        metavar="CAPTURE",
        help="captures, traces, benchmark results, released datasets, directories of these, patterns in quotes, or"
        " addresses",
    )
    command.add_argument(
        "--measure", metavar="NAME", choices=list(compare.measures()), help=f"compare this measure: {names}"
    )
    add_classes(command)
    command.add_argument("--rank", action="store_true", help="rank the groups, and name those that are tied")
    command.add_argument("--metric", metavar="NAME", help="only this metric of the measure, as count_ratio")
    command.add_argument(
        "--where",
        metavar="DIMENSION=VALUE",
        type=_condition,
        action="append",
        default=[],
        help="only rows with this value (op=read) or without a value (call=); repeat to combine conditions",
    )
    command.add_argument(
        "--by",
        metavar="FACT,…",
        type=_names,
        default=["capture"],
        help="captures with equal facts form a group, for example device,workload (default: capture)",
    )
    command.add_argument(
        "--windows", metavar="TIME", type=duration, help="use windows of this length as repetitions, for example 10s"
    )
    command.add_argument(
        "--phases",
        metavar="TIME",
        type=duration,
        help="split each recording where its read or write rate changes, measured in windows of TIME; each phase (at"
        " least 20 windows) then counts as a capture",
    )
    command.add_argument(
        "--paired-by", metavar="FACT,…", type=_names, default=[], help="pair captures that are equal in these facts"
    )
    command.add_argument("--baseline", metavar="GROUP", help="compare the groups only with this one")
    command.add_argument(
        "--smallest",
        metavar="PERCENT",
        type=_percent,
        help="smallest difference that matters, for example 5%%; for shares, in percentage points",
    )
    command.add_argument(
        "--gate",
        metavar="LIMIT",
        type=_limit,
        help="allow the second side to be at most 5%% higher ('<+5%%') or lower ('>-5%%')",
    )
    command.add_argument(
        "--correction",
        choices=["holm", "bh"],
        default="holm",
        help="correct p values of many comparisons by Holm or Benjamini-Hochberg (default: holm)",
    )
    command.add_argument(
        "-j", "--jobs", metavar="N", type=positive, help="number of worker processes (default: one per processor)"
    )
    command.add_argument("--cluster", metavar="ADDRESS", help="measure on a Dask cluster, such as tcp://10.0.0.5:8786")
    command.add_argument("--report", metavar="FILE.html", type=Path, help="also write a page with figures")
    command.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> None:
    if arguments.measure is None:
        _overview(arguments)
        return
    if arguments.paired_by and arguments.windows:
        arguments.wrong_usage("--paired-by pairs captures: leave out --windows")
    found = collection(*arguments.paths, classes=arguments.classes)
    with _cluster(arguments.cluster) as executor:
        parts, failed = found.measured(
            arguments.measure,
            window_ns=arguments.windows,
            phases_ns=arguments.phases,
            jobs=arguments.jobs,
            executor=executor,
        )
    reasons = [reason if place in reason else f"{place}: {reason}" for place, reason in failed.items()]
    if not parts:
        raise InputError(reasons[0])
    measured = together(parts, compare.measures()[arguments.measure], arguments.windows)
    if measured.is_empty():
        raise InputError(f"{arguments.paths[0]}: the captures have no data for measure {arguments.measure}")
    conditions = [*arguments.where, *([("metric", arguments.metric)] if arguments.metric else [])]
    for name, value in conditions:
        measured = _only(measured, name, value)
    chosen = {
        **{"by": arguments.by, "paired_by": arguments.paired_by, "baseline": arguments.baseline},
        "correction": arguments.correction,
    }
    result = Result(
        measure=arguments.measure,
        by=arguments.by,
        recordings=parts,
        measured=measured,
        ranked=compare.ranking(measured, by=arguments.by),
        compared=compare.compare(measured, smallest=arguments.smallest, **chosen),
        gated=None if arguments.gate is None else compare.gate(measured, limit=arguments.gate, **chosen),
    )
    if arguments.report is not None:
        from androstep_analysis.present.report import comparison  # matplotlib takes a second

        comparison.write(result, arguments.report)
    if arguments.json:
        print(to_json(_json(arguments, result)))
    elif arguments.rank:
        print("\n".join([*result.caveats(), *result.ranks()]))
    else:
        print("\n\n".join(_text(result)))
    if reasons:
        rest = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise InputError(f"{len(reasons)} of {len(found)} captures were left out: {reasons[0]}{rest}")
    if result.gated is not None and (status := _status(result.gated)):
        raise SystemExit(status)


_NEED_MEASURE = ("metric", "where", "by", "windows", "phases", "paired_by", "baseline", "smallest", "gate", "rank")
"""Arguments that need --measure."""


def _overview(arguments: argparse.Namespace) -> None:
    """Print the differences between two sides, each one capture or a directory of repetitions."""
    for name in _NEED_MEASURE:
        if getattr(arguments, name) not in (None, False, [], ["capture"]):
            arguments.wrong_usage(f"--{name.replace('_', '-')} needs --measure: it says what is compared")
    if len(arguments.paths) != 2:
        arguments.wrong_usage("give two captures, or two directories of captures; --measure NAME compares any number")
    with _cluster(arguments.cluster) as executor:
        found = [collection(path, classes=arguments.classes) for path in arguments.paths]
        sides = [side.observed(jobs=arguments.jobs, executor=executor) for side in found]
    for observed, failed in sides:
        if not observed:
            source, reason = next(iter(failed.items()))
            raise InputError(reason if source in reason else f"{source}: {reason}")
    overview = of_observed(sides[0][0], sides[1][0], _names_of(arguments.paths))
    if arguments.report is not None:
        from androstep_analysis.present.report import comparison  # matplotlib takes a second

        comparison.write_overview(overview, arguments.report)
    if arguments.json:
        print(to_json(_json_of(overview)))
    else:
        head, foot = (
            "\n".join("\n".join(text.wrapped(line)) for line in lines(overview))
            for lines in (changes.first_lines, changes.last_lines)
        )
        print(f"{head}\n\n{text.sheet(changes.sheet(overview), is_whole=True)}\n\n{foot}")
    if failed := sides[0][1] | sides[1][1]:
        source, reason = next(iter(failed.items()))
        raise InputError(
            f"{len(failed)} captures were left out: {reason if source in reason else f'{source}: {reason}'}"
        )


def _names_of(paths: Sequence[str]) -> tuple[str, str]:
    """Return the names of the two sides: those of their files, or the whole paths if the names are equal."""
    first, second = paths
    short = tuple(Path(path.rstrip("/")).name or path for path in paths)
    return (first, second) if short[0] == short[1] else (short[0], short[1])


def _percent(text: str) -> float:
    """Parse a percentage such as 5%. Return it as a ratio between 0 and 1."""
    number = text.removesuffix("%")
    try:
        value = float(number) / 100
    except ValueError:
        value = -1.0
    if number == text or not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage; write 5%")
    return value


def _limit(text: str) -> float:
    """Parse the limit of a gate: <+5% is 0.05, >-5% is -0.05."""
    for start, sign in (("<+", 1), (">-", -1)):
        if text.startswith(start):
            return sign * _percent(text.removeprefix(start))
    raise argparse.ArgumentTypeError(f"{text!r} is not a limit; write '<+5%' or '>-5%', in quotes")


def _status(gated: pl.DataFrame) -> int:
    """Return the exit status of a gate: undecided if there was no comparison."""
    verdicts = set(gated["gate"])
    worst = next((name for name in ("beyond", "undecided", "within") if name in verdicts), "undecided")
    return EXIT_STATUS[worst]


def _condition(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a condition; write DIMENSION=VALUE")
    return name, value or None


def _only(measured: pl.DataFrame, name: str, value: str | None) -> pl.DataFrame:
    """Return the rows with this metric, or with this value of a dimension."""
    dims = ["metric", *dimensions(measured)]
    if name not in dims:
        raise InputError(f"the measure has no dimension {name}; it has {', '.join(dims)}")
    text = measured[name].cast(pl.String)
    rows = measured.filter(text.is_null() if value is None else text == value)
    if rows.is_empty() and not measured.is_empty():
        known = ", ".join(text.unique(maintain_order=True).fill_null("(none)"))
        raise InputError(f"no row has {name} {value or '(none)'}; there are {known}")
    return rows


def _names(text: str) -> list[str]:
    return text.split(",")


@contextlib.contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Connect to the scheduler at the address. Yield its client, or None without an address."""
    if address is None:
        yield None
        return
    try:
        import distributed
    except ImportError:
        raise InputError("--cluster needs Dask; install androstep[cluster]") from None
    dask: Any = distributed  # its types are incomplete
    try:
        asyncio.run(asyncio.wait_for(_ask_scheduler(dask, address), CONNECT_SECONDS))
        client = dask.Client(address, timeout=CONNECT_SECONDS)
    except Exception as error:  # another kind of server may answer with anything
        reason = str(error) or f"waited {CONNECT_SECONDS} s"  # asyncio's TimeoutError has no text
        raise InputError(f"{address}: no Dask scheduler answers at this address ({reason})") from None
    with client:
        yield client


async def _ask_scheduler(dask: Any, address: str) -> None:
    """Return if a scheduler answers at the address.

    `distributed.Client` does not limit how long it reads the first answer (`distributed.comm.core.connect`, 2026.8):
    it waits for ever for a server that accepts connections and stays silent.
    """
    arguments = dask.Security().get_connection_args("client")
    async with dask.core.rpc(address, connection_args=arguments) as server:
        kind = (await server.identity())["type"]
    if kind != "Scheduler":
        raise ValueError(f"a {kind.lower()} does")


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json(arguments: argparse.Namespace, result: Result) -> dict[str, Any]:
    """Return the JSON object of a comparison (docs/compare.md)."""
    rows = dict(result.measured["capture_id"].value_counts().iter_rows())
    return {
        "measure": arguments.measure,
        "by": arguments.by,
        "paired_by": arguments.paired_by,
        "window_ns": arguments.windows,
        "correction": arguments.correction,
        "captures": [
            {"capture": one.title, "rows": rows.get(one.facts["capture_id"], 0)}
            | {name: value for name, value in one.facts.items() if value is not None}
            | ({"population": dict(one.population)} if one.population else {})
            for one in result.recordings
        ],
        "groups": _rows(result.ranked),
        "comparisons": _rows(result.compared),
    } | ({} if result.gated is None else {"limit": arguments.gate, "gates": _rows(result.gated)})


def _json_of(found: Overview) -> dict[str, Any]:
    """Return the JSON object of an overview of two sides (docs/compare.md)."""
    return {
        "first": found.first,
        "second": found.second,
        "recordings": found.recordings,
        "seconds": found.seconds,
        "rows": _rows(found.table),
        "not_compared": found.not_compared,
    }


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries, without null values."""
    rows = table.with_columns(pl.col(pl.Enum).cast(pl.String)).iter_rows(named=True)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


# -- text -------------------------------------------------------------------------------------------------------------


def _text(result: Result) -> list[str]:
    """Return the paragraphs to print."""
    parts, compared, dims = result.caveats(), result.compared, result.dims
    if not result.ranked.is_empty():
        parts.append(f"Values, with 95 % intervals\n{_groups(result.ranked, dims, result.by)}")
        if result.ranked.select(result.by).unique().height == 1:
            parts.append("One group: there is nothing to compare it with.")
        else:
            shown = words.sentences(compared, dims)
            parts += ["\n".join(shown)] if shown else []
            parts.append(f"Comparisons, with 95 % intervals\n{_comparisons(compared, dims)}")
            parts.append(f"{compared.height:,} comparisons: {words.counts(compared)}")
            parts += words.assumptions(compared)
    return parts if result.gated is None else [*parts, _gates(result.gated, dims)]


def _gates(gated: pl.DataFrame, dims: Sequence[str]) -> str:
    rows = [
        [
            *words.key(row, dims),
            row["group_first"],
            row["group_second"],
            *(quantities.in_unit(row[side], row["unit"]) for side in ("first", "second")),
            "–" if row["p_gate"] is None else f"{row['p_gate']:.2g}",
            row["gate"],
        ]
        for row in gated.iter_rows(named=True)
    ]
    header = ["metric", *dims, "first", "second", "first is", "second is", "p", "limit"]
    return f"Gate\n{terminal.table(header, rows, is_whole=True)}"


def _groups(ranked: pl.DataFrame, dims: Sequence[str], by: Sequence[str]) -> str:
    rows = [
        [
            *words.key(row, dims),
            *(row[name] for name in by),
            quantities.in_unit(row["value"], row["unit"]),
            quantities.in_unit(row["lo"], row["unit"]),
            quantities.in_unit(row["hi"], row["unit"]),
            f"{row['n']:,}",
            words.rank(row),
        ]
        for row in ranked.iter_rows(named=True)
    ]
    return terminal.table(["metric", *dims, *by, "value", "from", "to", "n", "rank"], rows, is_whole=True)


def _comparisons(compared: pl.DataFrame, dims: Sequence[str]) -> str:
    rows = [
        [
            *words.key(row, dims),
            row["group_first"],
            row["group_second"],
            *(quantities.in_unit(row[side], row["unit"]) for side in ("first", "second", "difference")),
            *(quantities.in_unit(row[side], row["unit"]) for side in ("difference_lo", "difference_hi")),
            "–" if row["ratio"] is None else f"{row['ratio']:.3g}",
            "–" if row["p_adjusted"] is None else f"{row['p_adjusted']:.2g}",
            words.verdict(row),
        ]
        for row in compared.iter_rows(named=True)
    ]
    header = ["metric", *dims, "first", "second", "first is", "second is", "difference", "from", "to", "ratio", "p"]
    return terminal.table([*header, "the second is"], rows, is_whole=True)
