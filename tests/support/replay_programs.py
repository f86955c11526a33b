"""Replay programs that a test writes down, and what ioreplay makes of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from androstep_analysis.ingest import record
from androstep_analysis.replay.program import Program
from support import built
from support.made import table

CREATE, EXCLUSIVE, TRUNCATE, APPEND, DIRECT = 0o100, 0o200, 0o1000, 0o2000, 0o40000
READ_WRITE, WRITE_ONLY = 0o2, 0o1
"""Numbers of asm-generic, as programs have them."""

EMULATORS = {"aarch64-linux-musl": "qemu-aarch64-static", "arm-linux-musleabihf": "qemu-arm-static"}


def program(
    operations: Sequence[dict[str, Any]],
    files: Sequence[dict[str, Any]] = (),
    after: Iterable[tuple[int, int]] = (),
    **known: Any,
) -> Program:
    """A program of such operations: of thread 0, not inserted, at the start and successful unless they tell otherwise.

    `after` holds pairs of an operation and one that must have ended before it.
    """
    usual = {"ts_ns": 0, "thread": 0, "inserted": False, "failed": False, "result": 0}
    rows = [{"operation": number, **usual, **row} for number, row in enumerate(operations)]
    threads = max(row["thread"] for row in rows) + 1
    dependencies: list[dict[str, Any]] = [{"operation": later, "after": earlier} for later, earlier in sorted(after)]
    return Program(
        table("operations", rows),
        table("replay_files", list(files)),
        table("replay_threads", [{"thread": thread} for thread in range(threads)]),
        table("replay_dependencies", dependencies),
        **{"duration_ns": rows[-1]["ts_ns"]} | known,
    )


def opened(descriptor: int, path: str, flags: int = READ_WRITE | CREATE, **known: Any) -> dict[str, Any]:
    """An operation that opens a file, by default one that it makes where it is not there."""
    return {"call": "open", "descriptor": descriptor, "path": path, "flags": flags, "mode": 0o600} | known


@dataclass(frozen=True)
class Replay:
    """What a replay left and told; its tables, in the order of the operations."""

    directory: Path
    stdout: str
    stderr: str
    run: dict[str, Any]
    operations: pl.DataFrame

    @property
    def results(self) -> list[int]:
        """What each operation returned."""
        return self.operations["result"].to_list()

    @property
    def divergences(self) -> list[str]:
        """How each differs from what was recorded."""
        return self.operations["divergence"].to_list()


def command(variant: str = "sanitized") -> list[str | Path]:
    """ioreplay as it is started: TSan needs addresses that are not random, a phone's build an emulator."""
    binary = built.program("ioreplay", variant)
    if variant in EMULATORS:
        emulator = shutil.which(EMULATORS[variant])
        if emulator is None:
            pytest.skip(f"{EMULATORS[variant]} is not installed")
        return [emulator, binary]
    return ["setarch", "-R", binary] if variant == "tsan" else [binary]


def results(path: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    """The one row of replay_runs and the rows of replay_ops in a file that `--record` wrote, sorted by operation."""
    recorded = record.read(path)
    assert recorded.complete and recorded.header["probe"] == "ioreplay"
    (run,) = recorded.tables["replay_run"].iter_rows(named=True)
    return run, recorded.tables["replay_op"].sort("operation")


def replay(
    top: Path, program: Program, *options: str | Path, variant: str = "sanitized", status: int = 0, **run: Any
) -> Replay:
    """Replays in directory `box` of `top`, where `options` do not name a target."""
    program.write(top / "program.rec")
    where = [] if "--target" in options else [top / "box"]
    words = ["-o", top / "results.rec", *options, top / "program.rec", *where]
    done: subprocess.CompletedProcess[bytes] = built.run(*command(variant), *words, status=status, **run)
    return Replay(top / "box", done.stdout.decode(), done.stderr.decode(), *results(top / "results.rec"))
