"""Build the decoders for libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, and run fuzzers.

A fuzzer is a C version (fuzz/fuzz_*.c) of the Python loop that feeds a decoder: pieces are passed in the same way, and
the decoder gets the readers' parameters (fuzz/targets.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import machine

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "androstep_analysis" / "native"
FUZZERS = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
LIBRARY = BUILD / "libandrostep.so"

SANITIZED = (
    *("-std=c11", "-g", "-O1", "-fno-omit-frame-pointer", "-fPIC", "-fvisibility=hidden"),
    *("-fsanitize=address,undefined,fuzzer-no-link", "-fno-sanitize-recover=all"),
)

_ASAN: dict[str, str | int] = {
    "detect_leaks": 0,  # Python does not free everything at exit
    "verify_asan_link_order": 0,  # libFuzzer's hooks of memcmp must precede the sanitizer's, which do nothing
    "allocator_may_return_null": 1,
    "quarantine_size_mb": 32,
}


def _runtime(name: str) -> str:
    """Return the path of a clang library; skip the calling test if it is missing."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    asked = ["clang", f"-print-file-name=libclang_rt.{name}"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_file():
        pytest.skip("clang's sanitizers are not installed (Debian: libclang-rt-14-dev)")
    return path


def _object(source: Path) -> Path:
    """Compile `source` if it or a header is newer; return the object file."""
    made = BUILD / "objects" / source.relative_to(ROOT).with_suffix(".o")
    newest = max(path.stat().st_mtime for path in (source, *NATIVE.rglob("*.h"), *FUZZERS.glob("*.h"), Path(__file__)))
    if not made.exists() or made.stat().st_mtime < newest:
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = made.with_suffix(".part")
        subprocess.run(["clang", *SANITIZED, f"-I{NATIVE}", "-c", str(source), "-o", str(partial)], check=True)
        partial.replace(made)
    return made


def build() -> Path:
    """Compile the library of all decoders with libFuzzer if a source is newer."""
    fuzzer = _runtime("fuzzer_no_main-x86_64.a")
    BUILD.mkdir(parents=True, exist_ok=True)
    with machine.alone(str(BUILD)):
        return _build(fuzzer)


def _build(fuzzer: str) -> Path:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(_object, sorted([*NATIVE.rglob("*.c"), *FUZZERS.glob("fuzz*.c")])))
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < max(made.stat().st_mtime for made in objects):
        partial = LIBRARY.with_suffix(".part")
        whole = ("-Wl,--whole-archive", fuzzer, "-Wl,--no-whole-archive", "-Wl,-Bsymbolic", "-lstdc++")
        link = ("clang", *SANITIZED, "-shared", "-shared-libasan", *map(str, objects), *whole, "-o", str(partial))
        subprocess.run(link, check=True)
        partial.replace(LIBRARY)
    return LIBRARY


def _symbolizer() -> dict[str, str | int]:
    """Return options for a symbolizer script without LD_PRELOAD: with the library loaded it would never end."""
    program = shutil.which("llvm-symbolizer")
    if program is None:
        return {"symbolize": 0}
    script = BUILD / "llvm-symbolizer"
    partial = script.with_suffix(f".{os.getpid()}")  # another fuzzer may be running the script
    partial.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {program} "$@"\n')
    partial.chmod(0o755)
    partial.replace(script)
    return {"external_symbolizer_path": str(script)}


def environment() -> dict[str, str]:
    """Return the environment of a process with the fuzzed library."""
    options = _ASAN | _symbolizer()
    return os.environ | {
        "LD_PRELOAD": f"{LIBRARY} {_runtime('asan-x86_64.so')}",
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items()),
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # Python's own allocator would hide reads past the end of bytes
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        "PYTHONUNBUFFERED": "1",
    }


def run(target: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run libFuzzer on a target of fuzz/targets.py, with its own options and input directories."""
    build()
    command = [sys.executable, str(FUZZERS / "driver.py"), target, *map(str, options)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, errors="replace", check=False
    )
