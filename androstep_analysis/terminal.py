"""Tables for people who read a terminal. Every cell is made visible: a file name cannot steer the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis import analysis
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
    requests, io = capture.requests.collect(), capture.io.collect()
    data = io.filter(pl.col("block_type") == "data")
    parts = [
        str(capture),
        *(f"lost: {visible(loss.message)}" for loss in capture.losses),
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


def _kib(value: float) -> str:
    return f"{value / 1024:,.0f}"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1%}"
