"""The builds of iobench: static ones for phones, which run here under qemu-user, and one that finds races."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support import benched, built
from support.tree import ROOT

STATIC = {"aarch64-linux-musl": (2, 183), "arm-linux-musleabihf": (1, 40), "x86_64-linux-musl": (2, 62)}
"""Targets, with the class (1: 32 bits, 2: 64) and the machine that their ELF header names."""

EMULATORS = {"aarch64-linux-musl": "qemu-aarch64-static", "arm-linux-musleabihf": "qemu-arm-static"}

PT_LOAD, PT_INTERP = 1, 3
PAGE_BYTES = 16384
"""The largest page of phones' kernels."""


def segments(program: bytes) -> dict[int, list[int]]:
    """Return the alignments of each type of segment."""
    if program[4] == 2:
        (start,) = struct.unpack_from("<Q", program, 32)
        size, count = struct.unpack_from("<HH", program, 54)
        alignment = ("<Q", 48)
    else:
        (start,) = struct.unpack_from("<I", program, 28)
        size, count = struct.unpack_from("<HH", program, 42)
        alignment = ("<I", 28)
    found: dict[int, list[int]] = {}
    for at in range(start, start + size * count, size):
        (kind,) = struct.unpack_from("<I", program, at)
        found.setdefault(kind, []).extend(struct.unpack_from(alignment[0], program, at + alignment[1]))
    return found


@pytest.mark.parametrize("target", STATIC)
def test_a_static_build_needs_nothing_but_a_kernel(target: str) -> None:
    program = built.program("iobench", target).read_bytes()
    (machine,) = struct.unpack_from("<H", program, 18)
    assert (program[4], machine) == STATIC[target]
    assert PT_INTERP not in segments(program)
    assert len(program) < 2_000_000


@pytest.mark.parametrize("target", EMULATORS)
def test_a_build_for_phones_runs_on_kernels_with_large_pages(target: str) -> None:
    assert min(segments(built.program("iobench", target).read_bytes())[PT_LOAD]) >= PAGE_BYTES


# -- under qemu-user --------------------------------------------------------------------------------------------------


def emulated(target: str) -> list[str | Path]:
    emulator = shutil.which(EMULATORS[target])
    if emulator is None:
        pytest.skip(f"{EMULATORS[target]} is not installed")
    return [emulator, built.program("iobench", target)]


def job(directory: Path, *command: str | Path) -> dict[str, tuple[int, int]]:
    """Return operations and bytes of each part of a run that ended well and left no files."""
    (found,), _ = benched.measured(*command, "-p", directory, "-q")
    assert list(directory.iterdir()) == []
    return {name: (part["ops"], part["bytes"]) for name, part in found["parts"].items()}


FILE_RUNS = {
    "buffered": ("--rw=randwrite", "--mode=buffered"),
    "fsync": ("--rw=write", "--mode=fsync"),
    "mmap": ("--rw=randwrite", "--mode=mmap_sync"),
    "read": ("--rw=read", "--mode=buffered"),
    "threads": ("--rw=randrw", "--mode=fdatasync", "--numjobs=4"),
    "processes": ("--rw=randrw", "--mode=fdatasync", "--numjobs=2", "--thread=0"),
}


@pytest.mark.parametrize("target", EMULATORS)
@pytest.mark.parametrize("run", FILE_RUNS)
def test_file_runs_emulated(tmp_path: Path, target: str, run: str) -> None:
    asked = ("file", "--size=256k", "--number_ios=64", "--cache=any", *FILE_RUNS[run])
    assert job(tmp_path, *emulated(target), *asked)["op"] == (64, 64 * 4096)


@pytest.mark.parametrize("target", EMULATORS)
def test_direct_io_emulated(tmp_path: Path, target: str) -> None:
    probe = tmp_path / "probe"
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("the filesystem has no direct I/O")
    finally:
        probe.unlink(missing_ok=True)
    found = job(tmp_path, *emulated(target), "file", "--rw=randwrite", "--mode=direct", "--size=256k", "--cache=any")
    assert found["write"] == (64, 64 * 4096)


@pytest.mark.parametrize("target", EMULATORS)
def test_io_uring_emulated_is_measured_or_refused(tmp_path: Path, target: str) -> None:
    asked = ("file", "--rw=randread", "--ioengine=io_uring", "--iodepth=8", "--size=256k", "--cache=any")
    out, top = tmp_path / "run.rec", tmp_path / "top"
    command = (*emulated(target), *asked, "-p", top, "-q", "--record", out)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 0:
        assert benched.tallies(out)["read"][0] == 64
    else:
        assert done.returncode == 1 and "io_uring" in done.stderr
    assert not top.exists()


@pytest.mark.parametrize("target", EMULATORS)
@pytest.mark.parametrize("journal_mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("op", ["insert", "update", "delete"])
def test_sqlite_runs_emulated(tmp_path: Path, target: str, journal_mode: str, op: str) -> None:
    asked = ("sqlite", "--sqlite-op", op, "-n", "20", "-j", journal_mode, "--cache=any")
    assert job(tmp_path, *emulated(target), *asked)["op"][0] == 20


# -- races ------------------------------------------------------------------------------------------------------------

THREADED = {
    "own files": ("file", "--rw=randrw", "--mode=fdatasync", "--size=256k", "--number_ios=400", "--interval=10"),
    "shared file": ("file", "--rw=randrw", "--shared", "--size=1m", "--number_ios=400"),
    "mapped": ("file", "--rw=randwrite", "--mode=mmap_sync", "--size=256k", "--number_ios=400"),
    "until a time": ("file", "--rw=randwrite", "--size=256k", "--runtime=1", "--rate_iops=400"),
    "own databases": ("sqlite", "--sqlite-op=insert", "-n", "80"),
    "shared database": ("sqlite", "--sqlite-op=mixed", "--shared", "-j", "WAL", "-n", "80"),
    "postmark": ("postmark", "--files=100", "--transactions=400"),
}


@pytest.mark.prove
@pytest.mark.parametrize("run", THREADED)
def test_workers_do_not_race(tmp_path: Path, run: str) -> None:
    program = built.program("iobench", "tsan")
    # The sanitizer cannot place its shadow memory where the addresses are too random.
    job(tmp_path, "setarch", "-R", program, *THREADED[run], "--numjobs=4", "--cache=any")


# -- SQLite's source --------------------------------------------------------------------------------------------------


def test_without_network_the_build_says_what_to_do(tmp_path: Path) -> None:
    nowhere = {"https_proxy": "http://127.0.0.1:9", "PATH": os.environ["PATH"]}
    command = [sys.executable, ROOT / "tools" / "fetch_sqlite.py", tmp_path / "sqlite"]
    done = subprocess.run(command, env=nowhere, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "connect to the network once" in done.stderr
    assert not (tmp_path / "sqlite").exists()
