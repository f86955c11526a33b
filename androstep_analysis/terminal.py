"""Tables for people who read a terminal. Every cell is made visible: a file name cannot steer the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from androstep_analysis import analysis, bench, units
from androstep_analysis.capture import Capture
from androstep_analysis.markup import visible

TOP = 10
"""Rows shown of processes and of files."""

NUMBER = frozenset("-0123456789")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns with a rule below the header; columns of numbers are aligned to the right."""
    cells = [[visible(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [all(row[i][:1] in NUMBER or row[i] in ("", "–") for row in cells[1:]) for i in range(len(header))]
    lines = [
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def summary(capture: Capture) -> str:
    """The tables of a capture that answer: how much, what kind, whose, which files, how local, how fast."""
    measured = [_bench(capture.bench)] if capture.about["bench"] else []
    told = [str(capture), *(f"lost: {visible(loss.message)}" for loss in capture.losses), *measured]
    told += [part for part in _beside_requests(capture) if part]
    if not capture.about["rows"]["requests"]:
        return "\n\n".join(told)
    requests, io = capture.requests.collect(), capture.io.collect()
    data = io.filter(pl.col("block_type") == "data")
    parts = [
        *told,
        _shares("Requests", analysis.mix(requests), ["op"]),
        _shares("Block types (empty flushes apart)", analysis.blocktypes(io), ["op", "block_type"]),
        _shares("File types of data blocks", analysis.filetypes(io), ["op", "file_type"]),
        _volume(f"Processes (top {TOP})", io, "owner_comm"),
        _volume(f"Apps by directory (top {TOP})", data, "package"),
        _volume(f"Files (top {TOP})", data, "path"),
        _shares("Locality", analysis.locality(requests), ["op", "class"]),
        _shares("Synchronous and buffered writes", analysis.sync(io), ["class"]),
        _latency(requests),
        _shares("What the block types rest on", analysis.evidence(io, "map_source"), ["op", "map_source"]),
        _shares("What the owners rest on", analysis.evidence(io, "owner_via"), ["op", "owner_via"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _beside_requests(capture: Capture) -> Iterator[str]:
    """What a capture has beside requests: system calls, commands, counters; of others which events there are."""
    has = capture.about["rows"]
    if has["syscalls"]:
        yield _calls(analysis.calls(capture.syscalls))
        yield _called_paths(analysis.called_paths(capture.syscalls))
    if has["commands"]:
        yield _commands(analysis.commands(capture.commands))
    if has["samples"]:
        yield _counters(analysis.counters(capture.samples))
    if not any(has[name] for name in ("requests", "syscalls", "commands", "samples")):
        counts = sorted(capture.events.items(), key=lambda item: (-item[1], item[0]))
        yield _top("Events", ["event", "count"], [[name, f"{count:,}"] for name, count in counts])


def _calls(result: pl.DataFrame) -> str:
    rows = [
        [call, f"{count:,}", f"{failed:,}", "–" if size is None else _kib(size), _number(ns, 1e6, 3)]
        for call, count, failed, size, ns in result.iter_rows()
    ]
    return _top("System calls", ["call", "calls", "failed", "KiB", "ms"], rows)


def _called_paths(result: pl.DataFrame) -> str:
    rows = [
        [path, f"{count:,}", *("–" if size is None else _kib(size) for size in moved)]
        for path, count, *moved in result.iter_rows()
    ]
    return _top("Paths of system calls", ["path", "calls", "KiB read", "KiB written"], rows)


def _commands(result: pl.DataFrame) -> str:
    rows = [
        [
            *("–" if value is None else str(value) for value in (device, event, step)),
            "–" if opcode is None else f"0x{opcode:02x}",
            f"{count:,}",
            "–" if size is None else _kib(size),
        ]
        for device, event, step, opcode, count, size in result.iter_rows()
    ]
    return _top("Commands to the device", ["device", "event", "step", "opcode", "events", "KiB"], rows)


def _counters(result: pl.DataFrame) -> str:
    rows = [
        [
            row["counter"],
            *(_whose(row["dev"], row["pid"]), row["unit"]),
            *(f"{row[name]:,}" for name in ("count", "least", "greatest", "last")),
        ]
        for row in result.iter_rows(named=True)
    ]
    return _top("Counters", ["counter", "of", "unit", "readings", "least", "greatest", "last"], rows)


def _whose(dev: int | None, pid: int | None) -> str:
    """What a counter belongs to."""
    if dev is not None:
        return units.format_dev(dev)
    return "–" if pid is None else f"process {pid}"


def _top(title: str, header: list[str], rows: list[list[str]]) -> str:
    """A table of the first rows; nothing where there are none."""
    shown = f" (top {TOP} of {len(rows):,})" if len(rows) > TOP else ""
    return f"{title}{shown}\n{table(header, rows[:TOP])}" if rows else ""


def _shares(title: str, result: pl.DataFrame, dimensions: list[str]) -> str:
    """A tidy result with its count, bytes and ratios side by side."""
    if not result.height:
        return ""
    wide = result.pivot("metric", index=dimensions, values="value", maintain_order=True)
    rows = [
        [
            *("–" if row[name] is None else str(row[name]) for name in dimensions),
            f"{row['count']:,.0f}",
            _percent(row.get("count_ratio")),
            _kib(row["bytes"]),
            _percent(row.get("bytes_ratio")),
        ]
        for row in wide.iter_rows(named=True)
    ]
    return f"{title}\n{table([*dimensions, 'requests', '%', 'KiB', '%'], rows)}"


def _volume(title: str, io: pl.DataFrame, column: str) -> str:
    """Bytes read and written by one column of io, the largest first; what is unknown stands as such."""
    result = analysis.volume(io, by=(column,)).filter(pl.col("metric") == "bytes")
    wide = result.group_by(column).agg(
        read=pl.col("value").filter(pl.col("op") == "read").sum(),
        write=pl.col("value").filter(pl.col("op") == "write").sum(),
    )
    top = wide.sort(pl.col("read") + pl.col("write"), column, descending=[True, False]).head(TOP)
    rows = [[name or "(unknown)", _kib(read), _kib(write)] for name, read, write in top.iter_rows()]
    return f"{title}\n{table([column, 'KiB read', 'KiB written'], rows)}" if rows else ""


def _latency(requests: pl.DataFrame) -> str:
    result = analysis.latency(requests)
    if not result.height:
        return ""
    wide = result.with_columns(pl.col("quantile").cast(pl.String)).pivot(
        "quantile", index=["step", "op", "n"], values="value", maintain_order=True
    )
    names = wide.columns[3:]
    rows = [[row[0], row[1], f"{row[2]:,}", *(f"{value / 1e6:,.3f}" for value in row[3:])] for row in wide.iter_rows()]
    return f"Latency in ms\n{table(['step', 'op', 'requests', *names], rows)}"


def _bench(tables: Mapping[str, pl.DataFrame]) -> str:
    """Medians of every configuration with their intervals, and why repetitions are invalid."""
    summary = bench.summarise(tables)
    dims = summary.columns[1 : summary.columns.index("value")]
    told = _telling(summary, dims)
    found = {(row["metric"], *(row[name] for name in dims)): row for row in summary.iter_rows(named=True)}
    rows = []
    for row in summary.filter(metric="invalid_runs").iter_rows(named=True):
        key = tuple(row[name] for name in dims)
        rate = found.get(("iops", *key)) or found.get(("tps", *key)) or {}
        rows.append(
            [
                *(_dimension(name, row[name]) for name in told),
                *(_number(rate.get(name), 1, 0) for name in ("value", "lo", "hi")),
                *(_number(found.get((name, *key), {}).get("value"), scale, 1) for name, scale in _SHOWN.items()),
                f"{row['n'] - row['value']:,.0f}",
                f"{row['value']:,.0f}",
            ]
        )
    header = [*told, "ops/s", "from", "to", "MB/s", "p50 µs", "p99 µs", "p99.9 µs", "valid", "invalid"]
    return "\n\n".join(
        [
            f"Median of valid repetitions with its 95 % interval (below 6: least and greatest)\n{table(header, rows)}",
            *_reasons(tables["bench_runs"]),
        ]
    )


_SHOWN = {"bandwidth": 1e6, "latency_p50": 1e3, "latency_p99": 1e3, "latency_p99.9": 1e3}
"""Metrics of `bench.summarise` beside the rate, and what they are divided by."""


def _reasons(runs: pl.DataFrame) -> list[str]:
    """Why repetitions are invalid, the most frequent reason first."""
    invalid = (
        runs.filter(~pl.col("valid")).group_by("invalid").agg(n=pl.len()).sort("n", "invalid", descending=[True, False])
    )
    return [f"invalid: {visible(reason or 'no reason given')} ({n:,})" for reason, n in invalid.iter_rows()]


def comparison(first: Mapping[str, pl.DataFrame], second: Mapping[str, pl.DataFrame]) -> str:
    """Rates and latencies of two sets of benchmark results (tables bench_runs and bench), and what the second is."""
    result = bench.compare(first, second).filter(pl.col("metric").is_in(["iops", "tps", "latency_p50", "latency_p99"]))
    dims = _telling(result, result.columns[1 : result.columns.index("value")])
    rows = [
        [
            row["metric"],
            *(_dimension(name, row[name]) for name in dims),
            *(_number(row[side], 1, 0) for side in ("first", "second")),
            *(_number(row[bound], 1, 3) for bound in ("value", "lo", "hi")),
            f"{row['n_first']}, {row['n_second']}",
            row["verdict"],
        ]
        for row in result.iter_rows(named=True)
    ]
    header = ["metric", *dims, "first", "second", "ratio", "from", "to", "n", "the second is"]
    return f"Rates in 1/s, latencies in ns; 95 % intervals of the ratio\n{table(header, rows)}"


def _telling(table: pl.DataFrame, dims: Sequence[str]) -> list[str]:
    """The columns that tell configurations apart, without those that follow from the ones before them."""
    told = ["test"]
    for name in dims:
        if name not in told and table.select(told).n_unique() < table.select(*told, name).n_unique():
            told.append(name)
    return told


def _dimension(name: str, value: object) -> str:
    """A value of a configuration: sizes in the largest binary unit that they are whole numbers of."""
    if value is None:
        return "–"
    if isinstance(value, int) and name.endswith("_bytes"):
        sizes = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
        size, unit = next((pair for pair in sizes if value and value % pair[0] == 0), (1, "B"))
        return f"{value // size:,} {unit}"
    return str(value)


def _number(value: float | None, scale: float, digits: int) -> str:
    return "–" if value is None else f"{value / scale:,.{digits}f}"


def _kib(value: float) -> str:
    return f"{value / 1024:,.0f}"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1%}"
