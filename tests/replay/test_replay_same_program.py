"""strace and iotrace of one run lead to the same replay program.

What only one of them can know is named here with the reason, and counted.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from harness import build, guest
from support import built
from support.shell_workload import SEVERAL_PROCESSES
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import cli, replay
from androstep_analysis.common.errors import LossWarning
from androstep_analysis.datasets.unpack import unpack
from androstep_analysis.replay import Cleaned

STORED = ROOT / "datasets" / "replay"

COMPARED = (
    *("call", "inserted", "descriptor", "descriptor2", "file", "file2", "path", "path2", "flags", "request", "mode"),
    *("offset_bytes", "offset2_bytes", "bytes", "failed", "result"),
)
"""All of an operation but its number, its thread (compared by tid) and its times, which two recorders take apart."""

NUMBERED = ("descriptor", "descriptor2", "file", "file2")

NOT_RECORDED = {
    *("brk", "madvise", "mprotect", "arch_prctl", "clock_nanosleep", "futex", "getcwd", "geteuid", "getpid", "getppid"),
    *("getrandom", "getuid", "prctl", "prlimit64", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn"),
    *("rt_sigsuspend", "set_robust_list", "set_tid_address", "umask", "uname", "wait4", "fchown"),
}
"""Calls that iotrace does not record: none of them is an operation of a program."""

OFFSETS_IN_MEMORY = {"sendfile": 2, "copy_file_range": 1}
"""Calls of callers.c whose offset is in the caller's memory, where strace looks and no tracepoint does. The place that
they moved bytes from is not known, so they are left out as unsupported and not done at a wrong one."""


@dataclass(frozen=True)
class Both:
    """The two programs of one run; `before_exec` rows of iotrace's are from before strace followed the process."""

    strace: Cleaned
    iotrace: Cleaned
    before_exec: int


def both(recording: Path, log: Path) -> Both:
    """Return both programs, cleaned for the processes that strace followed, from the start of the program that it ran.

    strace's log begins with that execve; iotrace recorded strace, too, and what the process that strace made did
    before: it closes the log.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        traced, logged = androstep.open(recording), androstep.open(log)
        rows, of_log = traced.syscalls.collect(), logged.syscalls.collect()
    processes = logged.tables["tasks"].collect()["pid"].drop_nulls().unique().sort().to_list()
    first = of_log.filter(call="execve")["tid"][0]
    execs = rows.filter(pl.col("call") == "execve", pl.col("result") == 0, pl.col("tid") == first)
    early = (pl.col("tid") == first) & (pl.col("ts_ns") < execs["ts_ns"].min())
    return Both(
        replay.clean(of_log, logged.tables["tasks"], processes=processes),
        replay.clean(rows.filter(~early), traced.tables["tasks"], processes=processes),
        rows.filter(early).height,
    )


def canonical(cleaned: Cleaned, *, inserted: bool = True) -> tuple[dict[int, list[tuple[object, ...]]], pl.DataFrame]:
    """Return the operations of each thread, in order, by tid; and the population.

    Descriptors and files are numbered anew, in the order in which the threads, by tid, come to them: programs number
    them in the order of times, and two threads that do something in the same microsecond come in either order.
    """
    numbers: dict[tuple[bool, int], int] = {}
    tids = cleaned.program.threads.select("thread", "tid")
    rows = cleaned.program.operations.join(tids, on="thread", how="left", maintain_order="left")
    rows = rows if inserted else rows.filter(~pl.col("inserted"))
    told = {
        int(tid): [
            tuple(
                numbers.setdefault((name.startswith("file"), value), len(numbers))
                if name in NUMBERED and value is not None
                else value
                for name, value in row.items()
            )
            for row in rows.filter(tid=tid).select(COMPARED).iter_rows(named=True)
        ]
        for tid in rows["tid"].unique().sort()
    }
    of_files = {number: new for (is_file, number), new in numbers.items() if is_file}
    files = cleaned.program.files.sort("path")
    return told, files.with_columns(pl.col("file").replace_strict(of_files, default=pl.col("file")))


def left_out(cleaned: Cleaned) -> list[tuple[object, ...]]:
    """Return the rows that were left out among the calls that both record."""
    rows = cleaned.left_out.filter(pl.col("reason") != "filtered", ~pl.col("call").is_in(list(NOT_RECORDED)))
    return rows.sort("reason", "call").rows()


def assert_files_are_the_same(traced: pl.DataFrame, logged: pl.DataFrame) -> None:
    """But for the permissions that stat found, which it puts into the caller's memory."""
    assert traced.drop("mode").rows() == logged.drop("mode").rows()
    modes = list(zip(traced["mode"], logged["mode"], strict=True))
    assert all(of_trace in (None, of_log) for of_trace, of_log in modes)


def assert_threads_are_the_same(told: Both) -> None:
    """But for their names, which strace does not tell."""
    traced, logged = (cleaned.program.threads for cleaned in (told.iotrace, told.strace))
    assert set(traced.select("pid", "tid").rows()) == set(logged.select("pid", "tid").rows())
    assert traced["comm"].null_count() == 0
    assert logged["comm"].drop_nulls().is_empty()


