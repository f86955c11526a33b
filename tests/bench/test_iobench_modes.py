"""iobench's file engines under strace: each mode issues exactly the system calls that it promises, and writes."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from support import benched, built, compiling, loops, tracing

from androstep_analysis.ingest import record as record_file

RECORD = 4096
RECORDS = 32
"""Of each file, where a test says nothing else."""

CALLS = "openat,mmap,pread64,pwrite64,pwritev2,preadv2,fsync,fdatasync,msync,sync_file_range,write,read,lseek,ftruncate"


@dataclass(frozen=True)
class Call:
    """A system call of a worker on one of the run's files, or on their mappings."""

    name: str
    arguments: tuple[str, ...]
    result: str

    def number(self, index: int) -> int:
        return int(self.arguments[index], 0)


@dataclass(frozen=True)
class Mode:
    """The system calls of a mode: flags of open, the call that writes a record, the calls after each, and the last."""

    flags: frozenset[str]
    write: str
    after: str = ""
    final: str = "fsync"


MODES = {
    "buffered": Mode(frozenset(), "pwrite64"),
    "osync": Mode(frozenset({"O_SYNC"}), "pwrite64"),
    "odsync": Mode(frozenset({"O_DSYNC"}), "pwrite64"),
    "fsync": Mode(frozenset(), "pwrite64", "fsync"),
    "fdatasync": Mode(frozenset(), "pwrite64", "fdatasync"),
    "direct": Mode(frozenset({"O_DIRECT"}), "pwrite64"),
    "direct_osync": Mode(frozenset({"O_DIRECT", "O_SYNC"}), "pwrite64"),
    "sync_file_range": Mode(frozenset(), "pwrite64", "sync_file_range"),
    "rwf_dsync": Mode(frozenset(), "pwritev2"),
    "mmap": Mode(frozenset(), "", "", "msync"),
    "mmap_async": Mode(frozenset(), "", "msync", "msync"),
    "mmap_sync": Mode(frozenset(), "", "msync", "msync"),
}


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed")
    if subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    return found


def iobench(variant: str = "native") -> list[str | Path]:
    """Return the program. TSan needs a fixed layout of the address space."""
    program = built.program("iobench", variant)
    return ["setarch", "-R", program] if variant == "tsan" else [program]


def options(top: Path, *more: str | int, size: int = RECORDS * RECORD) -> list[str]:
    words = ["-q", "--directory", str(top), "--size", str(size), "--bs", str(RECORD), "--cache", "any"]
    return [*words, *(str(word) for word in more)]


def split(text: str) -> tuple[str, ...]:
    """Split the arguments of a call, except at commas inside quotes, brackets and paths of descriptors."""
    parts, depth, quoted = [""], 0, False
    for sign in text:
        quoted ^= sign == '"'
        if not quoted:
            depth += (sign in "<[{(") - (sign in ">]})")
        if sign == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return tuple(part.strip() for part in parts)


def calls_of(log: str) -> dict[int, list[Call]]:
    """Return all calls by thread, in order, with the halves of interrupted lines joined."""
    found: dict[int, list[Call]] = defaultdict(list)
    halves: dict[int, str] = {}
    for line in log.splitlines():
        match = re.match(r"(\d+) +(.*)", line)
        assert match, line
        thread, text = int(match[1]), match[2]
        if text.endswith("<unfinished ...>"):
            halves[thread] = text.removesuffix("<unfinished ...>").rstrip()
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        if resumed:
            text = halves.pop(thread) + resumed[1]
        call = re.match(r"(\w+)\((.*)\)\s+= (.*)", text)
        if call:
            found[thread].append(Call(call[1], split(call[2]), call[3]))
    return found


def workers(
    strace: str, tmp_path: Path, *words: str, trace: str = CALLS, raw: str = "none", preload: Path | None = None
) -> tuple[list[list[Call]], str]:
    """Return each worker's calls on the run's files and their mappings, by file; and the output of iobench."""
    log = tmp_path / "strace.log"
    command: list[str | Path] = [strace, "-f", "-y", "-s", "0", "-e", f"trace={trace}", "-e", f"raw={raw}", "-o", log]
    if preload:
        command += ["-E", f"LD_PRELOAD={preload}"]
    done = built.run(*command, *iobench(), *words)
    threads = calls_of(log.read_text("utf-8", "surrogateescape"))
    main = int(log.read_text("utf-8", "surrogateescape").split(maxsplit=1)[0])
    mine = []
    for thread, calls in threads.items():
        if thread == main:
            continue
        maps = {call.result.split()[0] for call in calls if call.name == "mmap" and "test.dat" in call.arguments[4]}
        files = {
            int(call.result.split("<")[0]) for call in calls if call.name == "openat" and "test.dat" in call.result
        }
        mine.append([call for call in calls if file_of(call) in files or on_map(call, maps)])
    return mine, done.stdout.decode()


