"""The decoders built for libFuzzer, with the sanitizers of addresses and of undefined behaviour, and fuzzers run.

A fuzzer is the loop by which Python feeds a decoder, written in C (fuzz/fuzz_*.c): pieces come and go as Python's do,
and the decoder was told what the readers tell it (fuzz/targets.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "androstep_analysis" / "native"
BUILD = ROOT / "build" / "fuzz"
LIBRARY = BUILD / "libandrostep.so"

SANITIZED = (
    *("-std=c11", "-g", "-O1", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)

_ASAN = {
    "detect_leaks": 0,  # Python keeps what it allocated
    "verify_asan_link_order": 0,  # libFuzzer's hooks of memcmp must come before the sanitizer's own, which do nothing
    "allocator_may_return_null": 1,
    "quarantine_size_mb": 32,
}


def _runtime(name: str) -> str:
    """The path of a library of clang's; skips the calling test where it is not there."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    asked = ["clang", f"-print-file-name=libclang_rt.{name}"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_file():
        pytest.skip("clang's sanitizers are not installed (Debian: libclang-rt-14-dev)")
    return path


def compiled(target: Path, sources: list[Path], *options: str) -> Path:
    """`target`, made of `sources` by clang where one is newer than it is."""
    headers = {header for source in sources for header in source.parent.glob("*.h")}
    newest = max(path.stat().st_mtime for path in (*sources, *headers, Path(__file__)))
    if not target.exists() or target.stat().st_mtime < newest:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        words = [str(source) for source in sources if source.suffix == ".c"]
        subprocess.run(["clang", *SANITIZED, *words, *options, "-o", str(partial)], check=True)
        partial.replace(target)
    return target


def build() -> Path:
    """The library of all decoders, with libFuzzer in it."""
    fuzzer = _runtime("fuzzer_no_main-x86_64.a")
    sources = [*sorted(NATIVE.glob("*.c")), *sorted((ROOT / "tests" / "fuzz").glob("fuzz*.c"))]
    whole = ("-Wl,--whole-archive", fuzzer, "-Wl,--no-whole-archive", "-Wl,-Bsymbolic", "-lstdc++")
    flags = ("-fPIC", "-shared", "-fvisibility=hidden", "-fsanitize=fuzzer-no-link", "-shared-libasan")
    return compiled(LIBRARY, sources, f"-I{NATIVE}", *flags, *whole)


def environment() -> dict[str, str]:
    """Of a process with the fuzzed library in it."""
    return os.environ | {
        "LD_PRELOAD": f"{LIBRARY} {_runtime('asan-x86_64.so')}",
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in _ASAN.items()),
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # Python's own allocator would hide reads behind the end of bytes
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        "PYTHONUNBUFFERED": "1",
    }


def run(target: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """libFuzzer on a target of fuzz/targets.py, with its own options and directories of inputs."""
    build()
    command = [sys.executable, str(ROOT / "tests" / "fuzz" / "driver.py"), target, *map(str, options)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, errors="replace", check=False
    )
