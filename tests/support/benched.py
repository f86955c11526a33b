"""Run iobench, and read its results and its system calls."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from androstep_analysis import bench
from androstep_analysis.bench.plan import plan
from androstep_analysis.ingest import record
from support import built


def program(variant: str = "sanitized") -> list[str | Path]:
    """Return the command; for TSan with address randomisation off, which it does not support on some kernels."""
    before: list[str | Path] = ["setarch", "-R"] if variant == "tsan" else []
    return [*before, built.program("iobench", variant)]


def planned(*command: str | Path) -> list[list[str | Path]]:
    """Return the command lines of iobench that `androstep bench` makes of one, including prefixes such as setarch."""
    at = max(index for index, word in enumerate(command) if Path(word).name.startswith("iobench"))
    words = [str(word) for word in command[at + 1 :]]
    return [[*command[: at + 1], *run.words] for run in plan(words).runs]


def run(*words: str | Path, variant: str = "sanitized", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run iobench to its end, with the options of one run."""
    (command,) = planned(*program(variant), *words)
    return built.run(*command, **options)


def measured(*command: str | Path, **options: Any) -> tuple[list[dict[str, Any]], str]:
    """Run a command as any user; return its repetitions (`repetitions`) and its standard error."""
    found, said = [], ""
    for of_run in planned(*command):
        with tempfile.TemporaryDirectory(prefix="iobench-") as scratch:
            out = Path(scratch, "run.rec")
            out.touch()
            out.chmod(0o666)
            out.parent.chmod(0o755)
            done = built.run(*of_run, "--record", out, **options)
            found += repetitions(out)
            said += done.stderr.decode("utf-8", "replace")
    return found, said


def repetitions(recorded: Path) -> list[dict[str, Any]]:
    """Return each repetition in a file written by `--record`.

    Each has its non-null columns of bench_runs, `parts` (rows of bench by part, over all workers), and `workers` (the
    row of part op of each, with its own `parts`).
    """
    tables = bench.read(recorded).tables
    found = []
    for run in tables["bench_runs"].iter_rows(named=True):
        rows = tables["bench"].filter(run_id=run["run_id"], repeat=run["repeat"])
        parts: dict[int, dict[str, dict[str, Any]]] = {}
        for row in rows.sort("thread").iter_rows(named=True):
            parts.setdefault(row["thread"], {})[row["part"]] = row
        known = {name: value for name, value in run.items() if value is not None}
        workers = [own["op"] | {"parts": own} for thread, own in parts.items() if thread >= 0]
        found.append(known | {"parts": parts[-1], "workers": workers})
    return found


def tallies(recorded: Path, thread: int = -1, repeat: int = 0) -> dict[str, tuple[int, int]]:
    """Return operations and bytes of each part in a file written by `--record`, of a worker or of all (-1)."""
    rows = record.read(recorded).tables["bench_result"].filter(pl.col("thread") == thread, pl.col("repeat") == repeat)
    return {part: (ops, moved) for part, ops, moved in rows.select("part", "ops", "bytes").iter_rows()}


@dataclass(frozen=True)
class Call:
    """A system call: name, path of its descriptor or else its first path, arguments and result."""

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
    """Join the two halves of calls that another thread's call interrupted."""
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
    """Run a program and return its system calls `names` (as in strace -e trace=).

    Calls of its threads and children are included.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    strace = ("strace", "-f", "-y", "-s", "0", "-e", f"trace={names}", "-e", "signal=none", "-o", log)
    built.run(*strace, *command, status=status)
    with log.open() as lines:
        return [call for line in _whole(iter(lines)) if (call := _call(line)) is not None]


def calls(log: Path, names: str, *words: str | Path, status: int = 0) -> list[Call]:
    """Return the system calls `names` of a run of iobench."""
    commands = planned(built.program("iobench", "native"), *words)
    return [call for command in commands for call in traced(log, names, *command, status=status)]