def file_of(call: Call) -> int:
    """Return the descriptor that a call makes or uses: strace writes `3</path>`, or 0x3 for raw arguments; -1: none."""
    word = call.result if call.name == "openat" else call.arguments[4 if call.name == "mmap" else 0]
    number = re.match(r"0x[0-9a-f]+|\d+", word)
    return int(number[0], 0) if number else -1


def on_map(call: Call, maps: set[str]) -> bool:
    """Return whether it is an msync of one of these mappings of less than 16 MiB."""
    return call.name == "msync" and any(0 <= call.number(0) - int(start, 16) < 1 << 24 for start in maps)


def named(calls: list[Call], *names: str) -> list[Call]:
    return [call for call in calls if call.name in names]


def opened(calls: list[Call]) -> set[str]:
    """Return the flags of the only open of the file, without those that every open has."""
    (call,) = named(calls, "openat")
    flags = set(call.arguments[2].split("|"))
    assert {"O_RDWR", "O_CLOEXEC"} <= flags
    return flags - {"O_RDWR", "O_CLOEXEC", "O_LARGEFILE", "O_NOFOLLOW", "O_NOCTTY"}


def offset_of(call: Call) -> int:
    """Return the offset of a pread64, pwrite64, sync_file_range or pwritev2."""
    return call.number({"pread64": 3, "pwrite64": 3, "pwritev2": 3, "sync_file_range": 1}[call.name])


# -- modes ------------------------------------------------------------------------------------------------------------


def expect_psync(calls: list[Call], mode: Mode, records: int) -> None:
    """Check that the calls after open are a write and its following calls, repeated, then one sync."""
    names = [call.name for call in calls[1:]]
    assert names == [name for name in (mode.write, mode.after) if name] * records + [mode.final]
    writes = named(calls, mode.write)
    assert all(call.result == str(RECORD) for call in writes)
    if mode.write == "pwritev2":
        assert all(call.arguments[4] == "RWF_DSYNC" for call in writes)
    if mode.after == "sync_file_range":
        assert [(offset_of(call), call.number(2)) for call in named(calls, mode.after)] == [
            (offset_of(call), RECORD) for call in writes
        ]
        flags = "SYNC_FILE_RANGE_WAIT_BEFORE|SYNC_FILE_RANGE_WRITE|SYNC_FILE_RANGE_WAIT_AFTER"
        assert {call.arguments[3] for call in named(calls, mode.after)} == {flags}


def expect_mmap(calls: list[Call], name: str, records: list[int]) -> None:
    """Check for one mapping of the whole file, with msync of each record, as in its mode, then of all."""
    (map_of,) = named(calls, "mmap")
    assert (map_of.number(1), map_of.arguments[2:4]) == (RECORDS * RECORD, ("PROT_READ|PROT_WRITE", "MAP_SHARED"))
    start = int(map_of.result, 16)
    synced = [(call.number(0) - start, call.number(1), call.arguments[2]) for call in named(calls, "msync")]
    how = {"mmap": [], "mmap_async": ["MS_ASYNC"], "mmap_sync": ["MS_SYNC"]}[name]
    each = [(record * RECORD, RECORD, word) for record in records for word in how]
    assert synced == [*each, (0, RECORDS * RECORD, "MS_SYNC")]
    assert [call.name for call in calls if call.name not in ("openat", "mmap", "msync")] == []


@pytest.mark.prove
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("access", ["write", "append"])
@pytest.mark.parametrize("name", MODES)
def test_a_mode_issues_what_it_promises(strace: str, tmp_path: Path, name: str, access: str, threads: int) -> None:
    mode = MODES[name]
    words = options(tmp_path, "--rw", access, "--mode", name, "-t", threads)
    if name.startswith("mmap") and access == "append":
        assert "a mapping does not make its file longer" in refusal(*words)
        return
    found, _ = workers(strace, tmp_path, *words)
    assert len(found) == threads
    assert len({calls[0].arguments[1] for calls in found}) == threads
    for calls in found:
        assert opened(calls) == mode.flags
        if mode.write:
            expect_psync(calls, mode, RECORDS)
            assert [offset_of(call) for call in named(calls, mode.write)] == [RECORD * n for n in range(RECORDS)]
        else:
            expect_mmap(calls, name, list(range(RECORDS)))


