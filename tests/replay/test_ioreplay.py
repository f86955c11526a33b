"""ioreplay from a user's view: its options, effects on files, order and times, and records."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import built, loops
from support.replay_emulator import Emulator, random_operation, tree
from support.replay_programs import (
    APPEND,
    CREATE,
    DIRECT,
    EMULATORS,
    EXCLUSIVE,
    READ_WRITE,
    TRUNCATE,
    command,
    opened,
    program,
    replay,
    results,
)

from androstep_analysis import schema
from androstep_analysis.replay.program import Program

MS = 1_000_000
SEEK_SET, SEEK_CUR, SEEK_END = 0, 1, 2
MAP_SHARED, PROT_READ, PROT_READ_WRITE = 1, 1, 3


def chain(operations: int) -> list[tuple[int, int]]:
    """Return dependencies of every operation on the previous one."""
    return [(number, number - 1) for number in range(1, operations)]


def across(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return the pairs of a chain with different threads. The others are ordered anyway."""
    return [(n, n - 1) for n in range(1, len(rows)) if rows[n].get("thread", 0) != rows[n - 1].get("thread", 0)]


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name the program to replay"),
        (["none.rec", "box"], "none.rec"),
        (["good.rec"], "name a directory to replay in"),
        (["good.rec", "box", "more"], "more: more than one directory"),
        (["--mode", "scaled", "good.rec", "box"], "--mode scaled needs --scale X"),
        (["--scale", "2", "good.rec", "box"], "--scale needs --mode scaled"),
        (["--mode", "scaled", "--scale", "0", "good.rec", "box"], "expected a number from 0.001 to 1000000"),
        (["--mode", "scaled", "--scale", "nan", "good.rec", "box"], "expected a number from 0.001 to 1000000"),
        (["--mode", "scaled", "--scale", "2x", "good.rec", "box"], "expected a number from 0.001 to 1000000"),
        (["--target", "file", "good.rec"], "name a directory instead of --target"),
        (["--target", "file", "good.rec", "box"], "box: --target replaces the directory"),
        (["--allow-device", "/dev/null", "good.rec", "box"], "--allow-device needs --target"),
        (["device.rec", "box"], "give --target FILE, or a device"),
        (["--target", "good.rec", "device.rec"], "good.rec exists already"),
        (["--target", "none/file", "device.rec"], "none/file: No such file or directory"),
        (["-o", "none/x.rec", "good.rec", "box"], "none/x.rec"),
        (["good.rec", "full"], "full is not empty"),
        (["-o", "empty/x.rec", "good.rec", "empty"], "empty is not empty"),
    ],
)
def test_a_failure_is_one_sentence(tmp_path: Path, words: list[str], told: str) -> None:
    program([opened(0, "a")]).write(tmp_path / "good.rec")
    program([opened(0, "device", READ_WRITE)], [{"path": "device", "inode_type": "file"}], is_device=True).write(
        tmp_path / "device.rec"
    )
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    done = built.run(*command(), *words, status=1, cwd=tmp_path)
    assert told in done.stderr.decode() and done.stderr.count(b"\n") == 1 and done.stdout == b""
    assert (tmp_path / "full" / "mine").read_text() == "mine" and not (tmp_path / "box").exists()


def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    rows = [opened(0, "b"), {"call": "write", "descriptor": 0, "bytes": 4096, "result": 4096}]
    program(rows, [{"path": "a", "inode_type": "file", "size_bytes": 8192}]).write(tmp_path / "program.rec")
    done = built.run(*command(), "--dry-run", tmp_path / "program.rec", tmp_path / "box")
    told = done.stdout.decode()
    for line in ("2 operations, 0 of them inserted", "1 files of 8 KiB and 0 other names", "1 at once"):
        assert line in told
    assert [path.name for path in tmp_path.iterdir()] == ["program.rec"]


def test_records_have_the_columns_of_their_tables() -> None:
    types = {entry["table"]: entry for entry in built.described("ioreplay")["types"]}
    for name, without in (("replay_runs", set[str]()), ("replay_ops", {"run_id"})):
        columns = {column.name for column in schema.table(name).columns} - without
        assert {field["name"] for field in types[name]["fields"]} == columns


# -- what is done to files --------------------------------------------------------------------------------------------


