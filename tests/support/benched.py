"""Runs of iobench, what it records of them, and the system calls it makes meanwhile."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from androstep_analysis.ingest import record
from support import built


def run(*words: str | Path, variant: str = "sanitized", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs iobench to its end; TSan does not bear the addresses of kernels with much randomness in them."""
    before = ["setarch", "-R"] if variant == "tsan" else []
    return built.run(*before, built.program("iobench", variant), *words, **options)


def tallies(recorded: Path, thread: int = -1, repeat: int = 0) -> dict[str, tuple[int, int]]:
    """Operations and bytes of each part, of a worker or of all (-1), in a file that `--record` wrote."""
    rows = record.read(recorded).tables["bench_result"].filter(pl.col("thread") == thread, pl.col("repeat") == repeat)
    return {part: (ops, moved) for part, ops, moved in rows.select("part", "ops", "bytes").iter_rows()}


@dataclass(frozen=True)
class Call:
    """A system call: its name, the path of its descriptor or else its first path, its arguments and its result."""

    name: str
    path: str
    arguments: str
    result: int


_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_DESCRIPTOR, _QUOTED = re.compile(r"^\d+<([^>]*)>"), re.compile(r'"([^"]*)"')


def _call(line: str) -> Call | None:
    found = _CALL.match(line)
    if found is None:
        return None
    name, arguments, result = found.groups()
    path = _DESCRIPTOR.match(arguments) or _QUOTED.search(arguments)
    return Call(name, path[1] if path else "", arguments, int(result))


def _whole(lines: Iterator[str]) -> Iterator[str]:
    """Calls that another thread's cut in two, put together."""
    begun: dict[str, str] = {}
    for line in lines:
        thread, _, rest = line.partition(" ")
        if rest.rstrip().endswith("<unfinished ...>"):
            begun[thread] = line.rstrip().removesuffix("<unfinished ...>").rstrip()
        elif " resumed>" in rest:
            yield begun.pop(thread) + rest.partition(" resumed>")[2]
        else:
            yield line


def traced(log: Path, names: str, *command: str | Path, status: int = 0) -> list[Call]:
    """Runs a program and gives its system calls `names` (as strace's -e trace= has them), with those of its threads and
    children.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    strace = ("strace", "-f", "-y", "-s", "0", "-e", f"trace={names}", "-e", "signal=none", "-o", log)
    built.run(*strace, *command, status=status)
    with log.open() as lines:
        return [call for line in _whole(iter(lines)) if (call := _call(line)) is not None]


def calls(log: Path, names: str, *words: str | Path, status: int = 0) -> list[Call]:
    """The system calls `names` of a run of iobench."""
    return traced(log, names, built.program("iobench", "native"), *words, status=status)
