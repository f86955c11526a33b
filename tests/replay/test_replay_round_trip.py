"""Record, clean, replay, and record again: the second recording shows what the first did."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from harness import build
from support import built
from support.shell_workload import SEVERAL_PROCESSES

import androstep_analysis as androstep
from androstep_analysis import replay
from androstep_analysis.replay import Program

STRACE = ("strace", "-f", "-yy", "-ttt", "-T", "-s", "16")

O_PATH = 0o10000000
"""Of asm-generic: the descriptor only names a file, and nothing is read from it or written to it."""

LOOKUPS = ("stat", "lstat", "fstat", "access", "readlink", "statfs")
"""The sandbox finds a name before it uses it, by calls of its own of these kinds; the replay's results count them."""

SHELL = f"""
set -e
{SEVERAL_PROCESSES}
head -c 100 kept.3 >>log
rm kept.5 seed
sync -d log
"""


def traced(log: Path, command: Sequence[str | Path], directory: Path) -> replay.Cleaned:
    """Return the cleaned operations of the command in the directory."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    subprocess.run([*STRACE, "-o", log, *command], cwd=directory, check=True, capture_output=True, timeout=300)
    capture = androstep.open(log)
    return replay.clean(capture.tables["syscalls"], capture.tables["tasks"])


def places(program: Program) -> dict[int, str]:
    """Return the path with which each descriptor was opened."""
    opened = program.operations.filter(pl.col("call") == "open", pl.col("descriptor").is_not_null())
    paths = dict(opened.select("descriptor", "path").iter_rows())
    for made, of in program.operations.filter(pl.col("call") == "dup").select("descriptor2", "descriptor").iter_rows():
        paths[made] = paths.get(of)
    return paths


def counts(operations: pl.DataFrame, paths: dict[int, str], below: str) -> pl.DataFrame:
    """Count operations and their results by path and call, for files below a directory."""
    where = pl.coalesce("path", pl.col("descriptor").replace_strict(paths, default=None, return_dtype=pl.String))
    only_names = (pl.col("flags").fill_null(0) & O_PATH) != 0
    named = operations.filter((pl.col("call") == "open") & only_names)["descriptor"].drop_nulls()
    return (
        operations.filter(
            ~pl.col("descriptor").is_in(named.implode()).fill_null(False),
            ~pl.col("call").cast(pl.String).is_in(LOOKUPS),
            # An open that fails does so where its name is looked up.
            ~((pl.col("call") == "open") & (only_names | pl.col("failed"))),
        )
        .with_columns(where=where)
        .filter(pl.col("where").str.starts_with(below))
        .group_by(pl.col("where").str.strip_prefix(below), pl.col("call").cast(pl.String))
        .agg(count=pl.len(), returned=pl.col("result").sum())
        .sort("where", "call")
    )


def tree(top: Path) -> dict[str, tuple[str, int]]:
    """Kind and size of everything below a directory."""
    return {
        str(path.relative_to(top)): ("link", 0)
        if path.is_symlink()
        else ("directory", 0)
        if path.is_dir()
        else ("file", path.stat().st_size)
        for path in top.rglob("*")
    }


@pytest.mark.prove
@pytest.mark.parametrize("workload", ["app", "shell"])
@pytest.mark.parametrize("mode", ["as-recorded", "as-fast"])
def test_a_replay_does_what_was_recorded(tmp_path: Path, workload: str, mode: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command: list[str | Path] = [build.app(), home, "6"] if workload == "app" else ["sh", "-c", SHELL]
    recorded = traced(tmp_path / "first.strace", command, home)
    assert recorded.conflicts == 0
    recorded.program.write(tmp_path / "app.rec")

    sandbox = tmp_path / "sandbox"
    ioreplay: list[str | Path] = [built.program("ioreplay", "native"), "--mode", mode, "--keep"]
    ioreplay += ["-o", tmp_path / "results.rec", tmp_path / "app.rec", sandbox]
    again = traced(tmp_path / "second.strace", ioreplay, tmp_path)

    results = replay.read(tmp_path / "results.rec").tables
    assert results["replay_runs"].select("diverged", "interrupted", "result").row(0) == (0, False, 0)
    assert results["replay_runs"].select(pl.col("done") == pl.col("operations")).item()
    assert results["replay_ops"]["divergence"].unique().to_list() == ["none"]

    below = f"{str(home).removeprefix('/')}/"
    first = counts(recorded.program.operations, places(recorded.program), below)
    main = again.program.threads.filter(pl.col("tid") == pl.col("pid"))["thread"]
    by_workers = again.program.operations.filter(~pl.col("thread").is_in(main.implode()), ~pl.col("inserted"))
    second = counts(by_workers, places(again.program), f"{str(sandbox).removeprefix('/')}/{below}")
    assert first.height > 20
    assert sorted(set(first.iter_rows()) ^ set(second.iter_rows())) == []

    assert tree(sandbox / below) == tree(home)