def emulated(top: Path, seed: int, operations: int, threads: int) -> Program:
    """Return a random program and its results, run in `top`; every operation waits for the previous one."""
    rng = random.Random(seed)
    emulator = Emulator(top)
    rows: list[dict[str, Any]] = []
    for _ in range(operations):
        asked = random_operation(rng, list(emulator.descriptors), threads)
        rows.append(emulator.attempt(asked))
    emulator.end()
    return program(rows, after=across(rows))


@pytest.mark.parametrize("seed", range(8))
def test_a_random_program_comes_to_what_one_naive_thread_comes_to(tmp_path: Path, seed: int) -> None:
    (tmp_path / "naive").mkdir()
    made = emulated(tmp_path / "naive", seed, 600, 30)
    found = replay(tmp_path, made, "--mode", "as-fast", "--keep", variant="native" if seed else "sanitized")
    expected = made.operations["result"].to_list()
    assert [pair for pair in enumerate(zip(found.results, expected, strict=True)) if pair[1][0] != pair[1][1]] == []
    assert set(found.divergences) == {"none"} and found.run["diverged"] == 0
    assert tree(found.directory) == tree(tmp_path / "naive")
    assert made.operations["failed"].sum() > 50 and made.operations["call"].n_unique() > 20


@pytest.mark.parametrize("target", EMULATORS)
def test_a_build_for_phones_comes_to_the_same(tmp_path: Path, target: str) -> None:
    (tmp_path / "naive").mkdir()
    made = emulated(tmp_path / "naive", 100, 300, 8)
    found = replay(tmp_path, made, "--mode", "as-fast", "--keep", variant=target)
    assert found.results == made.operations["result"].to_list() and set(found.divergences) == {"none"}
    assert tree(found.directory) == tree(tmp_path / "naive")


@pytest.mark.parametrize("variant", ["sanitized", *EMULATORS])
def test_flags_mean_the_same_on_every_machine(tmp_path: Path, variant: str) -> None:
    """O_DIRECTORY, O_NOFOLLOW and O_DIRECT have other numbers on arm."""
    directory, nofollow = 0o200000, 0o400000
    rows = [
        {"call": "mkdir", "path": "d", "mode": 0o700},
        opened(0, "f"),
        opened(1, "d", directory),
        {"call": "open", "path": "f", "flags": directory, "failed": True, "result": -errno.ENOTDIR},
        {"call": "symlink", "path": "l", "path2": "f"},
        {"call": "open", "path": "l", "flags": nofollow, "failed": True, "result": -errno.ELOOP},
        {"call": "open", "path": "d", "flags": READ_WRITE, "failed": True, "result": -errno.EISDIR},
        opened(2, "f", READ_WRITE | APPEND),
        {"call": "write", "descriptor": 2, "bytes": 10, "result": 10},
        {"call": "pwrite", "descriptor": 2, "offset_bytes": 0, "bytes": 10, "result": 10},
        {"call": "lseek", "descriptor": 0, "offset_bytes": 0, "request": SEEK_END, "result": 20},
        {"call": "open", "path": "f", "flags": CREATE | EXCLUSIVE, "failed": True, "result": -errno.EEXIST},
        opened(3, "f", READ_WRITE | TRUNCATE),
        {"call": "lseek", "descriptor": 0, "offset_bytes": 0, "request": SEEK_END, "result": 0},
    ]
    assert set(replay(tmp_path, program(rows), variant=variant).divergences) == {"none"}


def direct_io_is_possible(top: Path) -> bool:
    probe = top / "probe"
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def test_direct_io_stays_direct(tmp_path: Path) -> None:
    if not direct_io_is_possible(tmp_path):
        pytest.skip("the filesystem has no direct I/O")
    rows = [
        opened(0, "f", READ_WRITE | CREATE | DIRECT),
        {"call": "pwrite", "descriptor": 0, "offset_bytes": 0, "bytes": 8192, "result": 8192},
        {"call": "pread", "descriptor": 0, "offset_bytes": 4096, "bytes": 4096, "result": 4096},
        {"call": "pwrite", "descriptor": 0, "offset_bytes": 100, "bytes": 100, "failed": True, "result": -errno.EINVAL},
    ]
    assert set(replay(tmp_path, program(rows)).divergences) == {"none"}