@pytest.mark.parametrize("name", MODES)
def test_a_read_issues_nothing_but_reads(strace: str, tmp_path: Path, name: str) -> None:
    (calls,), _ = workers(strace, tmp_path, *options(tmp_path, "--rw", "read", "--mode", name))
    assert opened(calls) == MODES[name].flags
    if name.startswith("mmap"):
        assert [(call.name, call.arguments[2:4]) for call in calls[1:]] == [("mmap", ("PROT_READ", "MAP_SHARED"))]
    else:
        assert [(call.name, offset_of(call), call.result) for call in calls[1:]] == [
            ("pread64", RECORD * number, str(RECORD)) for number in range(RECORDS)
        ]


def test_processes_do_what_threads_do(strace: str, tmp_path: Path) -> None:
    words = options(tmp_path, "--rw", "write", "--mode", "fsync", "-t", 3, "--thread", 0)
    found, _ = workers(strace, tmp_path, *words)
    assert len(found) == 3
    for calls in found:
        expect_psync(calls, MODES["fsync"], RECORDS)


def test_a_sync_after_several_records_covers_them(strace: str, tmp_path: Path) -> None:
    words = options(tmp_path, "--rw", "write", "--sync_file_range", "write:5")
    (calls,), _ = workers(strace, tmp_path, *words)
    synced = [(offset_of(call), call.number(2), call.arguments[3]) for call in named(calls, "sync_file_range")]
    assert synced == [(n * 5 * RECORD, 5 * RECORD, "SYNC_FILE_RANGE_WRITE") for n in range(RECORDS // 5)]
    assert Counter(call.name for call in calls)["fsync"] == 1


@pytest.mark.parametrize(("every", "end", "syncs"), [(8, 1, 5), (8, 0, 4), (5, 0, 6), (100, 0, 0)])
def test_fsync_every_so_many(strace: str, tmp_path: Path, every: int, end: int, syncs: int) -> None:
    words = options(tmp_path, "--rw", "write", "--fsync", every, "--end_fsync", end)
    (calls,), _ = workers(strace, tmp_path, *words)
    assert Counter(call.name for call in calls[1:]) == Counter(pwrite64=RECORDS, fsync=syncs)


def test_direct_io_is_aligned(strace: str, tmp_path: Path) -> None:
    words = options(tmp_path, "--rw", "randwrite", "--mode", "direct", "--bs", "1536", "-t", 2, size=1536 * RECORDS)
    found, _ = workers(strace, tmp_path, *words, raw="pwrite64")
    writes = [call for calls in found for call in named(calls, "pwrite64")]
    assert len(writes) == 2 * RECORDS
    for call in writes:
        address, length, offset = (int(call.arguments[index], 16) for index in (1, 2, 3))
        assert (address % 512, length, offset % 512, call.result) == (0, 1536, 0, "0x600")


@pytest.mark.root
def test_direct_io_on_large_sectors_is_refused(tmp_path: Path) -> None:
    image = tmp_path / "large.img"
    loops.make_ext4(image, ["-b", "4096"])
    with loops.mounted(image, sector_bytes=4096) as disk:
        words = options(disk.top, "--rw", "write", "--mode", "direct", "--bs")
        assert "direct I/O needs a multiple of 4096 bytes here" in refusal(*words, "512")
        built.run(*iobench("sanitized"), *words, "4096")


# -- order ------------------------------------------------------------------------------------------------------------


def records_of(calls: list[Call], name: str) -> list[int]:
    offsets = [offset_of(call) for call in named(calls, name)]
    assert all(offset % RECORD == 0 for offset in offsets)
    return [offset // RECORD for offset in offsets]


@pytest.mark.parametrize("access", ["randwrite", "randread"])
def test_each_record_once(strace: str, tmp_path: Path, access: str) -> None:
    found, _ = workers(strace, tmp_path, *options(tmp_path, "--rw", access, "-t", 2))
    orders = [records_of(calls, "pwrite64" if access == "randwrite" else "pread64") for calls in found]
    assert [sorted(order) for order in orders] == [list(range(RECORDS))] * 2
    assert orders[0] != orders[1]
    assert all(order != sorted(order) for order in orders)


@pytest.mark.parametrize("threads", ["--thread=1", "--thread=0"])
@pytest.mark.parametrize("access", ["write", "read", "randwrite", "append"])
def test_workers_share_a_file_without_overlap(strace: str, tmp_path: Path, access: str, threads: str) -> None:
    found, _ = workers(strace, tmp_path, *options(tmp_path, "--rw", access, "--shared", "-t", 3, threads))
    parts = [records_of(calls, "pread64" if access == "read" else "pwrite64") for calls in found]
    assert len(parts) == 3
    assert len({calls[0].arguments[1] for calls in found}) == 1
    assert sorted(record for part in parts for record in part) == list(range(RECORDS))
    if access in ("write", "read"):
        assert sorted(parts) == [list(range(0, 10)), list(range(10, 21)), list(range(21, 32))]
    assert all(len(part) >= RECORDS // 3 for part in parts)


def test_overlap_revisits(strace: str, tmp_path: Path) -> None:
    (calls,), _ = workers(strace, tmp_path, *options(tmp_path, "--rw", "randwrite", "--overlap", 50))
    visited = records_of(calls, "pwrite64")
    assert (len(visited), len(set(visited))) == (RECORDS, RECORDS // 2)


def test_mixed_reads_and_writes(strace: str, tmp_path: Path) -> None:
    """Both have orders of their own, and the share of reads is binomial: four deviations are enough for any seed."""
    nr_ops, share = 600, 0.7
    words = ("--rw", "randrw", "--rwmixread", "70", "--number_ios", str(nr_ops), "--randseed")
    runs = {}
    for name, seed in {"one": 1, "again": 1, "other": 2}.items():
        (calls,), _ = workers(strace, tmp_path, *options(tmp_path, *words, seed, size=nr_ops * RECORD))
        runs[name] = [(call.name, offset_of(call)) for call in named(calls, "pread64", "pwrite64")]
        assert len(runs[name]) == nr_ops
        reads, writes = records_of(calls, "pread64"), records_of(calls, "pwrite64")
        assert abs(len(reads) - nr_ops * share) < 4 * math.sqrt(nr_ops * share * (1 - share))
        assert len(set(reads)) == len(reads)
        assert len(set(writes)) == len(writes)
        assert reads[:100] != writes[:100]
    assert runs["one"] == runs["again"] != runs["other"]


def test_a_file_is_gone_over_as_often_as_asked(strace: str, tmp_path: Path) -> None:
    (calls,), _ = workers(strace, tmp_path, *options(tmp_path, "--rw", "read", "--loops", 3))
    assert records_of(calls, "pread64") == 3 * list(range(RECORDS))


def test_append_is_over_when_the_file_is_full(strace: str, tmp_path: Path) -> None:
    (calls,), _ = workers(strace, tmp_path, *options(tmp_path, "--rw", "append", "--runtime", 60))
    assert records_of(calls, "pwrite64") == list(range(RECORDS))


# -- io_uring ---------------------------------------------------------------------------------------------------------


def uring(top: Path, *more: str | int, size: int = RECORDS * RECORD) -> list[str]:
    words = options(top, "--ioengine", "io_uring", *more, size=size)
    probe = subprocess.run([*iobench(), *options(top, "--ioengine", "io_uring")], capture_output=True, text=True)
    if "no io_uring" in probe.stderr or "cannot be used here" in probe.stderr:
        pytest.skip(probe.stderr.strip())
    return words


@pytest.mark.parametrize("depth", [1, 8])
def test_io_uring_reaches_its_depth(strace: str, tmp_path: Path, depth: int) -> None:
    """Every request that is not complete was submitted before the worker waits."""
    log = tmp_path / "strace.log"
    words = uring(tmp_path, "--rw", "randread", "--direct", 1, "--iodepth", depth)
    built.run(strace, "-f", "-e", "trace=io_uring_setup,io_uring_enter", "-o", log, *iobench(), *words)
    enters = re.findall(r"io_uring_enter\(\d+, (\d+), (\d+), (\S+), NULL, \S+\)\s+= (\d+)", log.read_text("utf-8"))
    assert [int(taken) for *_, taken in enters] == [int(asked) for asked, *_ in enters]
    assert int(enters[0][0]) == depth
    assert sum(int(asked) for asked, *_ in enters) == RECORDS
    assert {least for _, least, *_ in enters} == {"1"}


@pytest.mark.parametrize(
    "mode",
    [
        ["--fsync", "1"],
        ["--fdatasync", "1"],
        ["--sync_file_range", "write:1"],
        ["--sync", "dsync"],
        ["--direct", "1"],
        ["--mode", "rwf_dsync"],
        ["--fsync", "5"],
    ],
)
@pytest.mark.parametrize("access", ["randwrite", "append", "randrw"])
def test_io_uring_writes_every_record(tmp_path: Path, mode: list[str], access: str) -> None:
    """The kept file against the one that was there before; iobench verifies samples of it itself."""
    words = uring(tmp_path, "--rw", access, "--iodepth", 8, "--keep", *mode)
    before = kept(tmp_path, RECORDS, *options(tmp_path, "--rw", "read", "--keep"))
    built.run(*iobench("sanitized"), *words)
    after = contents(tmp_path)["test.dat0"]
    assert len(after) == RECORDS * RECORD
    changed = [number for number in range(RECORDS) if record(after, number) != record(before["test.dat0"], number)]
    if access != "randrw":
        assert changed == list(range(RECORDS))
    assert changed


@pytest.mark.root
@pytest.mark.parametrize(("option", "datasync"), [("--fsync", "0"), ("--fdatasync", "1")])
def test_io_uring_syncs_after_each_write(tmp_path: Path, option: str, datasync: str) -> None:
    """Counted by ext4's own trace event: io_uring's requests are no system calls that strace could see."""
    image = tmp_path / "sync.img"
    loops.make_ext4(image)
    with loops.mounted(image) as disk, tracing.instance(tmp_path) as instance:
        words = uring(disk.top, "--rw", "write", "--iodepth", 4, option, 1, "--end_fsync", 0)
        device = disk.top.stat().st_dev
        (instance / "events/ext4/ext4_sync_file_enter/filter").write_text(
            f"dev == {os.major(device) << 20 | os.minor(device)}"
        )
        (instance / "events/ext4/ext4_sync_file_enter/enable").write_text("1")
        (instance / "tracing_on").write_text("1")
        built.run(*iobench(), *words)
        (instance / "tracing_on").write_text("0")
        seen = (instance / "trace").read_text("utf-8")
    assert re.findall(r"iou-wrk-\d+-\d+ .* ext4_sync_file_enter: .*datasync (\d)", seen) == [datasync] * RECORDS


@pytest.mark.parametrize(
    "fault",
    ["io_uring_register:error=ENOMEM", "io_uring_setup:error=EINVAL:when=1", "io_uring_enter:error=EINTR:when=2+3"],
)
def test_io_uring_does_without_what_older_kernels_lack(strace: str, tmp_path: Path, fault: str) -> None:
    words = uring(tmp_path / "top", "--rw", "randwrite", "--iodepth", 8, "--fdatasync", 1, "-t", 2)
    injected(strace, tmp_path, fault, *words, status=0)
    assert "INJECTED" in (tmp_path / "strace.log").read_text("utf-8")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [("ENOSYS", "this kernel has no io_uring"), ("EPERM", "see /proc/sys/kernel/io_uring_disabled")],
)
def test_io_uring_is_refused_where_there_is_none(strace: str, tmp_path: Path, error: str, sentence: str) -> None:
    words = options(tmp_path / "top", "--ioengine", "io_uring")
    said = injected(strace, tmp_path, f"io_uring_setup:error={error}", *words, status=1)
    assert sentence in said and "--ioengine psync" in said
    assert not (tmp_path / "top").exists()


# -- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "engine",
    [["--mode", "fsync"], ["--mode", "mmap_sync"], ["--fsync", "1", "--ioengine", "io_uring", "--iodepth", "4"]],
)
def test_operations_count_from_when_they_were_due(tmp_path: Path, engine: list[str]) -> None:
    """With a rate the latency of an operation begins at a fixed beat, however late the worker gets to it."""
    rate, threads, log = 800, 2, tmp_path / "log.rec"
    if "io_uring" in engine:
        uring(tmp_path)
    words = options(tmp_path, "--rw", "randwrite", "-t", threads, "--rate_iops", rate, "--log-ops", "-o", str(log))
    built.run(*iobench("sanitized"), *words, *engine)
    ops = record_file.read(log).tables["bench_op"].sort("thread", "part", "ts_ns", maintain_order=True)
    for thread in range(threads):
        mine = ops.filter(pl.col("thread") == thread)
        due = mine.filter(pl.col("part") == "op")
        assert due.height == RECORDS
        assert set(due["ts_ns"].diff().drop_nulls()) == {threads * 1_000_000_000 // rate}
        assert mine.filter(pl.col("part") == "write").height == mine.filter(pl.col("part") == "sync").height == RECORDS


# -- what is written --------------------------------------------------------------------------------------------------


def contents(top: Path) -> dict[str, bytes]:
    """Return the data files that --keep left."""
    return {path.name: path.read_bytes() for path in sorted(top.glob("iobench-kept/test.dat*"))}


def kept(top: Path, records: int, *words: str) -> dict[str, bytes]:
    """Return files laid out by a job that only reads."""
    built.run(*iobench(), *words)
    found = contents(top)
    assert {len(content) for content in found.values()} == {records * RECORD}
    return found


def record(content: bytes, number: int) -> bytes:
    return content[number * RECORD : (number + 1) * RECORD]


@pytest.mark.parametrize("access", ["write", "randwrite"])
@pytest.mark.parametrize("mode", ["mmap", "mmap_sync"])
def test_mapped_files_of_threads_are_all_written(tmp_path: Path, mode: str, access: str) -> None:
    """In Mobibench all threads wrote the file that was mapped last (originals.md, 6, row 4)."""
    before = kept(tmp_path, RECORDS, *options(tmp_path, "--rw", "read", "-t", 4, "--keep"))
    assert len(before) == 4
    for _ in range(5):
        built.run(*iobench("sanitized"), *options(tmp_path, "--rw", access, "--mode", mode, "-t", 4, "--keep"))
        after = contents(tmp_path)
        assert after.keys() == before.keys()
        records = [record(content, number) for content in after.values() for number in range(RECORDS)]
        assert len(set(records)) == 4 * RECORDS
        assert set(records).isdisjoint(
            record(content, number) for content in before.values() for number in range(RECORDS)
        )
        before = after


def injected(strace: str, tmp_path: Path, fault: str, *words: str, status: int) -> str:
    """Return the output of iobench if strace makes some calls fail, or not happen; `when` counts in each thread."""
    log = tmp_path / "strace.log"
    command: list[str | Path] = [strace, "-f", "-e", f"inject={fault}", "-e", f"trace={fault.split(':')[0]}", "-o", log]
    return built.run(*command, *iobench(), *words, status=status).stderr.decode()


@pytest.mark.parametrize("number", [1, 7, RECORDS])
@pytest.mark.parametrize("access", ["write", "randwrite", "append"])
def test_a_write_that_gets_lost_is_found(strace: str, tmp_path: Path, access: str, number: int) -> None:
    """The call says that all was written, but nothing was, as with a kernel or a disk that loses it."""
    top = tmp_path / "top"
    fault = f"pwrite64:retval={RECORD}:when={number}"
    said = injected(strace, tmp_path, fault, *options(top, "--rw", access), status=1)
    assert "does not have the data that it wrote last" in said or "bytes instead of" in said


@pytest.mark.parametrize("verify", ["sample", "all"])
def test_of_many_records_all_are_looked_at_where_that_is_asked_for(strace: str, tmp_path: Path, verify: str) -> None:
    """The sample of 1,000 records is of each fourth; the write of the second one gets lost."""
    words = options(tmp_path / "top", "--rw", "write", "--size", 1000 * RECORD, "--verify", verify)
    said = injected(strace, tmp_path, f"pwrite64:retval={RECORD}:when=2", *words, status=verify == "all")
    assert (f"the record at {RECORD} of the file of worker 0 does not have the data" in said) == (verify == "all")


@pytest.mark.parametrize("record_bytes", [8, 1000, 4096])
def test_records_that_are_written_twice_at_once_are_not_doubted(tmp_path: Path, record_bytes: int) -> None:
    """Which of two writes in flight comes last is unknown, so that such a record proves nothing."""
    words = ("--ioengine", "io_uring", "--iodepth", "32", "--rw", "randwrite", "--overlap", "90", "--loops", "20")
    size = str(64 * record_bytes)
    benched.run("-p", tmp_path, *words, "--size", size, "--bs", str(record_bytes), "--verify", "all", "--cache=any")


NAMES = {
    **{f"--mode {name}": name for name in [*MODES, "fbarrier", "fdatabarrier"]},
    "--ioengine io_uring": "io_uring+buffered",
    "--ioengine io_uring --direct 1": "io_uring+direct",
    "--ioengine io_uring --direct 1 --fdatasync 1": "io_uring+direct+fdatasync",
    "--direct 1 --fsync 1": "direct+fsync",
    "--direct 1 --sync dsync": "direct+odsync",
    "--sync sync --fsync 1": "osync+fsync",
    "--sync_file_range write:1": "sync_file_range+write",
    "--direct 1 --sync_file_range wait_before,write,wait_after:2": "direct+sync_file_range",
}


@pytest.mark.parametrize("words", NAMES)
def test_a_mode_has_a_name(words: str, tmp_path: Path) -> None:
    benched.run(*words.split(), "--dry-run", "-p", tmp_path, "--record", tmp_path / "out.rec")
    (run,) = benched.repetitions(tmp_path / "out.rec")
    assert run["sync_mode"] == NAMES[words]


# -- what goes wrong --------------------------------------------------------------------------------------------------


def refusal(*words: str) -> str:
    """Return the message of the program when it refuses to run. It must leave no files."""
    return built.run(*iobench("sanitized"), *words, status=1).stderr.decode()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--ioengine", "psync", "--iodepth", "2"], "needs --ioengine io_uring"),
        (["--ioengine", "mmap", "--iodepth", "2"], "needs --ioengine io_uring"),
        (["--ioengine", "mmap", "--direct", "1"], "--direct"),
        (["--ioengine", "mmap", "--fsync", "1"], "msync"),
        (["--ioengine", "mmap", "--overwrite", "0"], "does not make its file longer"),
        (["--rw", "append", "--fallocate", "native"], "starts with an empty file"),
        (["--rw", "append", "--number_ios", str(RECORDS + 1)], f"has room for {RECORDS} records"),
        (["--shared", "-t", str(RECORDS + 1)], "too few"),
        (["--shared", "-t", "2", "--rw", "randwrite", "--overlap", "10"], "must not write to the same offset"),
        (["--rw", "append", "--runtime", "5", "--ramp_time", "1"], "--ramp_time"),
        (["--mode", "fbarrier"], "no fbarrier"),
        (["--mode", "fdatabarrier"], "no fbarrier"),
        (["--ioengine", "io_uring", "--iodepth", "4", "--thinktime", "5"], "--thinktime"),
        (["--ioengine", "io_uring", "--mode", "fbarrier"], "fbarrier"),
    ],
)
def test_what_does_not_exist_is_refused(tmp_path: Path, words: list[str], sentence: str) -> None:
    said = refusal(*options(tmp_path, *([] if "--rw" in words else ["--rw", "write"]), *words))
    assert sentence in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ["psync", "mmap", "io_uring"])
def test_a_file_that_gets_shorter_ends_the_run(tmp_path: Path, engine: str) -> None:
    nr_records = 2048
    words = options(
        *(tmp_path, "--rw", "randread", "--ioengine", engine, "--runtime", 60, "-t", 2), size=nr_records * RECORD
    )
    process = subprocess.Popen([*iobench("sanitized"), *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (paths := working(process, nr_records)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.truncate(paths[0], RECORD)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1
    assert "Sanitizer" not in said
    assert ("SIGBUS" if engine == "mmap" else "the file ends there") in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "call"),
    [
        ("buffered", "pwrite64"),
        ("fsync", "fsync"),
        ("fdatasync", "fdatasync"),
        ("sync_file_range", "sync_file_range"),
        ("rwf_dsync", "pwritev2"),
        ("mmap_async", "msync"),
        ("mmap_sync", "msync"),
    ],
)
def test_an_error_ends_the_run(strace: str, tmp_path: Path, mode: str, call: str) -> None:
    top = tmp_path / "top"
    words = options(top, "--rw", "write", "--mode", mode)
    said = injected(strace, tmp_path, f"{call}:error=EIO:when=20", *words, status=1)
    assert "Input/output error" in said
    assert not top.exists() or list(top.iterdir()) == []


def test_the_last_sync_counts_too(strace: str, tmp_path: Path) -> None:
    words = options(tmp_path / "top", "--rw", "write", "--mode", "mmap")
    assert "cannot be made durable" in injected(strace, tmp_path, "msync:error=EIO:when=1", *words, status=1)


@pytest.mark.parametrize(("call", "access"), [("pwrite64", "randwrite"), ("pread64", "read")])
def test_an_interrupted_call_is_made_again(strace: str, tmp_path: Path, call: str, access: str) -> None:
    injected(strace, tmp_path, f"{call}:error=EINTR:when=3+4", *options(tmp_path / "top", "--rw", access), status=0)
    results = re.findall(rf"{call}\(.*\)\s+= (\S+)", (tmp_path / "strace.log").read_text("utf-8"))
    assert results.count(str(RECORD)) >= RECORDS
    assert results.count("-1") >= RECORDS // 4


SHORT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#define SHORT(call, pointer) \
    ssize_t call(int file, pointer data, size_t bytes, off_t offset) \
    { \
        ssize_t (*real)(int, pointer, size_t, off_t) = dlsym(RTLD_NEXT, #call); \
        return real(file, data, bytes > 1000 ? 1000 : bytes, offset); \
    }
SHORT(pwrite, const void *)
SHORT(pwrite64, const void *)
SHORT(pread, void *)
SHORT(pread64, void *)
"""

BARRIERS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>
long syscall(long number, ...)
{
    long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall"), words[6];
    va_list rest;
    va_start(rest, number);
    for (int word = 0; word < 6; word++)
        words[word] = va_arg(rest, long);
    va_end(rest);
    if (number == 548)
        return fdatasync((int)words[0]);
    if (number == 549)
        return sync_file_range((int)words[0], 0, 1, 0);
    return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
"""


@pytest.mark.parametrize(("access", "call"), [("randwrite", "pwrite64"), ("append", "pwrite64"), ("read", "pread64")])
def test_short_calls_are_completed(strace: str, tmp_path: Path, access: str, call: str) -> None:
    """Five calls a record; what they write is verified by iobench, and they count as one operation."""
    out = tmp_path / "run.rec"
    words = options(tmp_path / "top", "--rw", access, "--record", out)
    (calls,), _ = workers(strace, tmp_path, *words, preload=compiling.preloaded_library(tmp_path, SHORT))
    assert [int(each.result) for each in named(calls, call)] == [1000, 1000, 1000, 1000, 96] * RECORDS
    assert benched.tallies(out)["op"][0] == RECORDS


@pytest.mark.parametrize(("mode", "stands_for"), [("fbarrier", "fdatasync"), ("fdatabarrier", "sync_file_range")])
def test_barriers_where_the_kernel_has_them(strace: str, tmp_path: Path, mode: str, stands_for: str) -> None:
    """No kernel at hand has these calls: a library answers for it, with others that strace can see."""
    words = options(tmp_path / "top", "--rw", "write", "--mode", mode)
    (calls,), _ = workers(strace, tmp_path, *words, preload=compiling.preloaded_library(tmp_path, BARRIERS))
    assert [call.name for call in calls[1:]] == ["pwrite64", stands_for] * RECORDS + ["fsync"]


@pytest.mark.root
@pytest.mark.parametrize(
    "words",
    [
        ["--fsync", "1", "--overwrite", "0"],
        ["--mode", "mmap_sync", "--fallocate", "native"],
        ["--ioengine", "io_uring", "--iodepth", "4", "--fdatasync", "1", "--overwrite", "0"],
        ["--ioengine", "io_uring", "--iodepth", "4", "--direct", "1", "--overwrite", "0"],
    ],
)
def test_a_device_that_fails_ends_the_run(tmp_path: Path, words: list[str]) -> None:
    """A sparse image in a tmpfs that has no room for all of it: the filesystem finds out when it writes back."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs")
    try:
        loops.make_ext4(small / "disk.img", ["-b", "4096", "-O", "^has_journal"], nr_mib=32)
        with loops.mounted(small / "disk.img") as disk:
            if "io_uring" in words:
                uring(tmp_path)
            said = refusal(*options(disk.top, "--rw", "write", *words, size=4096 * RECORD))
            assert "Input/output error" in said or "No space left" in said
            assert ("cannot write" if "--direct" in words else "cannot be made durable") in said
    finally:
        subprocess.run(["umount", small], check=True)


def working(process: subprocess.Popen[bytes], nr_records: int) -> list[Path]:
    """Return the data files that its workers have open."""
    if len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 3:
        return []
    found: set[Path] = set()
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed just now
            found.add(entry.readlink())
    data = sorted(path for path in found if path.name.startswith("test.dat"))
    return data if len(data) == 2 and all(path.stat().st_size == nr_records * RECORD for path in data) else []


# -- sanitizers -------------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("variant", ["sanitized", "tsan"])
@pytest.mark.parametrize("sharing", [[], ["--shared"]])
@pytest.mark.parametrize(
    "mode",
    [
        ["--mode", "fsync"],
        ["--mode", "direct"],
        ["--mode", "rwf_dsync"],
        ["--mode", "mmap_sync"],
        ["--ioengine", "io_uring", "--iodepth", "4", "--fdatasync", "1"],
    ],
)
def test_sanitizers_find_nothing(tmp_path: Path, mode: list[str], sharing: list[str], variant: str) -> None:
    for access in ("randrw", "write", "append"):
        if access != "append" or "mmap_sync" not in mode:
            built.run(*iobench(variant), *options(tmp_path, "--rw", access, "-t", 4, *sharing, *mode))
