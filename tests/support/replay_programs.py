"""Make replay programs from rows that a test lists, and run ioreplay on them."""

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
"""Numbers of asm-generic, as in programs."""

EMULATORS = {"aarch64-linux-musl": "qemu-aarch64-static", "arm-linux-musleabihf": "qemu-arm-static"}


def program(
    operations: Sequence[dict[str, Any]],
    files: Sequence[dict[str, Any]] = (),
    after: Iterable[tuple[int, int]] = (),
    **known: Any,
) -> Program:
    """Make a program of these operations; by default of thread 0, not inserted, at time 0 and successful.

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
    """Return an open operation, which creates the file by default."""
    return {"call": "open", "descriptor": descriptor, "path": path, "flags": flags, "mode": 0o600} | known


@dataclass(frozen=True)
class Replay:
    """The results of a replay, with its tables in the order of the operations."""

    directory: Path
    stdout: str
    stderr: str
    run: dict[str, Any]
    operations: pl.DataFrame

    @property
    def results(self) -> list[int]:
        """The result of each operation."""
        return self.operations["result"].to_list()

    @property
    def divergences(self) -> list[str]:
        """How each operation differs from the recording."""
        return self.operations["divergence"].to_list()


def command(variant: str = "sanitized") -> list[str | Path]:
    """Return the command of ioreplay: TSan needs address randomisation off, a phone's build an emulator."""
    binary = built.program("ioreplay", variant)
    if variant in EMULATORS:
        emulator = shutil.which(EMULATORS[variant])
        if emulator is None:
            pytest.skip(f"{EMULATORS[variant]} is not installed")
        return [emulator, binary]
    return ["setarch", "-R", binary] if variant == "tsan" else [binary]


def results(path: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return the row of replay_runs and the rows of replay_ops from a file of `--record`, sorted by operation."""
    recorded = record.read(path)
    assert recorded.complete and recorded.header["probe"] == "ioreplay"
    (run,) = recorded.tables["replay_run"].iter_rows(named=True)
    return run, recorded.tables["replay_op"].sort("operation")


def replay(
    top: Path, program: Program, *options: str | Path, variant: str = "sanitized", status: int = 0, **run: Any
) -> Replay:
    """Replay in directory `box` of `top`, unless `options` name a target."""
    program.write(top / "program.rec")
    where = [] if "--target" in options else [top / "box"]
    words = ["-o", top / "results.rec", *options, top / "program.rec", *where]
    done: subprocess.CompletedProcess[bytes] = built.run(*command(variant), *words, status=status, **run)
    return Replay(top / "box", done.stdout.decode(), done.stderr.decode(), *results(top / "results.rec"))