def assert_same(told: Both) -> None:
    assert told.strace.conflicts == told.iotrace.conflicts == 0
    assert told.before_exec == 1  # the close of strace's log
    (traced, traced_files), (logged, logged_files) = canonical(told.iotrace), canonical(told.strace)
    assert traced.keys() == logged.keys()
    for tid, rows in logged.items():
        assert traced[tid] == rows
    assert_files_are_the_same(traced_files, logged_files)
    assert_threads_are_the_same(told)
    assert left_out(told.iotrace) == left_out(told.strace)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of iotrace's recording in datasets/replay."""
    directory = tmp_path_factory.mktemp("stored")
    unpack(STORED / "recording.tar.xz", directory, 1 << 30)
    return directory / "recording"


def test_the_stored_recordings(stored: Path) -> None:
    """SQLite in three processes, and files in three threads of another one."""
    told = both(stored, STORED / "app.strace.xz")
    assert_same(told)
    assert told.strace.program.operations.height > 800
    assert told.strace.program.threads.height == 7
    assert dict(told.iotrace.program.operations["call"].value_counts().iter_rows())["fsync"] > 50


def test_the_program_of_a_recording_replays(stored: Path, tmp_path: Path) -> None:
    """As in `androstep program`: of the command, here strace, and its descendants."""
    program = tmp_path / "app.rec"
    assert cli.main(["program", str(stored), "-o", str(program)]) == 0
    made = replay.program.read(program)
    assert made.operations.height > 10_000
    assert set(made.threads["comm"]) == {"strace", "app", "timeline", "sync", "provider", "settings", "logger", "index"}
    told = tmp_path / "results.rec"
    built.run(built.program("ioreplay", "native"), "--mode", "as-fast", "-o", told, program, tmp_path / "box")
    (run,) = replay.read(told).tables["replay_runs"].iter_rows(named=True)
    assert (run["done"], run["diverged"], run["result"]) == (run["operations"], 0, 0)


# --- recorded here ---------------------------------------------------------------------------------------------------


def recorded(directory: Path, programs: list[Path], command: list[str], cpus: int) -> Both:
    """Both recordings of a command in a guest."""
    if lacking := guest.missing():
        pytest.skip(lacking)
    iotrace = built.program("iotrace", "x86_64-linux-musl")
    guest.record_calls(directory, "ext4", iotrace, programs, command, cpus=cpus)
    return both(directory / "recording", directory / "app.strace")


def test_the_app_on_two_cpus(tmp_path: Path) -> None:
    assert_same(recorded(tmp_path, [build.app()], ["app", "/mnt", "4"], 2))


def test_every_kind_of_call(tmp_path: Path) -> None:
    """But for calls with an offset in memory, which the program of the trace does not have."""
    told = recorded(tmp_path, [build.callers()], ["callers", "/mnt"], 1)
    (traced, _), (logged, _) = canonical(told.iotrace), canonical(told.strace)
    lacking = {tid: [row[0] for row in rows if row not in traced[tid]] for tid, rows in logged.items()}
    assert {call for calls in lacking.values() for call in calls} == OFFSETS_IN_MEMORY.keys()
    is_known = pl.col("call").is_in(list(OFFSETS_IN_MEMORY)) & (pl.col("reason") == "unsupported call")
    assert dict(told.iotrace.left_out.filter(is_known).select("call", "count").rows()) == OFFSETS_IN_MEMORY
    for tid, rows in logged.items():
        assert traced[tid] == [row for row in rows if row[0] not in OFFSETS_IN_MEMORY]


SHELL = f"""
cd mnt; mkdir home; cd home
{SEVERAL_PROCESSES}
head -c 100 kept.3 >>log
cat kept.3 | head -c 50
echo said
rm kept.5 seed
sync
"""
"""Paths relative to where the command began, processes at a time, a pipe, and an output that was open before."""


def test_a_shell(tmp_path: Path) -> None:
    """Except inserted open calls of its output: iotrace lists files that were open before, strace has the first use."""
    told = recorded(tmp_path, [], ["sh", "-c", SHELL], 2)
    (traced, traced_files), (logged, logged_files) = (
        canonical(cleaned, inserted=False) for cleaned in (told.iotrace, told.strace)
    )
    assert traced == logged
    assert len(logged) > 30
    assert_files_are_the_same(traced_files, logged_files)
    assert left_out(told.iotrace) == left_out(told.strace)
    for cleaned in (told.strace, told.iotrace):
        opened = cleaned.program.operations.filter(pl.col("inserted"), pl.col("call") == "open")
        assert opened["path"].to_list() == ["tmp/out/guest.log"] * 2
        paths = cleaned.program.operations["path"].drop_nulls()
        assert {"mnt/home/seed", "mnt/home/kept.6", "mnt/home/deep/er/hard"} <= set(paths)
        assert not any(path.startswith(".unnamed") for path in paths)