def test_what_is_copied_to_or_from_no_file_moves_on_the_other_side(tmp_path: Path) -> None:
    rows = [
        opened(0, "f"),
        {"call": "splice", "descriptor2": 0, "bytes": 10_000, "result": 10_000},
        {"call": "sendfile", "descriptor": 0, "offset_bytes": 4000, "bytes": 10_000, "result": 6000},
        {"call": "lseek", "descriptor": 0, "offset_bytes": 0, "request": SEEK_SET},
        opened(1, "g"),
        {"call": "copy_file_range", "descriptor": 0, "descriptor2": 1, "bytes": 1 << 62, "result": 10_000},
        {"call": "sendfile", "descriptor": 0, "descriptor2": 1, "offset_bytes": 9000, "bytes": 5000, "result": 1000},
        {"call": "lseek", "descriptor": 1, "offset_bytes": 0, "request": SEEK_CUR, "result": 11_000},
    ]
    found = replay(tmp_path, program(rows))
    assert set(found.divergences) == {"none"}
    assert found.operations["bytes"].to_list() == [None, 10_000, 6000, None, None, 10_000, 1000, None]


def test_bytes_of_one_call_may_be_more_than_the_memory_for_them(tmp_path: Path) -> None:
    size = 200 << 20
    rows = [
        opened(0, "f"),
        {"call": "ftruncate", "descriptor": 0, "bytes": size},
        {"call": "read", "descriptor": 0, "bytes": 1 << 30, "result": size},
        {"call": "pread", "descriptor": 0, "offset_bytes": 1, "bytes": size, "result": size - 1},
        {"call": "pwrite", "descriptor": 0, "offset_bytes": 5, "bytes": 40 << 20, "result": 40 << 20},
    ]
    limit = 120 << 20

    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    assert set(replay(tmp_path, program(rows), variant="native", preexec_fn=confine).divergences) == {"none"}


def test_what_is_written_does_not_compress_and_is_new_each_time(tmp_path: Path) -> None:
    writes = [{"call": "write", "descriptor": 0, "bytes": 65_536, "result": 65_536} for _ in range(16)]
    found = replay(tmp_path, program([opened(0, "f"), *writes]), "--keep")
    data = (found.directory / "f").read_bytes()
    assert len({data[at : at + 512] for at in range(0, len(data), 512)}) == 2048
    counts = [data.count(bytes([value])) for value in range(256)]
    assert min(counts) > 3500 and max(counts) < 4700


def test_a_mapping_outlives_its_descriptor(tmp_path: Path) -> None:
    rows = [
        opened(0, "f"),
        {"call": "ftruncate", "descriptor": 0, "bytes": 20_000},
        {"call": "mmap", "descriptor": 0, "offset_bytes": 0, "bytes": 40_960, "flags": 1, "request": PROT_READ_WRITE},
        {"call": "close", "descriptor": 0},
        {"call": "mapped_write", "descriptor": 0, "offset_bytes": 5000, "bytes": 10_000, "result": 10_000},
        {"call": "mapped_read", "descriptor": 0, "offset_bytes": 0, "bytes": 20_000, "result": 20_000},
        {"call": "msync", "descriptor": 0, "offset_bytes": 4096, "bytes": 8192, "flags": 4},
        {"call": "munmap", "descriptor": 0, "offset_bytes": 4096, "bytes": 4096},
        {"call": "mapped_read", "descriptor": 0, "offset_bytes": 0, "bytes": 4096, "result": 4096},
        {"call": "mapped_read", "descriptor": 0, "offset_bytes": 8192, "bytes": 4096, "result": 4096},
        {"call": "mapped_read", "descriptor": 0, "offset_bytes": 4096, "bytes": 1, "result": 1},
    ]
    found = replay(tmp_path, program(rows), "--keep")
    assert found.divergences == ["none"] * 10 + ["failed"]
    data = (found.directory / "f").read_bytes()
    assert data[:5000] == bytes(5000) and data[15_000:] == bytes(5000) and data[5000:15_000].count(0) < 200


@pytest.mark.parametrize("variant", ["sanitized", "native", "tsan", *EMULATORS])
def test_mapped_memory_beyond_the_end_of_its_file_is_an_error(tmp_path: Path, variant: str) -> None:
    rows = [
        opened(0, "f"),
        {"call": "mmap", "descriptor": 0, "offset_bytes": 0, "bytes": 65_536, "flags": 1, "request": PROT_READ_WRITE},
        {"call": "mapped_write", "descriptor": 0, "offset_bytes": 8192, "bytes": 10, "result": 10},
        {"call": "mapped_read", "descriptor": 0, "offset_bytes": 8192, "bytes": 10, "result": 10},
        opened(1, "g", READ_WRITE | CREATE),
        {"call": "ftruncate", "descriptor": 1, "bytes": 4096},
        {"call": "mmap", "descriptor": 1, "offset_bytes": 0, "bytes": 4096, "flags": MAP_SHARED, "request": PROT_READ},
        {"call": "mapped_write", "descriptor": 1, "offset_bytes": 0, "bytes": 10, "result": 10},
        {"call": "mapped_read", "descriptor": 1, "offset_bytes": 0, "bytes": 10, "result": 10},
    ]
    found = replay(tmp_path, program(rows), variant=variant)
    assert found.results == [0, 0, -errno.EFAULT, -errno.EFAULT, 0, 0, 0, -errno.EACCES, 10]


