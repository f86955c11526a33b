"""iobench reports true results or none: cold is cold, failures are reported, and no files are left."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import benched, built, compiling, loops

MIB = 1 << 20
PAGE = mmap.PAGESIZE
PATIENCE = 120
"""Seconds after which something that must happen is taken never to happen."""


def iobench(*arguments: str | Path, status: int = 0, variant: str = "sanitized", **options: Any) -> dict[str, Any]:
    """Run a job and return the record of its (last) repetition."""
    repetitions, err = benched.measured(*benched.program(variant), *arguments, status=status, **options)
    answer = repetitions[-1] | {"stderr": err}
    assert answer["valid"] is (status == 0)
    return answer


def refused(*arguments: str | Path, **options: Any) -> str:
    """Run a job that must fail, and return its last sentence on standard error."""
    done = benched.run(*arguments, status=1, **options)
    lines: list[str] = done.stderr.decode("utf-8", "replace").splitlines()
    assert lines and lines[-1].startswith("iobench: ")
    return lines[-1].removeprefix("iobench: ")


def left_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != "lost+found")


def await_that(what: Callable[[], Any], process: subprocess.Popen[bytes] | None = None) -> Any:
    """Poll until the condition is true. Fail if it never is, or if the process ended before."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        assert process is None or process.poll() is None, "the program ended too early"
        time.sleep(0.002)
    raise AssertionError("it never happened")


