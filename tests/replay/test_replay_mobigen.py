"""MobiGen's own scripts, of the corpus: both are replayed to their end, twice alike, and keep to the sandbox."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from support import built, confined, corpus, mobigen_scripts

import androstep_analysis as androstep
from androstep_analysis import LossWarning, replay

Unknown = Literal["leave out", "files"]


def program(directory: Path, script: str, unknown: Unknown = "leave out") -> Path:
    """Return the program of a script."""
    with pytest.warns(LossWarning, match="opens that MobiGen's cleaner inserted"):
        capture = androstep.open(corpus.path(f"androstep/mobigen.out.{script}"))
    made = directory / f"{script}.rec"
    replay.clean(capture.tables["syscalls"], capture.tables["tasks"], unknown=unknown).program.write(made)
    return made


def replayed(directory: Path, made: Path, *before: str | Path) -> dict[str, pl.DataFrame]:
    """Return the results of a replay as fast as the order allows, in directory/sandbox."""
    record = directory / "results.rec"
    command = [*before, built.program("ioreplay", "native"), "--mode", "as-fast", "-o", record, made]
    subprocess.run([*command, directory / "sandbox"], check=True, capture_output=True, timeout=300)
    return replay.read(record).tables


@pytest.mark.parametrize("unknown", ["leave out", "files"])
@pytest.mark.parametrize("script", mobigen_scripts.NAMES)
def test_a_script_replays_to_its_end_twice_alike(tmp_path: Path, script: str, unknown: Unknown) -> None:
    made = program(tmp_path, script, unknown)
    first, second = (replayed(tmp_path, made) for _ in range(2))
    operations = replay.program.read(made).operations
    for results in (first, second):
        run = results["replay_runs"].row(0, named=True)
        assert (run["result"], run["interrupted"]) == (0, False)
        assert run["done"] == run["operations"] == operations.filter(~pl.col("inserted")).height
        assert results["replay_ops"].height == operations.height
    same = ["operation", "thread", "call", "bytes", "result", "divergence"]
    assert first["replay_ops"].select(same).equals(second["replay_ops"].select(same))


@pytest.mark.parametrize("script", mobigen_scripts.NAMES)
def test_a_script_keeps_to_its_sandbox(tmp_path: Path, script: str) -> None:
    """Its unlinks name files of a phone, by absolute paths: the engine of MobiGen removed them."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "log"
    replayed(tmp_path, program(tmp_path, script), *confined.STRACE, "-o", log)
    assert "unlinkat" in log.read_text("utf-8", "replace")
    assert confined.outside(log, tmp_path / "sandbox") == []
    assert not (tmp_path / "sandbox").exists()