def test_divergences_are_told_and_are_no_failure(tmp_path: Path) -> None:
    rows = [
        {"call": "stat", "path": "\x1b[31m", "failed": False},
        opened(0, "f"),
        {"call": "read", "descriptor": 0, "bytes": 10, "result": 10},
        {"call": "read", "descriptor": 0, "bytes": 10, "result": None},
        {"call": "access", "path": "f", "request": 0, "failed": True, "result": -errno.ENOENT},
        {"call": "rmdir", "path": "f", "failed": True, "result": -errno.ENOTEMPTY},
        {"call": "unlink", "path": "f", "failed": None, "result": None},
        {"call": "unlink", "path": "f", "inserted": True},
    ]
    found = replay(tmp_path, program(rows))
    assert found.divergences == ["failed", "none", "bytes", "unknown", "succeeded", "error", "unknown", "failed"]
    told = {name: found.run[name] for name in ("operations", "done", "inserted", "diverged")}
    assert told == {"operations": 7, "done": 7, "inserted": 1, "diverged": 4}
    kinds = "4 diverged (unknown 2, failed 1, succeeded 1, error 1, bytes 1)"
    assert found.stdout.endswith(f", 7 of 7 operations done by 1 threads, {kinds}\n")


def test_files_of_a_program_are_there_before_and_gone_afterwards(tmp_path: Path) -> None:
    files: list[dict[str, Any]] = [
        {"path": "d", "inode_type": "directory"},
        {"path": "d/f", "inode_type": "file", "size_bytes": 10_000, "file": 3},
        {"path": "d/g", "inode_type": "file", "size_bytes": 10_000, "file": 3},
    ]
    rows = [
        opened(0, "d/f", READ_WRITE),
        {"call": "read", "descriptor": 0, "bytes": 20_000, "result": 10_000},
        opened(1, "d/h"),
    ]
    found = replay(tmp_path, program(rows, files))
    assert set(found.divergences) == {"none"} and not found.directory.exists()
    assert (found.run["files"], found.run["files_bytes"]) == (1, 10_000)


# -- order and time ---------------------------------------------------------------------------------------------------


def in_order(found: pl.DataFrame, after: list[tuple[int, int]]) -> bool:
    starts = found["start_ns"].to_list()
    ends = (found["start_ns"] + found["latency_ns"]).to_list()
    return all(starts[later] >= ends[earlier] for later, earlier in after)


@pytest.mark.parametrize("variant", ["native", "sanitized", "tsan"])
def test_hundreds_of_threads_keep_the_order_and_do_not_race(tmp_path: Path, variant: str) -> None:
    rng, threads, operations = random.Random(3), 150, 6000
    rows = [opened(thread, f"f{thread % 7}", thread=thread) for thread in range(threads)]
    for _ in range(operations):
        thread = rng.randrange(threads)
        call = rng.choice(["pwrite", "pread", "fstat"])
        place = {} if call == "fstat" else {"bytes": 100, "offset_bytes": rng.randrange(4000), "result": None}
        rows.append({"call": call, "thread": thread, "descriptor": rng.randrange(threads), **place})
    after = [
        (later, earlier)
        for later in range(threads, len(rows))
        for earlier in {rows[later]["descriptor"], rng.randrange(max(0, later - 400), later)}
        if rows[earlier]["thread"] != rows[later]["thread"]
    ]
    found = replay(tmp_path, program(rows, after=after), "--mode", "as-fast", variant=variant)
    assert found.run["done"] == len(rows) and found.run["diverged"] == 0
    assert in_order(found.operations, after)
    assert found.operations["due_ns"].null_count() == len(rows)