@contextlib.contextmanager
def started(*arguments: str | Path, nohup: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run in the background. It is killed at the end if it still runs."""
    (command,) = benched.planned(built.program("iobench", "sanitized"), *arguments)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGHUP, before)
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def ended(process: subprocess.Popen[bytes], status: int = 1) -> str:
    """Wait for the end of a run, and return its standard error."""
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, err.decode()
    assert b"Sanitizer" not in err and b"runtime error" not in err
    return err.decode()


def works(process: subprocess.Popen[bytes]) -> None:
    """Wait until the run shows progress."""
    assert process.stderr is not None
    while (line := process.stderr.readline()).endswith(b" 0 ops/s\n"):
        pass
    assert re.match(rb"iobench: \d+ %", line)


def run_file(directory: Path, process: subprocess.Popen[bytes]) -> Path:
    """Return the first file of a run that is not empty."""
    found = await_that(
        lambda: [path for path in directory.glob("iobench-*/test.dat0") if path.stat().st_blocks], process
    )
    path: Path = found[0]
    return path


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """Return a directory that user `nobody` can reach, with a copy of the program."""
    with tempfile.TemporaryDirectory(prefix=f"iobench-{tmp_path.name[:20]}-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextlib.contextmanager
def ext4(directory: Path, nr_mib: int = 64) -> Iterator[loops.Mounted]:
    image = directory / "ext4.img"
    loops.make_ext4(image, (), nr_mib)
    with loops.mounted(image) as found:
        found.top.chmod(0o1777)
        yield found


def device_read_bytes(device: str) -> int:
    """Return the bytes that the device read, from /proc/diskstats."""
    name = Path(device).name
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == name:
            return int(fields[5]) * 512
    raise AssertionError(f"{name} is not in /proc/diskstats")


def resident_bytes(path: Path) -> int:
    """Return the resident bytes of a file, from mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = path.stat().st_size
    pages = ctypes.create_string_buffer(-(-size // PAGE))
    with path.open("rb") as file:
        where = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    assert libc.mincore(where, size, pages) == 0
    assert libc.munmap(where, size) == 0
    return sum(byte & 1 for byte in pages.raw) * PAGE


@contextlib.contextmanager
def kept_in_cache(path: Path, pages: Iterable[int] | None = None) -> Iterator[None]:
    """Keep a file, or these pages of it, in the page cache, whoever has that dropped: pages that are mapped stay."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        mapped.madvise(mmap.MADV_RANDOM)  # a fault brings its own page only
        for page in range(-(-len(mapped) // PAGE)) if pages is None else pages:
            mapped[page * PAGE]
        yield


# -- the page cache ---------------------------------------------------------------------------------------------------


NOBODY: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []}


@pytest.mark.root
@pytest.mark.parametrize("who", [{}, NOBODY], ids=["root", "nobody"])
@pytest.mark.parametrize("rw", ["read", "randread"])
def test_cold_means_that_all_comes_from_the_device(public: Path, who: dict[str, Any], rw: str) -> None:
    """The original measured the page cache where it might not drop it (originals.md, §6, row 3)."""
    program = shutil.copy(built.program("iobench", "native"), public)
    with ext4(public) as disk:
        before = device_read_bytes(disk.device)
        (job,), _ = benched.measured(program, "-p", disk.top, "--size=16m", f"--rw={rw}", "--numjobs=2", **who)
        moved = device_read_bytes(disk.device) - before
        assert left_in(disk.top) == []
    assert job["cache_found"] == "cold"
    assert job["cache_resident_bytes"] == 0
    assert job["cache_bytes"] == 32 * MIB
    assert job["cache_dropped"] is (not who)
    assert job["parts"]["read"]["bytes"] == 32 * MIB
    assert moved >= 32 * MIB
    assert 32 * MIB <= job["device_read_bytes"] <= moved


def check_warm(directory: Path) -> None:
    path = directory / "file"
    path.write_bytes(os.urandom(16 * MIB))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    with kept_in_cache(path):
        job = iobench("--filename", path, "--size=16m", "--rw=randread", "--cache=warm")
    path.unlink()
    assert job["cache_found"] == "warm"
    assert job["cache_resident_bytes"] == 16 * MIB
    assert job["device_read_bytes"] == 0


@pytest.mark.root
def test_warm_means_that_nothing_comes_from_the_device(public: Path) -> None:
    with ext4(public) as disk:
        check_warm(disk.top)


def test_to_be_warm_a_file_is_read_whole_before(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB))
    words = ("--filename", path, "--size=1m", "--rw=read", "--number_ios=1", "--cache=warm")
    with kept_in_cache(path):
        calls = benched.calls(tmp_path / "log", "pread64", *words)
    assert sum(call.result for call in calls if call.path == str(path)) == MIB + PAGE


@pytest.mark.parametrize(
    "job",
    ["--rw=randread --number_ios=17", "--rw=read --loops=2 --mode=mmap", "--rw=randrw --rwmixread=90 --number_ios=200"],
)
def test_what_is_read_again_is_not_cold(tmp_path: Path, job: str) -> None:
    """16 records, some of which are read twice: the page cache has them by then."""
    words = ("-p", tmp_path, "--size=64k", *job.split())
    found = iobench(*words, status=1)
    assert "read more than once, and from the page cache after the first time" in found["invalid"]
    assert found["cache_found"] == "unknown"
    iobench(*words, "--cache=any")
    iobench(*(word for word in words if word != "--mode=mmap"), "--direct=1")


def test_what_is_read_once_is_cold(tmp_path: Path) -> None:
    assert iobench("-p", tmp_path, "--size=64k", "--rw=randread", "--number_ios=16")["cache_found"] == "cold"


def test_what_comes_from_the_device_is_not_warm(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(65536))
    with kept_in_cache(path):
        job = iobench("--filename", path, "--size=64k", "--rw=read", "--direct=1", "--cache=warm", status=1)
    said = re.match(r"the page cache was warm, but (\d+) bytes were read from the device", job["invalid"])
    assert said is not None, job["invalid"]
    assert int(said[1]) >= 65536  # pages of its own code may come from there as well


@pytest.mark.root
@pytest.mark.parametrize("who", [{}, NOBODY], ids=["root", "nobody"])
def test_what_cannot_be_cold_is_not_measured_as_cold(public: Path, who: dict[str, Any]) -> None:
    """All of a tmpfs is page cache."""
    program = shutil.copy(built.program("iobench", "native"), public)
    top = public / "memory"
    top.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=1777", "none", top], check=True)
    try:
        (job,), _ = benched.measured(program, "-p", top, "--size=4m", "--rw=read", status=1, **who)
        assert left_in(top) == []
    finally:
        subprocess.run(["umount", top], check=True)
    assert job["valid"] is False
    assert "page cache should be cold, but holds 4194304 of 4194304 bytes" in job["invalid"]
    assert job["parts"]["op"]["ops"] == 0


@pytest.mark.parametrize("pages", [[], [0], [3, 4, 5, 100], range(256)], ids=["none", "first", "some", "all"])
def test_the_resident_part_is_what_mincore_says_here(tmp_path: Path, pages: list[int]) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(256 * PAGE))

    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with kept_in_cache(path, pages):
        expected = resident_bytes(path)
        if expected and not pages:
            pytest.skip("what is in tmp_path cannot be evicted")
        assert expected >= len(pages) * PAGE
        job = iobench("--filename", path, f"--size={256 * PAGE}", "--rw=read", "--cache=any")
    assert job["cache_resident_bytes"] == expected
    assert job["cache_found"] == {0: "cold", 256 * PAGE: "warm"}.get(expected, "unknown")


@pytest.mark.root
def test_what_mincore_does_not_tell_of_other_peoples_files_is_unknown(public: Path) -> None:
    """The kernel says that all of them is resident, whatever is."""
    program = shutil.copy(built.program("iobench", "native"), public)
    path = public / "file"
    path.write_bytes(os.urandom(256 * PAGE))

    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    reading = ("--filename", path, f"--size={256 * PAGE}", "--rw=read", "--cache=any", "--number_ios=1")
    (job,), _ = benched.measured(program, *reading, **NOBODY)
    assert job["cache_found"] != "warm"


@pytest.mark.root
def test_the_cache_of_an_overlay_is_that_of_the_filesystem_below(public: Path) -> None:
    """cachestat(2) finds an overlay's file empty when all of it is in memory."""
    with ext4(public) as disk:
        for name in ("lower", "upper", "work", "merged"):
            (disk.top / name).mkdir()
        merged = disk.top / "merged"
        layers = f"lowerdir={disk.top}/lower,upperdir={disk.top}/upper,workdir={disk.top}/work"
        mount = subprocess.run(["mount", "-t", "overlay", "-o", layers, "none", merged], capture_output=True)
        if mount.returncode:
            pytest.skip("no overlay filesystem here")
        check_warm(merged)
        cold = iobench("-p", merged, "--size=8m", "--rw=read")
        assert left_in(merged) == []
    assert cold["fs_type"] == "overlay"
    assert cold["device"] == Path(disk.device).name
    assert cold["device_read_bytes"] >= 8 * MIB


# -- which device -----------------------------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_the_device_is_found_and_its_traffic_counted(public: Path, kind: str) -> None:
    """A file of btrfs has the number of no device."""
    if not shutil.which(f"mkfs.{kind}"):
        pytest.skip(f"mkfs.{kind} is not installed")
    image = public / "disk.img"
    with image.open("wb") as file:
        file.truncate(400 * MIB)
    subprocess.run([f"mkfs.{kind}", "-q", image], check=True)
    with loops.mounted(image) as disk:
        job = iobench("-p", disk.top, "--size=8m", "--rw=read")
        text = Path("/proc/self/mountinfo").read_text()
    assert job["device"] == Path(disk.device).name
    assert job["fs_type"] == kind
    assert job["mount_point"] == str(disk.top)
    line = next(line.split() for line in text.splitlines() if line.split()[4] == str(disk.top))
    assert job["mount_options"] == f"{line[5]},{line[-1]}"
    assert job["device_read_bytes"] >= 8 * MIB
    assert ("filesystem_write_bytes" in job) is (kind == "ext4")


@pytest.mark.root
@pytest.mark.parametrize("thread", ["0", "1"])
def test_the_traffic_of_the_process_is_that_of_its_workers(public: Path, thread: str) -> None:
    """Loading and preparing are not part of it."""
    with ext4(public) as disk:
        where = ("-p", disk.top, "--size=8m", "--numjobs=2", f"--thread={thread}")
        read = iobench(*where, "--rw=read")
        written = iobench(*where, "--mode=direct", "--rw=write")
    assert read["process_read_bytes"] >= 16 * MIB
    assert read["process_write_bytes"] < MIB
    assert written["process_write_bytes"] == 16 * MIB
    assert written["device_write_bytes"] >= 16 * MIB


@pytest.mark.parametrize("thread", ["0", "1"])
def test_what_a_worker_cost_is_its_own(tmp_path: Path, thread: str) -> None:
    """Each pause is one voluntary switch of the worker that pauses, and no part of its time."""
    job = iobench(
        *("-p", tmp_path, "--size=1m", "--rw=read", "--number_ios=60", "--numjobs=2", f"--thread={thread}"),
        *("--thinktime=1000", "--cache=any"),
    )
    assert [worker["thread"] for worker in job["workers"]] == [0, 1]
    for worker in job["workers"]:
        assert worker["ctx_voluntary"] >= 29
        assert 29_000_000 <= worker["paused_ns"] < worker["duration_ns"]
        assert 0 < worker["cpu_user_ns"] + worker["cpu_system_ns"] < worker["duration_ns"]


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.root
def test_a_run_that_does_not_fit_is_refused_before_it_writes(public: Path) -> None:
    with ext4(public, 32) as disk:
        sentence = refused("-p", disk.top, "--size=8m", "--numjobs=8", "--rw=write")
        assert left_in(disk.top) == []
    assert re.search(rf"\d+ bytes are free, but {64 * MIB * 21 // 20} are needed", sentence)


@pytest.mark.parametrize(
    "job",
    [
        ["sqlite", "--sqlite-op=update", "-n", str(1 << 40), "--rows=1000000", "--value-size=1000000000"],
        ["postmark", f"--file-size=1:{(1 << 63) - 1}"],
        ["postmark", "--files=1000000000", f"--file-size=1:{1 << 50}", "--bias-create=10", "-n", str(1 << 40)],
        ["file", "--size=1024t", "--numjobs=1024"],
    ],
    ids=["sqlite", "file size", "files", "size"],
)
def test_no_size_is_too_large_to_be_refused(tmp_path: Path, job: list[str]) -> None:
    assert "are needed" in refused(*job, "-p", tmp_path)
    assert left_in(tmp_path) == []


def fill_up(path: Path) -> None:
    """Use all free space of a filesystem."""
    with path.open("wb") as file, contextlib.suppress(OSError):
        for start in range(0, 1 << 40, 64 << 10):
            os.posix_fallocate(file.fileno(), start, 64 << 10)


@pytest.mark.root
@pytest.mark.parametrize(
    ("job", "told"),
    [
        (["file", "--size=32m", "--bs=1m", "--rw=append", "--mode=buffered"], "No space left on device"),
        (["file", "--size=32m", "--bs=1m", "--rw=append", "--mode=direct"], "No space left on device"),
        (["sqlite", "-d", "0", "--value-size=64k"], "full"),
        (["postmark", "--file-size=500000:600000", "--files=20"], "No space left on device"),
    ],
    ids=["buffered", "direct", "sqlite", "postmark"],
)
def test_a_filesystem_that_fills_up_ends_the_run(public: Path, job: list[str], told: str) -> None:
    with (
        ext4(public, 256) as disk,
        started(*job, "-p", disk.top, "--rate_iops=20", "--cache=any", "--runtime=100") as process,
    ):
        works(process)
        fill_up(disk.top / "filler")
        err = ended(process)
        assert left_in(disk.top) == ["filler"]
    assert told in err


@pytest.mark.root
@pytest.mark.parametrize("mode", ["buffered", "direct", "mmap", "mmap_sync"])
def test_a_file_that_finds_no_room_for_its_blocks_ends_the_run(public: Path, mode: str) -> None:
    """Also where the kernel has no way to say so but SIGBUS."""
    with ext4(public) as disk:
        (disk.top / "sparse").touch()
        os.truncate(disk.top / "sparse", 32 * MIB)
        fill_up(disk.top / "filler")
        sentence = refused(
            *("--filename", disk.top / "sparse", "--i-know", "--size=32m", "--rw=write", f"--mode={mode}"),
            "--cache=any",
        )
    assert ("SIGBUS" if mode.startswith("mmap") else "No space left on device") in sentence


def test_a_limit_of_file_sizes_ends_the_run(tmp_path: Path) -> None:
    """Its signal would end the program, and leave its files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))

    sentence = refused("-p", tmp_path, "--size=4m", "--rw=write", "--cache=any", preexec_fn=limit)
    assert "File too large" in sentence
    assert left_in(tmp_path) == []


def test_a_named_file_that_is_too_small_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(MIB))
    assert refused("--filename", path, "--size=2m", "--rw=read")
    assert path.read_bytes() == bytes(MIB)


SHORT = """
#define _GNU_SOURCE
#include <errno.h>
#include <dlfcn.h>
#include <unistd.h>

/* Every third call is interrupted, the others move at most LEAST bytes; after ENDS calls nothing moves any more. */
static int calls;
static size_t cut(size_t bytes)
{
    return bytes < LEAST ? bytes : LEAST;
}

ssize_t pread64(int file, void *into, size_t bytes, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread64");
    if (++calls % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return calls > ENDS ? 0 : real(file, into, cut(bytes), offset);
}

ssize_t pwrite64(int file, const void *from, size_t bytes, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");
    if (++calls % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return calls > ENDS ? 0 : real(file, from, cut(bytes), offset);
}

int fsync(int file)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    static int syncs;
    if (++syncs >= SYNCS) {
        errno = EIO;
        return -1;
    }
    return real(file);
}
"""


def between(tmp_path: Path, **values: int) -> dict[str, str]:
    """Return an environment that preloads SHORT between the program and its C library."""
    macros = [
        f"-D{name}={value}" for name, value in ({"LEAST": 1 << 20, "ENDS": 1 << 30, "SYNCS": 1 << 30} | values).items()
    ]
    return {**os.environ, "LD_PRELOAD": str(compiling.preloaded_library(tmp_path, SHORT, *macros))}


@pytest.mark.parametrize("rw", ["read", "write", "randread", "randwrite"])
def test_a_record_counts_once_when_all_of_it_was_moved(tmp_path: Path, rw: str) -> None:
    where = tmp_path / "where"
    where.mkdir()
    job = iobench(
        *("-p", where, "--size=1m", "--bs=8k", f"--rw={rw}", "--cache=any"),
        variant="native",
        env=between(tmp_path, LEAST=1000),
    )
    found = job["parts"]["write" if "write" in rw else "read"]
    assert (found["ops"], found["bytes"]) == (128, MIB)


@pytest.mark.parametrize("rw", ["read", "write"])
def test_a_record_of_which_nothing_more_is_moved_is_an_error(tmp_path: Path, rw: str) -> None:
    where = tmp_path / "where"
    where.mkdir()
    job = iobench(
        *("-p", where, "--size=1m", "--bs=8k", f"--rw={rw}", "--cache=any"),
        variant="native",
        status=1,
        env=between(tmp_path, ENDS=60),
    )
    found = job["parts"][rw]
    assert 0 < found["ops"] < 128
    assert found["bytes"] == found["ops"] * 8192
    assert left_in(where) == []


def test_a_sync_that_fails_makes_the_run_invalid(tmp_path: Path) -> None:
    where = tmp_path / "where"
    where.mkdir()
    sentence = refused(
        *("-p", where, "--size=1m", "--rw=write", "--fsync=1", "--cache=any"),
        variant="native",
        env=between(tmp_path, SYNCS=40),
    )
    assert "Input/output error" in sentence
    assert left_in(where) == []


def blank(path: Path, nr_mib: int) -> Path:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, nr_mib * MIB)
    return path


@pytest.mark.root
@pytest.mark.parametrize("mode", ["buffered", "direct", "mmap"])
def test_a_device_that_fails_ends_the_run(tmp_path: Path, mode: str) -> None:
    """The second half of the loop device has no file behind it any more."""
    image = blank(tmp_path / "image", 16)
    with loops.attached(image) as device:
        os.truncate(image, 8 * MIB)
        job = iobench(
            *("--filename", device, "--raw", "--i-know", "--size=16m", "--bs=64k", "--rw=read", f"--mode={mode}"),
            status=1,
        )
    assert "Input/output error" in job["stderr"] or "SIGBUS" in job["stderr"]
    assert 0 < job["parts"]["read"]["ops"] <= 128


# -- signals and deaths -----------------------------------------------------------------------------------------------


ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_a_signal_while_files_are_laid_out_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    where = tmp_path / "made"
    with started("-p", where, "--size=900m", "--rw=read") as process:
        run_file(where, process)
        process.send_signal(number)
        process.send_signal(number)
        err = ended(process)
    assert "interrupted" in err
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("thread", ["0", "1"])
@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_a_signal_while_workers_work_leaves_nothing(tmp_path: Path, number: signal.Signals, thread: str) -> None:
    out, top = tmp_path / "run.rec", tmp_path / "top"
    where = ("-p", top, "--size=2m", "--rw=randwrite", "--numjobs=3", f"--thread={thread}", "--record", out)
    with started(*where, "--runtime=100", "--cache=any") as process:
        works(process)
        process.send_signal(number)
        assert "interrupted" in ended(process)
    (job,) = benched.repetitions(out)
    assert job["valid"] is False and job["interrupted"] is True
    assert job["parts"]["write"]["ops"] > 0
    assert left_in(tmp_path) == ["run.rec"]


@pytest.mark.parametrize("thread", ["0", "1"])
@pytest.mark.parametrize(
    "job",
    [
        ["sqlite", "-d", "0", "--numjobs=2"],
        ["sqlite", "-d", "1", "-j", "3", "--prefilled=100", "--numjobs=2", "--shared"],
        ["postmark", "--files=50", "--bias-create=7", "--numjobs=2"],
        ["file", "--size=2m", "--rw=randrw", "--ioengine=io_uring", "--iodepth=8"],
        ["file", "--size=2m", "--rw=randwrite", "--mode=mmap_sync"],
        ["file", "--size=2m", "--rw=read", "--rate_iops=100"],
    ],
    ids=["insert", "update", "postmark", "io_uring", "mmap", "rate"],
)
def test_every_workload_can_be_interrupted(tmp_path: Path, job: list[str], thread: str) -> None:
    where = ("-p", tmp_path, f"--thread={thread}", "--runtime=100", "--cache=any")
    with started(*job, *where) as process:
        works(process)
        process.send_signal(signal.SIGTERM)
        assert "interrupted" in ended(process)
    assert left_in(tmp_path) == []


def test_nohup_is_respected(tmp_path: Path) -> None:
    with started("-p", tmp_path, "--size=1m", "--rw=write", "--runtime=1", "--cache=any", nohup=True) as process:
        works(process)
        process.send_signal(signal.SIGHUP)
        ended(process, status=0)


def test_who_shows_progress_to_nobody_goes_on_and_leaves_nothing(tmp_path: Path) -> None:
    with started("-p", tmp_path, "--size=1m", "--rw=write", "--runtime=1", "--cache=any") as process:
        works(process)
        assert process.stdout is not None and process.stderr is not None
        process.stderr.close()
        assert b"seq_write" in process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert left_in(tmp_path) == []


def test_a_signal_wakes_who_waits_for_its_time(tmp_path: Path) -> None:
    """One operation in an hour: the run ends without waiting for the second."""
    with started("-p", tmp_path, "--size=2m", "--rw=read", "--cache=any", "--thinktime=3600000000") as process:
        run_file(tmp_path, process)
        process.send_signal(signal.SIGTERM)
        ended(process)
    assert left_in(tmp_path) == []


def children(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_a_worker_process_that_is_killed_ends_the_run(tmp_path: Path) -> None:
    out, top = tmp_path / "run.rec", tmp_path / "top"
    where = ("-p", top, "--size=2m", "--rw=randread", "--numjobs=3", "--thread=0", "--cache=any", "--record", out)
    with started(*where, "--runtime=100") as process:
        works(process)
        workers = children(process)
        assert len(workers) == 3
        os.kill(workers[1], signal.SIGKILL)
        assert "worker 1: its process was ended by signal 9" in ended(process)
    (job,) = benched.repetitions(out)
    assert "ended by signal 9" in job["invalid"]
    assert [worker["duration_ns"] > 0 for worker in job["workers"]] == [True] * 3
    assert job["workers"][1]["ctx_voluntary"] == 0
    assert left_in(tmp_path) == ["run.rec"]
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


@pytest.mark.prove
def test_workers_end_with_the_program(tmp_path: Path) -> None:
    where = ("-p", tmp_path, "--size=2m", "--rw=randread", "--numjobs=3", "--thread=0", "--cache=any")
    with started(*where, "--runtime=100") as process:
        works(process)
        workers = children(process)
        process.kill()
        process.wait()
        await_that(lambda: not [pid for pid in workers if Path(f"/proc/{pid}/exe").is_symlink()])


@pytest.mark.root
@pytest.mark.parametrize("thread", ["0", "1"])
def test_workers_that_cannot_all_be_started_are_not_measured(public: Path, thread: str) -> None:
    """And those that were started already go away."""
    program = shutil.copy(built.program("iobench", "native"), public)
    where = public / "where"
    where.mkdir()
    where.chmod(0o777)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (5, 5))

    done = built.run(
        *(program, "-p", where, "--size=64k", "--rw=write", "--cache=any", "--numjobs=20", f"--thread={thread}"),
        status=1,
        preexec_fn=limit,
        **NOBODY,
    )
    assert re.search(rb"only \d of 20 workers can be started", done.stderr)
    assert left_in(where) == []


# -- devices and named files ------------------------------------------------------------------------------------------


@pytest.mark.root
def test_a_device_is_refused_without_the_words_for_it(tmp_path: Path) -> None:
    image = blank(tmp_path / "image", 4)
    with loops.attached(image) as device:
        for words in ([], ["--raw"], ["--i-know"]):
            assert refused("--filename", device, *words, "--size=4m", "--rw=write")
    assert image.read_bytes() == bytes(4 * MIB)


@pytest.mark.root
@pytest.mark.parametrize("rw", ["read", "write"])
def test_a_mounted_device_is_refused(public: Path, rw: str) -> None:
    with ext4(public) as disk:
        sentence = refused("--filename", disk.device, "--raw", "--i-know", "--size=4m", f"--rw={rw}")
        assert "mounted" in sentence
    assert subprocess.run(["fsck.ext4", "-fn", disk.image], capture_output=True).returncode == 0


@pytest.mark.root
@pytest.mark.parametrize("mode", ["buffered", "direct", "mmap"])
def test_a_free_device_is_measured(tmp_path: Path, mode: str) -> None:
    """The original could only fail there, or overwrite its start (originals.md, §6, row 13)."""
    image = blank(tmp_path / "image", 8)
    with loops.attached(image) as device:
        where = ("--filename", device, "--raw", "--i-know", f"--mode={mode}", "--numjobs=2")
        written = iobench(*where, "--size=8m", "--rw=randwrite")
        read = iobench(*where, "--size=8m", "--rw=read")
        assert refused(*where, f"--size={8 * MIB + 4096}", "--rw=write")
    blocks = image.read_bytes()
    assert len(blocks) == 8 * MIB
    assert not [at for at in range(0, len(blocks), 4096) if not any(blocks[at : at + 4096])]
    assert written["parts"]["write"]["bytes"] == read["parts"]["read"]["bytes"] == 8 * MIB
    assert read["device"] == Path(device).name
    assert read["cache_found"] == "cold"
    assert read["device_read_bytes"] >= 8 * MIB


@pytest.mark.root
def test_nobody_mounts_a_device_while_it_is_measured(public: Path) -> None:
    image = public / "ext4.img"
    loops.make_ext4(image, (), 16)
    (public / "top").mkdir()
    with loops.attached(image) as device:
        where = ("--filename", device, "--raw", "--i-know", "--size=4m", "--rw=read", "--runtime=100")
        with started(*where) as process:
            works(process)
            assert subprocess.run(["mount", device, public / "top"], capture_output=True).returncode
            process.send_signal(signal.SIGINT)
            ended(process)


def test_an_existing_file_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = os.urandom(MIB)
    path.write_bytes(content)
    for rw in ("write", "randwrite", "append", "rw"):
        assert refused("--filename", path, "--size=1m", f"--rw={rw}", "--cache=any")
    assert iobench("--filename", path, "--size=1m", "--rw=read", "--cache=any")["parts"]["read"]["bytes"] == MIB
    assert path.read_bytes() == content
    iobench("--filename", path, "--size=1m", "--rw=write", "--cache=any", "--i-know")
    assert path.stat().st_size == MIB and path.read_bytes() != content


@pytest.mark.parametrize("unwritten", [False, True], ids=["hole", "unwritten"])
def test_what_was_never_written_is_not_measured(tmp_path: Path, unwritten: bool) -> None:
    """Reads of it are answered without the device: a million a second with O_DIRECT."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(16 * PAGE))
    with path.open("r+b") as file:
        if unwritten:
            os.posix_fallocate(file.fileno(), 16 * PAGE, 16 * PAGE)
        else:
            file.truncate(32 * PAGE)
    assert f"the file has a hole at {16 * PAGE}" in refused("--filename", path, "--rw=read", "--direct=1")
    iobench("--filename", path, "--rw=read", "--direct=1", f"--size={16 * PAGE}")


def test_what_is_neither_file_nor_device_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/null"), tmp_path / "missing"):
        assert refused("--filename", path, "--size=4k", "--rw=read", "--cache=any")


# -- the run's directory ----------------------------------------------------------------------------------------------


def test_a_directory_below_dev_is_no_device(tmp_path: Path) -> None:
    """The original took any path that begins with /dev for one."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is not writable")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        job = iobench("-p", name, "--size=1m", "--rw=write", "--cache=any")
        assert left_in(Path(name)) == []
    assert job["parts"]["write"]["bytes"] == MIB
    assert job["fs_type"] == "tmpfs"


def test_a_directory_is_made_where_its_parent_is(tmp_path: Path) -> None:
    iobench("-p", tmp_path / "new", "--size=1m", "--rw=write", "--cache=any")
    assert left_in(tmp_path) == []
    for name in ("new/", "new//"):
        iobench("-p", f"{tmp_path}/{name}", "--size=1m", "--rw=write", "--cache=any")
        assert left_in(tmp_path) == []
    assert "No such file" in refused("-p", tmp_path / "no" / "such", "--size=1m")
    (tmp_path / "file").touch()
    assert refused("-p", tmp_path / "file", "--size=1m")
    assert left_in(tmp_path) == ["file"]


def deep(top: Path, length: int) -> Path:
    """Return a directory with a path of this many bytes."""
    path = str(top)
    while length - len(path) > 1:
        path += "/" + "d" * min(200, length - len(path) - 1)
    made = Path(path)
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("length", [250, 1000, 4000])
def test_a_long_path_is_no_trouble(tmp_path: Path, length: int) -> None:
    """The original kept a path in 128 bytes, and wrote what was longer over its options."""
    where = deep(tmp_path, length)
    job = iobench("-p", where, "--size=1m", "--rw=write", "--cache=any")
    assert job["parts"]["write"]["bytes"] == MIB
    assert left_in(where) == []


@pytest.mark.parametrize("length", [4075, 4080, 4085, 4090])
def test_a_path_that_is_too_long_is_refused(tmp_path: Path, length: int) -> None:
    where = deep(tmp_path, length)
    done = subprocess.run([built.program("iobench"), "-p", where, "--size=1m"], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1 and b"Sanitizer" not in done.stderr
    assert left_in(where) == []


def test_links_in_the_directory_are_not_followed(tmp_path: Path) -> None:
    where, precious = tmp_path / "where", tmp_path / "precious"
    for directory in (where, precious):
        directory.mkdir()
    (precious / "file").write_text("dear")
    with started("-p", where, "--size=2m", "--rw=read", "--runtime=100", "--cache=any") as process:
        works(process)
        own = run_file(where, process).parent
        (own / "link").symlink_to(precious)
        (own / "inner").mkdir()
        (own / "inner" / "link").symlink_to(precious / "file")
        (own / "inner" / "file").touch()
        process.send_signal(signal.SIGINT)
        ended(process)
    assert left_in(where) == []
    assert (precious / "file").read_text() == "dear"


@pytest.mark.root
def test_what_is_mounted_in_the_directory_stays(tmp_path: Path) -> None:
    """And the run says that it could not clean up."""
    where, other = tmp_path / "where", tmp_path / "other"
    for directory in (where, other):
        directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", other], check=True)
    (other / "file").write_text("dear")
    try:
        with started("-p", where, "--size=2m", "--rw=read", "--runtime=100", "--cache=any") as process:
            works(process)
            inner = run_file(where, process).parent / "inner"
            inner.mkdir()
            subprocess.run(["mount", "--bind", other, inner], check=True)
            try:
                process.send_signal(signal.SIGINT)
                err = ended(process)
            finally:
                subprocess.run(["umount", inner], check=True)
        assert "remove it yourself" in err
        assert (other / "file").read_text() == "dear"
    finally:
        subprocess.run(["umount", other], check=True)


def test_a_kept_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    where, precious = tmp_path / "where", tmp_path / "precious"
    for directory in (where, precious):
        directory.mkdir()
    (where / "iobench-kept").symlink_to(precious)
    assert refused("-p", where, "--size=1m", "--rw=write", "--keep")
    assert left_in(precious) == []


def test_a_kept_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "iobench-kept").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("dear")
    (tmp_path / "iobench-kept" / "test.dat0").symlink_to(victim)
    assert refused("-p", tmp_path, "--size=1m", "--rw=write", "--keep")
    assert victim.read_text() == "dear"


def test_what_is_kept_is_used_again(tmp_path: Path) -> None:
    where = ("-p", tmp_path, "--size=2m", "--keep", "--cache=any")
    iobench(*where, "--rw=write")
    kept = tmp_path / "iobench-kept" / "test.dat0"
    number, content = kept.stat().st_ino, kept.read_bytes()
    iobench(*where, "--rw=read")
    assert (kept.stat().st_ino, kept.read_bytes()) == (number, content)


def test_what_was_kept_unwritten_is_written_before_it_is_read(tmp_path: Path) -> None:
    """Blocks that are allocated only are read without the device."""
    where = ("-p", tmp_path, "--size=1m", "--keep", "--cache=any")
    iobench(*where, "--rw=write", "--fallocate=native", "--number_ios=1")
    kept = tmp_path / "iobench-kept" / "test.dat0"
    with kept.open("rb") as file:
        if os.lseek(file.fileno(), 0, os.SEEK_HOLE) == MIB:
            pytest.skip("this filesystem does not tell what is not written")
    iobench(*where, "--rw=read")
    with kept.open("rb") as file:
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == MIB


def test_what_is_kept_is_used_by_one_at_a_time(tmp_path: Path) -> None:
    where = ("-p", tmp_path, "--size=2m", "--keep", "--cache=any", "--rw=write")
    with started(*where, "--runtime=100") as process:
        works(process)
        assert "in use by another iobench" in refused(*where)
        process.send_signal(signal.SIGINT)
        ended(process)
    iobench(*where)
