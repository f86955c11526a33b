"""iobench for Android's own C library, which can load the phone's SQLite.

The file for phones is looked at by readelf, and what differs from the static builds runs here on musl, under qemu-user.
No test runs it on bionic: `docs/bench.md` says what was tried by hand.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support import benched, built
from support.tree import ROOT

TARGET = "aarch64-linux-android"
pytestmark = pytest.mark.qemu

EMULATOR = "qemu-aarch64-static"
PAGE_BYTES = 16384
"""The largest page of arm64 phones' kernels."""


# -- the file for phones ----------------------------------------------------------------------------------------------


def readelf(*options: str) -> str:
    program = built.program("iobench", TARGET)
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    return subprocess.run(["readelf", "-W", *options, program], capture_output=True, text=True, check=True).stdout


def symbols(library: str) -> set[str]:
    return set((ROOT / "probes" / "bionic" / f"{library}.symbols").read_text().split())


def test_androids_linker_starts_it() -> None:
    assert "Requesting program interpreter: /system/bin/linker64]" in readelf("--segments")
    header = readelf("--file-header")
    assert re.search(r"Type: +DYN ", header) and re.search(r"Machine: +AArch64", header)


def test_it_needs_two_libraries_that_every_phone_has() -> None:
    assert re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic")) == ["libc.so", "libdl.so"]


def test_old_and_new_linkers_find_symbols() -> None:
    tags = set(re.findall(r"^ 0x\w+ \((\w+)\)", readelf("--dynamic"), re.MULTILINE))
    assert {"HASH", "GNU_HASH"} <= tags
    assert not tags & {"RUNPATH", "RPATH", "VERNEED", "TEXTREL"}


def test_its_segments_fit_large_pages() -> None:
    alignments = [int(found, 16) for found in re.findall(r"^ +LOAD .* (0x\w+)$", readelf("--segments"), re.MULTILINE)]
    assert len(alignments) >= 2 and set(alignments) == {PAGE_BYTES}


def test_its_threads_have_no_variables_of_the_linker() -> None:
    """Android's linker knows those from Android 10 on."""
    assert not re.search(r"^ +TLS ", readelf("--segments"), re.MULTILINE)


def test_it_takes_only_known_functions_and_gives_none() -> None:
    """A function of iobench that were seen from outside would take the place of bionic's in the phone's libraries."""
    taken = set()
    for line in readelf("--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0].rstrip(":").isdigit():
            assert fields[6] == "UND", line
            taken.add(fields[7])
    assert "dlopen" in taken and "__libc_init" in taken
    assert taken <= symbols("libc") | symbols("libdl")


# -- what differs from the static builds ------------------------------------------------------------------------------


def emulated() -> list[str | Path]:
    emulator = shutil.which(EMULATOR)
    if emulator is None:
        pytest.skip(f"{EMULATOR} is not installed")
    return [emulator, built.program("iobench-on-musl", TARGET)]


RUNS = {
    "threads": ("file", "--rw=randwrite", "--mode=fdatasync", "--size=256k", "--number_ios=64", "--numjobs=4"),
    "mapped": ("file", "--rw=randwrite", "--mode=mmap_sync", "--size=256k", "--number_ios=64", "--numjobs=2"),
    "ranges": ("file", "--rw=write", "--sync_file_range=write:8", "--size=256k", "--number_ios=64"),
    "processes": ("file", "--rw=randread", "--size=256k", "--number_ios=64", "--numjobs=2", "--thread=0"),
    "sqlite": ("sqlite", "-n", "64", "-j", "WAL", "--numjobs=2"),
    "shared database": ("sqlite", "-n", "64", "--numjobs=2", "--shared"),
    "postmark": ("postmark", "--files=20", "--transactions=64", "--end_fsync=1"),
}


@pytest.mark.parametrize("run", RUNS)
def test_it_runs(tmp_path: Path, run: str) -> None:
    (found,), _ = benched.measured(*emulated(), *RUNS[run], "-p", tmp_path, "--cache=any", "-q")
    assert found["parts"]["op"]["ops"] == 64
    assert list(tmp_path.iterdir()) == []


def test_errors_have_its_name_and_their_reason(tmp_path: Path) -> None:
    done = built.run(*emulated(), "-p", tmp_path / "none" / "none", status=1)
    assert done.stderr.startswith(b"iobench-on-musl: ") and b"No such file or directory" in done.stderr


def test_a_signal_ends_it_in_good_order(tmp_path: Path) -> None:
    command: list[Any] = [*emulated(), "--rw=write", "--size=1m", "--runtime=60", "-p", tmp_path, "--cache=any", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        for _ in range(600):
            if list(tmp_path.iterdir()):
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 1 and b"interrupted" in said
    assert list(tmp_path.iterdir()) == []