def test_operations_begin_when_they_are_due_or_later(tmp_path: Path) -> None:
    rows = [opened(thread, f"f{thread}", thread=thread, ts_ns=thread * MS) for thread in range(20)]
    rows += [{"call": "fsync", "descriptor": n % 20, "thread": n % 20, "ts_ns": (20 + n) * MS} for n in range(80)]
    made = program(rows)
    for options, factor in (((), 1.0), (("--mode", "scaled", "--scale", "2.5"), 2.5)):
        found = replay(tmp_path, made, *options)
        due = made.operations["ts_ns"] / factor
        assert ((found.operations["due_ns"] - due).abs() <= 1).all()
        assert (found.operations["start_ns"] >= found.operations["due_ns"]).all()
        assert found.run["duration_ns"] >= 99 * MS / factor and found.run["recorded_ns"] == 99 * MS
        assert found.run["scale_ppm"] == (None if factor == 1.0 else 2_500_000)
        assert found.run["mode"] == ("as_recorded" if factor == 1.0 else "scaled")
        assert abs(found.run["realtime_ns"] / 1e9 - time.time()) < 60


def test_what_waits_for_others_says_how_long(tmp_path: Path) -> None:
    for syncs in (1, 30, 1000):
        rows = [
            opened(0, "a", ts_ns=0),
            *({"call": "fsync", "descriptor": 0, "ts_ns": 50 * MS} for _ in range(syncs)),
            {"call": "close", "descriptor": 0, "thread": 1, "ts_ns": 50 * MS},
        ]
        waiting = program(rows, after=[(1 + syncs, syncs)])
        *own, waited = replay(tmp_path, waiting, "--mode", "as-fast").operations["waited_ns"].to_list()
        if waited:  # else all was done before the second thread had a CPU
            break
    assert waited > 0 and set(own) == {0}


@pytest.mark.parametrize("threads", [10_000])
def test_ten_thousand_threads(tmp_path: Path, threads: int) -> None:
    rows = [{"call": "stat", "path": "f", "failed": True, "result": -errno.ENOENT, "thread": n} for n in range(threads)]
    found = replay(tmp_path, program(rows, after=chain(threads)), "--mode", "as-fast", variant="native")
    assert found.run["threads"] == threads and set(found.divergences) == {"none"}
    assert found.operations["start_ns"].is_sorted()


# -- limits and signals -----------------------------------------------------------------------------------------------


def test_too_many_open_files_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    program([opened(number, f"f{number}") for number in range(300)]).write(tmp_path / "program.rec")

    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        pr_capbset_drop, cap_sys_resource = 24, 24
        ctypes.CDLL(None).prctl(pr_capbset_drop, cap_sys_resource, 0, 0, 0)

    words: list[str | Path] = [tmp_path / "program.rec", tmp_path / "box"]
    done = built.run(*command(), *words, status=1, preexec_fn=confine)
    assert b"the program has 300 files open at once, and this process may have 200" in done.stderr
    assert not (tmp_path / "box").exists()


