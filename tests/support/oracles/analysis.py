"""Naive measures in plain Python over rows as dicts, written from schemas/definitions.toml alone.

Every function takes rows of table `requests` or `io` and returns ``{(metric, *dimensions): (value, n, coverage)}``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

Row = dict[str, Any]
Facts = dict[tuple[Any, ...], tuple[float | None, int, float | None]]

STEPS = {"Q2D": ("queue_ns", "issue_ns"), "D2C": ("issue_ns", "complete_ns"), "Q2C": ("queue_ns", "complete_ns")}

_OF_MAP = {"block_type", "subtype", "ino", "path", "file_type", "package", "file_offset_bytes"}

QUANTILES = {
    "p50": Fraction(50, 100),
    "p90": Fraction(90, 100),
    "p99": Fraction(99, 100),
    "p99.9": Fraction(999, 1000),
}


def counted(rows: Sequence[Row]) -> list[Row]:
    reached = [row for row in rows if (row["issue_ns"], row["complete_ns"]) != (None, None)]
    return reached or list(rows)


def size(row: Row) -> int:
    return row["nr_sectors"] * 512


def share(rows: Iterable[Row], known: Callable[[Row], bool]) -> float | None:
    rows = list(rows)
    whole = sum(map(size, rows))
    return sum(size(row) for row in rows if known(row)) / whole if whole else None


def typed(row: Row) -> bool:
    return row["map_source"] not in (None, "inferred") and row["block_type"] not in (None, "unknown")


def is_known(row: Row, names: Iterable[str]) -> bool:
    """Return whether the columns hold facts: map columns by map_source, owner columns by owner_via."""
    return all(
        row[name] is not None
        and row[name] != ("unknown" if name in ("block_type", "file_type") else None)
        and not (name in _OF_MAP and row["map_source"] in (None, "inferred"))
        and not (name in ("owner_pid", "owner_comm", "owner_package") and row["owner_via"] == "inferred")
        for name in names
    )


def by_op(facts: Facts, rows: Sequence[Row], known: Callable[[Row], bool], at: int = 1) -> Facts:
    """Set the coverage of facts to the known share of their operation's bytes.

    The operation is at index `at` of the key.
    """
    shares = {op: share(group, known) for (op,), group in grouped(rows, ["op"]).items()}
    return {key: (value, n, shares[key[at]]) for key, (value, n, _) in facts.items()}


def grouped(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def sums(groups: dict[tuple[Any, ...], list[Row]], coverage: float | None) -> Facts:
    """Return metrics count (of requests) and bytes of each group."""
    facts: Facts = {}
    for key, rows in groups.items():
        n = len({row["request_id"] for row in rows})
        facts["count", *key] = n, n, coverage
        facts["bytes", *key] = sum(map(size, rows)), n, coverage
    return facts


def with_ratios(facts: Facts, whole: Callable[[tuple[Any, ...]], Any]) -> Facts:
    """Add each fact's share among the facts with the same `whole`; None excludes a fact."""
    totals: dict[Any, float] = defaultdict(float)
    for (metric, *key), (value, _, _) in facts.items():
        totals[metric, whole(tuple(key))] += value or 0
    ratios: Facts = {}
    for (metric, *key), (value, n, coverage) in facts.items():
        if (group := whole(tuple(key))) is not None:
            total = totals[metric, group]
            ratios[f"{metric}_ratio", *key] = (value or 0) / total if total else None, n, coverage
    return facts | ratios


def mix(requests: list[Row]) -> Facts:
    return with_ratios(
        sums(grouped(counted(requests), ["op"]), 1.0), lambda key: None if key[0] == "flush" else "all requests"
    )


def sizes(requests: list[Row]) -> Facts:
    data = [row | {"size_bytes": size(row)} for row in counted(requests) if size(row)]
    return {key: fact for key, fact in sums(grouped(data, ["op", "size_bytes"]), 1.0).items() if key[0] == "count"}


def rwbs(requests: list[Row]) -> Facts:
    rows = counted(requests)
    coverage = share(rows, lambda row: row["rwbs"] is not None)
    return {key: fact for key, fact in sums(grouped(rows, ["rwbs"]), coverage).items() if key[0] == "count"}


def block_types(io: list[Row], subtypes: bool) -> Facts:
    rows = counted(io)
    names = ["op", "block_type", *(["subtype"] if subtypes else [])]
    facts = by_op(sums(grouped(rows, names), None), rows, typed)
    return with_ratios(facts, lambda key: None if key[1] is None else (key[0],))


def evidence(io: list[Row], column: str) -> Facts:
    rows = [row for row in counted(io) if size(row)]
    return with_ratios(sums(grouped(rows, ["op", column]), None), lambda key: key[0])


def metadata_fraction(io: list[Row]) -> Facts:
    rows = [row for row in counted(io) if row["op"] in ("read", "write")]
    known = [row for row in rows if row["block_type"] in ("data", "directory", "journal", "metadata")]
    facts: Facts = {}
    for (op,), group in grouped(known, ["op"]).items():
        requests = {row["request_id"] for row in group}
        for prefix, types in (("", ("metadata", "directory")), ("journal_", ("journal",))):
            part = [row for row in group if row["block_type"] in types]
            count = len({row["request_id"] for row in part}) / len(requests)
            facts[f"{prefix}count_ratio", op] = count, len(requests), None
            ratio = sum(map(size, part)) / sum(map(size, group))
            facts[f"{prefix}bytes_ratio", op] = ratio, len(requests), None
    return by_op(facts, rows, typed)