def test_the_table_of_open_files_does_not_grow_among_the_operations(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    program([opened(number, f"f{number}") for number in range(300)]).write(tmp_path / "program.rec")
    watched = ["strace", "-f", "-o", tmp_path / "log", "-e", "trace=fcntl,clone,clone3", *command("native")]
    built.run(*watched, tmp_path / "program.rec", tmp_path / "box")
    before_threads = (tmp_path / "log").read_text().partition(" clone")[0]
    assert max(int(number) for number in re.findall(r"F_DUPFD_CLOEXEC, (\d+)\)", before_threads)) >= 300


@pytest.mark.usefixtures("hang_up_ends")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_keeps_what_was_done(tmp_path: Path, number: signal.Signals) -> None:
    """One thread sleeps until an hour from now, another waits for it, a third is done."""
    rows = [
        opened(0, "a", thread=2),
        {"call": "fsync", "descriptor": 0, "thread": 1, "ts_ns": 3600 * 1000 * MS},
        {"call": "close", "descriptor": 0, "thread": 0, "ts_ns": 3600 * 1000 * MS},
    ]
    program(rows, after=[(1, 0), (2, 1)]).write(tmp_path / "program.rec")
    words: list[str | Path] = [*command(), "-o", tmp_path / "results.rec", tmp_path / "program.rec", tmp_path / "box"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "box" / "a").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    run, operations = results(tmp_path / "results.rec")
    assert run["interrupted"] == 1 and run["result"] == 0 and run["done"] == 1
    assert operations["operation"].to_list() == [0]
    assert b"ioreplay: a signal ended it early: 1 of 3 operations were done\n" in stderr
    assert b"a signal ended it early" in stdout and not (tmp_path / "box").exists()


@pytest.mark.prove
def test_progress_is_shown(tmp_path: Path) -> None:
    rows = [opened(0, "a"), {"call": "close", "descriptor": 0, "ts_ns": 2500 * MS}]
    told = replay(tmp_path, program(rows)).stderr.splitlines()
    assert "ioreplay: 50 % 1/2 operations" in told and told[-1] == "ioreplay: 100 % 2/2 operations"


# -- devices ----------------------------------------------------------------------------------------------------------

DEVICE_ROWS = [
    opened(0, "device", READ_WRITE | DIRECT, inserted=True),
    {"call": "pread", "descriptor": 0, "offset_bytes": 1 << 20, "bytes": 4096, "result": 4096},
    {"call": "pwrite", "descriptor": 0, "offset_bytes": 8 << 20, "bytes": 65_536, "result": 65_536},
    {"call": "fdatasync", "descriptor": 0},
    {"call": "fallocate", "descriptor": 0, "offset_bytes": 8 << 20, "bytes": 65_536, "flags": 3},
    {"call": "pread", "descriptor": 0, "offset_bytes": (10 << 20) - 4096, "bytes": 4096, "result": 4096},
]


def device_program(rows: list[dict[str, Any]]) -> Program:
    return program(rows, [{"path": "device", "inode_type": "file", "size_bytes": 10 << 20}], is_device=True)


def test_a_device_program_has_a_file_of_its_own(tmp_path: Path) -> None:
    found = replay(tmp_path, device_program(DEVICE_ROWS), "--target", tmp_path / "scratch", "--keep")
    assert set(found.divergences) == {"none"}
    data = (tmp_path / "scratch").read_bytes()
    assert len(data) == 10 << 20 and data[: 1 << 20] == bytes(1 << 20)
    assert data[1 << 20 : 2 << 20].count(0) < 8192 and data[8 << 20 : (8 << 20) + 65_536] == bytes(65_536)
    assert (found.run["fs_type"] is None) is False and found.run["device"] == str(tmp_path / "scratch")
    assert (found.run["files"], found.run["files_bytes"]) == (1, 3 << 20)
    (tmp_path / "scratch").unlink()
    replay(tmp_path, device_program(DEVICE_ROWS), "--target", tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()


@pytest.mark.root
def test_a_block_device_must_be_named_twice(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes([7]) * (10 << 20))
    made = device_program(DEVICE_ROWS)
    made.write(tmp_path / "program.rec")
    with loops.attached(tmp_path / "image") as device:
        for options in ([], ["--allow-device", "/dev/null"], ["--allow-device", str(tmp_path / "image")]):
            words: list[str | Path] = ["--target", device, *options, tmp_path / "program.rec"]
            done = built.run(*command(), *words, status=1)
            assert f"give --allow-device {device}" in done.stderr.decode()
        assert (tmp_path / "image").read_bytes() == bytes([7]) * (10 << 20)
        found = replay(tmp_path, made, "--target", device, "--allow-device", device)
    data = (tmp_path / "image").read_bytes()
    assert set(found.divergences) == {"none"} and found.run["fs_type"] is None and found.run["cold"] is None
    assert data[: 8 << 20] == bytes([7]) * (8 << 20) and data[8 << 20 : (8 << 20) + 65_536] != bytes([7]) * 65_536


@pytest.mark.root
def test_a_block_device_that_is_in_use_or_too_small_is_refused(tmp_path: Path) -> None:
    loops.make_ext4(tmp_path / "image", nr_mib=8)
    device_program(DEVICE_ROWS).write(tmp_path / "program.rec")
    with loops.attached(tmp_path / "image") as device:
        words: list[str | Path] = ["--target", device, "--allow-device", device, tmp_path / "program.rec"]
        small = built.run(*command(), *words, status=1)
        assert "and the program reaches up to 10485760; choose a larger device" in small.stderr.decode()
    loops.make_ext4(tmp_path / "larger", nr_mib=16)
    with loops.mounted(tmp_path / "larger") as mounted:
        words = [
            "--target",
            mounted.device,
            "--allow-device",
            mounted.device,
            tmp_path / "program.rec",
        ]
        assert b"is in use, mounted or held" in built.run(*command(), *words, status=1).stderr


def test_the_description_is_json() -> None:
    assert json.loads(built.run(*command(), "--describe").stdout)["probe"] == "ioreplay"