def file_types(io: list[Row]) -> Facts:
    rows = counted(io)
    data = [row | {"file_type": row["file_type"] or "unknown"} for row in rows if row["block_type"] == "data"]
    return with_ratios(by_op(sums(grouped(data, ["op", "file_type"]), None), rows, typed), lambda key: key[0])


def sync(io: list[Row], by: Sequence[str]) -> Facts:
    writes = [
        row | {"class": {True: "sync", False: "buffered", None: "unknown"}[row["sync"]]}
        for row in counted(io)
        if row["op"] == "write" and size(row)
    ]
    coverage = share(writes, lambda row: is_known(row, ("sync", *by)))
    return with_ratios(sums(grouped(writes, [*by, "class"]), coverage), lambda key: key[:-1])


def volume(io: list[Row], by: Sequence[str]) -> Facts:
    data = [row for row in counted(io) if size(row)]
    facts = sums(grouped(data, [*by, "op"]), None)
    return by_op(facts, data, lambda row: is_known(row, by), at=-1)


def time(row: Row) -> int:
    """Return a request's time in the order: issue, else queue, else completion."""
    return next(row[name] for name in ("issue_ns", "queue_ns", "complete_ns") if row[name] is not None)


def classes(rows: list[Row], stream: Sequence[str]) -> list[tuple[Row, tuple[str, ...]]]:
    """Return each row with data, in order, and the locality classes of its request in its stream."""
    data = [row for row in counted(rows) if size(row)]
    of_request = grouped(data, ["request_id", *stream])
    order = sorted(of_request.items(), key=lambda item: (min(map(time, item[1])), item[0][0]))
    ended: dict[tuple[Any, ...], int] = {}
    result = []
    for (_, *key), pieces in order:
        begin = min(row["sector"] for row in pieces)
        before = ended.get(tuple(key))
        found: tuple[str, ...] = ("consecutive", "forward") if begin == before else ("random",)
        if before is None:
            found = ("random", "first")
        elif begin > before:
            found = ("forward", "random")
        result += [(row, found) for row in pieces]
        ended[tuple(key)] = max(row["sector"] + row["nr_sectors"] for row in pieces)
    return result


def locality(rows: list[Row], stream: Sequence[str], by: Sequence[str]) -> Facts:
    classified = classes(rows, stream)
    data = [row for row, _ in classified]
    coverage = share(data, lambda row: is_known(row, (*stream, *by)))
    facts: Facts = {}
    for key in grouped(data, by):
        for name in ("consecutive", "forward", "random"):
            members = [row for row, found in classified if name in found and tuple(row[b] for b in by) == key]
            facts |= sums({(*key, name): members}, coverage)
    ratios = {}
    for (metric, *key, name), (value, n, coverage) in facts.items():
        whole = facts[metric, *key, "consecutive"][0] + facts[metric, *key, "random"][0]
        op = key[list(by).index("op")] if "op" in by else None
        found = [found for row, found in classified if op is None or row["op"] == op]
        has_order = any("first" not in one for one in found)
        ratios[f"{metric}_ratio", *key, name] = value / whole if has_order else None, n, coverage
    return facts | ratios


def cumulative(requests: list[Row]) -> list[tuple[Any, ...]]:
    """Return (time, op, class, running sum, running count), in order of time."""
    done: dict[tuple[str, str], list[int]] = defaultdict(list)
    result = []
    for row, found in classes(requests, ("dev", "op")):
        key = row["op"], "sequential" if "consecutive" in found else "random"
        done[key].append(size(row))
        result.append((time(row), *key, sum(done[key]), len(done[key])))
    return result


def spans(requests: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return rows that have both ends of a step, with their span, by step and operation."""
    groups = defaultdict(list)
    for row in counted(requests):
        for step, (begin, end) in STEPS.items():
            if row[begin] is not None and row[end] is not None:
                groups[step, row["op"]].append(row | {"span": row[end] - row[begin]})
    return groups


def latency(requests: list[Row]) -> Facts:
    facts: Facts = {}
    for (step, op), rows in spans(requests).items():
        whole = sum(size(row) for row in counted(requests) if row["op"] == op)
        coverage = sum(map(size, rows)) / whole if whole else None
        values = sorted(row["span"] for row in rows)
        n = len(values)
        ranks = {name: values[math.ceil(q * n) - 1] for name, q in QUANTILES.items()}
        ranks |= {"min": values[0], "max": values[-1], "mean": sum(values) / n}
        facts |= {("latency", step, op, name): (value, n, coverage) for name, value in ranks.items()}
    return facts


def latency_distribution(requests: list[Row]) -> Facts:
    facts: Facts = {}
    for (step, op), rows in spans(requests).items():
        values = [row["span"] for row in rows]
        for value in set(values):
            at_most = sum(other <= value for other in values) / len(values)
            facts["cumulative_ratio", step, op, value] = at_most, values.count(value), None
    return facts


def rate(requests: list[Row], bin_ns: int) -> Facts:
    data = [row for row in counted(requests) if size(row)]

    def done(row: Row) -> int:
        names = ("complete_ns", "issue_ns", "queue_ns")
        return next(row[name] for name in names if row[name] is not None) // bin_ns

    facts: Facts = {}
    bins = range(min(map(done, data)), max(map(done, data)) + 1) if data else range(0)
    for number in bins:
        for op in {row["op"] for row in data}:
            rows = [row for row in data if done(row) == number and row["op"] == op]
            seconds = bin_ns / 1e9
            facts["iops", number * bin_ns, op] = len(rows) / seconds, len(rows), 1.0
            facts["bandwidth", number * bin_ns, op] = sum(map(size, rows)) / seconds, len(rows), 1.0
    return facts
